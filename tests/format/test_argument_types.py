"""What callers give as numbers and texts is checked by its name, wherever it comes in."""

from __future__ import annotations

import math
import shutil
from typing import TYPE_CHECKING, cast

import numpy as np
import pyarrow as pa
import pytest

from rmqindex import (
    CommitLog,
    IndexDirectory,
    IndexFile,
    Layout,
    MessageStore,
    StoreCheckpoint,
    decode_uniq_key,
    decompress_bodies,
    decompress_body,
    explain_lookup,
    index_key,
    inner_messages,
    key_hash,
    message_keys,
    rebuild_consume_queues,
    rebuild_index,
    sample_store,
    verify,
)
from rmqindex.arguments import int_of
from rmqindex.bulk import expire_index, relayout_index
from trees import files_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any

STORE = sample_store()
LOG = STORE / "commitlog"
FILE = min((STORE / "index").iterdir())
# Nothing can be written below a file.
NOWHERE = FILE / "store"
NO_INTS = [1.5, True, math.nan, "3", b"1", np.float64(2), np.bool_(True), [1]]
NO_TEXTS = [b"A", 3, True, ["a"], None]
UNIQ_KEY = "7F000001000118B4AAC2123456780000"

_store = MessageStore(STORE, time_zone="UTC")
_directory = IndexDirectory(STORE)

