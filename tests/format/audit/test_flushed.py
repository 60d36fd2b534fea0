"""A CommitLog that ends before what its checkpoint says of its queues."""

import shutil
import struct

import pytest

import rmqindex
from recorded import STORE_KINDS


def note(store, offset):
    """Write logicsPhysicalOffset, as a broker from 5.5.0 on does when it flushes its queues."""
    with (store / "checkpoint").open("r+b") as file:
        file.seek(40)
        file.write(struct.pack(">q", offset))


def found(store):
    """Return byte and value of each finding."""
    return [
        (row["byte"], row["got"])
        for row in rmqindex.verify(store, "auto").to_pylist()
        if row["rule"] == "log_ends_early"
    ]


@pytest.mark.parametrize("is_alone", [False, True])
def test_it_is_a_warning_and_refuses_nothing(store, is_alone):
    """A broker that cut its log when it started leaves the number, and so does an older one."""
    if is_alone:
        shutil.rmtree(store / "index")
        shutil.rmtree(store / "consumequeue")
    with rmqindex.CommitLog(store) as log:
        end = log.max_offset
    for offset in (0, end - 1):
        note(store, offset)
        assert found(store) == []
    note(store, end)
    assert found(store) == [(40, str(end))]
    with rmqindex.CommitLog(store) as log:
        assert log.end_error() is None


def test_a_loss_that_something_proves_is_the_finding(store):
    """The index leads behind the log's end."""
    note(store, 1 << 40)
    max((store / "commitlog").iterdir()).unlink()
    assert found(store) == []


@pytest.mark.parametrize("kind", ["plain", "double_write", "dledger", "dledger_after_plain"])
def test_what_brokers_wrote_is_consistent(tmp_path, kind):
    """Each of these stores has the number."""
    store = tmp_path / "store"
    shutil.copytree(STORE_KINDS / kind / "store", store)
    assert struct.unpack_from(">q", (store / "checkpoint").read_bytes(), 40)[0] > 0
    assert found(store) == []
