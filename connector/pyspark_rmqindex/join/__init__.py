"""Millions of keys against an index: ``lookup()``."""
