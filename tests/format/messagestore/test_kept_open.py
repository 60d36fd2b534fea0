"""A ``MessageStore`` that is kept answers as a new one, whatever was done meanwhile."""

from __future__ import annotations

import mmap
import shutil

import pytest

from rmqindex import (
    IndexFile,
    Layout,
    MessageStore,
    RmqIndexError,
    rebuild_index,
    sample_store,
)

LAYOUT = Layout(100, 400)
KEYS = ["order-49", "order-1", "order-7", "absent"]
pytestmark = pytest.mark.filterwarnings("ignore::rmqindex.IncompleteIndexWarning")


@pytest.fixture
def store(tmp_path):
    """A store whose index is several full files, and one that is not."""
    root = shutil.copytree(sample_store(), tmp_path / "store")
    rebuild_index(root, root / "index", LAYOUT, replace=True)
    assert len(files_of(root)) > 2
    return root


def files_of(root):
    """Return the IndexFiles, oldest first."""
    return sorted((root / "index").iterdir())


def answers(messages):
    """Return what one key and many find; the text of an error where there is no answer."""
    try:
        return [messages.lookup("TopicTest", key).to_pylist() for key in [*KEYS, KEYS]]
    except RmqIndexError as error:
        return f"{type(error).__name__}: {error}"


def replaced(root):
    """Put the oldest file's bytes where the second was."""
    first, second, *_ = files_of(root)
    second.unlink()
    shutil.copy(first, second)


def removed(root):
    """Remove the oldest file, as a broker does with an expired one."""
    files_of(root)[0].unlink()


def laid_out_anew(root):
    """Rebuild all files with another geometry."""
    rebuild_index(root, root / "index", Layout(50, 300), replace=True)


def damaged(root):
    """Overwrite all slots of a full file with a position that it has not."""
    with files_of(root)[0].open("r+b") as file:
        file.seek(40)
        file.write(b"\x7f" * 4 * LAYOUT.hash_slot_num)


def cut(root):
    """Cut the end of a full file."""
    with files_of(root)[0].open("r+b") as file:
        file.truncate(LAYOUT.file_size - 20)


def recounted(root):
    """Set the count of a full file back."""
    with files_of(root)[0].open("r+b") as file:
        file.seek(36)
        file.write((5).to_bytes(4, "big"))


@pytest.mark.parametrize(
    "change", [replaced, removed, laid_out_anew, damaged, cut, recounted], ids=lambda f: f.__name__
)
def test_it_sees_what_was_done_to_full_files(store, change):
    """Replaced, removed, laid out anew, damaged or cut: the answer or the error is a new one's."""
    kept = MessageStore(store)
    before = answers(kept)
    assert before == answers(kept) == answers(MessageStore(store))
    change(store)
    after = answers(kept)
    assert after == answers(MessageStore(store))
    assert after != before or change is laid_out_anew


def test_it_sees_what_is_written_through_a_mapping(store):
    """A page that is dirty already shows in no time of the file when it is written again."""
    kept = MessageStore(store)
    first = files_of(store)[0]
    with first.open("r+b") as file, mmap.mmap(file.fileno(), 0) as data:
        data[8:16] = data[8:16]
        before = answers(kept)
        assert before == answers(kept)
        data[8:16] = (int.from_bytes(data[8:16], "big") + 1).to_bytes(8, "big")
        data[LAYOUT.entry_offset(1) + 4 : LAYOUT.entry_offset(1) + 12] = bytes(8)
        data[16:24] = bytes(8)
        assert answers(kept) == answers(MessageStore(store))


def test_it_sees_entries_that_are_put(store, tmp_path):
    """A last file that grows, fills up and is followed by another."""
    partial = tmp_path / "grown"
    shutil.copytree(store / "commitlog", partial / "commitlog")
    whole = [IndexFile(path) for path in files_of(store)]
    stops = [file.header.begin_phy_offset + 1000 for file in whole]
    for file in whole:
        file.close()
    rebuild_index(partial, partial / "index", LAYOUT, stop=stops[0])
    kept = MessageStore(partial)
    counts = set()
    for stop in [*stops[1:], None]:
        answers(kept)
        rebuild_index(partial, partial / "index", LAYOUT, resume=True, stop=stop)
        assert answers(kept) == answers(MessageStore(partial))
        counts.add(len(kept.lookup("TopicTest", KEYS)))
    assert len(counts) > 1
