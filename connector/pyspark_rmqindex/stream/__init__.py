"""Streams of entries and messages, and the sink of a stream."""
