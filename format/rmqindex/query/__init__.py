"""Questions to a whole index: the broker's own search, exact lookups, and explanations."""
