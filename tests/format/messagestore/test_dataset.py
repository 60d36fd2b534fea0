"""``MessageStore.dataset``: what Arrow reads of it is what its filter says, and no more is read."""

from __future__ import annotations

import contextlib
import datetime as dt
import gc
import pickle
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import cache, reduce
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as pds
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rmqindex
from examples import examples
from file_reads import before_each_read
from remote_stores import under_uri
from rmqindex import (
    CONSUME_QUEUE_SCHEMA,
    ConsumeQueue,
    IncompleteIndexWarning,
    IndexFileWriter,
    Layout,
    MessageStore,
    RmqIndexError,
    key_hash,
)
from rmqindex.commitlog import BODY_TEXT

STORE = rmqindex.sample_store()
TOPIC, KEY, HASH, TIME = map(pc.field, ("topic", "key", "key_hash", "store_timestamp"))
POSITION, OFFSET, STATE = map(pc.field, ("position", "phy_offset", "match_state"))
T = TOPIC == "TopicTest"
ABSENT = pa.scalar(None, pa.bool_())
MIDDLE = dt.datetime(2023, 11, 15, 1, tzinfo=dt.UTC)


def sorted_rows(table):
    """Return rows in an order of their own."""
    return sorted(table.to_pylist(), key=str)


@cache
def everything_of(store):
    """Return all entries of a store with a log, read once."""
    return store.dataset().to_table()


@pytest.fixture
def blind():
    """The entries of the sample store without its CommitLog."""
    return MessageStore(STORE, commit_log=None).dataset()


@pytest.fixture(scope="module")
def expired(tmp_path_factory):
    """The sample store whose first log file has expired: some entries have no key."""
    path = tmp_path_factory.mktemp("expired") / "store"
    shutil.copytree(STORE, path)
    min((path / "commitlog").iterdir()).unlink()
    return MessageStore(path)


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    """Two files of 200,000 entries each, of which each key has two in each file."""
    folder = tmp_path_factory.mktemp("large") / "index"
    folder.mkdir()
    layout = Layout(50_000, 200_001)
    count = 200_000
    hashes = np.arange(count, dtype=np.int32) % 100_000
    for number in range(2):
        offsets = np.arange(count, dtype=np.int64) * 100 + number * count * 100
        times = 1_700_000_000_000 + np.arange(count, dtype=np.int64) + number * 10**9
        name = f"2023111422132{number}000"
        with IndexFileWriter(folder / name, layout) as writer:
            assert writer.put_many(hashes, offsets, times) == count
    return folder


class TestRows:
    """All rows, without a filter."""

    def test_entries_are_those_of_the_index(self, blind):
        """With the columns and types of ``entries``, and what a log would add."""
        entries = MessageStore(STORE).entries().read_all()
        found = blind.to_table(columns=[*entries.column_names, "match_state"])
        assert found.schema.field("store_timestamp").type == pa.timestamp("ms", "UTC")
        assert sorted_rows(found.drop_columns(["match_state"])) == sorted_rows(entries)
        assert set(found["match_state"].to_pylist()) == {"no_log"}

    def test_with_a_log_each_key_has_the_entries_of_its_lookup(self, messages):
        """Topic, key, exact time and state, of every key that the log has."""
        table = messages.dataset().to_table()
        assert table.num_rows == messages.entries().read_all().num_rows
        for topic in set(table["topic"].to_pylist()):
            own = table.filter(pc.equal(table["topic"], topic))
            found = messages.lookup(topic, own["key"])
            assert sorted_rows(own.select(found.column_names)) == sorted_rows(found)

    def test_an_entry_without_a_message_has_no_key(self, expired):
        """It is there, with the time of the index, and no comparison of its key is true."""
        dataset = expired.dataset()
        lost = dataset.to_table(filter=KEY.is_null())
        assert set(lost["match_state"].to_pylist()) == {"unverified"}
        assert lost["topic"].null_count == lost.num_rows > 0
        same = (KEY == "order-49") | (KEY != "order-49")
        assert dataset.count_rows(filter=same) + lost.num_rows == dataset.count_rows()
        assert expired.lookup("TopicTest", "order-49").num_rows > dataset.count_rows(
            filter=T & (KEY == "order-49")
        )

    def test_messages_are_those_of_the_log(self, messages):
        """With bodies as text beside them."""
        dataset = messages.dataset("messages")
        whole = messages.messages().read_all()
        assert sorted_rows(dataset.to_table(columns=whole.column_names)) == sorted_rows(whole)
        texts = messages.messages(columns=["phy_offset", BODY_TEXT]).read_all()
        assert dataset.to_table(columns=texts.column_names) == texts

    def test_queues_are_those_of_the_store(self, messages):
        """All units of all queues, also by the path of the index."""
        units = [row for queue in ConsumeQueue.find(STORE) for each in queue.scan()
                 for row in each.to_pylist()]  # fmt: skip
        for store in (messages, MessageStore(STORE / "index")):
            found = store.dataset("queues").to_table(columns=CONSUME_QUEUE_SCHEMA.names)
            assert sorted(found.to_pylist(), key=str) == sorted(units, key=str)

    def test_another_kind_of_rows_is_refused(self, messages):
        """With those that there are."""
        with pytest.raises(ValueError, match="entries, messages, queues, got 'units'"):
            messages.dataset("units")


