"""``MessageStore``: one object for a store, held against the command line and the broker."""

from __future__ import annotations

import json
import shutil
from dataclasses import fields
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import duckdb
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rmqindex
from commitlog_encoder import Log, Message
from kinds import sampled
from recorded import BROKER_VERSIONS, MESSAGE_KINDS, ROCKETMQ_CLASSES, STORE_KINDS
from rmqindex import (
    COMMITLOG_SCHEMA,
    CommitLog,
    MessageStore,
    RmqIndexError,
)
from rmqindex.commitlog import Selection
from rmqindex.query import KeyUsageRow

STORE = rmqindex.sample_store()
LOGGED = json.loads((ROCKETMQ_CLASSES / "store_messages.json").read_text())["messages"]
QUERIES = json.loads((ROCKETMQ_CLASSES / "store_queries.json").read_text())["query_offset"]
TAGGED = BROKER_VERSIONS / "5.5.0" / "store"


def keys_of_sample():
    """Return each topic of the sample store with its keys."""
    found = {}
    for batch in CommitLog(STORE).scan(columns=["topic", "uniq_key", "keys"]):
        for row in batch.to_pylist():
            keys = found.setdefault(row["topic"], {})
            for key in [row["uniq_key"], *(row["keys"] or "").split(" ")]:
                if key:
                    keys[key] = None
    return {topic: list(keys) for topic, keys in found.items()}


KEYS = keys_of_sample()


def hits(table):
    """Return what the command line prints of a lookup, as it writes it in JSON."""
    return [
        {
            "name": row["file"],
            "position": row["position"],
            "phy_offset": row["phy_offset"],
            "store_timestamp": round(row["store_timestamp"].timestamp() * 1000),
            "state": row["match_state"],
        }
        for row in table.to_pylist()
    ]


def by_offset(table, name):
    """Return a column by the offsets of the rows."""
    return dict(zip(table["phy_offset"].to_pylist(), table[name].to_pylist(), strict=True))


