"""Look keys up and read messages through Spark Connect."""

from pyspark.sql import SparkSession

import pyspark_rmqindex
import rmqindex

spark = SparkSession.builder.remote("local[2]").getOrCreate()  # or remote("sc://host:15002")
store = str(rmqindex.sample_store())  # a path that the server and its workers can read

messages = pyspark_rmqindex.table(spark, store)
messages.where("topic = 'TopicTest' AND key = 'order-49'").groupBy("key").count().show()

pyspark_rmqindex.register(spark)
spark.sql(f"""
    SELECT phy_offset, match_state FROM rmq_lookup('{store}', 'TopicTest', 'order-49')
    ORDER BY phy_offset LIMIT 2
""").show()

keys = spark.createDataFrame([("TopicTest", "order-49"), ("TopicTest", "BB")], ["topic", "key"])
pyspark_rmqindex.lookup(keys, store).groupBy("key").count().orderBy("key").show()

log = spark.read.format("rmqcommitlog").load(store)
log.groupBy("topic").count().orderBy("topic").show(2)
spark.stop()