BINDING = {
    "equal": T & (KEY == "order-49"),
    "the literal first": (pc.scalar("TopicTest") == TOPIC) & (pc.scalar("order-49") == KEY),
    "IN": T & KEY.isin(["order-49", "BB"]),
    "IN of DuckDB": pc.if_else(KEY.is_valid(), KEY.isin(["BB", "Aa"]), ABSENT) & T,
    "OR of keys": T & ((KEY == "order-49") | (KEY == "BB")),
    "OR of pairs": (T & (KEY == "Aa")) | ((TOPIC == "TopicOrder") & (KEY == "order-49")),
    "nested": ((T | (TOPIC == "TopicOrder")) & (POSITION > 9)) & ((KEY == "Aa") | (KEY == "BB")),
    "with others": T & (KEY == "BB") & (STATE == "no_log") & ~(POSITION == 3),
    "large texts": T & (pa.scalar("BB", pa.large_string()) == KEY),
    "many": T & KEY.isin([f"order-{number}" for number in range(5000)]),
    "a chain of many": T & reduce(
        lambda one, other: one | other, [f"order-{number}" == KEY for number in range(500)]
    ),
    "nothing": T & (pa.scalar(None, pa.string()) == KEY),
}  # fmt: skip
UNBINDING = {
    "no filter": None,
    "a key": KEY == "BB",
    "a topic": T,
    "a hash": HASH == 5,
    "not a key": T & (KEY != "BB"),
    "NOT": T & ~(KEY == "BB"),
    "OR with another column": T & ((KEY == "BB") | (POSITION == 1)),
    "a function": T & (pc.utf8_upper(KEY) == "BB"),
    "a cast": T & (KEY.cast(pa.binary()) == b"BB"),
    "IN with a null": T & pc.is_in(KEY, pa.array(["BB", None])),
    "two columns": T & (KEY == TOPIC),
}


