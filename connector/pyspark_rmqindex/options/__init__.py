"""Options of loads, writes and streams: parsed, checked, and placed in time."""
