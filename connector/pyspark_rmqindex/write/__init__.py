"""Rows to IndexFiles: input shapes, staged runs, file plans and the commit."""
