"""``python -m rmqindex``: the command line."""

from rmqindex.cli import main

main()
