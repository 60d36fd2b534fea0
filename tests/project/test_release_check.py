"""``make release-check`` refuses to release what is not ready."""

from __future__ import annotations

import json
import os
import shutil
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / ".ci"))

import check_dist  # noqa: E402  (it lies outside of any package)
import release_check  # noqa: E402

VERSION = "4.5.6"
METADATA = (
    "Metadata-Version: 2.4\nName: rmqindex\nVersion: 4.5.6\nLicense-Expression: Apache-2.0\n"
    "License-File: LICENSE\nRequires-Python: >=3.11\nRequires-Dist: numpy>=1.26\n"
    "\nSee [the page](https://forge.dev/a/b/blob/v4.5.6/docs/page.md).\n"
)
BILL = {
    "metadata": {"component": {"version": VERSION}},
    "components": [{"name": "numpy", "type": "library"}, {"name": "store", "type": "data"}],
}
STABLE = "Development Status :: 5 - Production/Stable"
FILES = {
    "pyproject.toml": (
        '[project]\nname = "rmqindex"\nversion = "4.5.6"\nlicense = "Apache-2.0"\n'
        'requires-python = ">=3.11"\nclassifiers = ["Typing :: Typed", "'
        f'{STABLE}"]\n'
        "[project.urls]\n"
        + "".join(f'{label} = "https://forge.dev/a/b"\n' for label in release_check._URLS)
    ),
    "CITATION.cff": "repository-code: https://forge.dev/a/b\n",
    "docs/project/promises.md": "| rmqindex 4.x |\n",
    "tests/data/releases/4.5.6/index": "",
    "LICENSE": "Apache License\n",
    "Makefile": "all:\n",
    "README.md": "pip install rmqindex==4.5.6\n",
    ".ci/run": "",
    ".github/SECURITY.md": "",
    "docs/share/man/man1/rmqindex.1": "",
    "tests/test_it.py": "",
    "docs/changelog.md": (
        "# Changelog\n\n## Unreleased\n\n## 4.5.6 - 2023-11-14\n\n### Added\n\n- It.\n\n"
        "## 4.5.5 - 2023-11-13\n"
    ),
    "docs/conf.py": 'release = "4.5.6"\n',
    "docs/benchmarks/results.json": json.dumps({"machine": {"rmqindex": VERSION}}),
    "spec/index.md": "---\nversion: 1.0.0\n---\n\n| Version | 1.0.0 |\n",
    "spec/changelog.md": "# Change log\n\n## 1.0.0\n\nFirst.\n\n## 1.0.0-draft.1\n",
}


class Git:
    """A program on the PATH in the place of git, so that the tests need none."""

    def __init__(self, directory, monkeypatch):
        """Put it into a directory, as if the repository had no changes and no tags."""
        self.path = directory / "git"
        monkeypatch.setenv("PATH", str(directory), prepend=os.pathsep)
        self.answer()

    def answer(self, *, status="", tag="", code=0):
        """Answer ``git -C TREE status ..`` and ``git -C TREE tag ..`` from now on."""
        # A clean work tree without tags prints nothing.
        said = f"case $3 in status) printf '{status}';; tag) printf '{tag}';; esac"
        self.path.write_text(f"#!/bin/sh\n{said}\necho fatal >&2\nexit {code}\n")
        self.path.chmod(0o755)


def change(tree, name, old, new):
    """Replace a text in a file of the tree."""
    text = (tree / name).read_text()
    assert old in text
    (tree / name).write_text(text.replace(old, new))


def build(tree, metadata=METADATA, without="", also=(), bill=BILL):
    """Write both distributions; some files may be missing, and others be there as well."""
    dist = tree / "dist"
    shutil.rmtree(dist, ignore_errors=True)
    dist.mkdir()
    info = f"rmqindex-{VERSION}.dist-info"
    wheel = {
        **check_dist.package_files(tree),
        **{
            f"rmqindex-{VERSION}{check_dist.DATA}{name}": data
            for name, data in check_dist.shared_files(tree).items()
        },
        f"{info}/METADATA": metadata.encode(),
        f"{info}/licenses/LICENSE": b"Apache License\n",
        f"{info}/sboms/rmqindex.cdx.json": json.dumps(bill).encode(),
        **dict.fromkeys(also, b""),
    }
    with zipfile.ZipFile(dist / f"rmqindex-{VERSION}-py3-none-any.whl", "w") as archive:
        for name, data in wheel.items():
            if not (without and name.endswith(without)):
                archive.writestr(name, data)
    with tarfile.open(dist / f"rmqindex-{VERSION}.tar.gz", "w:gz") as archive:
        for path in tree.rglob("*"):
            name = path.relative_to(tree).as_posix()
            left_out = name.startswith("dist/") or (without and name.endswith(without))
            if path.is_file() and not left_out:
                archive.add(path, f"rmqindex-{VERSION}/{name}")


