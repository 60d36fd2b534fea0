"""The cases of ``vectors.json``."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from recorded import ROCKETMQ_CLASSES
from rmqindex import Layout

if TYPE_CHECKING:
    from pathlib import Path

VECTORS = json.loads((ROCKETMQ_CLASSES / "vectors.json").read_text())


@dataclass(frozen=True)
class Vector:
    """A case and its file."""

    case: dict
    path: Path

    @property
    def layout(self):
        """The geometry that the case states."""
        return Layout(self.case["hash_slot_num"], self.case["index_num"])