class TestLookup:
    """``lookup`` of one key and of many."""

    @pytest.mark.parametrize(
        "path", sampled([STORE, MESSAGE_KINDS / "store", TAGGED], STORE, TAGGED), ids=str
    )
    @pytest.mark.filterwarnings("ignore::rmqindex.IncompleteIndexWarning")  # of tags
    def test_it_answers_as_the_command_line(self, run, path):
        """The same entries, times and states in the same order, for keys of all kinds."""
        store = MessageStore(path)
        log = CommitLog(path)
        rows = [
            row
            for batch in log.scan(columns=["topic", "uniq_key", "keys", "tags"])
            for row in batch.to_pylist()
        ][::41]
        asked = {
            (row["topic"], key)
            for row in rows
            for key in (row["uniq_key"], *(row["keys"] or "").split(" "), f"T#{row['tags']}")
            if key
        }
        assert asked
        for topic, key in sorted(asked):
            _, out, _ = run("lookup", path, topic, key, "--json")
            told = [
                {name: hit[name] for name in hit if name != "path"}
                for hit in json.loads(out)["hits"]
            ]
            assert hits(store.lookup(topic, key)) == told

    def test_tags_that_older_brokers_did_not_index_are_said_to_lack(self, messages):
        """With the command that reads them; keys do not lack them, nor tags that all are there."""
        with pytest.warns(rmqindex.IncompleteIndexWarning, match="messages .* --tag TagA"):
            found = messages.lookup("TopicTest", ["T#TagA", "T#TagA"])
        assert b"have no entries of their tags" in found.schema.metadata[b"uncovered"]
        assert not messages.lookup("TopicTest", "order-49").schema.metadata
        assert not MessageStore(TAGGED).lookup("Orders", "T#TagA").schema.metadata

    def test_its_entries_are_those_of_the_broker(self, messages):
        """What RocketMQ's own classes answered, without its limit and its collisions."""
        found = {}
        for topic, keys in KEYS.items():
            for row in messages.lookup(topic, sorted(keys)).to_pylist():
                found.setdefault((topic, row["key"]), set()).add(row["phy_offset"])
        for query in QUERIES:
            unlimited = query["max_num"] >= 64 and query["begin"] == 0 and query["end"] > 2**60
            if unlimited and query["topic"] in KEYS and query["key"] in KEYS[query["topic"]]:
                mine = found.get((query["topic"], query["key"]), set())
                assert mine <= set(query["result"]) or len(query["result"]) == 64
                assert set(query["result"]) - mine <= _of_other_keys(query)

    @settings(max_examples=25, deadline=None)
    @given(data=st.data())
    def test_many_keys_are_the_union_of_single_ones(self, data):
        """Each key is answered as if it were alone; the newest is first; times bound all."""
        topic = data.draw(st.sampled_from(sorted(KEYS)))
        keys = data.draw(st.lists(st.sampled_from([*KEYS[topic], "absent", "BB", "Aa"])))
        limit = data.draw(st.none() | st.integers(1, 4))
        begin = data.draw(st.none() | st.integers(1_700_000_000_000, 1_700_023_000_000))
        store = MessageStore(STORE)
        table = store.lookup(topic, keys, begin=begin, max_num=limit)
        single = [
            row
            for key in dict.fromkeys(keys)
            for row in store.lookup(topic, key, begin=begin, max_num=limit).to_pylist()
        ]
        rows = table.to_pylist()
        assert sorted(map(str, rows)) == sorted(map(str, single))
        places = [(row["file"], row["position"]) for row in rows]
        assert places == sorted(places, reverse=True)

    @pytest.mark.parametrize("kind", [list, tuple, iter, pa.array, pd.Series, pl.Series])
    def test_keys_come_as_any_sequence(self, messages, kind):
        """Of Python, Arrow, pandas or Polars; a key that comes twice is answered once."""
        found = messages.lookup("TopicTest", kind(["BB", "order-49", "BB"]))
        assert found.num_rows == messages.lookup("TopicTest", ["order-49", "BB"]).num_rows == 26

    def test_keys_of_one_hash_are_told_apart(self, tmp_path):
        """Two keys that collide each get their own messages, with a log; both without."""
        log = Log(4096)
        offsets = [
            log.append(Message("T", properties=b"KEYS\x01%b\x02" % key))
            for key in (b"Aa", b"BB", b"Aa")
        ]
        log.write_to(tmp_path / "commitlog")
        MessageStore(tmp_path).rebuild()
        store = MessageStore(tmp_path)
        both = store.lookup("T", ["Aa", "BB"])
        assert both["key"].to_pylist() == ["Aa", "BB", "Aa"]
        assert both["phy_offset"].to_pylist() == offsets[::-1]
        blind = MessageStore(tmp_path, commit_log=None).lookup("T", ["Aa", "BB"])
        assert blind.num_rows == 6
        assert set(blind["match_state"].to_pylist()) == {"no_log"}

    def test_its_messages_are_those_of_the_log(self, messages):
        """Every column of a message stands beside its entry, with real times."""
        found = messages.lookup("TopicTest", ["order-49", "BB"], message=True)
        whole = {row["phy_offset"]: row for row in messages.messages().read_all().to_pylist()}
        for row in found.to_pylist():
            logged = whole[row["phy_offset"]]
            assert {name: row[name] for name in logged} == logged

    def test_bodies_are_unpacked(self):
        """Compressed bodies come as they were sent."""
        path = BROKER_VERSIONS / "5.3.3" / "store"
        store = MessageStore(path)
        reader = store.messages("Bodies", columns=["uniq_key", "body", "sys_flag", "phy_offset"])
        rows = reader.read_all().to_pylist()
        assert any(row["sys_flag"] & 1 for row in rows)
        found = store.lookup("Bodies", [row["uniq_key"] for row in rows], message=True)
        bodies = {row["phy_offset"]: row["body"] for row in found.to_pylist()}
        assert bodies == {row["phy_offset"]: row["body"] for row in rows}

    def test_an_expired_message_has_no_columns(self, tmp_path):
        """Its entry is unverified, and its body null."""
        shutil.copytree(STORE, tmp_path / "store")
        min((tmp_path / "store" / "commitlog").iterdir()).unlink()
        found = MessageStore(tmp_path / "store").lookup("TopicTest", "order-49", message=True)
        states = by_offset(found, "match_state")
        assert states[0] == "unverified"
        bodies = by_offset(found, "body")
        assert {offset for offset, body in bodies.items() if body is None} == {
            offset for offset, state in states.items() if state == "unverified"
        }

    def test_nothing_found_has_the_same_columns(self, messages):
        """No key, an absent key and an empty window give tables of the full schema."""
        for message in (False, True):
            full = messages.lookup("TopicTest", "BB", message=message).schema
            assert messages.lookup("TopicTest", [], message=message).schema == full
            assert messages.lookup("TopicTest", "absent", message=message).schema == full
            early = messages.lookup("TopicTest", "BB", end="2020-01-01", message=message)
            assert (early.num_rows, early.schema) == (0, full)

    def test_a_dledger_store_is_read(self):
        """Index and log of a group are found as on the command line."""
        store = MessageStore(STORE_KINDS / "dledger" / "store")
        first = next(iter(store.messages(columns=["topic", "uniq_key"]))).slice(0, 1).to_pylist()[0]
        found = store.lookup(first["topic"], first["uniq_key"])
        assert found["match_state"].to_pylist() == ["verified"] * found.num_rows != []


