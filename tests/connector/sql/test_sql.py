"""``register()``: lookups and key hashes in SQL give what ``table()`` and Python give."""

from __future__ import annotations

import random
import shutil

import pytest
from pyspark.errors import AnalysisException, PythonException

import pyspark_rmqindex
from kinds import sampled
from pyspark_rmqindex.sql.key_hash import MAX_FOLDED_UNITS
from rmqindex import index_key_hashes

COLUMNS = (
    "topic, key, key_hash, phy_offset, store_timestamp, time_diff, slot, position, prev_position, "
    "file_path"
)


@pytest.fixture(scope="module")
def sql(spark):
    """Return ``spark.sql`` of a session with the functions."""
    pyspark_rmqindex.register(spark)
    pyspark_rmqindex.register(spark)  # as often as one likes
    return spark.sql


def rows(frame):
    """Return rows that compare, in an order."""
    return sorted((tuple(row) for row in frame.collect()), key=str)


@pytest.mark.parametrize("log", sampled(["none", "auto"], "auto"))
def test_a_lookup_for_each_row_gives_what_table_gives(spark, sql, store, store_pairs, log):
    """Present and absent keys, colliding ones, and NULL."""
    chosen = random.Random(6)
    keys = sorted({key for topic, key in store_pairs if topic == "TopicTest"})
    asked = [*chosen.sample(keys, 40), "Aa", "BB", "k", *(f"absent{i}" for i in range(20))]
    asked = list(dict.fromkeys(asked))
    pairs = [*(("TopicTest", key) for key in asked), ("TopicTest", None), (None, "k")]
    spark.createDataFrame(pairs, "topic STRING, key STRING").createOrReplaceTempView("asked")
    state = ", match_state" if log == "auto" else ""
    found = sql(f"""
        SELECT {", ".join(f"r.{name.strip()}" for name in (COLUMNS + state).split(","))}
        FROM asked a, LATERAL rmq_lookup('{store}', a.topic, a.key, commitLog => '{log}') r
    """)
    table = pyspark_rmqindex.table(spark, str(store), commitLog=log)
    table.createOrReplaceTempView("messages")
    literals = ", ".join(f"'{key}'" for key in asked)
    expected = sql(f"""
        SELECT {COLUMNS}{state} FROM messages WHERE topic = 'TopicTest' AND key IN ({literals})
    """)
    assert rows(found) == rows(expected)
    assert len(rows(found)) > 50


def test_times_come_as_timestamps_or_milliseconds(spark, sql, store):
    """In the session's zone, constant or from another table; NULL is no bound."""
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    every = sql(f"SELECT * FROM rmq_lookup('{store}', 'TopicTest', 'order-49')")
    middle = rows(every.selectExpr("CAST(store_timestamp AS STRING)"))[5][0]
    millis = sql(f"SELECT unix_millis(TIMESTAMP '{middle}')").collect()[0][0]
    expected = rows(every.where(f"store_timestamp >= TIMESTAMP '{middle}'"))
    assert 0 < len(expected) < every.count()
    call = f"rmq_lookup('{store}', 'TopicTest', 'order-49', begin => "
    assert rows(sql(f"SELECT * FROM {call}TIMESTAMP '{middle}')")) == expected
    assert rows(sql(f"SELECT * FROM {call}{millis}L)")) == expected
    assert rows(sql(f"SELECT * FROM {call}NULL)")) == rows(every)
    of_rows = sql(f"""
        SELECT r.* FROM VALUES (TIMESTAMP '{middle}', TIMESTAMP '{middle}') AS t(b, e),
        LATERAL {call}t.b, end => t.e) r
    """)
    assert rows(of_rows) == rows(every.where(f"store_timestamp = TIMESTAMP '{middle}'"))


def test_each_row_may_name_its_own_store(sql, store, tmp_path):
    """And then the column ``store`` is there; several stores may also be one constant."""
    for name in ("a", "b"):
        shutil.copytree(store, tmp_path / name)
    call = "'TopicTest', 'order-49', commitLog => 'none') r GROUP BY r.store"
    by_row = sql(f"""
        SELECT r.store, count(*) FROM VALUES ('{tmp_path}/a'), ('{tmp_path}/b') AS s(path),
        LATERAL rmq_lookup(s.path, {call}
    """)
    by_array = sql(f"""
        SELECT r.store, count(*) FROM rmq_lookup(array('{tmp_path}/a', '{tmp_path}/b'), {call}
    """)
    by_pattern = sql(f"SELECT r.store, count(*) FROM rmq_lookup('{tmp_path}/*', {call}")
    expected = [(f"{tmp_path}/a", 11), (f"{tmp_path}/b", 11)]
    assert rows(by_row) == rows(by_array) == rows(by_pattern) == expected