# Every number that a public function takes beside times, by its name.
NUMBERS: list[tuple[str, Callable[[Any], object]]] = [
    ("max_num", lambda value: _store.lookup("TopicTest", "order-49", max_num=value)),
    ("start", lambda value: _store.messages(start=value)),
    ("stop", lambda value: _store.messages(stop=value)),
    ("start", lambda value: _store.entries(start=value)),
    ("stop", lambda value: _store.entries(stop=value)),
    ("key_hash", lambda value: _store.entries(key_hash=value)),
    ("max_findings", lambda value: _store.verify(max_findings=value)),
    ("max_findings", lambda value: verify(STORE, max_findings=value)),
    ("since", lambda value: verify(STORE, since=value)),
    ("begin", lambda value: explain_lookup(STORE, "T", "k", value)),
    ("end", lambda value: explain_lookup(STORE, "T", "k", None, value)),
    ("now", lambda value: explain_lookup(STORE, "T", "k", now=value)),
    (
        "max_msgs_num_batch",
        lambda value: explain_lookup(STORE, "T", "k", max_msgs_num_batch=value),
    ),
    ("max_msgs_num_batch", lambda value: IndexDirectory(STORE, max_msgs_num_batch=value)),
    ("index_msg_timestamp", lambda value: IndexDirectory(STORE, index_msg_timestamp=value)),
    ("max_num", lambda value: _directory.query_offset("T", "k", value, 0, 1)),
    ("begin", lambda value: _directory.query_offset("T", "k", 1, value, 1)),
    ("end", lambda value: _directory.query_offset("T", "k", 1, 0, value)),
    ("offset", _directory.delete_expired),
    ("limit", lambda value: IndexFile(FILE).lookup([1], value)),
    ("start", lambda value: IndexFile(FILE).scan(value)),
    ("stop", lambda value: IndexFile(FILE).scan(1, value)),
    ("position", lambda value: IndexFile(FILE).message_run(value)),
    ("max_num", lambda value: IndexFile(FILE).select_phy_offset("T#k", value, 0, 1)),
    ("begin", lambda value: IndexFile(FILE).select_phy_offset("T#k", 1, value, 1)),
    ("end", lambda value: IndexFile(FILE).select_phy_offset("T#k", 1, 0, value)),
    ("begin", lambda value: IndexFile(FILE).is_time_matched(value, 1)),
    ("start", lambda value: next(CommitLog(LOG).scan(start=value))),
    ("stop", lambda value: next(CommitLog(LOG).scan(stop=value))),
    ("max_records", lambda value: next(CommitLog(LOG).scan(max_records=value))),
    ("max_body_size", lambda value: next(CommitLog(LOG).scan(max_body_size=value))),
    ("max_body_size", lambda value: CommitLog(LOG).read_at([0], max_body_size=value)),
    ("stop", lambda value: CommitLog(LOG).agreed_stop(value)),
    ("stop", lambda value: CommitLog(LOG).unagreed_tail(value)),
    ("end", lambda value: CommitLog(LOG).end_error(value)),
    ("start", lambda value: rebuild_index(LOG, NOWHERE, start=value)),
    ("stop", lambda value: rebuild_index(LOG, NOWHERE, stop=value)),
    ("start", lambda value: rebuild_consume_queues(LOG, NOWHERE, start=value)),
    ("stop", lambda value: rebuild_consume_queues(LOG, NOWHERE, stop=value)),
    ("file_size", lambda value: rebuild_consume_queues(LOG, NOWHERE, file_size=value)),
    ("batch_file_size", lambda value: rebuild_consume_queues(LOG, NOWHERE, batch_file_size=value)),
    ("confirm_phy_offset", lambda value: StoreCheckpoint(confirm_phy_offset=value)),
    ("max_size", lambda value: decompress_body(b"", 0, max_size=value)),
    ("sys_flag", lambda value: decompress_body(b"", value)),
    ("max_size", lambda value: decompress_bodies(pa.array([b""]), [0], max_size=value)),
    ("max_total_size", lambda value: decompress_bodies(pa.array([b""]), [0], max_total_size=value)),
    ("sys_flag", lambda value: inner_messages(b"", value)),
    ("queue_offset", lambda value: inner_messages(b"", 0, value)),
    ("near", lambda value: decode_uniq_key(UNIQ_KEY, near=value)),
    ("sys_flag", lambda value: message_keys("T", "k", None, value)),
]
# Every topic, key and other text that a public function hashes or decodes.
TEXTS: list[tuple[str, Callable[[Any], object]]] = [
    ("topic", lambda value: _store.lookup(value, "order-49")),
    ("keys", lambda value: _store.lookup("TopicTest", [value])),
    ("topic", lambda value: _store.messages([value])),
    ("tags", lambda value: _store.messages(tags=[value])),
    ("topic", lambda value: _store.explain(value, "k")),
    ("key", lambda value: _store.explain("T", value)),
    ("topic", lambda value: explain_lookup(STORE, value, "k")),
    ("key", lambda value: explain_lookup(STORE, "T", value)),
    ("topic", lambda value: _directory.query_offset(value, "k", 1, 0, 1)),
    ("key", lambda value: _directory.query_offset("T", value, 1, 0, 1)),
    ("key", lambda value: _directory.query_offset("T", value, 1, 0, 1, "T")),
    ("key", lambda value: IndexFile(FILE).select_phy_offset(value, 1, 0, 1)),
    ("topic", lambda value: index_key(value, "k")),
    ("key", lambda value: index_key("T", value)),
    ("index_key", key_hash),
    ("topic", lambda value: message_keys(value, "k", None)),
    ("text", decode_uniq_key),
]
# Where None stands for no text.
PARTS: list[tuple[str, Callable[[Any], object]]] = [
    ("uniq_key", lambda value: message_keys("T", value, None)),
    ("keys", lambda value: message_keys("T", None, [value])),
    ("tags", lambda value: message_keys("T", None, None, 0, value)),
]


@pytest.mark.parametrize(("name", "call"), NUMBERS)
def test_what_is_no_int_is_refused_by_the_name_of_its_argument(
    name: str, call: Callable[[Any], object]
) -> None:
    """Also a ``bool``, and a number with a fraction or without a value."""
    for value in NO_INTS:
        with pytest.raises(TypeError, match=rf"^{name}: expected an int, got "):
            call(value)


@pytest.mark.parametrize(("name", "call"), NUMBERS)
def test_a_number_that_no_broker_can_hold_is_refused_by_name(
    name: str, call: Callable[[Any], object]
) -> None:
    """Also one with too many digits for Python to print."""
    for value in (2**70, -(2**70), 10**5000):
        with pytest.raises(ValueError, match=rf"^{name}: expected "):
            call(value)


@pytest.mark.parametrize(("name", "call"), TEXTS)
def test_what_is_no_text_is_refused_by_the_name_of_its_argument(
    name: str, call: Callable[[Any], object]
) -> None:
    """It would be hashed as what Python prints for it, and not be found."""
    for value in NO_TEXTS:
        with pytest.raises(TypeError, match=rf"^{name}: expected (a text|texts), got "):
            call(value)


