"""Sail, a server of Spark Connect without Java, from a package index.

It comes with the PySpark that its version knows, into a directory of its own: the environment's
PySpark is a later one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

#: What was tested; ``docs/reference/versions.md`` says so.
WHEELS = ("pysail==0.7.2", "pyspark-client==4.2.0")


def sail_environment(directory: Path) -> dict[str, str]:
    """Return the environment of a program that runs Sail; its wheels go into a directory."""
    if not (directory / "pysail").exists():
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
        subprocess.run([*pip, "--no-deps", "--target", directory, *WHEELS], check=True)
    return {**os.environ, "PYTHONPATH": str(directory), "RUST_LOG": "error"}