def _of_other_keys(query):
    """Return the offsets of messages without the key of a query."""
    log = CommitLog(STORE)
    found = log.read_at(query["result"], ["topic", "uniq_key", "keys"]).to_pylist()
    return {
        offset
        for offset, row in zip(query["result"], found, strict=True)
        if row["topic"] != query["topic"]
        or query["key"] not in [row["uniq_key"], *(row["keys"] or "").split(" ")]
    }


class TestRelativeTimes:
    """Texts as the command line takes them, and durations."""

    def test_each_method_takes_them(self, messages, monkeypatch):
        """As of the call."""
        now = 1_700_021_800_000
        monkeypatch.setattr("time.time_ns", lambda: now * 1_000_000)
        day = {"begin": 1_700_006_400_000, "end": 1_700_092_799_999}

        def asked(**times):
            return (
                messages.lookup("TopicTest", "BB", **times),
                messages.messages("TopicTest", columns=["phy_offset"], **times).read_all(),
                messages.entries(**times).read_all(),
                messages.usage(**times),
            )

        for times in ({"begin": "today", "end": "today"}, {"begin": "2023-11-15", "end": "today"}):
            assert asked(**times) == asked(**day)
        for ago in ("-2h", "now-2h", timedelta(hours=2)):
            assert asked(begin=ago) == asked(begin=now - 7_200_000)
            assert asked(end=ago) == asked(end=now - 7_200_000)


