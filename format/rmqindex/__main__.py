"""``python -m rmqindex``: the command line."""

from rmqindex.cli.main import main

main()
