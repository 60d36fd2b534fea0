"""Folders as dictionaries, to compare them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def files_of(root: Path, *folders: str) -> dict[str, bytes]:
    """Return the bytes of all files below a folder, or below some of its own, by their paths."""
    return {
        path.relative_to(root).as_posix(): path.read_bytes()
        for folder in folders or (".",)
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }


def queue_files(store: Path) -> dict[str, bytes]:
    """Return the bytes of every file of a store's ConsumeQueues."""
    return files_of(store, "consumequeue", "batchconsumequeue")
