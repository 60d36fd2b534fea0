"""Structured Streaming: the sources of entries and of messages, and the index sink.

A batch is determined by its two offsets alone, so a restarted query runs the same batch again.
Offsets also hold what proves that the data before them is unchanged; lost or replaced data raises,
or is logged if ``failOnDataLoss`` is off.
The sink commits each batch exactly once, however often Spark runs it.
"""
