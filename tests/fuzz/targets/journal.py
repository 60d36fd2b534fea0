"""The journal and the ledger of a write, and the owner of a job: our own files read back."""

from __future__ import annotations

import json
from pathlib import Path

from rmqindex.storage import Fields
from rmqindex.transaction.journal import _JOURNAL_RECORD
from rmqindex.transaction.owner import OWNER_RECORD

from ..json_bytes import mutate_json, text_of
from ..outcome import outcome

MAX_LENGTH = 6000
SHORT = 10_000
_HEADER = "0000018bcfe568000000018bcfe652600000000000000000000000000000100000000003000000" + "05"
_APPEND = {
    "name": "20231114221320000",
    "hash_slot_num": 3,
    "index_num": 8,
    "header": _HEADER,
    "entries": 2,
    "end_phy_offset": 8192,
    "end_timestamp": 1_700_000_090_000,
    "checksum": 0,
}
_OWNER = {"host": "a", "boot_id": "b", "namespace": "pid:[1]", "pid": 7, "start_time": 9}
_FILE = "journal.json"
_NOWHERE = Path("/nonexistent/.index.rmqindex")
_LISTING = {name: _NOWHERE / name for name in ("20231114221320000", "20231114221320001", "x")}


def seeds():
    """Return a journal without, and with, what it may hold; an owner."""
    plain = {"job": "job-1", "created": False, "old": ["20231114221320000"], "new": ["1", "2"]}
    return [
        b"\0" + text_of(plain),
        b"\0" + text_of({**plain, "append": _APPEND, "ledger": None}),
        b"\0" + text_of({**plain, "append": None, "ledger": {"query": "q", "batch": 3}}),
        b"\1" + text_of(_OWNER),
    ]


def mutate(data, random):
    """Change the text."""
    return data[:1] + mutate_json(data[1:], random)


def check(data):
    """Read a journal, and what it says the directory held; or an owner."""
    kind = OWNER_RECORD if data[:1] == b"\1" else _JOURNAL_RECORD
    found = outcome(kind.parse, _FILE, data[1:])
    if not found.is_value:
        return
    if data[:1] == b"\1":
        _ = found.value.is_gone
        return
    journal = found.value
    state = outcome(journal.old_state, _NOWHERE, _LISTING)
    assert state.is_value, state.error
    listing, lost = state.value
    assert set(listing) <= set(_LISTING)
    assert set(lost) <= set(journal.old)
    if journal.append is not None:
        record = journal.append
        assert type(record).of(Fields(json.loads(json.dumps(record.to_dict())))) == record
        assert record.index_count <= record.layout.index_num
        assert record.explains(record.old_bytes)
