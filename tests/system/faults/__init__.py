"""What no seed does: Spark killed, or out of space; writers that stand still, or meet."""
