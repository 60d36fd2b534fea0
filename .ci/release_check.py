"""Check that the tree can be released: ``make release-check``.

One line a check: ``ok``, or ``FAIL`` with what was found and what to do.
docs/project/releasing.md has the steps that no program can check.
"""

from __future__ import annotations

import ast
import datetime as dt
import json
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from typing import TYPE_CHECKING, Any

from check_dist import ROOT, sdist_problems, wheel_problems

if TYPE_CHECKING:
    from collections.abc import Callable
    from email.message import Message
    from pathlib import Path

_LICENCE = "Apache-2.0"
# What an index shows beside the package (packaging.python.org, well-known labels).
_URLS = ("Homepage", "Source", "Documentation", "Changelog", "Issues")
# Names that nobody owns (RFC 2606, RFC 6761), and what stands where a name belongs.
_PLACEHOLDER = re.compile(
    r"example\.(com|org|net)|\.(example|invalid|test|localhost)\b|localhost|127\.0\.0\.1|[<>{}]"
    r"|\b(owner|organi[sz]ation|user|username|your-?\w*|todo|tbd|fixme|changeme|placeholder|x{3,})\b",
    re.IGNORECASE,
)
# What reading a file that is missing or malformed raises.
_UNREADABLE = (OSError, KeyError, SyntaxError, ValueError, tarfile.TarError, zipfile.BadZipFile)


class CheckError(Exception):
    """What is wrong, and what to do."""


def project(tree: Path) -> dict[str, Any]:
    """Return the table ``project`` of ``pyproject.toml``."""
    return tomllib.loads((tree / "pyproject.toml").read_text())["project"]


def version_of(tree: Path) -> str:
    """Return the version to release."""
    return str(project(tree)["version"])


def git(tree: Path, *arguments: str) -> list[str]:
    """Return the lines that a git command prints."""
    try:
        done = subprocess.run(
            ["git", "-C", str(tree), *arguments], capture_output=True, text=True, check=False
        )
    except FileNotFoundError as error:
        raise CheckError("there is no git on the PATH; install it") from error
    if done.returncode:
        raise CheckError(f"git {arguments[0]}: {done.stderr.strip()}; run this in a clone")
    return done.stdout.splitlines()


def built(tree: Path, pattern: str) -> Path:
    """Return the one distribution in ``dist`` that fits a pattern."""
    found = sorted((tree / "dist").glob(pattern))
    if len(found) != 1:
        names = [path.name for path in found]
        raise CheckError(f"dist: expected one {pattern}, got {names}; run make wheel")
    return found[0]


def metadata_of(wheel: Path) -> Message:
    """Return the fields of a wheel's METADATA."""
    with zipfile.ZipFile(wheel) as archive:
        names = [name for name in archive.namelist() if name.endswith(".dist-info/METADATA")]
        if len(names) != 1:
            raise CheckError(f"{wheel.name}: expected one METADATA, got {names}; run make wheel")
        return message_from_bytes(archive.read(names[0]))


def check_version(tree: Path) -> str:
    """Require a final version number."""
    version = version_of(tree)
    if not re.fullmatch(r"\d+\.\d+\.\d+", version):
        raise CheckError(f"pyproject.toml: version: expected X.Y.Z, got {version}; set it")
    return version


def sections_of(tree: Path) -> dict[str, str]:
    """Return the sections of the changelog by their titles, as they stand."""
    text = (tree / "docs/changelog.md").read_text()
    # A title, then what is below it, again and again.
    _, *parts = re.split(r"^## (.*)$", text, flags=re.MULTILINE)
    titles = [title.strip() for title in parts[::2]]
    return dict(zip(titles, parts[1::2], strict=True))


def notes(tree: Path) -> str:
    """Return what the changelog says of this version, for the page of the release."""
    for title, text in sections_of(tree).items():
        if title.startswith(f"{version_of(tree)} - "):
            return text.strip()
    raise CheckError(f"docs/changelog.md: there is no section of {version_of(tree)}; add it")


def check_changelog(tree: Path) -> str:
    """Require a dated section for this version at the top, and nothing left as unreleased."""
    version, sections = version_of(tree), sections_of(tree)
    if sections.pop("Unreleased", "").strip():
        raise CheckError(
            "docs/changelog.md: there are entries under Unreleased; "
            f"move them to '## {version} - YYYY-MM-DD'"
        )
    newest = next(iter(sections), "")
    found = re.fullmatch(rf"{re.escape(version)} - (\d{{4}}-\d\d-\d\d)", newest)
    if not found:
        raise CheckError(
            f"docs/changelog.md: expected '## {version} - YYYY-MM-DD' as the newest section, "
            f"got {newest!r}; add it"
        )
    try:
        date = dt.date.fromisoformat(found[1])
    except ValueError as error:
        raise CheckError(f"docs/changelog.md: {newest!r}: {error}; correct it") from error
    if date > dt.datetime.now(dt.UTC).date() + dt.timedelta(days=1):
        raise CheckError(f"docs/changelog.md: {newest!r} is in the future; correct the date")
    return newest


