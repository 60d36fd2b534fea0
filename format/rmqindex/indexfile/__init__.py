"""One IndexFile: its geometry, entries and chains, read, searched and written."""
