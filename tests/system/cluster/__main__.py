"""The whole job on a cluster: ``python -m tests.system.cluster``, or names of its steps."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import rmqindex

from .run import run_job


def main() -> int:
    """Run the steps and print what each found.

    Returns:
        0; a failure is an exception.
    """
    with tempfile.TemporaryDirectory() as directory:
        store = rmqindex.sample_store()
        for line in run_job(Path(directory), store, *(sys.argv[1:] or ["all"])):
            print(line)
    return 0


if __name__ == "__main__":
    sys.exit(main())
