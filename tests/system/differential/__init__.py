"""RocketMQ's own IndexFile and IndexService beside ours, on the same random operations."""
