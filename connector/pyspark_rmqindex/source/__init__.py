"""The classes that Spark loads, and the functions that users call on a session: the top room.

Each class checks its options and columns, then returns a reader or writer from another room.
An error in them is raised where Spark shows it: never in ``__init__``.
If PySpark is too old, the classes of :mod:`.refused` take their place and say so when used.
``register``, ``table`` and ``last_plan`` set up a session or a DataFrame, or report a plan; they
run on the driver, in classic Spark and in Spark Connect, and read no entries.
"""
