"""Builds the package (PEP 517) with the standard library alone, the same wheel anywhere."""

from __future__ import annotations

import base64
import gzip
import hashlib
import tarfile
import tomllib
from io import BytesIO
from pathlib import Path
from typing import Any

from rmq_index_conformance.archive import write_zip

_ROOT = Path(__file__).resolve().parent
_PACKAGE = "rmq_index_conformance"
_LEFT_OUT = {"__pycache__", "build", "dist"}


def build_wheel(
    wheel_directory: str,
    config_settings: object = None,
    metadata_directory: object = None,
) -> str:
    """Write the wheel into a directory and return its name."""
    del config_settings, metadata_directory
    project = _project()
    stem = f"{_PACKAGE}-{project['version']}"
    about = f"{stem}.dist-info"
    scripts = "".join(f"{name} = {target}\n" for name, target in project["scripts"].items())
    tag = "py3-none-any"
    told = f"Wheel-Version: 1.0\nGenerator: backend\nRoot-Is-Purelib: true\nTag: {tag}\n"
    files = _files(_ROOT / _PACKAGE)
    files |= {
        f"{about}/METADATA": _metadata(project),
        f"{about}/WHEEL": told.encode(),
        f"{about}/entry_points.txt": f"[console_scripts]\n{scripts}".encode(),
        f"{about}/licenses/LICENSE": (_ROOT / "LICENSE").read_bytes(),
    }
    rows = [f"{name},sha256={_digest(data)},{len(data)}\n" for name, data in sorted(files.items())]
    record = f"{about}/RECORD"
    path = Path(wheel_directory) / f"{stem}-{tag}.whl"
    told = "".join([*rows, f"{record},,\n"])
    write_zip(path, [*sorted(files.items()), (record, told.encode())])
    return path.name


def build_sdist(sdist_directory: str, config_settings: object = None) -> str:
    """Write the source distribution, with all that lies beside this file; return its name."""
    del config_settings
    project = _project()
    stem = f"{_PACKAGE}-{project['version']}"
    files = {**_files(_ROOT), "PKG-INFO": _metadata(project)}
    path = Path(sdist_directory) / f"{stem}.tar.gz"
    with (
        path.open("wb") as raw,
        gzip.GzipFile("", "wb", fileobj=raw, mtime=0) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive,
    ):
        for name, data in sorted(files.items()):
            entry = tarfile.TarInfo(f"{stem}/{name}")
            entry.size = len(data)
            archive.addfile(entry, BytesIO(data))
    return path.name


def _project() -> dict[str, Any]:
    return dict(tomllib.loads((_ROOT / "pyproject.toml").read_text("utf-8"))["project"])


def _files(folder: Path) -> dict[str, bytes]:
    """Return the files below a folder by their paths from the root."""
    return {
        path.relative_to(_ROOT).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and not _LEFT_OUT & set(path.relative_to(_ROOT).parts)
    }


def _metadata(project: dict[str, Any]) -> bytes:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {project['name']}",
        f"Version: {project['version']}",
        f"Summary: {project['description']}",
        f"Author: {project['authors'][0]['name']}",
        f"License-Expression: {project['license']}",
        "License-File: LICENSE",
        f"Requires-Python: {project['requires-python']}",
        "Description-Content-Type: text/markdown",
        "",
        (_ROOT / project["readme"]).read_text("utf-8"),
    ]
    return "\n".join(lines).encode("utf-8")


def _digest(data: bytes) -> str:
    return base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode("ascii")
