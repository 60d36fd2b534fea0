"""What a WHERE asks of entries, and the rows of a batch that pass."""
