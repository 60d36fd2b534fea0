"""What a session of Sail answers, as JSON, by what was asked; it needs pysail and no Java.

A refusal is its first line. ``python sail_answers.py DIRECTORY``, which is written to.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pyarrow as pa
from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

import pyspark_rmqindex
import rmqindex
from pyspark_rmqindex import last_plan, lookup, table, write_index

STORE = str(rmqindex.sample_store())
TOPIC, KEY = "TopicTest", "order-49"
ONE = f"topic = '{TOPIC}' AND key = '{KEY}'"
COLUMNS = ["topic", "uniq_key", "keys", "sys_flag", "phy_offset", "store_timestamp"]
GEOMETRY = {"maxHashSlotNum": "499", "maxIndexNum": "600"}
FIRST = "unix_millis(min(store_timestamp))"
QUEUES, MESSAGES = "rmqconsumequeue", "rmqcommitlog"


def answers(spark, directory):
    """Return what each way in answers, as functions."""

    def load(format_="rmqindex", path=STORE, **options):
        return spark.read.format(format_).options(**options).load(path)

    def in_zone(zone):
        spark.conf.set("spark.sql.session.timeZone", zone)
        try:
            own = spark.read.format("rmqindex").schema("store_timestamp TIMESTAMP").load(STORE)
            shown = own.selectExpr("CAST(min(store_timestamp) AS STRING)", FIRST).first()
            return [*shown, table(spark, STORE).where(ONE).selectExpr(FIRST).first()[0]]
        finally:
            spark.conf.set("spark.sql.session.timeZone", "UTC")

    def of_one_key(how="inner", **options):
        keys = spark.createDataFrame([(TOPIC, KEY), (TOPIC, "x")], "topic STRING, key STRING")
        return lookup(keys, STORE, how=how, **options).count()

    def planned():
        frame = table(spark, STORE)
        frame.where(ONE).collect()
        return str(last_plan(frame))

    def reused():
        frame = table(spark, STORE)
        both = frame.where(ONE).unionByName(frame.where(ONE.replace(KEY, "BB")))
        return [frame.where(ONE).count(), both.count(), frame.where(ONE).count()]

    def written(mode, rows):
        write = rows.coalesce(1).write.format("rmqindex").mode(mode).options(**GEOMETRY)
        write.save(f"{directory}/written")
        return load(path=f"{directory}/written").count()

    def built():
        write_index(messages, f"{directory}/built", **GEOMETRY)
        return load(path=f"{directory}/built").count()

    def streamed():
        stream = spark.readStream.format(MESSAGES).load(STORE).select(COLUMNS)
        sink = stream.writeStream.format("rmqindex").options(**GEOMETRY)
        sink.option("checkpointLocation", f"{directory}/progress").start(f"{directory}/streamed")

    def in_sql(text):
        return [list(row) for row in spark.sql(text).collect()]

    messages = load(MESSAGES).select(COLUMNS)
    view = f"OPTIONS (path '{STORE}')"
    return {
        "load": lambda: load().count(),
        "key": lambda: load(topic=TOPIC, key=KEY).count(),
        "keys": lambda: load(topic=TOPIC, keys=json.dumps([KEY, "BB"])).count(),
        "two paths": lambda: load(path=None, paths=json.dumps([STORE, STORE + "/index"])).count(),
        "two paths in load()": lambda: spark.read.format("rmqindex").load([STORE, STORE]).count(),
        "a log": lambda: load(commitLog="auto", message="true").where(ONE).count(),
        "columns": lambda: load(columns="position,phy_offset").columns,
        "times": lambda: load(beginTimestamp="2023-11-15T00:00:00", timeZone="UTC").count(),
        "times without a zone": lambda: load(beginTimestamp="2023-11-15T00:00:00").count(),
        "messages": lambda: load(MESSAGES).count(),
        "a message": lambda: (
            load(MESSAGES)
            .selectExpr("phy_offset", "decoded_uniq_key.kind", "size(all_keys)", "length(body)")
            .first()
            .asDict()
        ),
        "queues": lambda: load(QUEUES).count(),
        "audit": lambda: sorted({row.rule for row in load(audit="true").collect()}),
        "an unknown option": lambda: load(colums="a").count(),
        "no such path": lambda: load(path=f"{STORE}/nonexistent").count(),
        "UTC": lambda: in_zone("UTC"),
        "Asia/Shanghai": lambda: in_zone("Asia/Shanghai"),
        "table": lambda: table(spark, STORE).where(ONE).count(),
        "table, used again": reused,
        "table, four keys": lambda: (
            table(spark, STORE)
            .where(f"topic = '{TOPIC}' AND key IN ('{KEY}', 'BB', 'x', 'y')")
            .count()
        ),
        "table, two keys": lambda: (
            table(spark, STORE).where(f"topic = '{TOPIC}' AND key IN ('{KEY}', 'BB')").count()
        ),
        "table of two paths": lambda: table(spark, [STORE, STORE + "/index"]).where(ONE).count(),
        "the option pushdown": lambda: load(pushdown="true").where(ONE).count(),
        "the option pushdown, no key": lambda: load(pushdown="true").count(),
        "last_plan": planned,
        "lookup": of_one_key,
        "lookup, anti": lambda: of_one_key("anti"),
        "lookup of Arrow": lambda: lookup(
            pa.table({"key": [KEY]}), STORE, topic=TOPIC, columns="phy_offset"
        ).count(),
        "rmq_lookup": lambda: in_sql(f"SELECT * FROM rmq_lookup('{STORE}', '{TOPIC}', '{KEY}')"),
        "rmq_explain": lambda: in_sql(f"SELECT * FROM rmq_explain('{STORE}', '{TOPIC}', '{KEY}')"),
        "hashes": lambda: in_sql(
            f"SELECT rmq_key_hash('{TOPIC}', '{KEY}'), rmq_key_hashes('{TOPIC}', '{KEY}')"
        ),
        "a catalog table": lambda: [
            in_sql(f"CREATE TABLE entries USING rmqindex {view}"),
            *in_sql("SELECT count(*) FROM entries"),
        ],
        "a view": lambda: [
            in_sql(f"CREATE TEMPORARY VIEW seen USING rmqindex {view}"),
            *in_sql("SELECT count(*) FROM seen"),
        ],
        "df.write": lambda: written("append", messages.where(f"topic = '{TOPIC}'")),
        "df.write, overwrite": lambda: written("overwrite", messages.where("topic = 'TopicOrder'")),
        "write_index": built,
        "writeStream": streamed,
    }


def main():
    """Ask everything."""
    server = SparkConnectServer()
    server.start(background=True)
    _, port = server.listening_address
    spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
    pyspark_rmqindex.register(spark)
    found = {"version": spark.version}
    for name, ask in answers(spark, Path(sys.argv[1])).items():
        try:
            found[name] = ask()
        except Exception as error:  # noqa: BLE001  (what is said is the answer)
            found[name] = str(error).partition("\n")[0]
    sys.stdout.write(json.dumps(found))
    spark.stop()
    server.stop()


if __name__ == "__main__":
    main()
