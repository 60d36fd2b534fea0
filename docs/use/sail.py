"""Ask a store through Sail, without Java."""

from pysail.spark import SparkConnectServer
from pyspark.sql import SparkSession

from pyspark_rmqindex import lookup, table
from rmqindex import sample_store

server = SparkConnectServer()
server.start(background=True)
_, port = server.listening_address
spark = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").getOrCreate()
store = str(sample_store())  # or your broker's, such as /data/rocketmq/store

table(spark, store).createOrReplaceTempView("messages")
spark.sql("""
    SELECT key, count(*) AS messages, max(phy_offset) AS newest FROM messages
    WHERE topic = 'TopicTest' AND key = 'order-49' GROUP BY key
""").show()

keys = spark.createDataFrame(
    [("TopicTest", "order-49"), ("TopicTest", "BB")], "topic STRING, key STRING"
)
lookup(keys, store).groupBy("key").count().orderBy("key").show()
