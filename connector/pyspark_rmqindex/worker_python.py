"""Checks the Python that Spark's workers run, before a job fails for it."""

from __future__ import annotations

import shutil
import subprocess
import sys
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PACKAGE = "pyspark_rmqindex"
_MASTERS_HERE = "local"
# Prints the version before the import, which may fail.
_ASK = (
    "import sys; sys.stdout.write('.'.join(map(str, sys.version_info[:3]))); sys.stdout.flush(); "
    f"import {_PACKAGE}"
)


def check_worker_python(spark: SparkSession, *, plans: bool) -> None:
    """Raise if queries would fail because Spark's workers run another Python.

    The Python of a server of Spark Connect is not known here, nor that of other hosts.
    """
    try:
        context = spark.sparkContext
    except AttributeError:
        return
    if not plans and not (context.master or "").startswith(_MASTERS_HERE):
        return
    if context._python_includes:  # noqa: SLF001  (--py-files, which are on the path of workers alone)
        return
    if told := wrong_python(context.pythonExec):
        raise RuntimeError(told)


@lru_cache(maxsize=16)
def wrong_python(python: str) -> str | None:
    """Return what to say of the Python of Spark's workers if it cannot run this package."""
    path = shutil.which(python)
    if path is None or Path(path).parent == Path(sys.executable).parent:
        return None
    # An archive of --py-files is on the path of workers alone.
    if not Path(__file__).is_file():
        return None
    done = subprocess.run(  # noqa: S603  (as Spark runs it)
        [path, "-c", _ASK], capture_output=True, check=False, text=True
    )
    here = ".".join(map(str, sys.version_info[:3]))
    fault = None
    if done.stdout and done.stdout.split(".")[:2] != here.split(".")[:2]:
        fault = "and Spark needs one minor version for both"
    elif done.returncode != 0:
        fault = f"and the first cannot import {_PACKAGE}"
    if fault is None:
        return None
    version = f" (Python {done.stdout})" if done.stdout else ""
    return (
        f"Spark's workers run {path}{version}, this is {sys.executable} (Python {here}), {fault}. "
        f"Set PYSPARK_PYTHON={sys.executable}, or import {_PACKAGE} with PYSPARK_PYTHON unset, "
        "before the session starts"
    )
