"""Messages and ConsumeQueue units as rows."""
