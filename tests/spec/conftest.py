"""The specification's own modules, for the tests of it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "spec" / "tools"))


@pytest.fixture(scope="session")
def spec() -> Path:
    """The directory of the specification."""
    return ROOT / "spec"
