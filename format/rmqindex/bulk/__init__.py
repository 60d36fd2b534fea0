"""Whole indexes at once: rebuilt from a CommitLog, laid out anew, salvaged."""
