"""The commands, a module for each subject; ``rmqindex.cli.command`` lists and loads them."""