class TestArguments:
    """What is refused, in words that name the argument."""

    @pytest.mark.parametrize(
        ("asked", "told"),
        [
            (
                {"begin": 1_700_000_000},
                "begin: expected epoch milliseconds, got 1700000000, .* did you mean",
            ),
            ({"end": "1700000000"}, "end: expected epoch milliseconds"),
            ({"begin": "tomorrow"}, "begin: expected epoch milliseconds or a timestamp"),
            ({"begin": "2023-11-15", "end": "2023-11-14"}, "begin: expected a time before end"),
            (
                {"begin": "2023-11-14 00:00:00.0001", "end": "2023-11-14 00:00:00.0002"},
                "no whole millisecond",
            ),
            ({"begin": 2**63}, "begin: .* 64 bits"),
            ({"max_num": 0}, "max_num: expected at least 1"),
        ],
    )
    def test_a_wrong_value_is_refused(self, messages, asked, told):
        """As on the command line."""
        with pytest.raises(ValueError, match=told):
            messages.lookup("TopicTest", "BB", **asked)

    @pytest.mark.parametrize("keys", [5, [5], b"BB", [None], pa.array([5])], ids=str)
    def test_keys_that_are_no_texts_are_refused(self, messages, keys):
        """Instead of searched for."""
        with pytest.raises(TypeError, match="keys: expected "):
            messages.lookup("TopicTest", keys)

    def test_other_wrong_values_are_refused(self, messages):
        """An empty topic, a null key, nothing for all, an unknown column, mode or group."""
        for wrong in (
            lambda: messages.lookup("", "BB"),
            lambda: messages.lookup("TopicTest", pa.array(["BB", None])),
            lambda: messages.messages([]),
            lambda: messages.messages(queue_id=[]),
            lambda: messages.messages(columns=["nope"]),
            lambda: messages.messages(start=-1),
            lambda: messages.usage("day"),
            lambda: messages.plot("index.gif"),
            lambda: MessageStore(STORE, mode="permissive"),
            lambda: MessageStore(STORE, time_zone="Mars"),
        ):
            with pytest.raises(ValueError, match=":"):
                wrong()
        with pytest.raises(TypeError, match="begin: expected a datetime"):
            messages.entries(begin=1.5)
        with pytest.raises(RmqIndexError, match="no such file"):
            MessageStore(STORE / "absent")

    def test_one_moment_can_be_given_in_many_ways(self, messages):
        """Epoch milliseconds, texts with and without a zone, and datetimes with and without one."""
        moment = datetime(2023, 11, 15, 4, 32, 29, 483_000, tzinfo=UTC)
        given = [
            1700022749483,
            "1700022749483",
            "2023-11-15 04:32:29.483",
            "2023-11-15T12:32:29.483+08:00",
            moment,
            moment.replace(tzinfo=None),
            pd.Timestamp(moment),
        ]
        for time in given:
            found = messages.lookup("TopicTest", "order-49", begin=time, end=time)
            assert found["phy_offset"].to_pylist() == [109318]
        shanghai = MessageStore(STORE, time_zone="Asia/Shanghai")
        local = "2023-11-15 12:32:29.483"
        assert shanghai.lookup("TopicTest", "order-49", begin=local, end=local).num_rows == 1


class TestReaders:
    """``messages`` and ``entries``: one pass over the log and over the files."""

    def test_messages_are_those_of_the_log(self, messages):
        """All of them in their order, with times in place of numbers."""
        table = messages.messages().read_all()
        assert table["phy_offset"].to_pylist() == [row["phy_offset"] for row in LOGGED]
        assert table.schema.field("store_timestamp").type == pa.timestamp("ms", "UTC")
        numbers = table["store_timestamp"].cast(pa.int64()).to_pylist()
        assert numbers == [row["decoded"]["store_timestamp"] for row in LOGGED]

    def test_messages_are_chosen_by_topic_queue_tag_and_time(self, messages):
        """Each filter leaves what it says."""
        rows = messages.messages().read_all().to_pylist()
        table = messages.messages(
            ["TopicTest", "TopicOrder"],
            queue_id=[0, 1],
            begin="2023-11-14 23:00",
            columns=["phy_offset"],
        ).read_all()
        since = datetime(2023, 11, 14, 23, tzinfo=UTC)
        assert table["phy_offset"].to_pylist() == [
            row["phy_offset"]
            for row in rows
            if row["topic"] in {"TopicTest", "TopicOrder"}
            and row["queue_id"] in {0, 1}
            and row["store_timestamp"] >= since
        ]
        tag = next(row["tags"] for row in rows if row["tags"])
        tagged = messages.messages(tags=tag, columns=["tags"]).read_all()
        assert tagged["tags"].to_pylist() == [tag] * sum(row["tags"] == tag for row in rows)

    def test_entries_are_those_of_the_files(self, messages):
        """Every entry with the name of its file, oldest file first."""
        table = messages.entries().read_all()
        files = table["file"].to_pylist()
        assert len(files) == 959
        assert all(before <= after for before, after in pairwise(files))
        assert messages.entries(begin="2030-01-01").read_all().schema == table.schema
        (hash_,) = set(messages.entries(key_hash=870421146).read_all()["key_hash"].to_pylist())
        assert hash_ == 870421146

    def test_an_empty_answer_has_a_schema(self, messages):
        """Of the columns that were asked for."""
        reader = messages.messages("absent", columns=["topic", "body_text", "born_timestamp"])
        assert reader.schema.names == ["topic", "body_text", "born_timestamp"]
        assert reader.read_all().num_rows == 0

    def test_polars_duckdb_and_pandas_take_them_as_they_are(self, messages):
        """The same rows, and the same moments in time, in each."""
        table = messages.lookup("TopicTest", ["order-49", "BB"])
        newest = max(table["store_timestamp"].to_pylist())
        assert newest == datetime(2023, 11, 15, 4, 34, 21, 666_000, tzinfo=UTC)
        assert pl.DataFrame(table)["store_timestamp"].max() == newest
        assert table.to_pandas()["store_timestamp"].max() == pd.Timestamp(newest)
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            found = connection.from_arrow(table).aggregate(
                "count(*), max(epoch_ms(store_timestamp))"
            )
            assert found.fetchall() == [(26, 1700022861666)]
            reader = messages.messages("TopicTest", columns=["queue_id", "size", "body"])
            counted = connection.from_arrow(reader).aggregate("count(*), sum(size)").fetchall()[0]
        logged = [row["decoded"] for row in LOGGED if row["decoded"]["topic"] == "TopicTest"]
        assert counted == (len(logged), sum(row["store_size"] for row in logged))
        frame = pl.DataFrame(messages.messages("TopicTest"))
        assert (frame.height, frame["size"].sum()) == counted
        assert messages.entries().read_pandas()["store_timestamp"].dt.tz is not None


