"""Bytes of files, wherever they lie: mapped local files and ranges of remote objects.

Nothing here knows what the bytes mean.
"""
