"""What the paths of a load stand for: files, stores and their CommitLogs."""
