"""Turns pushed filters into what a scan must find, and builds the batches it returns.

``filters_to_wanted`` returns a superset of the rows that pass; Spark filters again.
A filter that is not understood is ignored, never guessed at.
``BatchBuilder`` makes batches of exactly the Arrow schema that Spark asked for.
Nothing here needs a Spark session or touches a file.
"""
