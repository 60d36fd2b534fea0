"""The options of a write."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from pyspark_rmqindex.options.kinds import BOOLEAN, SWITCH, choice, option
from pyspark_rmqindex.options.shared import GeometryOptions, PathOption, ZoneOption


@dataclass(frozen=True, slots=True, kw_only=True)
class SinkOptions(ZoneOption, GeometryOptions, PathOption):
    """What to write, and how."""

    on_indexed: Literal["error", "skip"] = option(
        "onIndexed",
        choice("error", "skip"),
        "Appending rows that lie before the end of what is indexed: `error` refuses the write, "
        "`skip` leaves them out. Entries at that very end which are already there are treated the "
        "same way, so that a replay adds nothing twice.",
        default="error",
    )
    broker_redispatch: bool = option(
        "brokerRedispatch",
        BOOLEAN,
        "Skip what a broker skips when it dispatches its log again: smaller offsets only, so that "
        "the last message is indexed twice.",
        default="false",
    )
    allow_overlap: bool = option(
        "allowOverlap",
        BOOLEAN,
        "Accept files whose offset ranges overlap, and rows that lie before the end of what is "
        "indexed. A broker's own search misses rows in such an index; Spark does not.",
        default="false",
    )
    allow_live_store: bool = option(
        "allowLiveStore",
        BOOLEAN,
        "Write although a broker runs on the store. It does not see the new files before it starts "
        "again. An append leaves the broker's file alone; an overwrite replaces it. What a broker "
        "that crashed left is written without it.",
        default="false",
    )
    index_members: bool = option(
        "indexMembers",
        BOOLEAN,
        "Messages: also index the keys in the column `member_keys`, by which the broker cannot "
        "find members of a batch. They come after the message's own keys.",
        default="false",
    )
    index_tags: bool | None = option(
        "indexTags",
        SWITCH,
        "Messages: also index the column `tags` under the key `T#` and the tags, behind the "
        "message's own keys, as brokers from 5.4.0 on do and older ones do not. `auto` does what "
        "the existing files show, compared with the CommitLog beside the index; where they do not "
        "tell, it indexes tags if the store has the folder `rocksdbstore`, which brokers make from "
        "5.4.0 on, and logs a warning that says what it took.",
        default="auto",
    )
    checkpoint: bool | None = option(
        "checkpoint",
        SWITCH,
        "After the commit, raise `indexMsgTimestamp` in the store's `checkpoint` to the end of the "
        "new files, so that a broker that starts after a crash keeps them. `auto` does so in the "
        "`index` of a local store on which no broker runs.",
        default="auto",
    )

    def __post_init__(self) -> None:
        """Check that there is a path and a valid geometry."""
        if self.path is None:
            raise ValueError(
                "option 'path': expected a path, in save() or as an option, got none. Spark passes "
                "no options to CREATE TABLE .. AS SELECT or INSERT INTO with a data source in "
                "Python: write with df.write.format('rmqindex').mode('append').save('/data/index')"
            )
        if self.layout is not None and not self.layout.capacity:
            raise ValueError(
                f"option 'maxIndexNum': expected at least 2, of which the first place is never "
                f"used, got {self.layout.index_num}"
            )
