"""Coverage-guided fuzzing of the decoders: whatever the bytes, a value or an error of ours.

Each module of :mod:`targets` has:

- ``check(data)``: decode what the bytes stand for; anything but a value or an error of ours, and
  any disagreement between two ways to one answer, is raised;
- ``seeds()``: small sound inputs to start from;
- ``MAX_LENGTH``: how long inputs may become, bytes;
- perhaps ``mutate(data, random)``: a change that knows the structure.
"""

import sys
from pathlib import Path

# The encoder of CommitLogs and the broker's twin, which pytest finds by itself.
_SUPPORT = str(Path(__file__).resolve().parents[1] / "support")
if _SUPPORT not in sys.path:
    sys.path.append(_SUPPORT)
