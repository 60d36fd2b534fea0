"""What the command and Python show alike: facts of a store, sizes, plots and printable text."""