def outcome(tree, capsys):
    """Return the exit code, and the checks that failed with what was said."""
    code = release_check.main(tree)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == len(release_check.CHECKS) + 1
    failures = [line.removeprefix("FAIL").strip() for line in lines if line.startswith("FAIL")]
    return code, dict(failure.split(": ", 1) for failure in failures)


@pytest.fixture
def git(tmp_path, monkeypatch):
    """A repository without changes and without tags."""
    (tmp_path / "bin").mkdir()
    return Git(tmp_path / "bin", monkeypatch)


@pytest.fixture
def tree(tmp_path, git):  # noqa: ARG001
    """A tree of a small project that can be released."""
    tree = tmp_path / "tree"
    for name, text in FILES.items():
        (tree / name).parent.mkdir(parents=True, exist_ok=True)
        (tree / name).write_text(text)
    for package, home in check_dist.PACKAGES.items():
        (tree / home / package).mkdir(parents=True)
        (tree / home / package / "__init__.py").write_text("")
        (tree / home / package / "py.typed").write_text("")
    index = tree / "format" / "rmqindex" / "sample" / "store" / "index"
    index.mkdir(parents=True)
    for number in range(5):
        (index / f"2023111422132000{number}").write_bytes(b"")
    build(tree)
    return tree


def test_a_tree_that_is_ready_passes_every_check(tree, capsys):
    """Each line begins with ok, and the last one says that it can be released."""
    assert release_check.main(tree) == 0
    *lines, last = capsys.readouterr().out.splitlines()
    assert [line.split(": ")[0] for line in lines] == [
        f"ok    {name}" for name in release_check.CHECKS
    ]
    assert last == "Ready to be released."


@pytest.mark.parametrize(
    ("name", "old", "new", "check", "said"),
    [
        ("pyproject.toml", '"4.5.6"', '"4.5.6.dev1"', "version", "expected X.Y.Z, got 4.5.6.dev1"),
        ("docs/changelog.md", "Unreleased\n", "Unreleased\n\n- More.\n", "changelog",
         "entries under Unreleased; move them to '## 4.5.6 - YYYY-MM-DD'"),
        ("docs/changelog.md", "4.5.6 - 2023-11-14", "4.5.6", "changelog", "got '4.5.6'; add it"),
        ("docs/changelog.md", "4.5.6 - ", "4.5.4 - ", "changelog", "got '4.5.4 - 2023-11-14'"),
        ("docs/changelog.md", "2023-11-14", "2023-11-31", "changelog", "correct it"),
        ("docs/changelog.md", "2023-11-14", "9023-11-14", "changelog", "in the future"),
        ("docs/conf.py", "4.5.6", "4.5.5", "site", "expected 4.5.6, got 4.5.5"),
        ("docs/conf.py", "release", "html_title", "site", "no release is set"),
        ("README.md", "==4.5.6", "==4.5.5", "pages", "README.md: 'rmqindex==4.5.5'"),
        ("README.md", "==4.5.6", "[spark]==4.5", "pages", "README.md: 'rmqindex[spark]==4.5'"),
        ("pyproject.toml", "Apache-2.0", "MIT", "licence", "expected Apache-2.0, got MIT"),
        ("pyproject.toml", "Typing :: Typed", "License :: OSI Approved", "licence", "remove it"),
        ("LICENSE", "Apache License", "Some licence", "licence", "restore it"),
        ("spec/index.md", "version: 1.0.0", "version: 1.0.1", "specification", "make them equal"),
        ("spec/index.md", "| 1.0.0 |", "| 1.0.1 |", "specification", "make them equal"),
        ("spec/changelog.md", "## 1.0.0\n", "## Next\n", "specification", "make them equal"),
        ("pyproject.toml", "Issues", "Other", "urls", "Issues is missing"),
        ("pyproject.toml", 'Source = "https://forge.dev/a/b"', 'Source = "https://github.com/OWNER/b"',
         "urls", "Source: 'https://github.com/OWNER/b' is a placeholder ('OWNER')"),
        ("pyproject.toml", 'Source = "https://forge.dev', 'Source = "https://b.example', "urls",
         "'https://b.example/a/b' is a placeholder"),
        ("pyproject.toml", 'Source = "https:', 'Source = "http:', "urls", "expected https://.."),
        ("CITATION.cff", "a/b", "a/c", "urls", "expected https://forge.dev/a/b, got"),
        ("README.md", "pip", "No version is published yet. pip", "readme", "remove that"),
        ("docs/project/promises.md", "4.x", "3.x", "promises", "does not name rmqindex 4.x"),
        ("pyproject.toml", STABLE, "Development Status :: 4 - Beta", "promises",
         "expected 5 - Production/Stable"),
        ("docs/benchmarks/results.json", VERSION, "4.5.5", "benchmarks", "run make bench"),
        ("docs/benchmarks/results.json", "machine", "host", "benchmarks", "restore the file"),
    ],
)  # fmt: skip
def test_a_planted_fault_in_a_file_is_found(tree, capsys, name, old, new, check, said):
    """Its check fails and says what to do."""
    change(tree, name, old, new)
    code, failures = outcome(tree, capsys)
    assert code == 1
    assert said in failures[check]


