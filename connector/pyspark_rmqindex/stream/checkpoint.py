"""What the two stream readers share: the JSON of their offsets, and how they report lost data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from pyspark.sql.datasource import DataSourceStreamReader

from pyspark_rmqindex.log_lines import Warnings
from rmqindex import RmqIndexError
from rmqindex.storage import from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark_rmqindex.options import MessageStreamOptions, StreamOptions


class Offset(Protocol):
    """How far a stream has come in one index directory or store."""

    SOURCE: ClassVar[str]  # the name of the stream's data source

    def to_json(self) -> dict[str, Any]:
        """Return the offset as JSON for the checkpoint."""

    @classmethod
    def from_json(cls, data: object) -> Self:
        """Read what :meth:`to_json` returned."""


OffsetT = TypeVar("OffsetT", bound=Offset)


def offsets_to_json(offsets: Mapping[str, Offset]) -> dict[str, Any]:
    """Return offsets by their places as JSON for the checkpoint."""
    return {place: offsets[place].to_json() for place in sorted(offsets)}


def offsets_from_json(kind: type[OffsetT], data: object) -> dict[str, OffsetT]:
    """Read what :func:`offsets_to_json` returned of one kind of offsets."""
    try:
        return from_json(dict[str, kind], data, {kind: kind.from_json})  # type: ignore[valid-type]
    except ValueError as error:
        raise ValueError(
            f"the checkpoint's offset: expected that of a stream of {kind.SOURCE}, got {data!r}; "
            "give the stream a checkpointLocation of its own"
        ) from error


class CheckpointedReader(DataSourceStreamReader):
    """A stream reader whose progress is in the checkpoint alone."""

    def __init__(self, options: StreamOptions | MessageStreamOptions) -> None:
        """Begin without any loss reported."""
        self._fails_on_data_loss = options.fail_on_data_loss
        self._warn = Warnings()

    def commit(self, end: dict[str, Any]) -> None:
        """Do nothing: the checkpoint holds the progress, and the broker owns the files."""

    def stop(self) -> None:
        """Do nothing: no file stays open between calls."""

    def _report_loss(self, loss: str) -> None:
        """Raise for lost data or, if the options allow that, log it once."""
        if self._fails_on_data_loss:
            raise RmqIndexError(
                f"{loss}. With the option failOnDataLoss=false the stream continues with the "
                "data that is there, and returns what was made anew once more"
            )
        self._warn(loss)
