"""What a cluster has: a Python with NumPy, PyArrow and pandas, and the package as one file."""

from __future__ import annotations

import re
import sys
import venv
import zipfile
from importlib.metadata import distribution
from pathlib import Path

__all__ = ["make_bare_python", "make_zip"]

ROOT = Path(__file__).resolve().parents[3]
_NEEDED = ("numpy", "pyarrow", "pandas")


def make_bare_python(directory: Path) -> Path:
    """Make a Python that has NumPy, PyArrow and pandas, and nothing of ours.

    Args:
        directory: Where the environment is made; its packages are links to those that run this.

    Returns:
        Its interpreter.
    """
    venv.create(directory, symlinks=True)
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    site = directory / "lib" / version / "site-packages"
    wanted, known = list(_NEEDED), set()
    while wanted:
        name = wanted.pop()
        if name in known:
            continue
        known.add(name)
        found = distribution(name)
        tops = {path.parts[0] for path in found.files or () if path.parts[0] != ".."}
        for top in tops - {"__pycache__"}:
            link = site / top
            if not link.exists():
                link.symlink_to(found.locate_file(top))
        wanted += [
            match[0]
            for text in found.requires or ()
            if "extra ==" not in text and (match := re.match(r"[\w.-]+", text))
        ]
    return directory / "bin" / "python"


def make_zip(target: Path) -> Path:
    """Pack the packages as the wheel does, for ``--py-files``.

    Args:
        target: The file to write.

    Returns:
        It.
    """
    with zipfile.ZipFile(target, "w") as packed:
        for source in (ROOT / "format", ROOT / "connector"):
            for path in sorted(source.rglob("*.py")):
                packed.write(path, path.relative_to(source))
    return target
