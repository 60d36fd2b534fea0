"""Names for the jobs that this package runs, where Spark shows its jobs and stages."""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

_DESCRIPTION = "spark.job.description"
# What a tag of Spark Connect may not contain is a comma; spaces are hard to read in it.
_NO_TAG = re.compile(r"[^\w./-]+")


@contextmanager
def named_jobs(spark: SparkSession, name: str) -> Iterator[None]:
    """Describe the jobs that are started meanwhile; with Spark Connect, tag them."""
    if getattr(spark, "_jsparkSession", None) is None:
        tag = _NO_TAG.sub("-", name)
        known = tag in spark.getTags()
        spark.addTag(tag)
        try:
            yield
        finally:
            if not known:
                spark.removeTag(tag)
        return
    context = spark.sparkContext
    before = context.getLocalProperty(_DESCRIPTION)
    context.setLocalProperty(_DESCRIPTION, f"{before}: {name}" if before else name)
    try:
        yield
    finally:
        # None removes the property.
        context.setLocalProperty(_DESCRIPTION, before)  # type: ignore[arg-type]
