"""A parser generated from ``spec/indexfile.ksy`` agrees with this package, field by field.

It needs Node.js with npm; without them these tests fail.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from kaitaistruct import KaitaiStream

import spectext
from rmqindex import CorruptIndexError, IndexFile, IndexHeader, Layout, sample_store
from rmqindex.layout import SLOT_DTYPE

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import ModuleType

pytestmark = pytest.mark.system

FIELDS = (
    "position",
    "key_hash",
    "phy_offset",
    "time_diff",
    "prev_position",
    "slot",
    "store_timestamp",
)
ACCEPTED = [
    name
    for name, vector in spectext.vectors().items()
    if name.startswith("accept/") and vector["kind"] == "file"
]
# The files of one set are broken, and a strict reader rejects them.
SETS = [
    name
    for name, vector in spectext.vectors().items()
    if vector["kind"] in {"load", "build"} and name != "accept/query_over_a_loop"
]
SAMPLE_FILES = sorted(path.name for path in (Path(sample_store()) / "index").iterdir())
SAMPLE_LAYOUT = Layout(97, 200)


@pytest.fixture(scope="session")
def parser(compiled: Callable[[str], ModuleType]) -> ModuleType:
    """The parser of IndexFiles."""
    return compiled("indexfile")


def parse(parser: ModuleType, path: Path, layout: Layout) -> Any:
    """Return the generated parser's view of a file."""
    stream = KaitaiStream(io.BytesIO(path.read_bytes()))
    return parser.Indexfile(layout.hash_slot_num, layout.index_num, stream)


def assert_agreement(parser: ModuleType, path: Path, layout: Layout) -> int:
    """Compare header, slots and entries; return how many entries there are."""
    theirs = parse(parser, path, layout)
    with IndexFile(path, layout) as ours:
        assert ours.header == IndexHeader(
            *(getattr(theirs.header, name) for name in IndexHeader.__slots__)
        )
        rows = [row for batch in ours.scan() for row in batch.to_pylist()]
    expected = [{name: getattr(entry, name) for name in FIELDS} for entry in theirs.entries]
    assert [{name: row[name] for name in FIELDS} for row in rows] == expected
    slots = np.frombuffer(
        path.read_bytes(), SLOT_DTYPE, layout.hash_slot_num, layout.slot_offset(0)
    )
    assert slots.tolist() == theirs.slots
    return len(rows)


@pytest.mark.parametrize("name", ACCEPTED)
@pytest.mark.requirement("IDX-LAY-1", "IDX-LAY-2", "IDX-SLT-1", "IDX-ENT-1", "IDX-TIM-2")
def test_the_generated_parser_agrees_on_every_accept_vector(parser: ModuleType, name: str) -> None:
    """Both read the same header, slots and entries, which are those of the vector."""
    vector = spectext.vectors()[name]
    layout = Layout(vector["hash_slot_num"], vector["index_num"])
    path = spectext.VECTORS / f"{name}.bin"
    assert assert_agreement(parser, path, layout) == len(vector["entries"])
    assert parse(parser, path, layout).slots == vector["slots"]


@pytest.mark.parametrize("name", SETS)
def test_the_generated_parser_agrees_on_every_file_of_every_file_set(
    parser: ModuleType, name: str
) -> None:
    """Both read the same of each file; where one is cut short, both refuse it."""
    vector = spectext.vectors()[name]
    layout = Layout(vector["hash_slot_num"], vector["index_num"])
    for path in (spectext.VECTORS / name).glob("*"):
        if path.stat().st_size >= layout.file_size:
            assert_agreement(parser, path, layout)
        elif path.name.isdecimal():
            with pytest.raises(CorruptIndexError):
                IndexFile(path, layout)
            with pytest.raises(EOFError):
                parse(parser, path, layout)


@pytest.mark.parametrize("name", SAMPLE_FILES)
def test_the_generated_parser_agrees_on_every_file_of_the_sample_store(
    parser: ModuleType, name: str
) -> None:
    """Both read the same of what RocketMQ wrote for a whole store."""
    path = Path(sample_store()) / "index" / name
    assert assert_agreement(parser, path, SAMPLE_LAYOUT) > 100


def test_the_lock_file_names_no_registry(spec: Path) -> None:
    """The compiler comes from whatever registry npm is set to, checked by its hash."""
    lock = (spec / "kaitai" / "package-lock.json").read_text(encoding="utf-8")
    assert "://" not in lock
    assert "integrity" in lock
