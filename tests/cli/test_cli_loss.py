"""No command leaves out or throws away entries without saying so."""

from __future__ import annotations

import json
import struct

import pytest

COUNTS = [-1, 0, 1, 50, 176, 2**31 - 1]


@pytest.fixture
def files(store):
    """The five IndexFiles of the sample store, oldest first."""
    return sorted((store / "index").iterdir())


def set_count(path, count):
    """Damage the ``index_count`` of a file."""
    with path.open("r+b") as file:
        file.seek(36)
        file.write(struct.pack(">i", count))


def salvaged(run, path):
    """Return how many entries can be salvaged."""
    code, out, err = run("scan", path, "--salvage", "--json")
    assert (code, err) == (0, "")
    return len(out.splitlines())


@pytest.mark.parametrize("count", COUNTS)
def test_a_damaged_count_stops_scan_info_and_export(run, store, files, tmp_path, count):
    """They would leave out the entries of the file; all of them are salvaged."""
    set_count(files[2], count)
    for command in (
        ["scan", store],
        ["info", store],
        ["export", store, tmp_path / "out", "--entries"],
    ):
        code, _, err = run(*command)
        assert code == 2
        assert files[2].name in err
    assert salvaged(run, store) == 959


def test_a_damaged_count_is_named_where_it_is_passed_over(run, store, files):
    """The rest is read, with a line of what is missing."""
    set_count(files[2], 0)
    code, out, err = run("scan", store, "--mode", "DROPMALFORMED", "--json")
    assert code == 0
    assert len(out.splitlines()) == 760
    assert f"{files[2].name}: the answer lacks the entries behind position 0" in err


def test_the_remedy_of_a_damaged_count_works_as_it_is_printed(run, store, files):
    """From the error to verify, and from there to an index that is whole again."""
    set_count(files[2], 0)
    code, out, _ = run("verify", store, "--json")
    assert code == 1
    assert f"rmqindex rebuild {store} --replace" in out
    assert run("rebuild", store, "--replace")[0] == 0
    code, out, _ = run("info", store, "--json")
    assert code == 0
    assert sum(file["entry_count"] for file in json.loads(out)["files"]) == 959
