"""Writes rows as IndexFiles: ``df.write.format("rmqindex")`` and ``write_index``.

``InputShape`` decides from the schema alone how rows become entries.
Tasks stage runs or files; nothing in the index changes before the commit.
The driver commits all staged rows or none, and undoes an unfinished commit.
"""
