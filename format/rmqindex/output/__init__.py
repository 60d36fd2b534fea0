"""Answers of the command, for people and for machines: tables, texts, JSON documents and CSV.

A command hands its answer to an :class:`~rmqindex.output.interface.Output` and never asks which of
the two it writes to.
"""
