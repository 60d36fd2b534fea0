"""The command ``rmqindex``.

A module here holds the commands of one subject: it parses options, calls the rooms below, and hands
the answer to an ``Output``. ``command`` lists the commands and loads a module when one of its
commands is used. Only this room imports click.
"""

__all__ = [
    "main",
]


def main() -> None:
    """Run the command line and exit: 0 for an answer, 1 for none, 2 for bad usage or a bad file."""
    from rmqindex.cli.command import run  # noqa: PLC0415  (it imports click)

    run()
