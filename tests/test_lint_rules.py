"""What the linter refuses in the packages: data that becomes objects or code."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("import pickle", "TID251"),
        ("from pickle import loads", "TID251"),
        ("import marshal", "TID251"),
        ("import shelve", "TID251"),
        ("import yaml", "TID251"),
        ("import json\n\njson.loads(text)", "TID251"),
        ("import numpy as np\n\nnp.load(path)", "TID251"),
        ("eval(text)", "S307"),
        ("exec(text)", "S102"),
        ("import os\n\nos.system(text)", "S605"),
    ],
)
@pytest.mark.parametrize("package", ["format/rmqindex", "connector/pyspark_rmqindex"])
def test_data_is_never_turned_into_objects_or_code(package, code, rule):
    """Neither in the format package nor in the connector; exceptions are marked where they are."""
    done = subprocess.run(
        [sys.executable, "-m", "ruff", "check", "--no-cache", "--output-format=concise",
         f"--stdin-filename={package}/_made_up.py", "-"],
        input=code, capture_output=True, text=True, check=False, cwd=ROOT,
    )  # fmt: skip
    assert done.returncode == 1
    assert f" {rule} " in done.stdout, done.stdout
