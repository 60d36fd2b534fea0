"""What an index directory holds, as readers find it, and what is wrong with it."""

from __future__ import annotations

import hashlib

from rmqindex import IndexFile, Layout, verify
from rmqindex.transaction import effective_listing, exists, staging_root

SMALL = Layout(31, 90)
LAYOUT = Layout(97, 200)
LAYOUTS = {layout.file_size: layout for layout in (SMALL, LAYOUT)}
_COLUMNS = ["key_hash", "phy_offset", "store_timestamp", "position", "prev_position"]
_OF_STREAMS = {"lock", "ledger.json"}


def seen(directory):
    """Return each file's rows as readers find them; every chain must lead to its entries.

    Returns:
        One tuple a file, its size and its rows; names are not compared.
    """
    if not exists(directory):
        return ()
    found = []
    for _, path in sorted(effective_listing(directory).items()):
        size = path.stat().st_size
        with IndexFile(path, LAYOUTS.get(size)) as file:
            rows = [
                tuple(row.values()) for b in file.scan(columns=_COLUMNS) for row in b.to_pylist()
            ]
            assert file.lookup(sorted({row[0] for row in rows})).num_rows == len(rows), (
                f"{path}: broken chains"
            )
        found.append((size, tuple(rows)))
    return tuple(found)


def rows_of(state):
    """Return the rows of all files in order."""
    return [row[:3] for _, rows in state for row in rows]


def errors_in(directory):
    """Return what the audit calls errors."""
    if not exists(directory) or not effective_listing(directory):
        return []
    findings = verify(directory).to_pylist()
    return [finding for finding in findings if finding["severity"] == "error"]


def left_beside(directory, *, streams=False):
    """Return the names that a write left beside an index and should not have."""
    root = staging_root(directory)
    if not root.exists():
        return []
    names = {path.name for path in root.iterdir()}
    return sorted(names - _OF_STREAMS) if streams else sorted({root.name, *names})


def tree(root, *folders):
    """Return a digest of every file below folders of a directory."""
    return {
        str(path.relative_to(root)): hashlib.sha256(path.read_bytes()).hexdigest()
        for folder in folders
        for path in sorted((root / folder).rglob("*"))
        if path.is_file()
    }