class TestBinding:
    """Which filters bind topic and key, where no log knows the keys."""

    @pytest.mark.parametrize("form", BINDING)
    def test_a_filter_that_binds_both_is_a_lookup(self, blind, messages, form):
        """Of candidates, by every form that an engine hands over."""
        found = blind.to_table(filter=BINDING[form])
        known = messages.dataset()
        exact = BINDING[form] if form != "with others" else T & (KEY == "BB") & ~(POSITION == 3)
        verified = known.to_table(["phy_offset", "topic", "key"], filter=exact)
        candidates = found.select(verified.column_names).to_pylist()
        assert all(row in candidates for row in verified.to_pylist())
        assert (verified.num_rows > 0) == (form != "nothing")
        hashes = {key_hash(f"{row['topic']}#{row['key']}") for row in candidates}
        assert set(found["key_hash"].to_pylist()) == hashes

    @pytest.mark.parametrize("form", UNBINDING)
    def test_another_is_refused_with_what_to_write(self, blind, messages, form):
        """It is answered where the log knows the keys."""
        with pytest.raises(RmqIndexError, match="not bound: an index holds no text") as refusal:
            blind.to_table(filter=UNBINDING[form])
        assert f"MessageStore('{STORE}').lookup('TopicTest', keys)" in str(refusal.value)
        assert "WHERE topic = 'TopicTest' AND key IN ('a', 'b')" in str(refusal.value)
        whole = messages.dataset().to_table()
        found = messages.dataset().to_table(filter=UNBINDING[form])
        expected = whole if UNBINDING[form] is None else whole.filter(UNBINDING[form])
        assert sorted_rows(found) == sorted_rows(expected)

    def test_too_many_pairs_are_refused(self, blind):
        """A product of lists is not multiplied without bound."""
        texts = [f"x{number}" for number in range(600)]
        with pytest.raises(RmqIndexError, match="too many topics and keys"):
            blind.to_table(filter=TOPIC.isin(texts) & KEY.isin(texts))

    def test_an_entry_that_answers_two_keys_is_two_rows(self, blind):
        """As candidates of both."""
        both = blind.to_table(["phy_offset", "key"], filter=T & KEY.isin(["Aa", "BB"]))
        one = blind.to_table(["phy_offset", "key"], filter=T & (KEY == "Aa"))
        assert both.num_rows == 2 * one.num_rows > 0

    def test_columns_without_text_need_no_keys(self, blind):
        """Hashes, times, offsets and positions filter alone."""
        names = ["key_hash", "position"]
        whole = blind.to_table() if False else blind.to_table([*names, "store_timestamp"])
        for filter_ in (HASH == 1000, TIME >= MIDDLE, POSITION.isin([3, 5]), HASH != 1000):
            found = blind.to_table(names, filter=filter_)
            assert sorted_rows(found) == sorted_rows(whole.filter(filter_).select(names))


TEXTS = st.sampled_from(
    ["TopicTest", "TopicOrder", "BB", "Aa", "order-49", "unverified", "x", None]
)
NUMBERS = st.sampled_from([-5, 0, 1, 3, 100, 1000, 2744770, 112033, 2**31 - 1])
TIMES = st.integers(1_700_000_000_000, 1_700_090_000_000)


def _time(millis):
    return pa.scalar(millis * 1000 + millis % 3, pa.timestamp("us", "UTC"))


@st.composite
def comparisons(draw):
    """Return a comparison that may be null."""
    operator = draw(st.sampled_from(["equal", "not_equal", "less", "less_equal", "greater"]))
    kind = draw(st.sampled_from(["text", "number", "time", "in", "null", "cast", "coalesce"]))
    text = pc.field(draw(st.sampled_from(["topic", "key", "match_state"])))
    number = pc.field(draw(st.sampled_from(["key_hash", "phy_offset", "position", "slot"])))
    if kind == "null":
        return draw(st.sampled_from([text, number])).is_null()
    if kind == "in":
        nulls = draw(st.booleans())
        values = draw(st.lists(TEXTS, max_size=4))
        return text.isin(pa.array([each for each in values if nulls or each], pa.string()))
    if kind == "cast":
        return number.cast(pa.string()) == str(draw(NUMBERS))
    if kind == "coalesce":
        return pc.coalesce(text, pc.scalar("x")) == draw(TEXTS.filter(bool))
    if kind == "time":
        one, other = TIME, pc.scalar(_time(draw(TIMES)))
    elif kind == "number":
        one, other = number, pc.scalar(pa.scalar(draw(NUMBERS), pa.int64()))
    else:
        one, other = text, pc.scalar(pa.scalar(draw(TEXTS), pa.string()))
    if draw(st.booleans()):
        one, other = other, one
    return getattr(pc, operator)(one, other)


def _joined(parts):
    pairs = st.tuples(parts, parts)
    return st.one_of(
        pairs.map(lambda two: two[0] & two[1]),
        pairs.map(lambda two: two[0] | two[1]),
        parts.map(lambda one: ~one),
        st.tuples(parts, parts, parts).map(lambda three: pc.if_else(*three)),
        pairs.map(lambda two: pc.if_else(two[0], two[1], ABSENT)),
    )


