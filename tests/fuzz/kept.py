"""The inputs that are kept, one archive a target: ``corpus/<target>.zip``.

The same inputs give the same bytes of an archive: names are sorted, times fixed, nothing is packed.
"""

from __future__ import annotations

import hashlib
import zipfile
from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
#: What the names of inputs begin with that once failed; they are always kept.
FINDING = "finding"
# The earliest that an archive can say.
_TIME = (1980, 1, 1, 0, 0, 0)


def archive_of(target: str) -> Path:
    """Return the archive of a target, which need not be there."""
    return CORPUS / f"{target}.zip"


def name_of(data: bytes) -> str:
    """Return the name under which an input is kept."""
    return hashlib.sha256(data).hexdigest()[:16]


def inputs_of(target: str) -> dict[str, bytes]:
    """Return the kept inputs of a target by name."""
    if not archive_of(target).exists():
        return {}
    with zipfile.ZipFile(archive_of(target)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def keep(target: str, inputs: dict[str, bytes]) -> None:
    """Make the archive of a target anew."""
    CORPUS.mkdir(exist_ok=True)
    with zipfile.ZipFile(archive_of(target), "w", zipfile.ZIP_STORED) as archive:
        for name, data in sorted(inputs.items()):
            archive.writestr(zipfile.ZipInfo(name, _TIME), data)


def keep_finding(target: str, data: bytes) -> str:
    """Add an input that failed, and return its name."""
    name = f"{FINDING}-{name_of(data)}"
    keep(target, inputs_of(target) | {name: data})
    return name


def unpack(target: str, folder: Path) -> None:
    """Write the kept inputs of a target as files, as libFuzzer reads them."""
    for name, data in inputs_of(target).items():
        (folder / name).write_bytes(data)
