"""Every way in through Spark Connect."""

import tempfile

from pyspark.sql import SparkSession

import pyspark_rmqindex
import rmqindex

spark = SparkSession.builder.remote("local[2]").getOrCreate()  # or remote("sc://host:15002")
store = str(rmqindex.sample_store())  # a path that the server and its workers can read

messages = pyspark_rmqindex.table(spark, store)
messages.where("topic = 'TopicTest' AND key = 'order-49'").groupBy("key").count().show()
print(pyspark_rmqindex.last_plan(messages))

pyspark_rmqindex.register(spark)
spark.sql(f"""
    SELECT phy_offset, match_state FROM rmq_lookup('{store}', 'TopicTest', 'order-49')
    ORDER BY phy_offset LIMIT 2
""").show()

keys = spark.createDataFrame([("TopicTest", "order-49"), ("TopicTest", "BB")], ["topic", "key"])
pyspark_rmqindex.lookup(keys, store).groupBy("key").count().orderBy("key").show()

log = spark.read.format("rmqcommitlog").load(store)
log.groupBy("topic").count().orderBy("topic").show(2)

rows = log.select("topic", "uniq_key", "keys", "sys_flag", "phy_offset", "store_timestamp")
with tempfile.TemporaryDirectory() as directory:  # which the server and its workers can write
    geometry = {"maxHashSlotNum": "499", "maxIndexNum": "600"}
    pyspark_rmqindex.write_index(rows, f"{directory}/built", **geometry)
    one = rows.where("topic = 'TopicTest'").coalesce(1).write.format("rmqindex")
    one.mode("append").options(**geometry).save(f"{directory}/written")
    stream = spark.readStream.format("rmqcommitlog").load(store).select(rows.columns)
    into = stream.writeStream.format("rmqindex").trigger(availableNow=True)
    into.options(**geometry, checkpointLocation=f"{directory}/progress")
    into.start(f"{directory}/streamed").awaitTermination()
    for name in ("built", "written", "streamed"):
        print(name, spark.read.format("rmqindex").load(f"{directory}/{name}").count())
spark.stop()
