"""States of a disk: from nodes to paths, and onto a real directory."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .recorded import Tree

__all__ = ["tree_of_nodes"]


def tree_of_nodes(tree: Tree) -> dict[str, bytes | str | None]:
    """Return what can be reached from the folder, as ``tree_of`` returns it of a real one."""
    found: dict[str, bytes | str | None] = {}
    places = [("", 0)]
    while places:
        path, number = places.pop()
        for name, inner in tree[number].entries.items():
            node, place = tree[inner], f"{path}{name}"
            if node.kind == "directory":
                found[place] = None
                places.append((f"{place}/", inner))
            else:
                found[place] = bytes(node.data) if node.kind == "file" else node.data.decode()
    return found