@pytest.mark.parametrize(("name", "call"), PARTS)
def test_a_part_of_a_message_that_is_no_text_is_refused_by_name(
    name: str, call: Callable[[Any], object]
) -> None:
    """Only None stands for no text."""
    for value in NO_TEXTS[:-1]:
        with pytest.raises(TypeError, match=rf"^{name}: expected a text, got "):
            call(value)
    call(None)


def test_ints_of_numpy_count_as_python_ints() -> None:
    """Narrow ones would overflow in the sums of offsets."""
    narrow = np.uint8(200)
    assert type(int_of("count", narrow)) is int
    wide = _store.messages(start=200).read_all()
    assert _store.messages(start=narrow).read_all().equals(wide)
    assert _store.lookup("TopicTest", "order-49", max_num=np.int32(2)).num_rows == 2


def test_a_stop_that_compares_with_nothing_replaces_no_entry(tmp_path: Path) -> None:
    """Else ``allow_loss`` would leave all of them out."""
    store = tmp_path / "store"
    shutil.copytree(STORE, store)
    before = files_of(store)
    with pytest.raises(TypeError, match="stop: expected an int, got nan"):
        MessageStore(store).rebuild(replace=True, allow_loss=True, stop=cast("int", math.nan))
    assert files_of(store) == before


# Every flag of what writes, by its name.
FLAGS: list[tuple[str, Callable[[Any], object]]] = [
    ("replace", lambda value: rebuild_index(LOG, NOWHERE, replace=value)),
    ("resume", lambda value: rebuild_index(LOG, NOWHERE, resume=value)),
    ("allow_loss", lambda value: rebuild_index(LOG, NOWHERE, replace=True, allow_loss=value)),
    ("dry_run", lambda value: rebuild_index(LOG, NOWHERE, replace=True, dry_run=value)),
    ("allow_live_store", lambda value: rebuild_index(LOG, NOWHERE, allow_live_store=value)),
    ("index_tags", lambda value: rebuild_index(LOG, NOWHERE, index_tags=value)),
    ("checkpoint", lambda value: rebuild_index(LOG, NOWHERE, checkpoint=value)),
    ("replace", lambda value: rebuild_consume_queues(LOG, NOWHERE, replace=value)),
    ("allow_loss", lambda value: rebuild_consume_queues(LOG, NOWHERE, allow_loss=value)),
    ("dry_run", lambda value: rebuild_consume_queues(LOG, NOWHERE, dry_run=value)),
    ("multi_dispatch", lambda value: rebuild_consume_queues(LOG, NOWHERE, multi_dispatch=value)),
    ("dry_run", lambda value: relayout_index(NOWHERE, Layout(5, 9), dry_run=value)),
    ("allow_loss", lambda value: expire_index(NOWHERE, 0, allow_loss=value)),
    ("writable", lambda value: IndexDirectory(NOWHERE, writable=value)),
    ("last_exit_ok", lambda value: IndexDirectory(NOWHERE, last_exit_ok=value)),
]


@pytest.mark.parametrize(("name", "call"), FLAGS)
def test_what_is_no_flag_is_refused_by_the_name_of_its_argument(
    name: str, call: Callable[[Any], object]
) -> None:
    """Else ``no`` would be taken for yes."""
    for value in ("no", 1, None, np.array([True, False])):
        with pytest.raises(TypeError, match=rf"^{name}: expected True or False, got "):
            call(value)


@pytest.mark.parametrize("name", ["leave_out", "batch_topics"])
def test_one_text_instead_of_several_is_refused(name: str) -> None:
    """Its letters would be taken for topics."""
    for value in ("AB", b"AB"):
        with pytest.raises(TypeError, match=f"^{name}: expected a sequence of texts, got "):
            rebuild_consume_queues(LOG, NOWHERE, **{name: cast("Any", value)})
    with pytest.raises(TypeError, match=f"^{name}: expected a text, got 1"):
        rebuild_consume_queues(LOG, NOWHERE, **{name: cast("Any", ["A", 1])})


def test_a_geometry_is_a_layout():
    """A pair is refused before it is used."""
    with pytest.raises(TypeError, match=r"layout: expected a Layout, got \(97, 200\)"):
        MessageStore(STORE, layout=cast("Layout", (97, 200)))