class TestExactness:
    """The answer is the filter's, with nulls."""

    @settings(max_examples=60, deadline=None)
    @given(filter_=st.recursive(comparisons(), _joined, max_leaves=6))
    def test_it_is_what_arrow_filters_of_all_rows(self, expired, filter_):
        """However the filter is built."""
        whole = everything_of(expired)
        found = expired.dataset().to_table(filter=filter_)
        assert sorted_rows(found) == sorted_rows(whole.filter(filter_))

    @pytest.mark.parametrize(
        "filter_",
        [
            (TOPIC == "TopicOrder") & (TIME < MIDDLE),
            pc.field("tags").isin(["TagA", "TagB"]) | (TOPIC == "x"),
            pc.field("tags").is_null(),
            (pc.field("queue_id") == 1) & (OFFSET > 50_000),
            OFFSET == 112_033,
            OFFSET.isin([0, 112_033, 7]),
            (OFFSET > 112_033) & (OFFSET < 112_040),
            OFFSET < 0,
            OFFSET >= 2**62,
            OFFSET <= 2**63 - 1,
            (OFFSET > 100) & (OFFSET < 50),
            TOPIC.isin(pa.array([], pa.string())),
            (pc.field("queue_id") == 1) | (OFFSET < 5000),
        ],
        ids=str,
    )
    def test_so_it_is_of_messages(self, messages, filter_):
        """Topics, queues, tags, times and offsets choose what is decoded."""
        dataset = messages.dataset("messages")
        assert dataset.to_table(filter=filter_) == dataset.to_table().filter(filter_)

    @pytest.mark.parametrize(
        "filter_",
        [
            (TOPIC == "TopicTest") & (pc.field("queue_id") == 1),
            pc.field("queue_offset").isin([3, 5]),
            pc.field("queue_offset") > 10**6,
            TOPIC != "TopicTest",
            (TOPIC == "x") & (pc.field("size") > 5),
        ],
        ids=str,
    )
    def test_and_of_queues(self, messages, filter_):
        """Topics, queues and places choose the files."""
        dataset = messages.dataset("queues")
        assert dataset.to_table(filter=filter_) == dataset.to_table().filter(filter_)

    def test_an_unknown_column_is_refused(self, messages):
        """In the columns and in the filter, with those that there are."""
        for asked in ({"columns": ["body"]}, {"filter": pc.field("body") == b"x"}):
            with pytest.raises(ValueError, match=r"expected some of key_hash, .*, got body"):
                messages.dataset().to_table(**asked)


class TestShapes:
    """Columns, limits and what else a dataset of Arrow has."""

    def test_columns_come_in_the_order_asked_for(self, messages):
        """Also as expressions, and none at all, which counts."""
        dataset = messages.dataset()
        found = dataset.to_table(["file", "position"], filter=T & (KEY == "BB"))
        assert found.column_names == ["file", "position"]
        made = dataset.to_table({"twice": POSITION * 2}, filter=T & (KEY == "BB"))
        assert sum(made["twice"].to_pylist()) == 2 * sum(found["position"].to_pylist())
        assert dataset.scanner([]).count_rows() == dataset.count_rows()

    def test_the_first_rows_and_some_rows(self, messages):
        """Of a scanner, too."""
        dataset = messages.dataset()
        whole = dataset.to_table()
        assert dataset.head(5) == whole.slice(0, 5)
        assert dataset.take([0, 7]) == whole.take([0, 7])
        assert dataset.count_rows(filter=KEY == "BB") == whole.filter(KEY == "BB").num_rows
        assert sum(batch.num_rows for batch in dataset.to_batches(batch_size=100)) == len(whole)
        assert dataset.scanner(["key"]).projected_schema.names == ["key"]

    def test_filters_add_up(self, messages):
        """``filter`` gives a dataset whose rows pass both."""
        dataset = messages.dataset().filter(T).filter(KEY == "BB")
        assert dataset.count_rows(filter=POSITION > 50) == messages.dataset().count_rows(
            filter=T & (KEY == "BB") & (POSITION > 50)
        )

    def test_a_filter_that_the_engine_has_decided_is_a_constant(self, messages):
        """DataFusion hands over the value itself."""
        rows = messages.dataset("queues")
        every = rows.count_rows()
        for decided, count in ((pa.scalar(True), every), (pa.scalar(False), 0), (ABSENT, 0)):
            assert rows.scanner(filter=decided).to_table().num_rows == count
            some = rows.filter(OFFSET >= 0).scanner(filter=decided)
            assert some.to_table().num_rows == count

    def test_the_whole_is_its_only_fragment(self, messages):
        """As DataFusion reads it."""
        dataset = messages.dataset()
        (fragment,) = dataset.get_fragments()
        scanner = fragment.scanner(dataset.schema, columns=["key"], filter=KEY == "BB")
        assert scanner.to_table() == dataset.to_table(["key"], filter=KEY == "BB")

    @pytest.mark.parametrize(
        "use",
        [
            lambda dataset: pds.Scanner.from_dataset(dataset).to_table(),
            lambda dataset: pds.dataset([dataset, dataset]).to_table(),
            lambda dataset: dataset.join(dataset, "position"),
            lambda dataset: dataset.sort_by("position"),
            lambda dataset: dataset.replace_schema(dataset.schema).to_table(),
            lambda dataset: dataset.filesystem,
            lambda dataset: dataset.files,
        ],
    )
    def test_what_goes_round_its_scanner_is_refused(self, messages, use):
        """Neither a crash nor an empty answer."""
        with pytest.raises(ValueError, match=r"write dataset.to_table\(columns=.., filter=..\)"):
            use(messages.dataset())


