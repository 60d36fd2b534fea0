"""The functions that users call: ``register``, ``table`` and ``last_plan``.

They run on the driver, in classic Spark and, except for ``last_plan``, in Spark Connect.
They only set up a session or a DataFrame, or report a plan; they read no entries.
This is the top room of the package: no other room imports it.
"""
