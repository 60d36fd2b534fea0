"""Declares an option as the field of a dataclass, with its name, parser, default and doc."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar, overload

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Kind", "Option", "Scope", "option", "options_of"]

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")

#: Where options are given: ``load``, ``table()`` and ``save`` of entries, ``load`` of the formats
#: ``rmqcommitlog`` and ``rmqconsumequeue``, and ``readStream`` of entries and of messages.
Scope = Literal["read", "table", "write", "messages", "queues", "stream", "message_stream"]

_OPTION = "option"


@dataclass(frozen=True, slots=True)
class Kind(Generic[T_co]):
    """The type of an option's text.

    Attributes:
        words: The type as the documentation describes it.
        parse: Converts the text to a value; raises ``ValueError`` with what was expected.
        check: Checks a value that errors must not show; raises ``ValueError`` with a full message.
    """

    words: str
    parse: Callable[[str], T_co]
    check: Callable[[Any], None] | None = None

    def rename(self, words: str) -> Kind[T_co]:
        """Return the same kind under another name."""
        return replace(self, words=words)


@dataclass(frozen=True, slots=True)
class Option:
    """One option of a data source.

    Attributes:
        name: The name as documented, in camelCase; Spark ignores its case.
        kind: The type of its text.
        doc: What it does.
        default: The text assumed if it is not given; None if absence has a meaning of its own.
        default_doc: What absence means, if ``default`` does not say it.
        only: The scopes that allow it; empty for every scope whose dataclass has the field.
        secret: Whether errors must not show its text.
        internal: Whether only this package sets it; no list of options names it.
    """

    name: str
    kind: Kind[Any]
    doc: str
    default: str | None = None
    default_doc: str = ""
    only: tuple[Scope, ...] = ()
    secret: bool = False
    internal: bool = False


@overload
def option(
    name: str,
    kind: Kind[T],
    doc: str,
    *,
    default: str,
    default_doc: str = ...,
    only: tuple[Scope, ...] = ...,
    internal: bool = ...,
) -> T: ...


@overload
def option(
    name: str,
    kind: Kind[T],
    doc: str,
    *,
    default_doc: str = ...,
    only: tuple[Scope, ...] = ...,
    secret: bool = ...,
    internal: bool = ...,
) -> T | None: ...


def option(
    name: str,
    kind: Kind[Any],
    doc: str,
    *,
    default: str | None = None,
    default_doc: str = "",
    only: tuple[Scope, ...] = (),
    secret: bool = False,
    internal: bool = False,
) -> Any:
    """Return the field of a dataclass that declares an option; see :class:`Option`."""
    declared = Option(name, kind, doc, default, default_doc, only, secret, internal)
    return field(
        default=None if default is None else kind.parse(default),
        repr=not secret,
        metadata={_OPTION: declared},
    )


def options_of(options: type[Any]) -> dict[str, Option]:
    """Return the options that a dataclass declares, by the names of its fields."""
    return {
        each.name: each.metadata[_OPTION] for each in fields(options) if _OPTION in each.metadata
    }