@pytest.mark.parametrize(
    ("arguments", "check", "said"),
    [
        ({"also": ["tests/test_it.py"]}, "wheel", "not of the packages: tests/test_it.py"),
        ({"without": "LICENSE"}, "wheel", "missing: LICENSE"),
        ({"without": "rmqindex/py.typed"}, "wheel", "missing: rmqindex/py.typed"),
        ({"metadata": METADATA.replace("4.5.6", "4.5.5")}, "metadata",
         "Version: expected 4.5.6, got 4.5.5"),
        ({"metadata": METADATA.replace("License-Expression: Apache-2.0\n", "")}, "metadata",
         "License-Expression: expected Apache-2.0, got None"),
        ({"metadata": METADATA.replace("https://forge.dev/a/b/blob/v4.5.6/", "")}, "readme",
         "the description links to 'docs/page.md'"),
        ({"metadata": METADATA.replace("numpy", "rich")}, "wheel",
         "not in the bill of materials: rich; only in the bill of materials: numpy"),
        ({"bill": {**BILL, "metadata": {"component": {"version": "4.5.5"}}}}, "wheel",
         "the bill of materials is of version 4.5.5, not 4.5.6"),
        ({"without": ".cdx.json"}, "wheel", "missing: sboms/rmqindex.cdx.json"),
        ({"without": ".dist-info/METADATA"}, "metadata", "expected one METADATA, got []"),
        ({"without": "Makefile"}, "sdist", "missing: Makefile"),
        ({"without": "SECURITY.md"}, "sdist", "missing: .github/"),
    ],
)  # fmt: skip
def test_a_planted_fault_in_a_distribution_is_found(tree, capsys, arguments, check, said):
    """Both are looked into, not only for their names."""
    build(tree, **arguments)
    code, failures = outcome(tree, capsys)
    assert code == 1
    assert said in failures[check]


def test_distributions_of_another_version_are_refused(tree, capsys):
    """What was built before the version was set is not released."""
    change(tree, "pyproject.toml", "4.5.6", "4.5.7")
    _, failures = outcome(tree, capsys)
    assert "Version: expected 4.5.7, got 4.5.6; run make wheel" in failures["metadata"]
    assert "expected rmqindex-4.5.7.tar.gz" in failures["sdist"]


def test_what_was_not_built_is_refused(tree, capsys):
    """With the command that builds it."""
    shutil.rmtree(tree / "dist")
    _, failures = outcome(tree, capsys)
    assert failures.keys() == {"wheel", "metadata", "readme", "sdist"}
    assert all(said.endswith("run make wheel") for said in failures.values())


def test_the_page_of_a_release_says_what_the_changelog_does(tree):
    """Of this version alone."""
    assert release_check.notes(tree) == "### Added\n\n- It."
    change(tree, "pyproject.toml", "4.5.6", "4.5.7")
    with pytest.raises(release_check.CheckError, match=r"there is no section of 4\.5\.7"):
        release_check.notes(tree)


def test_a_version_of_which_nothing_is_kept_is_refused(tree, capsys):
    """Later ones could not be tried on what it wrote; before 1.0.0 nothing is promised."""
    shutil.rmtree(tree / "tests/data/releases")
    _, failures = outcome(tree, capsys)
    assert "there is nothing of 4.5.6, which later versions must read" in failures["promises"]
    change(tree, "pyproject.toml", "4.5.6", "0.5.6")
    _, failures = outcome(tree, capsys)
    assert "promises" not in failures


def test_a_tree_with_uncommitted_files_is_refused(tree, git, capsys):
    """New files count as well."""
    git.answer(status="?? new.txt\\n M README.md\\n")
    _, failures = outcome(tree, capsys)
    assert failures == {"tree": "2 paths differ from the commit (?? new.txt); commit them"}


def test_a_version_that_has_a_tag_is_refused(tree, git, capsys):
    """It was released before."""
    git.answer(tag="v4.5.6\\n")
    _, failures = outcome(tree, capsys)
    assert failures == {"tag": "the tag v4.5.6 is there; set the next version in pyproject.toml"}


def test_a_tree_outside_of_a_repository_is_refused(tree, git, capsys):
    """Nothing can be tagged there."""
    git.answer(code=128)
    _, failures = outcome(tree, capsys)
    assert failures == {
        "tree": "git status: fatal; run this in a clone",
        "tag": "git tag: fatal; run this in a clone",
    }


def test_a_machine_without_git_is_told_so(tree, monkeypatch, capsys):
    """In place of a traceback."""
    monkeypatch.setenv("PATH", str(tree))
    _, failures = outcome(tree, capsys)
    assert failures == dict.fromkeys(("tree", "tag"), "there is no git on the PATH; install it")


def test_a_missing_file_does_not_hide_the_other_checks(tree, capsys):
    """It fails its own check."""
    (tree / "docs" / "conf.py").unlink()
    _, failures = outcome(tree, capsys)
    assert failures["site"].startswith("FileNotFoundError: ")
    assert failures.keys() == {"site"}
