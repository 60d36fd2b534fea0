"""The files of ``lookup()``, listed on the driver or, for Spark Connect, in a task."""

from __future__ import annotations

import json

import pytest

from pyspark_rmqindex.join.lookup import _list, _list_in_task, _ListingAnswer
from pyspark_rmqindex.options import read_options
from replacements import LAYOUT, make_store
from rmqindex.storage import Location, from_json
from s3_server import SECRETS

GEOMETRY = {
    "maxHashSlotNum": str(LAYOUT.hash_slot_num),
    "maxIndexNum": str(LAYOUT.index_num),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Return a store of three index files that nobody changes."""
    return make_store(tmp_path_factory.mktemp("listed") / "store", "a")


def test_a_plan_carries_a_log_once_whatever_the_slices(files):
    """All slices of a partition share it."""
    checked = read_options({"path": str(files), "commitLog": "auto", **GEOMETRY})
    slices = _list(checked).slices
    assert len(slices) > 1
    assert len({id(each.commit_log) for each in slices}) == 1


def test_a_client_of_spark_connect_gets_the_same_plan(files):
    """It is listed by a task, and travels as text."""
    checked = read_options({"path": str(files), "commitLog": "auto", **GEOMETRY})
    (batch,) = _list_in_task(checked, iter([None]))
    document = json.loads(batch.column(0)[0].as_py())
    assert len(document["logs"]) == 1
    answer = from_json(_ListingAnswer, document, {Location: checked.storage.at})
    assert answer.listing() == _list(checked)


def test_a_listing_made_in_a_task_holds_no_secret(s3, s3_store):
    """It is rows, which a plan or a log may show; who asked for it knows the keys."""
    options = read_options(
        {
            **s3.options,
            "maxHashSlotNum": "97",
            "maxIndexNum": "200",
            "path": s3_store,
            "commitLog": "auto",
        }
    )
    (batch,) = _list_in_task(options, iter([None]))
    (text,) = batch.column(0).to_pylist()
    assert f"{s3_store}/index/" in text
    assert f"{s3_store}/commitlog/" in text
    assert not any(secret in text for secret in SECRETS)
