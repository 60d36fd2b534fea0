"""What the tests of the format share."""

from __future__ import annotations

import pytest
from vectors import VECTORS, Vector


@pytest.fixture(params=VECTORS, ids=[case["name"] for case in VECTORS])
def vector(request, tmp_path):
    """One case of ``vectors.json``, its file on disk."""
    case = request.param
    path = tmp_path / case["name"]
    path.write_bytes(bytes.fromhex(case["file_hex"]))
    return Vector(case, path)
