"""A Spark cluster of two workers on this machine, which know the package by --py-files alone."""
