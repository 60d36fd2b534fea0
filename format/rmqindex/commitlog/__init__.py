"""The CommitLog: its files, records, properties, bodies and batches, as Arrow arrays."""
