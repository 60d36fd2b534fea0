"""The offsets of a stream as JSON in its checkpoint: one for each index directory or store."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self, TypeVar

from rmqindex.ownfiles import from_json

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["offsets_from_json", "offsets_to_json"]


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
            f"the checkpoint's offset: expected that of a stream of {kind.SOURCE}, got {data!r}"
        ) from error
