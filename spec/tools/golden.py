"""What RocketMQ's own classes wrote and answered (``tests/data/rocketmq_classes``)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GOLDEN = ROOT / "tests" / "data" / "rocketmq_classes"
ASKED = ROOT / "tests" / "data" / "store_formats"
ROCKETMQ = "RocketMQ 5.3.3"
ROCKETMQ_WITH_TAGS = "RocketMQ 5.5.1"


def load(name: str) -> Any:  # noqa: ANN401  (JSON)
    """Return one of the golden JSON files."""
    return json.loads((GOLDEN / name).read_text(encoding="utf-8"))


def message_of(case: dict[str, Any]) -> dict[str, Any]:
    """Return a golden message in the vectors' own terms."""
    return {
        "topic": case["topic"],
        "unique_key": case["uniq_key"],
        "keys": case["keys"],
        "sys_flag": case["sys_flag"],
        "phy_offset": case["commitlog_offset"],
        "store_timestamp": case["store_timestamp"],
    }


def load_asked(name: str) -> Any:  # noqa: ANN401  (JSON)
    """Return what RocketMQ told ``ask_rocketmq.py``."""
    return json.loads((ASKED / f"{name}.json").read_text(encoding="utf-8"))
