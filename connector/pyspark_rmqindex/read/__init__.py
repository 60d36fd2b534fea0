"""Plans a scan or a lookup of entries, and reads them in tasks.

``filters`` turns what Spark pushes down into a superset of the rows that pass; Spark filters again,
and a filter that is not understood is ignored, never guessed at.
The driver's planning processes list files, prune them, divide them among tasks and log the plan.
A task reads only the files it was planned for, or raises, and returns batches of exactly the Arrow
schema that Spark asked for.
"""
