"""What the indexes of a read lack of their CommitLogs, and the stores of the topics asked for."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from pyspark_rmqindex.files.stores import find_log
from pyspark_rmqindex.log_lines import log_warning
from rmqindex import CommitLog, RmqIndexError
from rmqindex.explanation import topic_hints, uncovered_in
from rmqindex.store import Store, has_pattern, root_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark_rmqindex.files.slices import FileSlice
    from pyspark_rmqindex.options import ReadOptions
    from rmqindex.storage import Location


def lacking(files: Iterable[FileSlice], options: ReadOptions) -> tuple[str, ...]:
    """Return a sentence for each part of a CommitLog whose messages an index lacks.

    Nothing is said of an index of which one file was chosen by its name, nor without a CommitLog.
    """
    if options.commit_log is None:
        return ()
    texts: list[str] = []
    for folder in _folders(files, options):
        path = find_log(folder.child("file"), options.commit_log)
        if path is not None:
            with CommitLog(path) as log:
                parts = uncovered_in(folder, log, options.layout)
                texts += [part.text() for part in parts]
    return tuple(texts)


def warn_of_topics(
    files: Iterable[FileSlice], pairs: Iterable[tuple[str, str]], options: ReadOptions
) -> None:
    """Warn of topics that the stores do not have, such as a key in the topic's place."""
    roots = {root_of(file.name_path.parent) for file in files}
    paths = [str(path) for path in options.paths]
    with suppress(RmqIndexError):  # nothing but this asks for the queues
        for text in topic_hints(roots, pairs):
            log_warning(f"{paths[0] if len(paths) == 1 else paths}: {text}")


def _folders(files: Iterable[FileSlice], options: ReadOptions) -> Iterable[Location]:
    """Return the index directories of a read, those without entries too."""
    folders = dict.fromkeys(file.name_path.parent for file in files)
    for path in options.paths:
        if has_pattern(path):
            continue
        with suppress(RmqIndexError):  # a missing path, which the options may allow
            store = Store.open(path.absolute)
            if store.file is not None:
                folders.pop(store.index, None)
            else:
                folders.setdefault(store.index)
    return folders
