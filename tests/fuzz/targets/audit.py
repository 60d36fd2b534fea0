"""The audit of an IndexFile by itself: findings, whatever the bytes."""

from __future__ import annotations

from rmqindex import IndexFile, IndexHeader
from rmqindex.audit import AuditUnit, audited, run_audit
from rmqindex.layout import INT32_MAX
from rmqindex.storage import Location

from ..index_bytes import MAX_LENGTH, PATH, mutate, seeds, taken_apart
from ..memory import FILES, constants
from ..outcome import outcome, table_outcome

SHORT = 4_200
__all__ = ["MAX_LENGTH", "SHORT", "check", "mutate", "seeds"]

_PREVIOUS = IndexHeader(10**12 - 5000, 10**12 - 1000, 0, 1, 2, 3)


def check(data):
    """Audit a file; one without errors is one that reads and finds all its entries."""
    layout, flags, file = taken_apart(data)
    FILES[PATH] = file
    name = PATH.rpartition("/")[2]
    previous = _PREVIOUS if flags & 2 else None
    known = None if flags & 4 else layout
    unit = AuditUnit(Location(PATH), name, known, previous, (), None, None, count=INT32_MAX)
    with constants({audited: {"BLOCK": 3, "_SLOT_BLOCK": 3}}):
        found = run_audit(unit, 1 + flags % 3)
    found.validate(full=True)
    severities = set(found["severity"].to_pylist())
    if "error" in severities or known is None:
        return
    opened = outcome(IndexFile, PATH, layout)
    assert opened.is_value, opened.error
    every = table_outcome(opened.value.scan)
    assert every.is_value, every.error
    if every.value is None:
        return
    hashes = sorted(set(every.value["key_hash"].to_pylist()))
    looked_up = opened.value.lookup(hashes)
    assert looked_up.num_rows == every.value.num_rows, found.to_pylist()