def check_site(tree: Path) -> str:
    """Require that the site shows the version of ``pyproject.toml``."""
    for statement in ast.parse((tree / "docs/conf.py").read_text()).body:
        match statement:
            case ast.Assign(targets=[ast.Name(id="release")], value=ast.Constant(value=shown)):
                if shown != version_of(tree):
                    raise CheckError(
                        f"docs/conf.py: release: expected {version_of(tree)}, got {shown}; "
                        "take it from pyproject.toml"
                    )
                return f"release is {shown}"
            case ast.Assign(targets=[ast.Name(id="release")], value=value):
                if "pyproject.toml" in ast.unparse(value):
                    return "release comes from pyproject.toml"
    raise CheckError("docs/conf.py: no release is set; take it from pyproject.toml")


def check_pages(tree: Path) -> str:
    """Require that no page names another version of the package to install."""
    folders = (tree / "docs", *(tree / "docs" / part for part in ("use", "reference", "project")))
    pages = [tree / "README.md", *(page for folder in folders for page in folder.glob("*.md"))]
    named = re.compile(r"rmqindex(?:\[[\w,]*\])?(?:==|~=|>=|-)(\d+(?:\.\d+)+)")
    for page in pages:
        if page == tree / "docs/changelog.md":
            continue
        for found in named.finditer(page.read_text()):
            if found[1] != version_of(tree):
                raise CheckError(
                    f"{page.relative_to(tree)}: {found[0]!r} is not version {version_of(tree)}; "
                    "correct it"
                )
    return f"{len(pages)} pages name no other version"


def check_licence(tree: Path) -> str:
    """Require one licence: an SPDX expression, its text, and no classifier that repeats it."""
    told = project(tree)
    if told.get("license") != _LICENCE:
        raise CheckError(
            f"pyproject.toml: license: expected {_LICENCE}, got {told.get('license')}; set it"
        )
    repeated = [text for text in told["classifiers"] if text.startswith("License ::")]
    if repeated:
        raise CheckError(
            f"pyproject.toml: classifiers: {repeated[0]!r} is deprecated beside license; remove it"
        )
    text = tree / "LICENSE"
    if not text.is_file() or "Apache License" not in text.read_text():
        raise CheckError("LICENSE: expected the text of the Apache License; restore it")
    return _LICENCE


def check_urls(tree: Path) -> str:
    """Require the addresses that an index shows, and none that only stands for one."""
    urls = project(tree).get("urls", {})
    for label in _URLS:
        if label not in urls:
            raise CheckError(
                f"pyproject.toml: project.urls: {label} is missing; set it to where it will be"
            )
    for label, url in urls.items():
        if not re.fullmatch(r"https://[^\s/]+\.[^\s/]+(/\S*)?", url):
            raise CheckError(
                f"pyproject.toml: project.urls: {label}: expected https://.., got {url!r}"
            )
        if found := _PLACEHOLDER.search(url):
            raise CheckError(
                f"pyproject.toml: project.urls: {label}: {url!r} is a placeholder "
                f"({found[0]!r}); set the real address"
            )
    cited = re.search(
        r"^repository-code: *\"?([^\s\"]+)", (tree / "CITATION.cff").read_text(), re.MULTILINE
    )
    if not cited or cited[1] != urls["Source"]:
        raise CheckError(
            f"CITATION.cff: repository-code: expected {urls['Source']}, "
            f"got {cited[1] if cited else None}; make them equal"
        )
    return f"{len(urls)} addresses, of {urls['Source']}"


def check_readme(tree: Path) -> str:
    """Require a description in the wheel whose links lead somewhere from an index."""
    readme = (tree / "README.md").read_text()
    if "No version is published" in readme:
        raise CheckError("README.md: it says that no version is published; remove that")
    wheel = built(tree, "*.whl")
    text = str(metadata_of(wheel).get_payload())
    if found := re.search(r"\]\((?!https?:)([^)]+)\)", text):
        raise CheckError(
            f"{wheel.name}: the description links to {found[1]!r}, which is not beside it; "
            "run make wheel"
        )
    return "the description links to addresses alone"


def check_promises(tree: Path) -> str:
    """Require of a version from 1.0.0 on what such a version promises."""
    version = version_of(tree)
    if version.startswith("0."):
        return f"{version} promises nothing yet"
    page = tree / "docs/project/promises.md"
    if f"rmqindex {version.split('.')[0]}." not in page.read_text():
        raise CheckError(
            f"docs/project/promises.md: it does not name rmqindex {version.split('.')[0]}.x; "
            "say until when it is supported"
        )
    kept = tree / "tests/data/releases" / version
    if not kept.is_dir():
        raise CheckError(
            f"tests/data/releases: there is nothing of {version}, which later versions must read; "
            f"run python tests/connector/stream/test_kept_releases.py {version}"
        )
    if "Development Status :: 5 - Production/Stable" not in project(tree)["classifiers"]:
        raise CheckError("pyproject.toml: classifiers: expected 5 - Production/Stable; set it")
    return f"{version}: its promises, and what it wrote, are kept"