def test_keys_without_messages_are_kept_on_request(sql, store):
    """With NULL in the columns of entries, also where the key is NULL."""
    found = sql(f"""
        SELECT k.key, r.key, r.phy_offset IS NULL, count(*)
        FROM VALUES ('order-49'), ('absent'), (NULL) AS k(key),
        LATERAL rmq_lookup('{store}', 'TopicTest', k.key, how => 'left') r GROUP BY ALL
    """)
    assert rows(found) == [
        ("absent", "absent", True, 1),
        ("order-49", "order-49", False, 11),
        (None, None, True, 1),
    ]


OUTER = """
    SELECT k.key, count(r.phy_offset) FROM
    (SELECT * FROM VALUES ('absent'), ('order-49') AS k(key)) k
    LEFT JOIN LATERAL {call} r {condition} GROUP BY k.key
"""
CALL = "rmq_lookup('{store}', 'TopicTest', k.key{how})"


@pytest.mark.parametrize(
    "call", sampled([CALL, f"(SELECT * FROM {CALL})"], CALL), ids=["plain", "subquery"]
)
class TestLeftJoinLateral:
    """An outer join with the function itself, or with a subquery that calls it."""

    @pytest.mark.xfail(strict=True, reason="without ON, Spark forgets OUTER of Python functions")
    def test_without_on_keys_without_messages_are_kept(self, sql, store, call):
        """The day they are, the documentation need not warn of it."""
        found = sql(OUTER.format(call=call.format(store=store, how=""), condition=""))
        assert rows(found) == [("absent", 0), ("order-49", 11)]

    def test_with_on_keys_without_messages_are_kept(self, sql, store, call):
        """As the documentation says."""
        found = sql(OUTER.format(call=call.format(store=store, how=""), condition="ON true"))
        assert rows(found) == [("absent", 0), ("order-49", 11)]

    def test_how_left_keeps_them_with_and_without_on(self, sql, store, call):
        """Each once."""
        for condition in ("", "ON true"):
            filled = call.format(store=store, how=", how => 'left'")
            found = sql(OUTER.format(call=filled, condition=condition))
            assert rows(found) == [("absent", 0), ("order-49", 11)]


def test_the_message_stands_beside_its_entry(sql, store):
    """Maps, bytes and structures included."""
    (row, *_) = sql(f"""
        SELECT key, properties, body, decoded_uniq_key, match_state
        FROM rmq_lookup('{store}', 'TopicTest', 'order-49', message => true) ORDER BY phy_offset
    """).collect()
    assert row.match_state == "verified"
    assert "order-49" in row.properties["KEYS"].split(" ")
    assert isinstance(row.body, (bytes, bytearray))


@pytest.mark.system
def test_errors_come_when_the_statement_is_analysed_or_name_the_path(sql, store, tmp_path):
    """With what is allowed."""
    with pytest.raises(AnalysisException, match="argument 'mod': unknown; did you mean 'mode'"):
        sql(f"SELECT * FROM rmq_lookup('{store}', 'TopicTest', 'k', mod => 'x')")
    with pytest.raises(AnalysisException, match=f"RmqIndexError: {tmp_path}/no: no such file"):
        sql(f"SELECT * FROM rmq_lookup('{tmp_path}/no', 'TopicTest', 'k')")
    late = sql(f"""
        SELECT r.* FROM VALUES ('{tmp_path}/no') AS s(path),
        LATERAL rmq_lookup(s.path, 'TopicTest', 'k') r
    """)
    with pytest.raises(PythonException, match=f"{tmp_path}/no: no such file"):
        late.collect()


