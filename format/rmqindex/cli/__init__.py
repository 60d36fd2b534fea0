"""The command ``rmqindex``."""
