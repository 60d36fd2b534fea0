"""Spark's data sources: ``rmqindex``, ``rmqcommitlog`` and ``rmqconsumequeue``."""
