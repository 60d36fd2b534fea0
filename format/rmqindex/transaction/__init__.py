"""All or nothing: several files enter an index directory at once, or none does.

A commit leaves an undo log that readers obey, so that nobody ever sees a mixture.
"""
