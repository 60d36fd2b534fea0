"""Files of a CommitLog have one size, and each the messages of its name."""

import os
import shutil

import pytest

import rmqindex
from other_broker import running_broker
from recorded import STORE_KINDS


def log_files(store):
    """Return the files of the log, oldest first."""
    return sorted((store / "commitlog").iterdir())


def found(store, rule="log_file_size"):
    """Return file, byte or size, and severity of each finding."""
    return [
        (row["file"], row["byte"], row["severity"])
        for row in rmqindex.verify(store, "auto").to_pylist()
        if row["rule"] == rule
    ]


def name(offset):
    """Return how a file of the log is called."""
    return f"{offset:020d}"


@pytest.mark.parametrize(("of", "to"), [(0, 131_072), (65_536, 131_072), (65_536, 262_144)])
def test_a_copy_of_another_file_is_an_error(store, of, to):
    """A broker that starts would take it for the newest one; the messages are there already."""
    copy = store / "commitlog" / name(to)
    assert found(store, "log_file_misnamed") == []
    shutil.copy(store / "commitlog" / name(of), copy)
    assert found(store, "log_file_misnamed") == [(str(copy), 0, "error")]


def test_a_renamed_file_is_an_error(store):
    """Its messages know where they are stored."""
    last = log_files(store)[-1]
    renamed = last.rename(last.with_name(name(131_072)))
    assert (str(renamed), 0, "error") in found(store, "log_file_misnamed")


def test_exchanged_names_and_what_was_put_aside(store):
    """No file is moved out that alone has its messages."""
    first, last = log_files(store)
    aside = first.rename(first.with_name(f"{first.name}.other"))
    assert (str(aside), 0, "error") in found(store, "log_file_misnamed")
    last.rename(first)
    assert {row[0] for row in found(store, "log_file_misnamed")} == {str(first), str(aside)}


def test_the_rule_itself_says_to_exchange_names(store):
    """What a program reads has no command, and must lose no messages either."""
    copy = store / "commitlog" / name(131_072)
    shutil.copy(store / "commitlog" / name(65_536), copy)
    (remedy,) = (
        row["remedy"]
        for row in rmqindex.verify(store, "auto").to_pylist()
        if row["rule"] == "log_file_misnamed"
    )
    kinds = "give it the name", "exchange the two names", "move FILE out of the folder"
    assert sorted(map(remedy.index, kinds)) == [*map(remedy.index, kinds)]


@pytest.mark.parametrize("other", [".DS_Store", f"{0:020d}.bak", "x"])
def test_a_file_that_is_named_by_no_offset_is_an_error(store, other):
    """A broker stops at it, but does not look at folders; elsewhere anything may lie."""
    stray = store / "commitlog" / other
    stray.write_bytes(b"any")
    (store / "commitlog" / "folder").mkdir()
    assert found(store, "log_file_name") == [(str(stray), None, "error")]
    (store / "commitlog").rename(store / "log")
    rows = rmqindex.verify(store / "index", store / "log").to_pylist()
    assert "log_file_name" not in {row["rule"] for row in rows}


def test_other_bytes_than_messages_say_nothing_of_a_name(store):
    """A broker overwrites them."""
    last = log_files(store)[-1]
    noise = last.with_name(name(131_072))
    noise.write_bytes(bytes(range(256)) * 256)
    assert found(store, "log_file_misnamed") == []


@pytest.mark.parametrize("more", [-700, -1, 1, 8192])
def test_another_size_is_an_error(store, more):
    """A broker that starts compares the sizes, and stops."""
    last = log_files(store)[-1]
    assert found(store) == []
    os.truncate(last, 65_536 + more)
    assert found(store) == [(str(last), 65_536 + more, "error")]


@pytest.mark.parametrize("other", [name(131_072), "zzz"])
def test_an_empty_file_behind_the_log_is_none_of_it(store, other):
    """A broker deletes it when it starts, as the last of all by name."""
    (store / "commitlog" / other).touch()
    assert found(store) == found(store, "log_file_name") == []


@pytest.mark.parametrize("first", [name(131_072), f"{131_072:020d}.bak", ".DS_Store"])
@pytest.mark.parametrize("last", [name(196_608), "zzz", "lost+found"])
def test_an_empty_file_before_another_name_is_an_error(store, first, last):
    """A broker deletes the last one alone, and stops at others, be a folder behind them."""
    empty = store / "commitlog" / first
    empty.touch()
    behind = store / "commitlog" / last
    if last == "lost+found":
        behind.mkdir()
    else:
        behind.touch()
    assert found(store, "log_file_name") == [(str(empty), None, "error")]
    empty.unlink()
    assert found(store) == found(store, "log_file_name") == []


def test_one_file_tells_nothing(store):
    """Its size is the broker's own configuration."""
    first, last = log_files(store)
    first.unlink()
    os.truncate(last, 65_000)
    assert found(store) == []


def test_files_with_a_gap_between_them_tell_nothing(store):
    """None ends where the next one begins, so that any of them may have a wrong size."""
    first, last = log_files(store)
    last.rename(last.with_name(f"{131_072:020d}"))
    os.truncate(first, 60_000)
    assert found(store) == []


@pytest.mark.parametrize(("more", "count"), [(-1, 0), (1, 1)])
def test_a_running_broker_may_be_making_the_file(store, more, count):
    """It never makes a longer one."""
    os.truncate(log_files(store)[-1], 65_536 + more)
    with running_broker(store):
        assert len(found(store)) == count


@pytest.mark.parametrize("kind", ["plain", "double_write", "dledger", "dledger_after_plain"])
def test_what_brokers_wrote_has_one_size(tmp_path, kind):
    """Those of DLedger, too."""
    store = tmp_path / "store"
    shutil.copytree(STORE_KINDS / kind / "store", store)
    assert found(store) == []


@pytest.fixture
def dledger(tmp_path):
    """Return the folder of a DLedger log of several files, in a store."""
    shutil.copytree(STORE_KINDS / "dledger" / "store", tmp_path / "dledger")
    return tmp_path / "dledger" / "dledger-n0" / "data"


class TestDLedger:
    """DLedger's own classes start with files of one size and of their own names alone."""

    def test_names_that_were_exchanged_are_told(self, dledger):
        """The log ends there otherwise, and its messages pass for those of an earlier life."""
        first, last = min(dledger.iterdir()), max(dledger.iterdir())
        aside = first.rename(dledger / "aside")
        assert {row[0] for row in found(dledger.parents[1], "log_file_misnamed")} == {str(aside)}
        last.rename(first)
        aside.rename(last)
        rows = found(dledger.parents[1], "log_file_misnamed")
        assert {row[0] for row in rows} == {str(first), str(last)}

    @pytest.mark.parametrize("more", [-100, 2])
    def test_the_newest_file_has_the_size_of_the_others(self, dledger, more):
        """Zeros behind its end are part of it."""
        last = max(dledger.iterdir())
        size = last.stat().st_size
        os.truncate(last, size + more)
        assert found(dledger.parents[1]) == [(str(last), size + more, "error")]

    @pytest.mark.parametrize("where", ["data", "index"])
    @pytest.mark.parametrize("odd", ["x", "folder", name(1 << 40)])
    def test_nothing_else_lies_among_its_files(self, dledger, where, odd):
        """Neither a folder, nor an empty file."""
        stray = dledger.with_name(where) / odd
        if odd == "folder":
            stray.mkdir()
        else:
            stray.write_bytes(b"any" if odd == "x" else b"")
        assert found(dledger.parents[1], "log_file_name") == [(str(stray), None, "error")]
