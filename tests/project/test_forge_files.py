"""What a public forge reads is well-formed and names what there is."""

from __future__ import annotations

import os
import re
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement  # pytest brings it
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
FORGE = ROOT / ".github"
PATHS = sorted((FORGE / "workflows").glob("*.yml"))
TEXTS = "".join(path.read_text() for path in PATHS)
WORKFLOWS = {path.stem: yaml.safe_load(path.read_text()) for path in PATHS}


def test_the_workflow_runs_the_whole_check_and_nothing_else():
    """Its one command is a program of the tree."""
    (job,) = WORKFLOWS["ci"]["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == [".ci/run"]
    assert os.access(ROOT / commands[0], os.X_OK)


def test_a_workflow_may_only_read_but_where_it_says_why():
    """A pull request gets no token that writes, and no job runs for ever."""
    for name, workflow in WORKFLOWS.items():
        assert workflow["permissions"] in ({}, {"contents": "read"})
        assert "group" in workflow["concurrency"]
        for job in workflow["jobs"].values():
            may_write = "write" in job.get("permissions", {}).values()
            assert not may_write or name == "release"
            assert "uses" in job or job["timeout-minutes"] <= 360


def test_every_action_is_pinned_by_a_commit_and_its_version_told():
    """A tag can be moved to what somebody else wrote; one action has one commit everywhere."""
    used = re.findall(r"uses: ([^.\s]\S*)(?: # (v\S+))?$", TEXTS, re.MULTILINE)
    assert len(used) > 4
    assert all(re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action) for action, _ in used)
    assert all(re.fullmatch(r"v\d+\.\d+\.\d+", version) for _, version in used)
    assert len({action.split("@")[0] for action, _ in used}) == len(set(used))


def test_a_release_is_published_after_the_whole_check_and_without_a_secret():
    """By what proves who publishes, in an environment that can ask somebody else."""
    release = WORKFLOWS["release"]
    assert release[True] == {"workflow_dispatch": None}  # YAML's own name of `on`
    publish = release["jobs"]["publish"]
    assert set(publish["needs"]) == {"check", "build"}
    assert publish["permissions"] == {"id-token": "write"}
    assert publish["environment"] == "pypi"
    assert release["jobs"]["check"]["uses"] == "./.github/workflows/ci.yml"
    assert release["jobs"]["release"]["needs"] == "publish"
    assert "secrets." not in TEXTS


def test_the_targets_of_the_workflows_are_there():
    """Each ``make`` of a workflow names a target of the Makefile."""
    makefile = (ROOT / "Makefile").read_text()
    for target in re.findall(r"run: make ([\w-]+)", TEXTS):
        assert f"\n{target}:" in makefile


def test_the_locked_versions_are_those_that_pyproject_asks_for():
    """With the SHA-256 of each file, and without the address of an index."""
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())
    text = (ROOT / ".ci" / "locked.txt").read_text()
    pins = {}
    for line in re.findall(r"^\w.*==.*", text, re.MULTILINE):
        found = Requirement(line.rstrip("\\ "))
        pins.setdefault(canonicalize_name(found.name), []).append(found.specifier)
    groups = told["dependency-groups"]
    wanted, names = (
        [*told["build-system"]["requires"], *told["project"]["dependencies"]],
        ["develop"],
    )
    wanted += [
        text for extra in told["project"]["optional-dependencies"].values() for text in extra
    ]
    for name in names:
        wanted += [each for each in groups[name] if isinstance(each, str)]
        names += [each["include-group"] for each in groups[name] if not isinstance(each, str)]
    for asked in map(Requirement, wanted):
        for pin in pins[canonicalize_name(asked.name)]:
            assert asked.specifier.contains(str(pin).removeprefix("==")), asked
    assert "://" not in text
    assert text.count("--hash=sha256:") >= sum(map(len, pins.values()))


def test_the_issue_template_has_a_name_and_says_what_it_is_for():
    """Forges list templates by both."""
    (template,) = (FORGE / "ISSUE_TEMPLATE").glob("*.md")
    _, head, body = template.read_text().split("---\n", 2)
    assert yaml.safe_load(head).keys() >= {"name", "about"}
    for command in ("rmqindex --version", "rmqindex verify", "rmqindex sample"):
        assert command in body


@pytest.mark.parametrize("page", sorted(FORGE.rglob("*.md")), ids=lambda page: page.stem)
def test_links_lead_to_what_is_there(page):
    """Files of the tree, and headings in them."""
    for target in re.findall(r"\]\(([^)]+)\)", page.read_text()):
        name, _, anchor = target.partition("#")
        text = (page.parent / name).read_text()
        headings = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
        assert not anchor or anchor in {title.lower().replace(" ", "-") for title in headings}
