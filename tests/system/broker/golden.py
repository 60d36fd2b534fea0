"""Small stores of a real broker, with what its clients said and what it answered."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

from rmqindex import CommitLog

from . import scenario, truth
from .writing import LAYOUT, Sent, consume, make_topics, settings_of, settle

if TYPE_CHECKING:
    from pathlib import Path

    from .processes import Cluster

_COUNT = 72
_KEPT = ("commitlog", "index", "consumequeue", "batchconsumequeue", "checkpoint")


def keep_store(cluster: Cluster, target: Path) -> None:
    """Have a broker write a small store of every kind of message, and keep it.

    Args:
        cluster: The broker, not started.
        target: A folder, which is written anew: ``store``, and ``told.json``.
    """
    tags = scenario.has_tags(cluster.version)
    cluster.start_broker(settings_of(LAYOUT))
    make_topics(cluster)
    consume(cluster)
    sent = Sent()
    sent.send(cluster, scenario.messages(cluster.version, _COUNT))
    settle(cluster, sent.specs, tags=tags)
    questions = [*truth.offsets_of(cluster.store, tags=tags)]
    with CommitLog(cluster.store) as log:
        offsets = [row["phy_offset"] for row in truth.rows_of(log, ["phy_offset"])]
    ask = cluster.client.ask
    rows = ask("ask", questions=[list(each) for each in questions], maxNum=truth.MAX_NUM)
    told: dict[str, Any] = {
        "version": cluster.version,
        "settings": settings_of(LAYOUT),
        "sent": [{"spec": spec, "result": result} for spec, result in sent.pairs],
        "consumed": ask("consumed"),
        "messages": ask("view", questions=offsets),
        "answers": [
            {"question": [*question], "offsets": [row["commitLogOffset"] for row in each]}
            for question, each in zip(questions, rows, strict=True)
        ],
    }
    ask("stop")
    cluster.stop_broker()
    shutil.rmtree(target, ignore_errors=True)
    for name in _KEPT:
        source = cluster.store / name
        if source.is_dir():
            shutil.copytree(source, target / "store" / name)
        elif source.exists():
            shutil.copyfile(source, target / "store" / name)
    (target / "told.json").write_text(json.dumps(told, separators=(",", ":")) + "\n")