def key_of_code(prefix, code):
    """Return a key with which a prefix has a certain ``String.hashCode``."""
    for character in prefix:
        code -= ord(character) * 31 ** (6 + len(prefix))
        prefix = prefix[1:]
    # Seven digits in base 31 name every number of 32 bits; "(" stands for 0.
    code = (code - sum(ord("(") * 31**place for place in range(7))) % 2**32
    return "".join(chr(ord("(") + code // 31**place % 31) for place in range(6, -1, -1))


class TestKeyHash:
    """The broker's hash."""

    @pytest.mark.system
    def test_a_filter_with_constants_is_pushed_down(self, spark, sql, store):
        """Whatever characters they have, up to the documented length; and right beyond it."""
        frame = pyspark_rmqindex.table(spark, str(store), keys=False)
        frame.createOrReplaceTempView("entries")
        longest = "k" * (MAX_FOLDED_UNITS - len("TopicTest#"))
        for topic, key in (("TopicTest", "order-49"), ("订单主题", "😀é"), ("TopicTest", longest)):
            fresh = pyspark_rmqindex.table(spark, str(store), keys=False)
            fresh.createOrReplaceTempView("entries")
            found = sql(f"SELECT * FROM entries WHERE key_hash = rmq_key_hash('{topic}', '{key}')")
            (expected,) = index_key_hashes([topic], [key]).tolist()
            assert found.count() == frame.where(f"key_hash = {expected}").count()
            assert pyspark_rmqindex.last_plan(fresh).key_hashes == (expected,)
        too_long = sql(f"SELECT rmq_key_hash('TopicTest', '{longest}k')").collect()[0][0]
        assert too_long == index_key_hashes(["TopicTest"], [longest + "k"])[0]

    def test_both_functions_hash_as_the_broker_does(self, spark, sql):
        """Random texts of all planes and lengths, columns and NULL; and the one without a sign."""
        chosen = random.Random(7)
        alphabet = "abcXYZ019-_#% é订单😀\u0000\uffff"
        texts = [
            ("Topic", "".join(chosen.choices(alphabet, k=chosen.choice([0, 1, 7, 40, 130, 200]))))
            for _ in range(60)
        ]
        texts += [("", ""), ("T", key_of_code("T#", 2**31))]
        frame = spark.createDataFrame(
            [*texts, ("T", None), (None, "k")], "topic STRING, key STRING"
        )
        frame = frame.coalesce(1)
        expected = index_key_hashes(*map(list, zip(*texts, strict=True))).tolist()
        both = frame.selectExpr("rmq_key_hash(topic, key)", "rmq_key_hashes(topic, key)").collect()
        assert expected[-1] == 0  # the code -2**31 has no magnitude
        assert [row[0] for row in both] == [*expected, None, None]
        assert [row[1] for row in both] == [*expected, None, None]
        assert sql("SELECT rmq_key_hash('T', NULL)").collect()[0][0] is None

    @pytest.mark.system
    @pytest.mark.spark_arrow_functions
    def test_bytes_that_are_no_text_have_no_hash(self, spark, sql, store):
        """Constant or from a column; a filter with it finds nothing."""
        found = sql("""
            SELECT rmq_key_hash(topic, key), rmq_key_hashes(topic, key)
            FROM VALUES ('T', cast(X'ff' AS STRING)), (cast(X'c3' AS STRING), 'k'), ('T', 'é')
            AS asked(topic, key)
        """).collect()
        (known,) = index_key_hashes(["T"], ["é"]).tolist()
        assert [tuple(row) for row in found] == [(None, None), (None, None), (known, known)]
        frame = pyspark_rmqindex.table(spark, str(store), keys=False)
        assert frame.where("key_hash = rmq_key_hash('T', cast(X'ff' AS STRING))").collect() == []


def test_a_lookup_of_bytes_that_are_no_text_finds_nothing(sql, store):
    """Constant or by LATERAL."""
    found = sql(f"SELECT * FROM rmq_lookup('{store}', 'TopicTest', cast(X'ff' AS STRING))")
    assert found.collect() == []
    found = sql(f"""
        SELECT a.key FROM VALUES ('BB'), (cast(X'ff' AS STRING)) AS a(key),
        LATERAL rmq_lookup('{store}', 'TopicTest', a.key)
    """)
    assert {row[0] for row in found.collect()} == {"BB"}


def test_reasons_for_the_keys_of_another_table(sql, store):
    """By LATERAL, a row for each reason; a NULL key has none."""
    found = sql(f"""
        SELECT a.key, r.code, r.phy_offsets
        FROM VALUES ('order-49'), ('nobody'), (NULL) AS a(key),
             LATERAL rmq_explain('{store}', 'TopicTest', a.key, searchLog => 'all') r
        WHERE r.code IN ('hit', 'not_in_log') ORDER BY a.key
    """).collect()
    assert [(row.key, row.code, len(row.phy_offsets)) for row in found] == [
        ("nobody", "not_in_log", 0),
        ("order-49", "hit", 11),
    ]
    with pytest.raises(AnalysisException, match="expected the name of a topic, got ''"):
        sql(f"SELECT * FROM rmq_explain('{store}', '', 'k')")
