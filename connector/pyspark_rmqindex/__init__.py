"""Apache RocketMQ IndexFiles as a Spark data source."""
