"""Entries are compared with the messages of the log that was planned."""

from __future__ import annotations

import pytest

from pyspark_rmqindex.files import list_slices, with_logs
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.read.verification import MessageCheck
from pyspark_rmqindex.schema import arrow_schema, full_schema
from replacements import LAYOUT, make_store, rewritten
from rmqindex import IndexFile, RmqIndexError

GEOMETRY = {
    "maxHashSlotNum": str(LAYOUT.hash_slot_num),
    "maxIndexNum": str(LAYOUT.index_num),
}


def test_a_rewrite_while_entries_are_compared_is_noticed(tmp_path):
    """The log stays open for all entries of a task."""
    other = make_store(tmp_path / "other", "b")
    store = make_store(tmp_path / "store", "a")
    checked = read_options({"path": str(store), "commitLog": "auto", **GEOMETRY})
    each = with_logs(list_slices(checked).slices, "auto")[0]
    verifier = MessageCheck(checked, arrow_schema(full_schema(keys=False, log=True)))

    def compare(change):
        with IndexFile(each.path, LAYOUT) as file, verifier:
            found = list(verifier.check(file, each, next(file.scan())))
            change()
            return found

    (found,) = compare(lambda: None)
    assert set(found.column("match_state").to_pylist()) == {"verified"}
    with pytest.raises(RmqIndexError, match=r"commitlog/\d+: the file was replaced or rewritten"):
        compare(lambda: rewritten(other / "commitlog", store / "commitlog"))
