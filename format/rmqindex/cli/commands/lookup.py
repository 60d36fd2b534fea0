"""``rmqindex lookup``: where the messages with a key are."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import click
import pyarrow as pa

from rmqindex.answers.entries import Miss, broker_answer, hits_answer
from rmqindex.answers.messages import add_consumption, is_readable, read_messages
from rmqindex.cli.invocation import command
from rmqindex.cli.options import (
    COUNT,
    commit_log_option,
    keys_options,
    layout_options,
    mode_option,
    option,
    path_argument,
    rows_options,
    stored_body_option,
    time_options,
    topic_argument,
    zone_option,
)
from rmqindex.commitlog.snapshot import commit_log_of
from rmqindex.errors import options_of
from rmqindex.explanation.reach import uncovered
from rmqindex.keys.hashing import index_key
from rmqindex.keys.messages import tag_key
from rmqindex.layout.index_file import DEFAULT_MAX_MSGS_NUM_BATCH, INT64_MAX
from rmqindex.query.many_keys import lookup_keys
from rmqindex.query.verification import VERIFIED
from rmqindex.storage.location import Location, path_text
from rmqindex.store.snapshot import IndexSnapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rmqindex.answers.answer import Answer, Form, Row, Zone
    from rmqindex.commitlog.log import CommitLog
    from rmqindex.indexfile.entries import Mode
    from rmqindex.indexfile.geometry import Layout
    from rmqindex.query.index_directory import QueryOffsetResult
    from rmqindex.store.snapshot import SnapshotFile

# For so many keys without entries, others of nearly the same name are looked up.
_LOOKED_AROUND = 8
# So many keys are searched at once at most, as long as they have no more entries than this.
_MOST_AT_ONCE = 1024
_MANY_ENTRIES = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class Lookup:
    """Find where the messages with a key start in the CommitLog, newest first.

    An IndexFile stores a 31-bit hash of TOPIC#KEY, not its text. With a CommitLog, messages with
    other keys are left out and times are exact; without one, a hit may be a message with another
    key, and its time is truncated to whole seconds after the first entry of the file. PATH may be
    a pattern in quotes, or a folder of stores. The exit code is 1 if none of the keys is found;
    each that is not is named.
    """

    path: str = path_argument()
    topic: str = topic_argument()
    keys: list[str] = keys_options()
    times: tuple[int | None, int | None] = time_options()
    limit: int | None = option(
        "--limit",
        metavar="N",
        type=COUNT,
        help="Return at most this many entries, the newest.",
    )
    tag: bool = option(
        "--tag",
        is_flag=True,
        help="Look KEY up as the messages' tags, which brokers from 5.4.0 on index.",
    )
    broker: bool = option(
        "--broker",
        is_flag=True,
        help="Answer as the broker's own search does: at most 64, and with its quirks.",
    )
    with_message: bool = option(
        "--message", is_flag=True, help="Also print the messages from the CommitLog."
    )
    as_stored: bool = stored_body_option()
    commit_log: str | None = commit_log_option()
    form: Form = rows_options()
    zone: Zone = zone_option()
    layout: Layout | None = layout_options()
    mode: Mode = mode_option()

    def answers(self) -> Iterator[Answer]:
        """Search the index for each key."""
        with ExitStack() as stack:
            if self.broker:
                self._check_broker()
            log = commit_log_of(self.path, self.commit_log)
            if log is not None:
                stack.enter_context(log)
            elif self.with_message:
                raise click.BadParameter("needs a CommitLog, found none", param_hint="--message")
            files = IndexSnapshot.of(self.path, self.layout, self.mode)
            gaps = uncovered(self.path, files, log)
            lacking = [file.lacking for file in files if file.lacking is not None]
            lacking += self._untagged(files, log)
            notes = [*lacking, *(part.text() for part in gaps)]
            keys = [tag_key(key) if self.tag else key for key in self.keys]
            misses = 0
            found = self._found(keys, files, log)
            for number, key in enumerate(keys, 1):
                if self.broker:
                    result = self._ask_as_the_broker(key)
                    miss = None
                    if not result.phy_offsets:
                        others = self._at_other_times([key], files, None).get(key)
                        miss = self._miss(key, files, None, others, misses)
                    answer = broker_answer(self._question(key), result, miss, gaps, self.zone)
                else:
                    hits, others = next(found)
                    messages = self._messages(log, hits) if self.with_message else None
                    miss = None if hits else self._miss(key, files, log, others, misses)
                    answer = hits_answer(
                        self._question(key), hits, messages, miss, gaps, lacking, self.zone
                    )
                    if len(keys) > 1:
                        heading = index_key(self.topic, key)
                        answer = answer.headed(heading, is_first=number == 1)
                misses += miss is not None
                yield replace(answer, notes=notes) if number == len(keys) else answer

    def _question(self, key: str) -> Row:
        begin, end = self.times
        return {
            "path": self.path,
            "topic": self.topic,
            "key": key,
            "begin": begin,
            "end": end,
            "limit": self.limit,
        }

    def _untagged(self, files: Sequence[SnapshotFile], log: CommitLog | None) -> list[str]:
        """Return what to say where brokers left messages whose tags are not indexed."""
        if not self.tag or log is None or not log.files:
            return []
        from rmqindex.bulk.tags import untagged  # noqa: PLC0415  (for tags only)

        entries = [file.entry for file in files]
        asked = self.times, self.mode
        text = untagged(self.topic, self.keys, entries, self.layout, log, *asked)
        return [] if text is None else [text]

    def _check_broker(self) -> None:
        """Refuse what a broker cannot search."""
        if self.with_message:
            raise click.BadParameter("not together with --message", param_hint="--broker")
        if self.mode != "FAILFAST":
            raise click.BadParameter("not together with --mode", param_hint="--broker")
        if Location.of(self.path).local is None:
            raise click.BadParameter("only for a local directory", param_hint="--broker")

    def _ask_as_the_broker(self, key: str) -> QueryOffsetResult:
        from rmqindex.query.index_directory import IndexDirectory  # noqa: PLC0415  (few ask for it)

        local = Location.of(self.path).local
        assert local is not None  # _check_broker
        most = DEFAULT_MAX_MSGS_NUM_BATCH if self.limit is None else self.limit
        begin, end = self.times
        with IndexDirectory(local, self.layout) as directory:
            return directory.query_offset(
                self.topic, key, most, begin or 0, INT64_MAX if end is None else end
            )

    def _found(
        self, keys: Sequence[str], files: Sequence[SnapshotFile], log: CommitLog | None
    ) -> Iterator[tuple[list[Row], int | None]]:
        """Yield the entries of each key, and how many one without any has at other times.

        Many keys are searched in each file at once, ever more of them, so that the first answers
        come soon; hot keys again fewer, since the entries of all of them are in memory.
        """
        paths = {path_text(planned.entry.name): planned.entry.path for planned in files}
        start, at_once = 0, 1
        while start < len(keys):
            part = keys[start : start + at_once]
            start += at_once
            table = self._search(part, files, log, self.times, self.limit)
            is_hot = table.num_rows > _MANY_ENTRIES
            at_once = max(at_once // 2, 1) if is_hot else min(at_once * 2, _MOST_AT_ONCE)
            hits: dict[str, list[Row]] = {key: [] for key in part}
            rows = pa.table(
                {
                    "key": table["key"],
                    "name": table["file"],
                    "position": table["position"],
                    "phy_offset": table["phy_offset"],
                    "store_timestamp": table["store_timestamp"].cast(pa.int64()),
                    "state": table["match_state"],
                }
            )
            for row in rows.to_pylist():
                hits[row.pop("key")].append({"path": paths[row["name"]], **row})
            missing = [key for key, own in hits.items() if not own]
            others = self._at_other_times(missing, files, log)
            for key in part:
                yield hits[key], others.get(key)

    def _miss(
        self,
        key: str,
        files: Sequence[SnapshotFile],
        log: CommitLog | None,
        others: int | None,
        number: int,
    ) -> Miss:
        """Return how a search without an entry goes on; only the first ones look for others."""
        nearest = None
        if number < _LOOKED_AROUND and not others:
            from rmqindex.explanation.explain import spelled_otherwise  # noqa: PLC0415  (few miss)

            near = spelled_otherwise(self.path, self.topic, key, files, log)
            nearest = near and (near.topic, near.key, len(near.phy_offsets))
        return Miss(others, nearest, self._explain_options())

    def _explain_options(self) -> tuple[str, ...]:
        begin, end = self.times
        layout = self.layout
        log = {"auto": None, None: "none"}.get(self.commit_log, self.commit_log)
        given = {
            "--begin": begin,
            "--end": end,
            "--commit-log": log,
            "--max-hash-slot-num": None if layout is None else layout.hash_slot_num,
            "--max-index-num": None if layout is None else layout.index_num,
        }
        return tuple(options_of(given))

    def _at_other_times(
        self, keys: Sequence[str], files: Sequence[SnapshotFile], log: CommitLog | None
    ) -> dict[str, int]:
        """Count the entries of each key at any time; of none if no range of times was given."""
        if self.times == (None, None) or not keys:
            return {}
        counts = Counter(self._search(keys, files, log, (None, None), None)["key"].to_pylist())
        return {key: counts[key] for key in keys}

    def _search(
        self,
        keys: Sequence[str],
        files: Sequence[SnapshotFile],
        log: CommitLog | None,
        times: tuple[int | None, int | None],
        max_num: int | None,
    ) -> pa.Table:
        wanted = pa.array(list(dict.fromkeys(keys)), pa.string())
        begin, end = times
        return lookup_keys(files, log, self.topic, wanted, begin=begin, end=end, max_num=max_num)

    def _messages(self, log: CommitLog | None, hits: list[Row]) -> list[Row | None]:
        """Return the message of each hit, None unless it is the key's and in the log."""
        if log is None or not hits:
            return [None] * len(hits)
        offsets = [hit["phy_offset"] for hit in hits]
        rows = read_messages(log, offsets, mode=self.mode, as_stored=self.as_stored)
        add_consumption(log, rows)
        return [
            row if hit["state"] == VERIFIED and is_readable(row) else None
            for hit, row in zip(hits, rows, strict=True)
        ]


lookup = command(
    "lookup",
    Lookup,
    "rmqindex lookup /data/rocketmq/store TopicTest order-49",
    "rmqindex lookup store TopicTest order-49 \\\n"
    "    --begin 2023-11-14T22:00 --end 2023-11-14T23:00",
    "rmqindex lookup store TopicTest order-49 --json | jq '.hits[].phy_offset'",
    "rmqindex lookup store TopicTest order-49 --message --limit 1",
    "rmqindex lookup store TopicTest order-49 --broker",
    "rmqindex lookup 'brokers/*/store' TopicTest order-49",
    "rmqindex lookup store TopicTest --keys-file ids.txt --csv > found.csv",
    several="store",
    is_search=True,
)
