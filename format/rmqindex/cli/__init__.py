"""The command ``rmqindex``."""

from rmqindex.cli.command import main

__all__ = [
    "main",
]