class TestDamage:
    """What happens where a store is damaged, or has no log."""

    def test_damage_is_an_error_or_left_out(self, tmp_path):
        """FAILFAST names the file; DROPMALFORMED answers from the sound ones."""
        shutil.copytree(STORE, tmp_path / "store")
        bad = sorted((tmp_path / "store" / "index").iterdir())[2]
        with bad.open("r+b") as file:
            file.truncate(3000)
        with pytest.raises(RmqIndexError, match=bad.name):
            MessageStore(tmp_path / "store").lookup("TopicTest", "order-49")
        lenient = MessageStore(tmp_path / "store", mode="DROPMALFORMED")
        whole = MessageStore(STORE).lookup("TopicTest", "order-49").to_pylist()
        sound = [row for row in whole if row["file"] != bad.name]
        with pytest.warns(rmqindex.IncompleteIndexWarning) as caught:
            found = lenient.lookup("TopicTest", "order-49").to_pylist()
        (cut,) = (str(warning.message) for warning in caught)
        assert f"{bad.name}: the answer lacks 72 of 199 entries" in cut
        assert [row for row in found if row["file"] != bad.name] == sound
        assert all(row in whole for row in found)
        with pytest.warns(rmqindex.IncompleteIndexWarning, match="72 of 199 entries"):
            assert lenient.entries().read_all().num_rows < 959
        assert bad.name in MessageStore(tmp_path / "store")._repr_html_()

    def test_damage_in_the_log_ends_a_reader(self, tmp_path):
        """Or is left out."""
        log = Log(4096)
        log.append(Message(body=b"sound"))
        log.append(Message(body=b"no zlib", sys_flag=1))
        log.write_to(tmp_path / "commitlog")
        with pytest.raises(RmqIndexError, match="message at offset"):
            MessageStore(tmp_path).messages().read_all()
        lenient = MessageStore(tmp_path, mode="DROPMALFORMED").messages(columns=["body"])
        assert lenient.read_all()["body"].to_pylist() == [b"sound", None]

    def test_without_a_log_entries_are_candidates(self, tmp_path):
        """And what needs messages is refused."""
        shutil.copytree(STORE / "index", tmp_path / "index")
        store = MessageStore(tmp_path)
        found = store.lookup("TopicTest", "order-49")
        assert set(found["match_state"].to_pylist()) == {"no_log"}
        assert "no CommitLog" in repr(store)
        for needy in (store.messages, store.usage, store.rebuild):
            with pytest.raises(RmqIndexError, match="expected a CommitLog"):
                needy()
        with pytest.raises(ValueError, match="message: needs a CommitLog"):
            store.lookup("TopicTest", "BB", message=True)
        elsewhere = MessageStore(tmp_path, commit_log=STORE / "commitlog")
        assert (
            elsewhere.lookup("TopicTest", "order-49")["match_state"].to_pylist()
            == ["verified"] * 11
        )


