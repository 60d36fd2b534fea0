"""The cases of ``vectors.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from rmqindex import Layout

GOLDEN = Path(__file__).parents[1] / "golden"
VECTORS = json.loads((GOLDEN / "vectors.json").read_text())


@dataclass(frozen=True)
class Vector:
    """A case and its file."""

    case: dict
    path: Path

    @property
    def layout(self):
        """The geometry that the case states."""
        return Layout(self.case["hash_slot_num"], self.case["index_num"])
