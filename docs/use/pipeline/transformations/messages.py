"""Tables of a RocketMQ store, kept up to date by ``spark-pipelines run``."""

from pyspark import pipelines as dp
from pyspark.sql import DataFrame, SparkSession

spark = SparkSession.active()
STORE = spark.conf.get("rocketmq.store")


@dp.table
def entries() -> DataFrame:
    """Every entry of the index once, however often the pipeline runs."""
    return spark.readStream.format("rmqindex").option("columns", "key_hash,phy_offset").load(STORE)


@dp.materialized_view
def messages_by_topic() -> DataFrame:
    """The number of messages of each topic, counted anew."""
    log = spark.read.format("rmqcommitlog").option("columns", "topic").load(STORE)
    return log.groupBy("topic").count()


@dp.materialized_view
def order_49() -> DataFrame:
    """The messages of one key, found by its hash slot."""
    load = spark.read.format("rmqindex").option("topic", "TopicTest").option("key", "order-49")
    return load.option("commitLog", "auto").load(STORE).select("phy_offset", "match_state")
