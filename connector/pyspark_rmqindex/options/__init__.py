"""The options of loads, writes and streams.

Each option is declared once, as a field of a frozen dataclass with its name, parser, default and
doc (:mod:`.kinds`); parsing, errors and the documentation all derive from it.
The functions turn the options that Spark passes into one of these dataclasses, or raise a
``ValueError`` that names the option.
"""

from pyspark_rmqindex.options.kinds import AUTO, COLUMNS, Option, Scope
from pyspark_rmqindex.options.parse import (
    OPTIONS,
    message_options,
    message_schema_options,
    message_stream_options,
    option_text,
    parse_options,
    queue_options,
    read_options,
    schema_options,
    scopes_of,
    stream_options,
    wants_plan,
    wants_pushdown,
)
from pyspark_rmqindex.options.read import (
    MessageOptions,
    MessageStreamOptions,
    QueueOptions,
    ReadOptions,
    StreamOptions,
    Unverified,
)
from pyspark_rmqindex.options.times import (
    EXECUTION_ID,
    LocalBound,
    planned_bound,
    sql_times,
    system_zone,
    task_range,
    time_texts,
)
from pyspark_rmqindex.options.write import SinkOptions

__all__ = [
    "AUTO",
    "COLUMNS",
    "EXECUTION_ID",
    "OPTIONS",
    "LocalBound",
    "MessageOptions",
    "MessageStreamOptions",
    "Option",
    "QueueOptions",
    "ReadOptions",
    "Scope",
    "SinkOptions",
    "StreamOptions",
    "Unverified",
    "message_options",
    "message_schema_options",
    "message_stream_options",
    "option_text",
    "parse_options",
    "planned_bound",
    "queue_options",
    "read_options",
    "schema_options",
    "scopes_of",
    "sql_times",
    "stream_options",
    "system_zone",
    "task_range",
    "time_texts",
    "wants_plan",
    "wants_pushdown",
]
