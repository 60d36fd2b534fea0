"""ConsumeQueues: found, read, and rebuilt from a CommitLog."""
