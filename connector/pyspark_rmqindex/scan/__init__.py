"""Plans a scan or a lookup of entries, and reads them in tasks.

The driver's planning processes list files, prune them, divide them among tasks and log the plan.
A task reads only the files it was planned for, or raises.
All plans of one relation are widened to cover each other (:mod:`.pushdown`), since Spark may run a
scan with the plan of another; a task that cannot be sure of its plan raises.
"""
