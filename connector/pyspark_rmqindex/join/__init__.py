"""``lookup()``: joins a DataFrame of keys, up to millions of them, with an index.

The files are listed once, when ``lookup()`` is called; each task searches all of them for its keys.
For each file and task, ``cost`` chooses between probing slots and scanning the whole file.
A task holds a bounded number of bytes in memory and spills further rows of keys to a local file.
"""
