"""A broker in plain Python: it writes the files, and keeps the truth about them in lists."""
