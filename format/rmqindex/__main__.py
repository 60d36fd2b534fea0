"""``python -m rmqindex``: the command line."""

from rmqindex._cli import main

main()
