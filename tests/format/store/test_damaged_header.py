"""A header field that is off by a few is named where size or neighbours tell the geometry."""

from __future__ import annotations

import shutil
import struct

import pytest

from kinds import sampled
from rmqindex import (
    CorruptIndexError,
    IndexFile,
    IndexFileWriter,
    Layout,
    MessageStore,
    RmqIndexError,
    sample_store,
    verify,
)

FIELDS = {"begin_phy_offset": (16, ">q"), "end_phy_offset": (24, ">q"), "index_count": (36, ">i")}
# How a field is changed, and what the error expects, from what is right.
CHANGES = [
    ("begin_phy_offset", 7, "{}, the offset"),
    ("begin_phy_offset", -3, "{}, the offset"),
    ("end_phy_offset", 7, "{}, the offset"),
    ("end_phy_offset", -3, "{}, the offset"),
    ("index_count", 1, "{}, behind the last entry"),
    ("index_count", 3, "{}, behind the last entry"),
    ("index_count", -3, "more than "),
]


def change(path, field, delta):
    """Add a number to a field of a file's header; return what it was."""
    byte, form = FIELDS[field]
    with path.open("r+b") as file:
        file.seek(byte)
        (value,) = struct.unpack(form, file.read(struct.calcsize(form)))
        file.seek(byte)
        file.write(struct.pack(form, value + delta))
    return value


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store without a log; the last file has room."""
    shutil.copytree(sample_store() / "index", tmp_path / "store" / "index")
    return tmp_path / "store"


@pytest.fixture
def default(tmp_path):
    """A file of the default size, alone, of messages of one key."""
    path = tmp_path / "20231114221320000"
    with IndexFileWriter(path, Layout()) as writer:
        for place in range(50):
            writer.put(f"T#k{place}", 100 * place + 5, 1_700_000_000_000 + 1000 * place)
    return path


@pytest.mark.parametrize(("field", "delta", "expected"), CHANGES)
def test_the_files_beside_it_tell_the_geometry(store, field, delta, expected):
    """Scans, lookups and explanations name the field, and verify does."""
    path = max((store / "index").iterdir())
    right = change(path, field, delta)
    told = f"{field} at byte {FIELDS[field][0]}: expected {expected.format(right)}"
    for read in (
        lambda: MessageStore(store).entries().read_all(),
        lambda: MessageStore(store).lookup("TopicTest", "order-49"),
    ):
        with pytest.raises(CorruptIndexError, match=told) as error:
            read()
        assert f"got {right + delta}; `rmqindex verify {path}` says what to do" in str(error.value)
    assert "error" in verify(path)["severity"].to_pylist()


def test_a_count_beyond_the_places_of_its_neighbours_is_named(store):
    """As the size alone allows more of them."""
    path = min((store / "index").iterdir())
    change(path, "index_count", 1)
    with pytest.raises(CorruptIndexError, match="index_count at byte 36: expected at most 200, "):
        MessageStore(store).lookup("TopicTest", "order-49")


@pytest.mark.parametrize(
    "changed",
    sampled(
        [
            ("begin_phy_offset", 7, "{}, the offset"),
            ("end_phy_offset", -3, "{}, the offset"),
            ("index_count", 1, "{}, behind the last entry"),
            ("index_count", -1, "{}, behind the last entry"),
            ("index_count", -20, "more than "),
        ],
        ("index_count", -1, "{}, behind the last entry"),
    ),
)
def test_the_default_size_tells_the_geometry(default, changed):
    """Without any file beside it; but it is read in no geometry that its entries do not show."""
    field, delta, expected = changed
    right = change(default, field, delta)
    told = f"{field} at byte {FIELDS[field][0]}: expected {expected.format(right)}"
    with pytest.raises(CorruptIndexError, match=told):
        IndexFile(default)
    with pytest.raises(RmqIndexError, match="no geometry fits its entries and slots"):
        IndexFile(default, mode="DROPMALFORMED")


def test_another_size_tells_none(store):
    """Nor do files beside it that are not there."""
    paths = sorted((store / "index").iterdir())
    for path in paths[1:]:
        path.unlink()
    change(paths[0], "begin_phy_offset", 7)
    with pytest.raises(RmqIndexError, match="no geometry fits its entries and slots"):
        MessageStore(store).lookup("TopicTest", "order-49")
