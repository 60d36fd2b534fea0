"""The archive of the vectors: how it is written, and how it is read and verified."""

from __future__ import annotations

import hashlib
import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.resources.abc import Traversable

MANIFEST = "manifest.json"
FORMAT = "rocketmq-index-vectors/1"
# Any time would do; it must be the same each time.
_TIME = (2020, 1, 1, 0, 0, 0)
_MODE = 0o100644 << 16
_MAX_BYTES = 1 << 28


class ArchiveError(Exception):
    """The archive is not what its manifest says; the message names the file."""


@dataclass(frozen=True)
class Vector:
    """One vector: its JSON, and the bytes of its files by their names.

    Attributes:
        name: Its group and its name.
        fields: Its JSON.
        data: The bytes of ``<name>.bin``, if there is one.
        files: The bytes of the files of its directory.
    """

    name: str
    fields: dict[str, Any]
    data: bytes | None
    files: dict[str, bytes]


@dataclass(frozen=True)
class Archive:
    """Verified vectors.

    Attributes:
        manifest: What the archive says of itself: version, licence, requirements, files.
        digest: The SHA-256 of the manifest, which names every file's.
        vectors: The vectors, in the order of their names.
        exchanges: Requests with the answers they must get, by the names of their files.
    """

    manifest: dict[str, Any]
    digest: str
    vectors: list[Vector]
    exchanges: dict[str, dict[str, Any]]


def write_archive(path: Path, about: dict[str, Any], files: dict[str, bytes]) -> None:
    """Write the same bytes for the same files, whatever the machine and the day.

    Args:
        path: Where to write.
        about: What the manifest shall say beside the files.
        files: The files by their paths within the archive.
    """
    listed = {
        name: {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
        for name, data in sorted(files.items())
    }
    manifest = json.dumps({"format": FORMAT, **about, "files": listed}, indent=1) + "\n"
    write_zip(path, [(MANIFEST, manifest.encode("ascii")), *sorted(files.items())])


def write_zip(path: Path, files: Iterable[tuple[str, bytes]]) -> None:
    """Write files in their order, whatever the machine, the day and their permissions."""
    # Stored, not compressed: other versions of zlib compress to other bytes.
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, data in files:
            entry = zipfile.ZipInfo(name, _TIME)
            entry.external_attr = _MODE
            entry.create_system = 3
            archive.writestr(entry, data)


def read_archive(path: Path | Traversable) -> Archive:
    """Read an archive, or the folder that one was unpacked to, and verify every file.

    Raises:
        ArchiveError: A file is missing, too many, or has other bytes; or this is no archive.
    """
    files = _files_of(path)
    if MANIFEST not in files:
        raise ArchiveError(f"{path}: expected {MANIFEST} in it; build it with 'make vectors'")
    try:
        manifest = json.loads(files[MANIFEST])
        listed = {name: str(file["sha256"]) for name, file in manifest["files"].items()}
        known = manifest["format"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ArchiveError(f"{path}: {MANIFEST}: expected a manifest, got {error!r}") from error
    if known != FORMAT:
        raise ArchiveError(f"{path}: {MANIFEST}: format: expected {FORMAT}, got {known}")
    for name in sorted({*listed, *files} - {MANIFEST}):
        if name not in files:
            raise ArchiveError(f"{path}: {name}: expected this file, which the manifest lists")
        found = hashlib.sha256(files[name]).hexdigest()
        if listed.get(name) != found:
            wanted = listed.get(name, "a file that the manifest lists")
            raise ArchiveError(f"{path}: {name}: sha256: expected {wanted}, got {found}")
    return Archive(
        manifest,
        hashlib.sha256(files[MANIFEST]).hexdigest(),
        [
            _vector(name, files)
            for name in sorted(files)
            if name.endswith(".json") and name.startswith(("accept/", "reject/"))
        ],
        {
            name: json.loads(data)
            for name, data in sorted(files.items())
            if name.startswith("exchanges/")
        },
    )


def _vector(name: str, files: dict[str, bytes]) -> Vector:
    stem = name.removesuffix(".json")
    inside = {
        path.removeprefix(f"{stem}/"): data
        for path, data in files.items()
        if path.startswith(f"{stem}/")
    }
    return Vector(stem, json.loads(files[name]), files.get(f"{stem}.bin"), inside)


def _files_of(path: Path | Traversable) -> dict[str, bytes]:
    if isinstance(path, Path) and path.is_dir():
        return {
            file.relative_to(path).as_posix(): file.read_bytes()
            for file in path.rglob("*")
            if file.is_file()
        }
    try:
        with path.open("rb") as opened, zipfile.ZipFile(opened) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MAX_BYTES:
                raise ArchiveError(f"{path}: expected at most {_MAX_BYTES} bytes in it")
            return {name: archive.read(name) for name in archive.namelist() if name[-1] != "/"}
    except (OSError, zipfile.BadZipFile) as error:
        raise ArchiveError(f"{path}: expected an archive of vectors, got: {error}") from error
