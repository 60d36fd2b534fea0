"""The classes that Spark loads for ``rmqindex``, ``rmqcommitlog`` and ``rmqconsumequeue``.

Each class checks its options and columns, then returns a reader or writer from another room.
An error in them is raised where Spark shows it: never in ``__init__``.
If PySpark is too old, the classes of :mod:`.refused` take their place and say so when used.
"""
