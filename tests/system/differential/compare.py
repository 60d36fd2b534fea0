"""One sequence on both sides, and where they differ."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rmqindex import Layout, StoreCheckpoint

from .ours import HANGS, run_file, run_service

if TYPE_CHECKING:
    from .broker import Broker

_FILE_NAME = "20240102030405678"
_CHECKPOINT_SIZE = 4096
# So many bytes a broker that died may not have brought to the disk.
_CUT = 30
_MEMORY = Path("/dev/shm")


def difference(sequence: dict[str, Any], broker: Broker) -> str | None:
    """Run a sequence on both sides.

    Each opening works on what the other side left at the one before.

    Args:
        sequence: What :func:`.sequences.make_sequence` makes.
        broker: The broker's side.

    Returns:
        Where the two differ first; None where they agree in every answer and every byte.
    """
    layout = Layout(*sequence["layout"])
    compare = _compare_file if sequence["kind"] == "file" else _compare_service
    folder = Path(tempfile.mkdtemp(dir=_MEMORY if _MEMORY.is_dir() else None))
    try:
        roots = [folder / "a", folder / "b"]
        for root in roots:
            root.mkdir()
            (root / "checkpoint").write_bytes(bytes(_CHECKPOINT_SIZE))
        for place, segment in enumerate(sequence["segments"]):
            found = compare(*roots, layout, segment, broker)
            if found is not None:
                return f"RocketMQ {broker.version}, opening {place}, {found}"
            roots.reverse()
    finally:
        shutil.rmtree(folder)
    return None


def _compare_file(
    mine: Path, its: Path, layout: Layout, segment: dict[str, Any], broker: Broker
) -> str | None:
    paths = [root / _FILE_NAME for root in (mine, its)]
    for path in paths:
        _damage(path, segment.get("damage", []))
    ours = run_file(paths[0], layout, segment)
    hanging = [place for place, answer in enumerate(ours) if answer == HANGS]
    theirs = broker.run_file(paths[1], layout, segment, hanging)
    return _first([*segment["operations"], ["closed"]], ours, theirs)


def _damage(path: Path, changes: list[list[int]]) -> None:
    if changes:
        data = bytearray(path.read_bytes())
        for place, value in changes:
            data[place % len(data)] = value
        path.write_bytes(data)


def _compare_service(
    mine: Path, its: Path, layout: Layout, segment: dict[str, Any], broker: Broker
) -> str | None:
    for root in (mine, its):
        checkpoint = root / "checkpoint"
        stamp = segment["index_msg_timestamp"]
        if stamp is not None:
            changed = replace(StoreCheckpoint.load(checkpoint), index_msg_timestamp=stamp)
            changed.save(checkpoint)
        if segment["is_cut"]:
            _cut(root / "index")
    ours = run_service(mine, layout, segment, has_tags=broker.has_tags)
    theirs = broker.run_service(its, layout, segment)
    found = _first([["load"], *segment["operations"], ["closed"]], ours, theirs)
    if found is None and _on_disk(mine) != _on_disk(its):
        found = _first([["files"], ["checkpoint"]], _on_disk(mine), _on_disk(its))
    return found


def _cut(directory: Path) -> None:
    paths = sorted(directory.iterdir()) if directory.is_dir() else []
    for path in paths[-1:]:
        data = path.read_bytes()
        path.write_bytes(data[:-_CUT])


def _on_disk(root: Path) -> list[Any]:
    """Return what is in a store; the files in their order, since their names are times."""
    directory = root / "index"
    paths = sorted(directory.iterdir()) if directory.is_dir() else []
    return [[path.read_bytes().hex() for path in paths], (root / "checkpoint").read_bytes().hex()]


def _first(operations: list[list[Any]], ours: list[Any], theirs: list[Any]) -> str | None:
    for place, (operation, mine, its) in enumerate(zip(operations, ours, theirs, strict=True)):
        if mine != its:
            return f"operation {place} {operation!r}:\n  ours   {mine!r}\n  theirs {its!r}"
    return None
