"""Plans that are kept for ``last_plan()``."""

from __future__ import annotations

import os
import tempfile

import pytest

from pyspark_rmqindex.read.plan_log import ScanPlan, record_plan


def test_plans_of_long_ago_go_where_no_engine_deletes_them(tmp_path, monkeypatch):
    """Without a directory of Spark's, as on Sail; and no query waits for its plan to be synced."""
    monkeypatch.delenv("SPARK_LOCAL_DIRS", raising=False)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(os, "fsync", lambda _: pytest.fail("synced"))
    plan = ScanPlan(None, None, (), 0, 0, 0, 0)
    record_plan({"path": "old"}, plan)
    (old,) = tmp_path.rglob("plan-*")
    os.utime(old, (0, 0))
    for _ in range(256):
        record_plan({"path": "new"}, plan)
    assert not old.exists()
    assert len(list(tmp_path.rglob("plan-*"))) == 1
