"""A whole broker, name server and clients of RocketMQ, and what this project makes of its store."""

#: The newest of which Maven Central has all parts, and one that indexes no tags.
VERSIONS = ("5.5.0", "4.9.7")
