"""The distributions are the same bytes wherever they are built, and say what they hold."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import zipfile
from email import message_from_bytes
from pathlib import Path

import pytest
from build import ProjectBuilder
from build.env import DefaultIsolatedEnv

ROOT = Path(__file__).resolve().parents[2]
# A part of what goes into the source distribution is enough.
PARTS = (".ci", "connector", "docs/share", "format")
FILES = ("LICENSE", "Makefile", "README.md", "pyproject.toml")
EPOCH = 1_700_000_000
URLS = '[project.urls]\nSource = "https://forge.dev/a/b"\n\n[project.scripts]'
# The library's own check of the schema is not needed to build.
VALIDATE = (
    "import sys; from cyclonedx.schema import SchemaVersion; "
    "from cyclonedx.validation.json import JsonStrictValidator; "
    "fault = JsonStrictValidator(SchemaVersion.V1_6).validate_str(sys.stdin.read()); "
    "sys.exit(repr(fault) if fault else 0)"
)


def copy_tree(target: Path, *, changed: int, mode: int) -> Path:
    """Copy what is built, with other times and other permissions."""
    for part in PARTS:
        left_out = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, target / part, ignore=left_out)
    for name in FILES:
        shutil.copy(ROOT / name, target)
    for path in target.rglob("*"):
        os.utime(path, (changed, changed))
        path.chmod(mode | 0o111 if path.is_dir() else mode)
    return target


@pytest.fixture(scope="module")
def environment():
    """What pyproject.toml asks for to build, and the schema of CycloneDX."""
    with DefaultIsolatedEnv() as made:
        made.install(ProjectBuilder.from_isolated_env(made, ROOT).build_system_requires)
        made.install(["cyclonedx-python-lib[json-validation]"])
        yield made


@pytest.fixture(scope="module")
def builds(environment, tmp_path_factory):
    """Two builds of the same files; the second of a tree that knows its address is a third."""
    place = tmp_path_factory.mktemp("builds")
    made = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SOURCE_DATE_EPOCH", str(EPOCH))
        for number, (changed, mode) in enumerate(((10**9, 0o644), (10**9 + 12345, 0o600))):
            tree = copy_tree(place / f"tree{number}" / "rmqindex", changed=changed, mode=mode)
            builder = ProjectBuilder.from_isolated_env(environment, tree)
            target = place / f"dist{number}"
            made.append([Path(builder.build(kind, target)) for kind in ("wheel", "sdist")])
        project = tree / "pyproject.toml"
        project.write_text(project.read_text().replace("[project.scripts]", URLS))
        builder = ProjectBuilder.from_isolated_env(environment, tree)
        made.append([Path(builder.build("wheel", place / "addressed"))])
    return made


def test_two_builds_are_the_same_bytes(builds):
    """Wheel and source distribution, from two folders with other times and permissions."""
    first, second, _ = (
        [(path.name, hashlib.sha256(path.read_bytes()).hexdigest()) for path in paths]
        for paths in builds
    )
    assert first == second
    assert len(first) == 2


def test_the_wheel_carries_its_bill_of_materials(builds, environment):
    """CycloneDX by its own schema, where PEP 770 puts it, with the time that was given."""
    with zipfile.ZipFile(builds[0][0]) as wheel:
        (name,) = [name for name in wheel.namelist() if ".dist-info/sboms/" in name]
        text = wheel.read(name).decode()
        record = wheel.read(name.split("/")[0] + "/RECORD").decode()
        assert name in record
    subprocess.run(
        [environment.python_executable, "-c", VALIDATE], input=text, text=True, check=True
    )
    told = json.loads(text)
    assert told["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    parts = {part["name"]: part for part in told["components"]}
    assert parts["pyarrow"]["scope"] == "required"
    assert parts["pyspark"]["scope"] == "optional"
    assert parts["rmqindex/sample/store"]["type"] == "data"


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, " Versions · Changelog · "),
        (2, "[Changelog](https://forge.dev/a/b/blob/v1.0.0/docs/changelog.md)"),
    ],
)
def test_no_link_of_the_description_leads_nowhere(builds, number, shown):
    """Without an address it is the text alone; with one it is that of the version's tag."""
    with zipfile.ZipFile(builds[number][0]) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith("/METADATA")]
        fields = message_from_bytes(wheel.read(name))
    text = fields.get_payload(decode=True).decode()
    assert shown.replace("1.0.0", fields["Version"]) in text
    assert "](docs/" not in text