class TestReading:
    """How much is read, by whom and when."""

    def read_bytes(self, dataset, **asked):
        """Return how many rows a scan has, and how many bytes it read."""
        sizes = []
        with before_each_read(lambda _source, *arguments: sizes.append(arguments[1])):
            rows = dataset.to_table(**asked).num_rows
        return rows, sum(sizes)

    @pytest.mark.parametrize(
        ("filter_", "rows"),
        [
            (HASH == 77_777, 4),
            (HASH.isin([5, 6, 7]), 12),
            ((HASH == 5) | (HASH == 6) & (POSITION > 10), 6),
            ((POSITION > 100) & (POSITION <= 110), 20),
            ((POSITION == 1) | (POSITION == 3), 4),
            (HASH == -3, 0),
        ],
        ids=str,
    )
    def test_a_filter_reads_little(self, large, filter_, rows):
        """Slots and chains, or a stretch of each file."""
        dataset = MessageStore(large, layout=Layout(50_000, 200_001)).dataset()
        found, size = self.read_bytes(dataset, columns=["phy_offset"], filter=filter_)
        assert found == rows
        assert size < 200_000

    def test_a_time_leaves_out_files(self, large):
        """Those that begin later."""
        dataset = MessageStore(large, layout=Layout(50_000, 200_001)).dataset()
        early = dt.datetime(2023, 11, 20, tzinfo=dt.UTC) > TIME
        both, whole = self.read_bytes(dataset, columns=["phy_offset"])
        one, half = self.read_bytes(dataset, columns=["phy_offset"], filter=early)
        assert (one, both) == (200_000, 400_000)
        assert half < 0.6 * whole

    def test_the_first_rows_do_not_need_the_last(self, large):
        """Batches stream, and a limit ends the reading."""
        dataset = MessageStore(large, layout=Layout(50_000, 200_001)).dataset()
        reader = dataset.scanner(["position"], batch_readahead=1, use_threads=False).to_reader()
        assert reader.read_next_batch().num_rows <= 65_536
        del reader
        gc.collect()
        assert not self.open_files(large)

    def open_files(self, folder):
        """Return which files of a folder stay open once the threads of Arrow have ended."""
        for _ in range(200):
            gc.collect()
            found = []
            for descriptor in Path("/proc/self/fd").iterdir():
                with contextlib.suppress(OSError):
                    found.append(str(descriptor.readlink()))
            still = [path for path in found if path.startswith(str(folder))]
            if not still:
                break
            time.sleep(0.05)
        return still

    @pytest.mark.parametrize("what", ["entries", "messages", "queues"])
    def test_nothing_stays_open(self, tmp_path, what):
        """Neither after a scan, nor after one that was never read."""
        shutil.copytree(STORE, tmp_path / "store")
        dataset = MessageStore(tmp_path / "store").dataset(what)
        assert dataset.to_table().num_rows
        dataset.head(1)
        dataset.scanner()
        gc.collect()
        assert not self.open_files(tmp_path)

    @pytest.mark.parametrize("what", ["entries", "messages", "queues"])
    def test_it_can_be_pickled(self, messages, what):
        """With its filters."""
        dataset = messages.dataset(what).filter(TOPIC == "TopicOrder")
        again = pickle.loads(pickle.dumps(dataset))
        assert again.to_table() == dataset.to_table()
        assert again.schema == dataset.schema

    @pytest.mark.parametrize("what", ["entries", "messages"])
    def test_so_it_can_with_a_log_that_was_given(self, what):
        """Also while the log is open; the copy opens the files anew."""
        with rmqindex.CommitLog(STORE) as log:
            dataset = MessageStore(STORE, commit_log=log).dataset(what).filter(T)
            found = dataset.to_table()
            pickled = pickle.dumps(dataset)
        assert found.num_rows
        assert pickle.loads(pickled).to_table() == found

    def test_a_count_decodes_what_its_filter_reads(self, large, messages):
        """No more: neither bodies nor, of entries, any column; so it needs no log."""
        for what in ("entries", "messages", "queues"):
            dataset = messages.dataset(what)
            assert dataset.count_rows(TOPIC == "TopicTest") == dataset.to_table(filter=T).num_rows
            assert dataset.count_rows() == dataset.to_table().num_rows
        dataset = MessageStore(large, layout=Layout(50_000, 200_001), commit_log=None).dataset()
        assert dataset.count_rows() == 400_000
        assert dataset.count_rows(filter=HASH == 5) == dataset.filter(HASH == 5).count_rows() == 4
        with pytest.raises(RmqIndexError, match="key not bound"):
            dataset.count_rows(filter=T)

    def test_threads_share_one(self, messages):
        """Each scan is its own."""
        dataset = messages.dataset()
        keys = ["BB", "Aa", "order-49", "absent"] * 10
        expected = {key: dataset.count_rows(filter=T & (key == KEY)) for key in set(keys)}
        with ThreadPoolExecutor(8) as pool:
            found = pool.map(lambda key: dataset.count_rows(filter=T & (key == KEY)), keys)
        assert list(found) == [expected[key] for key in keys]

    def test_a_store_elsewhere_is_read_alike(self, monkeypatch):
        """By a URI."""
        root = under_uri(monkeypatch, STORE.parent)
        layout = Layout.infer(min((STORE / "index").iterdir()))
        far, near = (MessageStore(each, layout=layout) for each in (f"{root}/{STORE.name}", STORE))
        for what, filter_ in (
            ("entries", T & KEY.isin(["BB", "order-49"])), ("entries", TIME > MIDDLE),
            ("messages", TOPIC == "TopicOrder"),
        ):  # fmt: skip
            one, other = (store.dataset(what).to_table(filter=filter_) for store in (far, near))
            assert one == other
            assert one.num_rows


