"""``register()``: data sources and SQL functions of a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from pyspark_rmqindex.source.index import DefaultSource
from pyspark_rmqindex.source.messages import MessageSource
from pyspark_rmqindex.source.queues import QueueSource
from pyspark_rmqindex.sql.functions import register_functions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["register"]

_FOUND = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: SparkSession) -> None:
    """Make the functions ``rmq_lookup``, ``rmq_key_hash`` and ``rmq_key_hashes`` known to SQL.

    They are temporary: each session registers them for itself, and again at will.
    The data sources are registered as well where Spark has not found them by itself, as with
    ``--py-files``.

    ``rmq_lookup(path, topic, key [, begin] [, end] [, option => ..])`` is a table function: the
    rows that ``table()`` gives for the key, stored at ``begin`` or later and at ``end`` or earlier
    (TIMESTAMP, or BIGINT epoch milliseconds; NULL is no bound).
    ``topic``, ``key`` and the times may come from another table by LATERAL; a NULL topic or key has
    no rows.
    ``how => 'left'`` gives a key without rows one row, with NULL in the columns of entries.
    ``LEFT JOIN LATERAL rmq_lookup(..) r ON true`` does so as well, but not without the ``ON``:
    Spark 4.1 to 4.3 then run it as an inner join with every Python function, also in a subquery.
    Options are those of a load by their names, and constants: ``commitLog => 'none'``,
    ``message => true``, ``maxHashSlotNum => 97``; ``commitLog`` is ``auto`` by default.
    Where the path (STRING, or ARRAY<STRING> for several) is constant, its files are listed when
    the statement is analysed, and each call sees the entries that there were; another path in each
    row is listed by each task that meets it, and gives the column ``store``, too.

    ``rmq_key_hash(topic, key)`` is the broker's hash as INT, which Spark computes while it plans
    where both are constants of together up to 143 characters (in UTF-16), so that
    ``WHERE key_hash = rmq_key_hash('TopicTest', 'k')`` is pushed down.
    ``rmq_key_hashes(topic, key)`` is the same for columns: hundreds of times as fast there, and
    never pushed down.

    Args:
        spark: The session, classic or Spark Connect.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> spark.sql("SELECT * FROM rmq_lookup('/data/store', 'TopicTest', 'k')")  # doctest: +SKIP
    """
    _register_sources(spark)
    register_functions(spark)


def _register_sources(spark: SparkSession) -> None:
    """Register ``rmqindex``, ``rmqcommitlog`` and ``rmqconsumequeue`` where Spark has not.

    Spark looks for data sources in what is installed for the driver's Python, and not in the
    archives of ``--py-files``.

    Args:
        spark: The session.
    """
    for source in (DefaultSource, MessageSource, QueueSource):
        try:
            spark.dataSource.register(source)
        except PySparkException as error:
            # Those which Spark has found cannot be replaced.
            if error.getCondition() != _FOUND:
                raise
