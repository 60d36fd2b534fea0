"""A rebuild indexes the tags of those messages whose tags the files show, whoever wrote them."""

from __future__ import annotations

import shutil

import pytest

from commitlog_encoder import Log, Message, properties_text
from kinds import sampled
from rmqindex import IndexFile, Layout, RmqIndexError, rebuild_index, verify
from rmqindex.bulk import TagChoice
from rmqindex.bulk import rebuild as rebuild_module
from rmqindex.bulk import tags as tags_module

MESSAGES = 6000


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    """A CommitLog of 6,000 messages, each with a key and tags, and where each begins."""
    written = Log(file_size=1 << 20)
    for number in range(MESSAGES):
        properties = properties_text([("KEYS", f"k{number}"), ("TAGS", f"t{number % 7}")])
        written.append(Message("T", properties=properties, store_timestamp=10**12 + number))
    root = tmp_path_factory.mktemp("log")
    return written.write_to(root / "commitlog"), [*written.offsets, written.end]


def indexed_in_turns(root, log, layout, turns):
    """Index the log by brokers that do and do not index tags, in turns that begin at messages."""
    folder, offsets = log
    shutil.copytree(folder, root / "commitlog")
    start, *changes = [offsets[turn] for turn in turns] or [None]
    choice = TagChoice(start, "argument", tuple(changes))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rebuild_module, "choose_tags", lambda *_, **__: choice)
        rebuild_index(root, root / "index", layout)


def entries(root):
    """Return the key hash and the offset of all entries."""
    found = []
    for path in sorted((root / "index").iterdir()):
        with IndexFile(path) as file:
            for batch in file.scan(columns=["key_hash", "phy_offset"]):
                found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return found


SMALL, LARGE = Layout(97, 200), Layout(5000, 20_000)
# Where the brokers changed whether they index tags, and how many entries they wrote.
TURNS = [
    ((), 6000),
    ((0,), 12_000),
    ((1000,), 11_000),
    ((1000, 2000), 7000),
    ((1000, 2000, 5000), 8000),
    ((0, 2000, 5999), 8001),
    ((1000, 1001), 6001),
    ((0, 1000, 2000, 2002), 7002),
    ((0, 1000, 1002), 11_998),
    ((0, 1000, 1001), 11_999),
]
IN_MANY_FILES = [(SMALL, *turned) for turned in TURNS]


@pytest.mark.parametrize(
    "turned",
    [
        *((LARGE, *turned) for turned in TURNS),
        *sampled(IN_MANY_FILES, IN_MANY_FILES[4], IN_MANY_FILES[9]),
    ],
)
def test_a_rebuild_keeps_the_tags_of_all_turns(tmp_path, log, turned):
    """After an upgrade, a rollback and an upgrade again, each entry is there, and none is new."""
    layout, turns, count = turned
    indexed_in_turns(tmp_path, log, layout, turns)
    before = entries(tmp_path)
    assert len(before) == count
    result = rebuild_index(tmp_path, tmp_path / "index", layout, replace=True)
    assert result.tags.basis == "files"
    assert entries(tmp_path) == before


def test_a_turn_at_a_message_whose_key_has_the_hash_of_its_tags_is_seen(tmp_path):
    """It has two entries of that hash: of the key, and of the tags that the broker indexed."""
    written = Log(file_size=1 << 16)
    for number in range(20):
        pairs = [("KEYS", "T#Aa" if number == 10 else f"k{number}")]
        pairs.append(("TAGS", "BB" if number == 10 else "TagA"))
        properties = properties_text(pairs)
        written.append(Message("T", properties=properties, store_timestamp=10**12 + number))
    log = written.write_to(tmp_path / "log"), [*written.offsets, written.end]
    indexed_in_turns(tmp_path, log, Layout(97, 200), [10])
    before = entries(tmp_path)
    assert len(before) == 30
    rebuild_index(tmp_path, tmp_path / "index", Layout(97, 200), replace=True)
    assert entries(tmp_path) == before


def test_a_tag_that_a_lost_file_had_is_indexed_again(tmp_path, log):
    """Between two messages that have their tags, a message that seems to have none lost its."""
    layout = Layout(97, 202)  # each second file begins with an entry of tags
    indexed_in_turns(tmp_path, log, layout, [0])
    before = entries(tmp_path)
    for path in sorted((tmp_path / "index").iterdir())[5:8]:
        path.unlink()
    rebuild_index(tmp_path, tmp_path / "index", layout, replace=True)
    assert entries(tmp_path) == before


