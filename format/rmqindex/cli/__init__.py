"""The command ``rmqindex``.

A module of ``commands`` holds the commands of one subject: it parses options, calls the rooms
below, and hands the answer to an ``Output``. ``command`` lists the commands and loads a module when
one of its commands is used. Only this room imports click.
"""

import os
import sys

__all__ = [
    "main",
]


class _NoPandas:
    """Finds no pandas, whether it is installed or not.

    Arrow imports it, to recognise its Series, when it first sees a NumPy array. No command has a
    Series, and the import takes longer than most of them.
    """

    @staticmethod
    def find_spec(name: str, _path: object = None, _target: object = None) -> None:
        """Refuse pandas, and leave other modules to other finders."""
        if name == "pandas":
            raise ModuleNotFoundError("a command needs no pandas", name=name)


def main() -> None:
    """Run the command line and exit: 0 for an answer, 1 for none, 2 for bad usage or a bad file."""
    sys.meta_path.insert(0, _NoPandas())
    # NumPy's linear algebra, which no command uses, would start a thread for each core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

    from rmqindex.cli.command import run  # noqa: PLC0415  (it imports click)

    run()
