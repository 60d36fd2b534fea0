"""What a public forge reads is well-formed and names what there is."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
import yaml  # moto, which serves S3 to the tests, brings it

ROOT = Path(__file__).resolve().parents[2]
FORGE = ROOT / ".github"
WORKFLOW = yaml.safe_load((FORGE / "workflows" / "ci.yml").read_text())


def test_the_workflow_runs_the_whole_check_and_nothing_else():
    """Its one command is a program of the tree."""
    (job,) = WORKFLOW["jobs"].values()
    commands = [step["run"] for step in job["steps"] if "run" in step]
    assert commands == [".ci/run"]
    assert os.access(ROOT / commands[0], os.X_OK)


def test_the_workflow_may_only_read():
    """A pull request gets no token that writes, and no check runs for ever."""
    assert WORKFLOW["permissions"] == {"contents": "read"}
    assert WORKFLOW["concurrency"]["cancel-in-progress"] is True
    for job in WORKFLOW["jobs"].values():
        assert "permissions" not in job
        assert job["timeout-minutes"] <= 360


def test_every_action_is_pinned_by_its_major_version():
    """A branch such as main can change under the project."""
    used = [
        step["uses"] for job in WORKFLOW["jobs"].values() for step in job["steps"] if "uses" in step
    ]
    assert len(used) == 4
    assert all(re.fullmatch(r"actions/[\w-]+@v\d+", action) for action in used)


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
