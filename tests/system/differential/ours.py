"""One opening of a file or a directory, run by rmqindex.

Operations are lists that begin with a letter, and give one answer each.
Of a file: ``p`` key, offset, time: put; ``q`` key, most, begin, end: select; ``m`` begin, end: is
the time matched; ``b``: flush, and the bytes.
Of a directory: ``p`` topic, unique key, keys, tags, flags, offset, time: index a message; ``q``
topic, key, type, most, begin, end: query; ``e`` offset: expire; ``d``: destroy all files; ``b``:
flush, and the bytes.
"""

from __future__ import annotations

from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from rmqindex import CorruptIndexError, IndexDirectory, IndexFile, IndexFileWriter, Layout

# The answer where the broker would search forever; it is not asked.
HANGS = "hangs"


def run_file(path: Path, layout: Layout, segment: dict[str, Any]) -> list[Any]:
    """Run an opening of a file; the last answer is its bytes after closing."""
    if "damage" in segment:
        return [*_questions(path, layout, segment["operations"]), None]
    answers: list[Any] = []
    with IndexFileWriter(path, layout, *segment["previous"]) as writer:
        for kind, *operation in segment["operations"]:
            if kind == "p":
                is_put = writer.put(*operation)
                answers.append([is_put, *_header(writer)])
            else:
                writer.flush()
                if kind == "b":
                    answers.append(path.read_bytes().hex())
                else:
                    answers += _questions(path, layout, [[kind, *operation]])
    answers.append(path.read_bytes().hex())
    return answers


def _header(writer: IndexFileWriter) -> list[Any]:
    header = writer.header
    return [
        header.begin_timestamp,
        header.end_timestamp,
        header.begin_phy_offset,
        header.end_phy_offset,
        header.hash_slot_count,
        header.index_count,
        writer.is_write_full,
    ]


def _questions(path: Path, layout: Layout, operations: list[list[Any]]) -> list[Any]:
    answers: list[Any] = []
    with IndexFile(path, layout, mode="DROPMALFORMED") as file:
        for kind, *operation in operations:
            if kind == "m":
                answers.append(file.is_time_matched(*operation))
                continue
            try:
                answers.append(file.select_phy_offset(*operation))
            except CorruptIndexError:
                answers.append(HANGS)
    return answers


class _Killed(Exception):  # noqa: N818  (nothing went wrong)
    """Ends a process that does not shut down."""


@contextmanager
def _killed():
    with suppress(_Killed):
        yield


def run_service(
    root: Path, layout: Layout, segment: dict[str, Any], *, has_tags: bool
) -> list[Any]:
    """Run an opening of a directory.

    Args:
        root: The store root.
        layout: The geometry of its files.
        segment: The opening.
        has_tags: Whether the broker is one that indexes tags.

    Returns:
        The answer of loading, one an operation, and the files and the checkpoint at the end.
    """

    def load(*, last_exit_ok: bool) -> IndexDirectory:
        return IndexDirectory(
            root / "index",
            layout,
            writable=True,
            last_exit_ok=last_exit_ok,
            max_msgs_num_batch=segment["max_msgs_num_batch"],
        )

    index = load(last_exit_ok=segment["last_exit_ok"])
    answers: list[Any] = [[index.load_result, len(index.files)]]
    for kind, *operation in segment["operations"]:
        if kind == "p":
            topic, uniq_key, keys, tags, *rest = operation
            index.build_index(topic, uniq_key, keys, *rest, tags if has_tags else None)
            answers.append(len(index.files))
        elif kind == "q":
            topic, key, index_type, *rest = operation
            found = index.query_offset(topic, key, *rest, index_type if has_tags else None)
            answers.append(
                [
                    list(found.phy_offsets),
                    found.index_last_update_timestamp,
                    found.index_last_update_phy_offset,
                ]
            )
        elif kind == "e":
            index.delete_expired(*operation)
            answers.append(len(index.files))
        elif kind == "d":
            paths = [Path(file.path) for file in index.files]
            index.close()
            for path in paths:
                path.unlink()
            index = load(last_exit_ok=True)
            answers.append(0)
        else:
            answers.append(_snapshot(index))
    answers.append(_snapshot(index))
    with _killed(), index:
        if not segment["is_clean"]:
            raise _Killed
    return answers


def _snapshot(index: IndexDirectory) -> list[Any]:
    index.flush()
    contents = [Path(file.path).read_bytes().hex() for file in index.files]
    return [contents, index.index_msg_timestamp]
