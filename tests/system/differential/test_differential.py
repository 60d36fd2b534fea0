"""RocketMQ's published classes and ours give the same answers and the same bytes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.maven import REQUIRED, UnavailableError

from .broker import VERSIONS, load_broker
from .compare import difference
from .sequences import make_sequence

CASES = sorted((Path(__file__).parent / "cases").glob("*.json"))
SEED = 7
SEQUENCES = 150


@pytest.fixture(scope="module", params=VERSIONS)
def broker(request):
    """The classes of one version of RocketMQ."""
    try:
        return load_broker(request.param)
    except UnavailableError as error:
        if os.environ.get(REQUIRED):
            raise
        pytest.skip(f"RocketMQ {request.param}: {error}")


@pytest.mark.parametrize("case", CASES, ids=lambda path: path.stem)
def test_kept_sequences_make_no_difference(case, broker):
    """What once made a difference, or easily could, does not."""
    assert difference(json.loads(case.read_text()), broker) is None


def test_seeded_sequences_make_no_difference(broker):
    """The first of those of the big run, which is ``python -m tests.system.differential``."""
    for place in range(SEQUENCES):
        sequence = make_sequence(Random(f"{SEED}/{place}"))
        found = difference(sequence, broker)
        assert found is None, json.dumps(sequence)


@settings(max_examples=60, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False))
def test_drawn_sequences_make_no_difference(broker, random):
    """Hypothesis makes a sequence that does smaller."""
    assert difference(make_sequence(random), broker) is None


def test_a_difference_is_noticed(broker, monkeypatch):
    """A side that treats tags as the other version's broker does is told from this one."""
    case = json.loads((CASES[0].parent / "tags.json").read_text())
    monkeypatch.setattr(broker, "has_tags", not broker.has_tags)
    found = difference(case, broker)
    assert found is not None
    assert found.startswith(f"RocketMQ {broker.version}, opening 0, operation ")
