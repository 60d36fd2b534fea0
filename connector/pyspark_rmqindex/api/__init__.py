"""Functions that users call: ``table`` and ``last_plan``."""
