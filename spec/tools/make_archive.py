"""Build the archive of the vectors, and the kit as one file: ``python make_archive.py FOLDER``.

Both have the same bytes wherever and whenever they are built; ``spec/kit/vectors.sha256`` pins
those of the archive, and is written anew with ``--pin``.
"""

from __future__ import annotations

import argparse
import io
import re
import sys
import zipapp
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent
sys.path[:0] = [str(HERE), str(SPEC)]

import spectext  # noqa: E402
from exchanges import exchanges  # noqa: E402
from kit.archive import write_archive, write_zip  # noqa: E402

#: The version of the vectors: a vector added raises the second number, one mended the third.
VERSION = "1.1.0"
NAME = f"rocketmq-index-vectors-{VERSION}.zip"
PIN = SPEC / "kit" / "vectors.sha256"
_LICENCE = "Apache-2.0"


def contents() -> dict[str, bytes]:
    """Return the files of the archive, by their paths in it."""
    root = spectext.VECTORS
    files = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
    files |= exchanges()
    files["LICENSE"] = (SPEC.parent / "LICENSE").read_bytes()
    return files


def build(folder: Path) -> tuple[Path, str]:
    """Write the archive into a folder; return its path and its SHA-256."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (SPEC / "index.md").read_text(encoding="utf-8")
    front = re.search(r"^version: (.+)$", text, re.MULTILINE)
    assert front
    later = spectext.since()
    about = {
        "version": VERSION,
        "licence": _LICENCE,
        "specification": front[1],
        "requirements": [
            {"name": each.name, "page": each.page.stem, "text": each.text}
            | ({"since": later[each.name]} if each.name in later else {})
            for each in spectext.requirements()
        ],
    }
    path = folder / NAME
    return path, write_archive(path, about, contents())


def build_kit(folder: Path) -> Path:
    """Write the kit into a folder as one file that Python runs."""
    path = folder / "rocketmq-index-kit.pyz"
    files = {f"kit/{module.name}": module.read_bytes() for module in (SPEC / "kit").glob("*.py")}
    files["__main__.py"] = (
        b"import sys\nfrom kit.command import main\nsys.exit(main(sys.argv[1:]))\n"
    )
    with io.BytesIO() as packed:
        write_zip(packed, sorted(files.items()))
        packed.seek(0)
        zipapp.create_archive(packed, path, "/usr/bin/env python3")
    return path


def main(arguments: list[str]) -> int:
    """Build both, and compare the archive with its pin."""
    parser = argparse.ArgumentParser(description="Build the archive of the vectors and the kit.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/vectors"))
    parser.add_argument("--pin", action="store_true", help="write the archive's checksum")
    given = parser.parse_args(arguments)
    folder: Path = given.folder
    path, digest = build(folder)
    line = f"{digest}  {path.name}\n"
    (folder / f"{path.name}.sha256").write_text(line)
    print(f"{path}\n{build_kit(folder)}\n{digest}")
    if given.pin:
        PIN.write_text(line)
    if PIN.read_text() != line:
        print(f"{PIN}: expected {PIN.read_text().split()[0]}; write it anew with --pin")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
