"""The loads in the plan of a DataFrame of Spark Connect, which the client has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class ConnectLoad:
    """A load, as the client has it."""

    name: str
    options: tuple[tuple[str, str], ...]
    paths: tuple[str, ...]


def loads_of(df: DataFrame) -> set[ConnectLoad] | None:
    """Return the loads in a DataFrame's plan."""
    client_frame: Any = df
    plan = client_frame._plan.to_proto(df.sparkSession.client)  # noqa: SLF001  (there is no other way)
    found = list(_messages(plan))
    names = {type(each).__name__ for each in found}
    if names & {"NamedTable", "SQL", "SqlCommand", "CachedRemoteRelation"}:
        return None
    return {
        ConnectLoad(each.format, tuple(sorted(each.options.items())), tuple(each.paths))
        for each in found
        if type(each).__name__ == "DataSource"
    }


def _messages(message: Any) -> Iterator[Any]:  # noqa: ANN401  (of protobuf)
    yield message
    for field, value in message.ListFields():
        if field.message_type is None or field.message_type.GetOptions().map_entry:
            continue
        # Which fields are repeated is asked in different ways by versions of protobuf.
        for each in [value] if hasattr(value, "ListFields") else value:
            yield from _messages(each)
