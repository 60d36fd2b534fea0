"""Commands that take several paths, patterns and folders of stores, and answer for each."""

from __future__ import annotations

import contextlib
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO, cast

import click

from rmqindex.cli.help import Command
from rmqindex.display.text import complain
from rmqindex.errors import RmqIndexError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = ["SeveralCommand", "complain_of_none", "several_named", "stores_of"]

# Where the context tells an output which of several stores it answers for.
_NAMED = "rmqindex.named"
# And where the stores without an answer are gathered, by what is said of them.
_MISSED = "rmqindex.missed"
_BAD = 2


class SeveralCommand(Command):
    """Runs once for each store that its first argument names.

    The exit code is the worst of all; for a search it is 0 if any store has an answer.
    """

    def __init__(
        self,
        *args: Any,  # noqa: ANN401
        is_search: bool = False,
        several_are: str = "store",
        **attributes: Any,  # noqa: ANN401
    ) -> None:
        """Take what click takes, whether an answer of one store is enough, and what they are."""
        super().__init__(*args, **attributes)
        self._is_search = is_search
        self._several_are = several_are

    def invoke(self, ctx: click.Context) -> None:
        """Answer for each store, with its name where there are several."""
        name = str(self.params[0].name)
        given = ctx.params[name]
        stores = stores_of([given] if isinstance(given, str) else given)
        if len(stores) == 1:
            ctx.params[name] = stores[0]
            super().invoke(ctx)
            return
        codes: list[int] = []
        missed: dict[str, list[str]] = {}
        ctx.meta[_MISSED] = missed
        is_for_machines = ctx.params.get("as_json") or ctx.meta.get("rmqindex.csv")
        output = _Headed(sys.stdout)
        for store in stores:
            ctx.params[name] = store
            ctx.meta[_NAMED] = {self._several_are: store}
            if not is_for_machines:
                output.head(store)
            with contextlib.redirect_stdout(cast("TextIO", output)):
                codes.append(self._invoke_one(ctx))
        for text, paths in missed.items():
            complain(f"{', '.join(paths)}: {text}")
        best = min if self._is_search and _BAD not in codes else max
        code = best(codes)
        if code:
            raise click.exceptions.Exit(code)

    def _invoke_one(self, ctx: click.Context) -> int:
        try:
            super().invoke(ctx)
        except click.exceptions.Exit as ended:
            return ended.exit_code
        except RmqIndexError as error:
            from rmqindex.cli.advice import told_for  # noqa: PLC0415  (errors alone need it)

            complain(told_for(error, self))
            return _BAD
        return 0


class _Headed:
    """Standard output, on which a heading is written once something follows it."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._heading = ""
        self._is_first = True

    def head(self, heading: str) -> None:
        """Write a heading, with an empty line below, before what is written next."""
        self._heading = f"{heading}\n\n"

    def write(self, text: str) -> int:
        """Write a text."""
        if self._heading and text:
            self._stream.write(self._heading if self._is_first else f"\n{self._heading}")
            self._heading, self._is_first = "", False
        return self._stream.write(text)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401
        return getattr(self._stream, name)


def complain_of_none(path: str, text: str) -> None:
    """Say that a store has no answer; of several, once for all that have none."""
    context = click.get_current_context(silent=True)
    missed = None if context is None else context.meta.get(_MISSED)
    if missed is None:
        complain(f"{path}: {text}")
    else:
        missed.setdefault(text, []).append(path)


def several_named() -> dict[str, str]:
    """Return what names the store that a command answers for now; nothing if it is the only one."""
    context = click.get_current_context(silent=True)
    return {} if context is None else context.meta.get(_NAMED, {})


def stores_of(paths: Sequence[str]) -> list[str]:
    """Return the paths that some paths, patterns and folders of stores stand for.

    Raises:
        BadParameter: A pattern matches nothing.
    """
    found: list[str] = []
    for path in paths:
        found += _expanded(path)
    return list(dict.fromkeys(found))


def _expanded(path: str) -> list[str]:
    from rmqindex.storage.location import Location  # noqa: PLC0415  (help needs no storage)
    from rmqindex.store.patterns import expand, has_pattern  # noqa: PLC0415

    given = Location.of(path)
    if has_pattern(given) and (given.local is None or not os.path.lexists(given)):
        hits: list[str] = [hit.path for hit in expand(given.absolute)]
        if not hits:
            raise click.BadParameter(f"{path}: no path matches")
        if given.local is not None and not given.local.is_absolute():
            hits = [os.path.relpath(hit) for hit in hits]
        return [store for hit in hits for store in _stores_in(hit)]
    return list(_stores_in(path))


def _stores_in(path: str) -> Iterator[str]:
    """Yield the stores in a local folder that is none itself, else the path."""
    if os.path.isdir(path) and not _is_store(path):  # noqa: PTH112
        with os.scandir(path) as entries:
            inner = sorted(entry.path for entry in entries if entry.is_dir())
        stores = [each for each in inner if _is_store(each)]
        if stores:
            yield from stores
            return
    yield path


def _is_store(path: str) -> bool:
    """Return whether a directory has a folder of a store; DLedger's own has one of such a name."""
    from rmqindex.folders import (  # noqa: PLC0415  (help needs none)
        COMMITLOG_FOLDER,
        DLEDGER_PREFIX,
        INDEX_FOLDER,
        QUEUE_FOLDER,
    )

    if os.path.basename(os.path.abspath(path)).startswith(DLEDGER_PREFIX):  # noqa: PTH100, PTH119
        return False
    with os.scandir(path) as entries:
        return any(
            entry.is_dir()
            and (
                entry.name in (COMMITLOG_FOLDER, INDEX_FOLDER, QUEUE_FOLDER)
                or entry.name.startswith(DLEDGER_PREFIX)
            )
            for entry in entries
        )