def test_damaged_entries_of_tags_are_no_turn(tmp_path, log):
    """A rebuild mends them."""
    layout = Layout(5000, 20_000)
    indexed_in_turns(tmp_path, log, layout, [0])
    before = entries(tmp_path)
    (path,) = (tmp_path / "index").iterdir()
    with path.open("r+b") as file:
        file.seek(layout.entry_offset(4000))
        file.write(b"\0\0\0\7")
    rebuild_index(tmp_path, tmp_path / "index", layout, replace=True)
    assert entries(tmp_path) == before
    assert "error" not in verify(tmp_path)["severity"].to_pylist()


def test_turns_are_found_in_samples_of_a_large_index(tmp_path, log, monkeypatch):
    """Each change is searched for between the samples that show it."""
    for name, value in (("_ALL_ENTRIES", 100), ("_WINDOW", 16), ("_BLOCK", 128)):
        monkeypatch.setattr(tags_module, name, value)
    layout = Layout(5000, 20_000)
    indexed_in_turns(tmp_path, log, layout, [1000, 2000, 5000])
    before = entries(tmp_path)
    rebuild_index(tmp_path, tmp_path / "index", layout, replace=True)
    assert entries(tmp_path) == before


def test_a_cut_file_shows_tags_too(tmp_path, log):
    """What is left of it has entries of tags, which a rebuild makes again, as all others."""
    layout = Layout(97, 20_000)
    indexed_in_turns(tmp_path, log, layout, [0])
    whole = entries(tmp_path)
    (file,) = (tmp_path / "index").iterdir()
    data = file.read_bytes()
    file.write_bytes(data[: layout.entry_offset(5_000)])
    done = rebuild_index(tmp_path, tmp_path / "index", layout, replace=True)
    assert done.tags == TagChoice(0, "files")
    assert entries(tmp_path) == whole


def test_entries_of_a_cut_file_are_not_lost_without_a_word(tmp_path, log):
    """Where the new files have the geometry that it had."""
    layout = Layout(97, 20_000)
    indexed_in_turns(tmp_path, log, layout, [0])
    (file,) = (tmp_path / "index").iterdir()
    file.write_bytes(file.read_bytes()[: layout.entry_offset(5_000)])
    with pytest.raises(RmqIndexError, match="would be lost"):
        rebuild_index(tmp_path, tmp_path / "index", layout, replace=True, stop=log[1][100])


EMPTIED = Layout(97, 2001)


@pytest.fixture(params=[(16, bytes(24)), (36, bytes(4)), (36, b"\xff" * 4)], ids=str)
def emptied(request, tmp_path):
    """Return a store whose one IndexFile has all entries, of which its header counts none."""
    written = Log(file_size=1 << 14)
    for number in range(400):
        properties = properties_text([("KEYS", f"k{number}"), ("TAGS", "TagA")])
        written.append(Message("T", properties=properties, store_timestamp=10**12 + number))
    folder = written.write_to(tmp_path / "log")
    indexed_in_turns(tmp_path, (folder, [*written.offsets, written.end]), EMPTIED, [0])
    before = entries(tmp_path)
    (path,) = (tmp_path / "index").iterdir()
    with path.open("r+b") as file:
        at, data = request.param
        file.seek(at)
        file.write(data)
    return tmp_path, before


def expire(root):
    """Remove the oldest file of the log."""
    min((root / "commitlog").iterdir()).unlink()


def test_tags_that_no_header_counts_are_indexed_again(emptied):
    """The file shows no geometry then; that of the new files tells what it has."""
    root, before = emptied
    rebuild_index(root, root / "index", EMPTIED, replace=True)
    assert entries(root) == before


def test_entries_that_no_header_counts_are_kept_of_messages_that_expired(emptied):
    """Else nothing in the store would tell that they were there."""
    root, before = emptied
    expire(root)
    done = rebuild_index(root, root / "index", EMPTIED, replace=True)
    assert 0 < done.kept_count < len(before)
    assert entries(root) == before


def test_entries_that_no_header_counts_are_not_dropped_for_want_of_a_geometry(emptied):
    """What has expired is in no other file."""
    root, _ = emptied
    expire(root)
    with pytest.raises(RmqIndexError, match="cannot be read, and may have entries of messages"):
        rebuild_index(root, root / "index", Layout(50, 2000), replace=True)
