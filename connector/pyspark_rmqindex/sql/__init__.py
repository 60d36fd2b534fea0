"""Functions for Spark SQL: ``rmq_lookup``, ``rmq_key_hash`` and their calls."""