class TestStates:
    """Stores that grow, change, or are damaged."""

    def test_it_sees_what_a_broker_appends(self, tmp_path):
        """Each scan lists the files anew; one that was begun has the entries counted then."""
        layout, path = Layout(97, 100), tmp_path / "20231114221320000"
        with IndexFileWriter(path, layout) as writer:
            writer.put("T#a", 0, 1_700_000_000_000)
        dataset = MessageStore(path, commit_log=None, layout=layout).dataset()
        begun = dataset.scanner(["position"])
        with IndexFileWriter(path, layout) as writer:
            writer.put("T#a", 100, 1_700_000_001_000)
        assert begun.to_table().num_rows == 1
        assert dataset.to_table(filter=(TOPIC == "T") & (KEY == "a")).num_rows == 2

    def test_a_file_that_is_replaced_is_refused(self, tmp_path):
        """By its name, where the scan was begun before."""
        layout, path = Layout(97, 100), tmp_path / "20231114221320000"
        with IndexFileWriter(path, layout) as writer:
            writer.put("T#a", 0, 1_700_000_000_000)
        begun = MessageStore(path, layout=layout).dataset().scanner(["position"])
        path.unlink()
        with IndexFileWriter(path, layout) as writer:
            writer.put("T#b", 0, 1_700_000_700_000)
        with pytest.raises(RmqIndexError, match=f"{path}.*(replaced|rewritten)"):
            begun.to_table()

    def test_damage_is_refused_or_told(self, tmp_path):
        """A file that is cut is never read as a short one."""
        shutil.copytree(STORE, tmp_path / "store")
        path = min((tmp_path / "store" / "index").iterdir())
        with path.open("r+b") as file:
            file.truncate(path.stat().st_size - 20 * 100)
        for filter_ in (None, T & (KEY == "BB"), HASH == 5, TIME > MIDDLE):
            with pytest.raises(RmqIndexError, match=str(path)):
                MessageStore(tmp_path / "store").dataset().to_table(filter=filter_)
        lenient = MessageStore(tmp_path / "store", mode="DROPMALFORMED").dataset()
        with pytest.warns(IncompleteIndexWarning, match="the answer lacks"):
            found = lenient.to_table(["position"])
        assert 0 < found.num_rows < MessageStore(STORE).dataset().count_rows()

    def test_damage_of_the_log_is_refused(self, tmp_path):
        """In a scan of messages that meets it."""
        shutil.copytree(STORE, tmp_path / "store")
        path = min((tmp_path / "store" / "commitlog").iterdir())
        with path.open("r+b") as file:
            file.write(b"\x7f")
        with pytest.raises(RmqIndexError, match=str(path)):
            MessageStore(tmp_path / "store").dataset("messages").to_table()

    def test_what_the_index_lacks_is_told_with_a_lookup(self, tmp_path):
        """As ``lookup`` tells it."""
        shutil.copytree(STORE, tmp_path / "store")
        max((tmp_path / "store" / "index").iterdir()).unlink()
        store = MessageStore(tmp_path / "store")
        with pytest.warns(IncompleteIndexWarning):
            store.lookup("TopicTest", "BB")
        with pytest.warns(IncompleteIndexWarning):
            store.dataset().to_table(filter=T & (KEY == "BB"))

    def test_without_an_index_that_is_what_is_told(self, tmp_path):
        """Not that a query must bind its keys, which would not help."""
        shutil.copytree(STORE / "consumequeue", tmp_path / "store" / "consumequeue")
        for filter_ in (None, T, T & (KEY == "BB")):
            with pytest.raises(RmqIndexError, match="expected a store with a folder index"):
                MessageStore(tmp_path / "store").dataset().to_table(filter=filter_)

    def test_without_a_log_there_are_no_messages(self):
        """As ``messages`` says it."""
        dataset = MessageStore(STORE, commit_log=None).dataset
        with pytest.raises(RmqIndexError, match="expected a CommitLog beside the index"):
            dataset("messages").to_table()