def check_spec(tree: Path) -> str:
    """Require one version of the specification: front matter, table and change log."""
    index = (tree / "spec/index.md").read_text()
    changes = (tree / "spec/changelog.md").read_text()
    patterns = {
        "front matter of spec/index.md": (r"^version: (\S+)$", index),
        "table of spec/index.md": (r"^\| Version \| (\S+) \|$", index),
        "newest section of spec/changelog.md": (r"^## (\S+)", changes),
    }
    found = {
        place: match[1] if (match := re.search(pattern, text, re.MULTILINE)) else None
        for place, (pattern, text) in patterns.items()
    }
    if None in found.values() or len(set(found.values())) > 1:
        told = ", ".join(f"{place}: {version}" for place, version in found.items())
        raise CheckError(f"the specification's version differs ({told}); make them equal")
    return str(next(iter(found.values())))


def check_benchmarks(tree: Path) -> str:
    """Require that the figures of the benchmark page were measured with this version."""
    results = json.loads((tree / "docs/benchmarks/results.json").read_text())
    measured = results["machine"]["rmqindex"]
    if measured != version_of(tree):
        raise CheckError(
            f"docs/benchmarks/results.json: expected version {version_of(tree)}, got {measured}; "
            "run make bench"
        )
    return f"measured with {measured}"


def check_wheel(tree: Path) -> str:
    """Require the packages, their type markers and the licence in the wheel, and nothing else."""
    wheel = built(tree, "*.whl")
    problems = wheel_problems(wheel, tree)
    if problems:
        raise CheckError(f"{wheel.name}: {'; '.join(problems)}; run make wheel")
    return f"{wheel.name} holds the packages and nothing else"


def check_metadata(tree: Path) -> str:
    """Require this version, this licence and this Python in the wheel's metadata."""
    wheel = built(tree, "*.whl")
    metadata = metadata_of(wheel)
    expected = {
        "Version": version_of(tree),
        "License-Expression": _LICENCE,
        "License-File": "LICENSE",
        "Requires-Python": project(tree)["requires-python"],
    }
    for field, value in expected.items():
        if metadata[field] != value:
            raise CheckError(
                f"{wheel.name}: {field}: expected {value}, got {metadata[field]}; run make wheel"
            )
    return ", ".join(f"{field} {value}" for field, value in expected.items())


def check_sdist(tree: Path) -> str:
    """Require what the tests and the documents need in the source distribution."""
    sdist = built(tree, "*.tar.gz")
    expected = f"rmqindex-{version_of(tree)}.tar.gz"
    if sdist.name != expected:
        raise CheckError(f"dist: expected {expected}, got {sdist.name}; run make wheel")
    problems = sdist_problems(sdist, tree)
    if problems:
        raise CheckError(f"{sdist.name}: {'; '.join(problems)}; run make wheel")
    return f"{sdist.name} is complete"


def check_tree(tree: Path) -> str:
    """Require that everything is committed."""
    changed = git(tree, "status", "--porcelain")
    if changed:
        raise CheckError(f"{len(changed)} paths differ from the commit ({changed[0]}); commit them")
    return "everything is committed"


def check_tag(tree: Path) -> str:
    """Require that the version was not released before."""
    tag = f"v{version_of(tree)}"
    if git(tree, "tag", "--list", tag):
        raise CheckError(f"the tag {tag} is there; set the next version in pyproject.toml")
    return f"{tag} is free"


CHECKS: dict[str, Callable[[Path], str]] = {
    "version": check_version,
    "changelog": check_changelog,
    "site": check_site,
    "pages": check_pages,
    "licence": check_licence,
    "urls": check_urls,
    "promises": check_promises,
    "specification": check_spec,
    "benchmarks": check_benchmarks,
    "wheel": check_wheel,
    "metadata": check_metadata,
    "readme": check_readme,
    "sdist": check_sdist,
    "tree": check_tree,
    "tag": check_tag,
}


def main(tree: Path) -> int:
    """Print the outcome of each check of ``tree``; return 0 if it can be released, 1 if not."""
    failed = 0
    for name, check in CHECKS.items():
        try:
            line = f"ok    {name}: {check(tree)}"
        except CheckError as problem:
            line = f"FAIL  {name}: {problem}"
        except _UNREADABLE as error:
            line = f"FAIL  {name}: {type(error).__name__}: {error}; restore the file"
        failed += line.startswith("FAIL")
        print(line)
    print(f"{failed} of {len(CHECKS)} checks failed." if failed else "Ready to be released.")
    return int(failed > 0)


if __name__ == "__main__":
    if sys.argv[1:] == ["--notes"]:
        print(notes(ROOT))
        sys.exit()
    sys.exit(main(ROOT))
