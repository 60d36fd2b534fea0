"""What RocketMQ's own classes do at the edges that the specification settles."""
