"""``register()``: adds the data sources and SQL functions to a session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.errors import PySparkException

from pyspark_rmqindex.source.index import DefaultSource
from pyspark_rmqindex.source.messages import MessageSource
from pyspark_rmqindex.source.queues import QueueSource
from pyspark_rmqindex.sql.functions import register_functions
from pyspark_rmqindex.worker_python import check_worker_python

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FOUND = "DATA_SOURCE_ALREADY_EXISTS"


def register(spark: SparkSession) -> None:
    """Register ``rmq_lookup``, ``rmq_explain``, ``rmq_key_hash`` and ``rmq_key_hashes`` in SQL.

    They are temporary functions, so every session must register them; doing so again is harmless.
    The data sources are registered too if Spark has not found them by itself, which is the case
    with ``--py-files``.

    The session becomes the active one of the calling thread: a thread of its own must call this
    before ``df.write`` and ``writeStream.start()``, for which Spark looks up data sources in that
    session alone, and a new thread has none.

    ``rmq_lookup(path, topic, key [, begin] [, end] [, option => ..])`` is a table function.
    It returns the rows that ``table()`` returns for the key, stored between ``begin`` and ``end``,
    both inclusive (TIMESTAMP, or BIGINT epoch milliseconds; NULL means no bound).
    ``topic``, ``key`` and the times may come from another table through LATERAL; a NULL topic or
    key returns no rows.
    With ``how => 'left'``, a key without entries returns one row, with NULL in the entry columns.
    ``LEFT JOIN LATERAL rmq_lookup(..) r ON true`` does the same, but the ``ON`` is required:
    without it, Spark 4.1 to 4.3 run an inner join for any Python function, in subqueries too.
    Options have the names they have in a load, and must be constants: ``commitLog => 'none'``,
    ``message => true``, ``maxHashSlotNum => 97``; ``commitLog`` defaults to ``auto``.
    If the path (STRING, or ARRAY<STRING> for several) is constant, its files are listed when the
    statement is analysed, and every call sees the entries that existed then.
    If the path differs from row to row, each task lists the paths it meets, and the column
    ``store`` is added.

    ``rmq_explain(path, topic, key [, begin] [, end] [, option => ..])`` is a table function with
    the same parameters: a row for each reason why the key is or is not found, with ``code``,
    ``sentence``, ``remedy``, ``other_topic`` and ``phy_offsets``, as
    :func:`rmqindex.explain_lookup` gives them.
    Its options are ``commitLog``, which defaults to ``auto``, ``maxHashSlotNum``,
    ``maxIndexNum``, ``searchLog`` (``gaps``, ``all``, ``none``) and ``timeZone``, that of the times
    in the sentences, by default UTC.

    ``rmq_key_hash(topic, key)`` returns the broker's hash as INT.
    If both arguments are constants of at most 143 UTF-16 characters together, Spark computes it
    during planning, so that ``WHERE key_hash = rmq_key_hash('TopicTest', 'k')`` is pushed down.
    ``rmq_key_hashes(topic, key)`` returns the same hash; it is hundreds of times faster on columns,
    but is never pushed down.

    Args:
        spark: The session, classic or Spark Connect.

    Raises:
        RuntimeError: Spark's workers run a Python that cannot import this package, or of another
            minor version.

    Example:
        >>> register(spark)  # doctest: +SKIP
        >>> spark.sql("SELECT * FROM rmq_lookup('/data/store', 'TopicTest', 'k')")  # doctest: +SKIP
    """
    check_worker_python(spark, plans=True)
    _register_sources(spark)
    register_functions(spark)
    _activate(spark)


def _register_sources(spark: SparkSession) -> None:
    """Register ``rmqindex``, ``rmqcommitlog`` and ``rmqconsumequeue`` unless Spark has.

    Spark looks for data sources among the packages installed for the driver's Python, but not in
    the archives passed with ``--py-files``.
    """
    for source in (DefaultSource, MessageSource, QueueSource):
        try:
            spark.dataSource.register(source)
        except PySparkException as error:
            # Spark refuses to replace a source that it found by itself.
            if error.getCondition() != _FOUND:
                raise


def _activate(spark: SparkSession) -> None:
    """Make a session the active one of this thread, as every local DataFrame does."""
    spark.createDataFrame([], "x INT")
