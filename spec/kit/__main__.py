"""Run the kit from its folder, or from the file that ``make vectors`` makes of it."""

import sys
from pathlib import Path

if not __package__:
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from kit.command import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
