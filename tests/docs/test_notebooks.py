"""The notebooks of the site print what they show.

``python tests/docs/test_notebooks.py`` runs them, and writes what they print into them.
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from unittest.mock import patch

import nbformat
import pytest
from nbclient import NotebookClient

GUIDES = Path(__file__).resolve().parents[2] / "docs" / "use"
NOTEBOOKS = sorted(GUIDES.glob("*.ipynb"))
#: A picture differs from one version of matplotlib to the next.
TEXTS = ("text/plain", "text/html")


def executed(path: Path, directory: Path) -> nbformat.NotebookNode:
    """Run a notebook in an empty directory, in UTC, and return it with what it printed."""
    notebook = nbformat.read(path, as_version=4)
    client = NotebookClient(
        notebook, timeout=300, record_timing=False, resources={"metadata": {"path": str(directory)}}
    )
    with patch.dict(os.environ, {"TZ": "UTC", "IPYTHONDIR": str(directory / ".ipython")}):
        client.execute()
    notebook.metadata = {"kernelspec": notebook.metadata["kernelspec"]}
    return notebook


def shown(notebook: nbformat.NotebookNode) -> list[object]:
    """Return the outputs of each cell, of pictures only that they are there."""
    return [
        [
            output.get("text", "")
            or {
                kind: data if kind in TEXTS else "a picture"
                for kind, data in output["data"].items()
            }
            for output in cell.outputs
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.mark.system
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_cell_of_a_notebook_prints_what_is_shown(path: Path, tmp_path: Path) -> None:
    """Cells run from top to bottom, in a kernel of their own."""
    assert shown(executed(path, tmp_path)) == shown(nbformat.read(path, as_version=4))


if __name__ == "__main__":
    for each in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as place:
            nbformat.write(executed(each, Path(place)), each)