@pytest.mark.parametrize("what", ["entries", "messages", "queues"])
def test_who_stops_early_can_still_exit(what):
    """Arrow reads ahead in a thread of its own; it used to hang the process, or end it by abort."""
    asked = f"rmqindex.MessageStore(rmqindex.sample_store(), time_zone='UTC').dataset({what!r})"
    script = f"import rmqindex; data = {asked}; print(data.head(3).num_rows)"
    for _ in range(examples(4)):
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
        )
        assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


def test_daemon_threads_that_read_on_do_not_end_the_process():
    """They begin nothing more; what they were reading ends with an error that says so."""
    code = (
        "import os, rmqindex, threading, time\n"
        # Each error is one line, and one write: those of several threads do not mix.
        "threading.excepthook = lambda told: os.write(2, f'{told.exc_value}\\n'.encode())\n"
        "store = rmqindex.MessageStore(rmqindex.sample_store())\n"
        "def read():\n"
        "    while True:\n"
        "        for what in ('entries', 'messages', 'queues'):\n"
        "            store.dataset(what).to_table()\n"
        "for _ in range(3):\n"
        "    threading.Thread(target=read, daemon=True).start()\n"
        "time.sleep(0.3)\n"
    )
    for _ in range(examples(8)):
        ended = subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, timeout=60, text=True
        )
        ends = "MessageStore.dataset(): the process ends before all was read"
        assert (ended.returncode, {*ended.stderr.splitlines()} - {ends}) == (0, set())


def test_what_is_read_at_exit_is_whole():
    """Also by a function that runs when the readings that were left early have ended."""
    script = (
        "import atexit, rmqindex, sys, threading\n"
        "store = rmqindex.MessageStore(rmqindex.sample_store(), time_zone='UTC')\n"
        "def read():\n"
        "    print(store.dataset('messages').to_table().num_rows)\n"
        "def read_in_thread():\n"
        "    thread = threading.Thread(target=read, daemon=False)\n"
        "    thread.start()\n"
        "    thread.join()\n"
        "atexit.register(read)\n"
        "if sys.version_info < (3, 12):\n"  # which starts no thread any more
        "    atexit.register(read_in_thread)\n"
        "else:\n"
        "    atexit.register(read)\n"
        "store.dataset('messages').head(3)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "430\n430\n", "")
