"""Run the kit from its folder, or as a module."""

import sys
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rmq_index_conformance.command import main

if __name__ == "__main__":
    sys.exit(main())
