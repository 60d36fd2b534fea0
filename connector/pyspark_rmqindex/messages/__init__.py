"""Reads CommitLog messages and ConsumeQueue units as rows.

Planning divides log files at record boundaries, and packs queue files by their size.
Tasks return batches of exactly the Arrow schema that Spark asked for.
Damage raises in the mode ``FAILFAST`` and is skipped in ``DROPMALFORMED``.
"""