class TestWhole:
    """``explain``, ``verify``, ``usage``, ``rebuild`` and ``plot``: as the functions answer."""

    def test_explain_and_verify_are_those_of_the_functions(self, messages):
        """With the CommitLog beside the index, and times in the zone of the store."""
        explained = messages.explain("TopicTest", "absent")
        assert (
            explained.reasons
            == rmqindex.explain_lookup(STORE, "TopicTest", "absent", commit_log="auto").reasons
        )
        assert messages.verify() == rmqindex.verify(STORE, "auto")
        recent = messages.verify(since=timedelta(days=1))
        assert recent == messages.verify(since="1d")

    def test_usage_names_the_hottest_keys(self, messages):
        """With their chains; rows are those of ``measure_keys``, at most as many as asked for."""
        table = messages.usage("key", limit=3)
        assert table.column_names == [field.name for field in fields(KeyUsageRow)]
        assert table["key"].to_pylist() == ["DV[XZAX", "K^\\WYHG", "BB"]
        assert table["entries_read"].to_pylist() == [29, 32, 37]
        assert messages.usage("key").num_rows == 20
        assert messages.usage("topic", limit=2).num_rows == 2
        alone = MessageStore(messages.path, commit_log=None).usage("key", limit=1)
        assert alone["topic"].to_pylist() == [None]
        with pytest.raises(ValueError, match="limit"):
            messages.usage("key", limit=0)

    def test_usage_counts_messages_and_bytes(self, messages):
        """By topic, queue and hour; each sums up to the whole log."""
        for by, names in (
            ("topic", ["topic"]),
            ("queue", ["topic", "queue_id"]),
            (["topic", "hour"], ["topic", "hour"]),
            ("hour", ["hour"]),
        ):
            table = messages.usage(by)
            assert table.column_names == [*names, "message_count", "size", "entry_count"]
            assert sum(table["entry_count"].to_pylist()) == 959
            assert sum(table["message_count"].to_pylist()) == 430
            assert sum(table["size"].to_pylist()) == sum(
                row["decoded"]["store_size"] for row in LOGGED
            )

    def test_usage_counts_messages_where_no_index_can_be_read(self, tmp_path):
        """And says so, but not of a store that has none."""
        shutil.copytree(STORE, tmp_path / "store")
        file = next((tmp_path / "store" / "index").iterdir())
        file.write_bytes(file.read_bytes()[:50])
        with pytest.warns(rmqindex.IncompleteIndexWarning, match="entries are not counted: .*50"):
            table = MessageStore(tmp_path / "store").usage("topic")
        assert sum(table["message_count"].to_pylist()) == 430
        assert set(table["entry_count"].to_pylist()) == {None}
        shutil.rmtree(tmp_path / "store" / "index")
        assert set(MessageStore(tmp_path / "store").usage()["entry_count"].to_pylist()) == {None}

    def test_what_usage_can_count_by_is_named(self, messages):
        """Keys and tags alone."""
        for by, got in (("topics", "topics"), (["key", "topic"], "key")):
            words = f"expected some of topic, queue, hour, or key or tag alone, got '{got}'"
            with pytest.raises(ValueError, match=words):
                messages.usage(by)

    def test_a_lost_index_is_rebuilt_in_its_place(self, tmp_path):
        """The store has the same answers as before."""
        shutil.copytree(STORE, tmp_path / "store")
        shutil.rmtree(tmp_path / "store" / "index")
        store = MessageStore(tmp_path / "store", layout=rmqindex.Layout(97, 200))
        assert "CommitLog from offset 0" in repr(store)
        assert store.rebuild().entry_count == 959
        offsets = store.lookup("TopicTest", "order-49")["phy_offset"]
        assert offsets == MessageStore(STORE).lookup("TopicTest", "order-49")["phy_offset"]
        index = MessageStore(tmp_path / "store" / "index", layout=rmqindex.Layout(97, 200))
        assert index.rebuild(replace=True).entry_count == 959

    def test_a_plot_is_a_figure_that_a_notebook_shows(self, messages, tmp_path):
        """Also written to a file, if one is named."""
        figure = messages.plot(tmp_path / "index.png")
        png = b"\x89PNG"
        assert figure._repr_png_().startswith(png)
        assert (tmp_path / "index.png").read_bytes().startswith(png)


