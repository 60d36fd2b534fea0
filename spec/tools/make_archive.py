"""Build the archive of the vectors, and the kit that carries it: ``python make_archive.py FOLDER``.

Archive and wheel have the same bytes wherever and whenever they are built; the page "Conformance
kit" has their SHA-256, and ``--pin`` writes it anew.
"""

from __future__ import annotations

import argparse
import hashlib
import re
import runpy
import shutil
import sys
import tempfile
import tomllib
from pathlib import Path

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent
KIT = SPEC / "kit"
sys.path[:0] = [str(HERE), str(KIT)]

import spectext  # noqa: E402
from exchanges import exchanges  # noqa: E402
from rmq_index_conformance.archive import write_archive  # noqa: E402

VERSION = tomllib.loads((KIT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
NAME = f"rocketmq-index-vectors-{VERSION}.zip"
PAGE = SPEC / "conformance-kit.md"
LICENCE = SPEC.parent / "LICENSE"


def contents() -> dict[str, bytes]:
    """Return the files of the archive, by their paths in it."""
    root = spectext.VECTORS
    files = {
        path.relative_to(root).as_posix(): path.read_bytes()
        for path in root.rglob("*")
        if path.is_file()
    }
    files |= exchanges()
    files["LICENSE"] = LICENCE.read_bytes()
    return files


def build(folder: Path) -> Path:
    """Write the archive into a folder; return its path."""
    folder.mkdir(parents=True, exist_ok=True)
    text = (SPEC / "index.md").read_text(encoding="utf-8")
    front = re.search(r"^version: (.+)$", text, re.MULTILINE)
    assert front
    later = spectext.since()
    about = {
        "version": VERSION,
        "licence": "Apache-2.0",
        "specification": front[1],
        "requirements": [
            {"name": each.name, "page": each.page.stem, "text": each.text}
            | ({"since": later[each.name]} if each.name in later else {})
            for each in spectext.requirements()
        ],
    }
    path = folder / NAME
    write_archive(path, about, contents())
    return path


def build_kit(vectors: Path) -> list[Path]:
    """Build the kit beside the archive of the vectors.

    Returns:
        The wheel, and the source distribution that builds it.
    """
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder, "kit")
        left_out = shutil.ignore_patterns("adapters", "*.json", "__pycache__")
        shutil.copytree(KIT, root, ignore=left_out)
        shutil.copy(LICENCE, root)
        shutil.copy(vectors, root / "rmq_index_conformance" / "vectors.zip")
        backend = runpy.run_path(str(root / "backend.py"))
        target = vectors.parent
        return [target / backend[f"build_{each}"](str(target)) for each in ("wheel", "sdist")]


def pinned(text: str, files: list[Path]) -> str:
    """Return the page with the SHA-256 of files that it lists.

    Raises:
        ValueError: It does not list one of them.
    """
    for path in files:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        line = rf"^\w{{64}}(?=  {re.escape(path.name)}$)"
        text, count = re.subn(line, digest, text, flags=re.MULTILINE)
        if count != 1:
            raise ValueError(f"{PAGE}: expected a line with the SHA-256 of {path.name}")
    return text


def main(arguments: list[str]) -> int:
    """Build all, and compare archive and wheel with the page."""
    parser = argparse.ArgumentParser(description="Build the archive of the vectors and the kit.")
    parser.add_argument("folder", nargs="?", type=Path, default=Path("build/vectors"))
    parser.add_argument("--pin", action="store_true", help="write the SHA-256 into the page")
    given = parser.parse_args(arguments)
    vectors = build(given.folder)
    wheel, source = build_kit(vectors)
    print(vectors, wheel, source, sep="\n")
    text = PAGE.read_text(encoding="utf-8")
    told = pinned(text, [vectors, wheel])
    if given.pin:
        PAGE.write_text(told, encoding="utf-8")
    elif told != text:
        print(f"{PAGE}: the SHA-256 are of other files; write them anew with --pin")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
