"""How an IndexFile is laid out: its numbers of slots and entries, and its header."""
