"""Keys of messages and their hashes: which keys a broker indexes, and where they land."""
