"""What is recorded of RocketMQ's classes is what they do."""

from __future__ import annotations

import json
import os

import pytest
from tests.support.maven import REQUIRED, UnavailableError

from .__main__ import RECORDED, VERSIONS, ask_version


@pytest.mark.parametrize("version", [VERSIONS[0], VERSIONS[-1]])
def test_the_recorded_answers_are_those_of_the_classes(version: str) -> None:
    """The oldest and the newest version give each answer again."""
    try:
        told = ask_version(version, [])
    except UnavailableError as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(f"RocketMQ {version}: {error}")
    for case in json.loads(RECORDED.read_text(encoding="ascii")):
        (expected,) = (group["answer"] for group in case["answers"] if version in group["rocketmq"])
        assert told[case["name"]] == expected, case["name"]
