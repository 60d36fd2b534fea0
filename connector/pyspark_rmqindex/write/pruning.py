"""Leaves out what an index does not need of messages: Spark reads all columns of a load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from pyspark_rmqindex.schema import STORE_COLUMN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

__all__ = ["without_unused"]

_FORMAT = "rmqcommitlog"
_NEEDED = ("topic", "uniq_key", "keys", "sys_flag", "phy_offset", "store_timestamp", STORE_COLUMN)


def without_unused(df: DataFrame, *, members: bool, tags: bool | None) -> DataFrame:
    """Return messages without the columns that are not indexed, such as their bodies.

    Only a DataFrame that is the load of a CommitLog and nothing more can be read anew; any other is
    returned as it is, and so is one of Spark Connect, whose plan is on the server.
    """
    java_frame = getattr(df, "_jdf", None)
    if java_frame is None or df.storageLevel.useMemory or df.storageLevel.useDisk:
        return df
    plan = java_frame.queryExecution().analyzed()
    if plan.getClass().getSimpleName() != "DataSourceV2Relation":
        return df
    if str(plan.table().name()) != _FORMAT:
        return df
    needed = {*_NEEDED, *(["member_keys"] if members else []), *([] if tags is False else ["tags"])}
    fields = [field for field in df.schema.fields if field.name.lower() in needed]
    if any(field.metadata for field in fields):  # of a catalog table, which keeps options there
        return df
    options = dict(plan.options().asCaseSensitiveMap())
    reader = df.sparkSession.read.format(_FORMAT).options(**options)
    return reader.schema(StructType(fields)).load()