def test_every_column_of_a_message_is_known():
    """The default columns are those of the log that repeat nothing."""
    reader = MessageStore(STORE).messages()
    assert set(COMMITLOG_SCHEMA.names) - set(reader.schema.names) == {"all_uniq_keys", "all_keys"}


def test_a_damaged_body_is_refused_or_null(tmp_path):
    """By messages and by lookups, with what to give in this interface."""
    shutil.copytree(rmqindex.sample_store(), tmp_path / "store")
    store = rmqindex.MessageStore(tmp_path / "store")
    (row,) = store.lookup("TopicTest", "order-49").slice(0, 1).to_pylist()
    offset = row["phy_offset"]
    (path,) = [
        path
        for path in (tmp_path / "store" / "commitlog").iterdir()
        if int(path.name) <= offset < int(path.name) + path.stat().st_size
    ]
    data = bytearray(path.read_bytes())
    data[offset - int(path.name) + 88] ^= 1
    path.write_bytes(data)
    said = rf"message at offset {offset}: body: expected the CRC-32 .*MessageStore\(\.\., mode"
    store = rmqindex.MessageStore(tmp_path / "store")
    with pytest.raises(rmqindex.RmqIndexError, match=said):
        store.messages().read_all()
    with pytest.raises(rmqindex.RmqIndexError, match=said):
        store.lookup("TopicTest", "order-49", message=True)
    assert store.messages(columns=["topic"]).read_all().num_rows == 430
    store = rmqindex.MessageStore(tmp_path / "store", mode="DROPMALFORMED")
    table = store.messages().read_all()
    assert (table.num_rows, table["body"].null_count) == (430, 1)
    found = store.lookup("TopicTest", "order-49", message=True).to_pylist()
    assert [row["phy_offset"] for row in found if row["body"] is None] == [offset]


@pytest.mark.parametrize("text", ["\ud800", "A\udcff"])
@pytest.mark.parametrize(
    ("name", "ask"),
    [
        ("topic", lambda store, text: store.lookup(text, "k")),
        ("keys", lambda store, text: store.lookup("TopicTest", ["k", text])),
        ("topic", lambda store, text: store.messages(topic=text)),
        ("tags", lambda store, text: store.messages(tags=["T", text])),
        ("topic", lambda store, text: store.explain(text, "k")),
        ("key", lambda store, text: store.explain("TopicTest", text)),
        ("topics", lambda _store, text: Selection(topics=(text,))),
    ],
)
def test_a_text_that_no_message_can_have_is_refused_by_name(name, ask, text):
    """It has a lone surrogate, which UTF-8 cannot hold."""
    with pytest.raises(ValueError, match=f"^{name}: expected a text that UTF-8 can hold, got"):
        ask(MessageStore(rmqindex.sample_store()), text)


def test_a_home_directory_is_found(tmp_path, monkeypatch):
    """By ``~`` in the path, and in that of the log."""
    monkeypatch.setenv("HOME", str(tmp_path))
    shutil.copytree(STORE, tmp_path / "store")
    store = MessageStore("~/store/index", commit_log="~/store")
    assert store.path == tmp_path / "store" / "index"
    assert store.lookup("TopicTest", "order-49", message=True)["body"].null_count == 0
    with pytest.raises(RmqIndexError, match="no such file"):
        MessageStore("~/nothing")


def test_an_unknown_column_is_told_all_that_there_are():
    """Also the one that is no field of a record."""
    with pytest.raises(ValueError, match="all_keys, body_text, got 'text'"):
        MessageStore(STORE).messages(columns=["topic", "text"])
