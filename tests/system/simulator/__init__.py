"""A store in a world that is made from a seed, and judged by a model too simple to be wrong.

``model`` writes the files as brokers do, and keeps a list of what they hold; it shares no code with
the package. ``history`` draws steps from a seed and runs them; ``damage`` plants what disks do.
"""
