"""A rebuild goes on only behind an index that is proved to be of its CommitLog."""

from __future__ import annotations

import shutil

import pytest

from commitlog_encoder import Log, Message, properties_text
from rmqindex import IndexFile, Layout, RmqIndexError, rebuild_index, verify

LAYOUT = Layout(97, 50)
TIME = 1_700_000_000_000
FOREIGN = r"expected the message of entry \d+ .* got another message: .* replace=True"


def write_log(store, names, times=TIME, **fields):
    """Write one message for each name, all of one size, in place of the log that was there."""
    log = Log(file_size=1 << 16)
    for number, name in enumerate(names):
        properties = properties_text([("KEYS", name), ("UNIQ_KEY", f"u{name}")])
        time = times + 1000 * number
        log.append(Message("T", properties=properties, store_timestamp=time, **fields))
    shutil.rmtree(store / "commitlog", ignore_errors=True)
    log.write_to(store / "commitlog")


def names(first, stop, prefix="a"):
    """Return keys of one length."""
    return [f"{prefix}{number:03d}" for number in range(first, stop)]


@pytest.fixture
def store(tmp_path):
    """A store whose 100 messages are indexed in five files."""
    write_log(tmp_path, names(0, 100))
    rebuild_index(tmp_path, tmp_path / "index", LAYOUT)
    return tmp_path


def content(store):
    """Return the bytes of each file of the index."""
    return {path.name: path.read_bytes() for path in (store / "index").iterdir()}


@pytest.mark.parametrize("same", [0, 1, 60, 99])
def test_a_log_that_was_cut_and_written_anew_is_refused(store, same):
    """Other messages of one size are at the offsets of the indexed ones."""
    write_log(store, names(0, same) + names(same, 120, "b"))
    before = content(store)
    with pytest.raises(RmqIndexError, match=FOREIGN):
        rebuild_index(store, store / "index", resume=True)
    assert content(store) == before
    rebuild_index(store, store / "index", replace=True)
    assert "error" not in verify(store)["severity"].to_pylist()


def test_the_same_keys_at_other_times_are_other_messages(store):
    """They were sent again after the log was cut."""
    write_log(store, names(0, 120), TIME + 3_600_000)
    with pytest.raises(RmqIndexError, match=FOREIGN):
        rebuild_index(store, store / "index", resume=True)


def test_a_middle_file_of_another_log_is_refused(store, tmp_path):
    """Each file is compared, not the last one alone."""
    other = tmp_path / "other"
    write_log(other, names(0, 100, "c"))
    rebuild_index(other, other / "index", LAYOUT)
    theirs, ours = (sorted((path / "index").iterdir())[2] for path in (other, store))
    shutil.copyfile(theirs, ours)
    with pytest.raises(RmqIndexError, match=f"{ours.name}: {FOREIGN}"):
        rebuild_index(store, store / "index", resume=True)


def test_the_log_that_has_grown_is_continued(store):
    """The same messages are in front."""
    write_log(store, names(0, 150))
    rebuild_index(store, store / "index", resume=True)
    count = 0
    for path in (store / "index").iterdir():
        with IndexFile(path) as file:
            count += file.entry_count
    assert count == 300
    assert "error" not in verify(store)["severity"].to_pylist()


@pytest.mark.parametrize("damage", [bytes(40), bytes(8), b"\x7f"])
def test_expired_entries_of_a_file_without_a_header_keep_their_times(store, damage):
    """Those of messages that the log still has tell from when the file counts."""
    expired = 1 << 12
    log = Log(file_size=expired)
    for number, name in enumerate(names(0, 100)):
        properties = properties_text([("KEYS", name), ("UNIQ_KEY", f"u{name}")])
        log.append(Message("T", properties=properties, store_timestamp=TIME + 1700 * number))
    shutil.rmtree(store / "commitlog")
    shutil.rmtree(store / "index")
    log.write_to(store / "commitlog")
    rebuild_index(store, store / "index", LAYOUT)
    before = entries(store)
    min((store / "commitlog").iterdir()).unlink()
    for path in sorted((store / "index").iterdir()):
        with IndexFile(path) as file:
            offsets = [row["phy_offset"] for batch in file.scan() for row in batch.to_pylist()]
        if offsets[0] < expired < offsets[-1]:
            with path.open("r+b") as written:
                written.write(damage)
    rebuild_index(store, store / "index", LAYOUT, replace=True)
    after = entries(store)
    assert [row[:2] for row in after] == [row[:2] for row in before]
    assert all(abs(one[2] - other[2]) < 1000 for one, other in zip(after, before, strict=True))


def entries(store):
    """Return the hash, offset and time of each entry."""
    found = []
    for path in sorted((store / "index").iterdir()):
        with IndexFile(path) as file:
            for batch in file.scan(columns=["key_hash", "phy_offset", "store_timestamp"]):
                found += zip(*(column.to_pylist() for column in batch.columns), strict=True)
    return found


def test_an_entry_of_a_rolled_back_message_is_another_ones(store):
    """No broker indexes such a message, so the log was cut before it."""
    write_log(store, names(0, 100), sys_flag=0xC)
    with pytest.raises(RmqIndexError, match=FOREIGN):
        rebuild_index(store, store / "index", resume=True)


@pytest.mark.parametrize("file", [0, 2, -1])
def test_a_damaged_last_time_is_not_covered_by_the_checkpoint(store, file):
    """It is the number by which a broker that crashed deletes files."""
    path = sorted((store / "index").iterdir())[file]
    data = path.read_bytes()
    path.write_bytes(data[:8] + (1 << 61).to_bytes(8, "big") + data[16:])
    with pytest.raises(RmqIndexError, match=f"{path.name}: .* end_timestamp {1 << 61}: .* replace"):
        rebuild_index(store, store / "index", resume=True)
    rebuild_index(store, store / "index", replace=True)
    assert "error" not in verify(store)["severity"].to_pylist()
