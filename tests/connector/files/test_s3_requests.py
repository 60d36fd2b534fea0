"""What reads ask of S3: requests grow with the files, and what nobody counted is damage."""

from __future__ import annotations

import pytest

from kinds import sampled
from pyspark_rmqindex.files.listing import list_slices
from pyspark_rmqindex.options import read_options
from pyspark_rmqindex.read import IndexReader
from pyspark_rmqindex.schema import full_schema
from rmqindex import CorruptIndexError, IndexFileWriter, Layout
from rows import rows_read
from s3_server import by_kind

# Four entries to a slot are found without being told.
LAYOUT = Layout(100, 400)
GEOMETRY = {"maxHashSlotNum": "100", "maxIndexNum": "400"}
# What finds the paths, and sees that nothing changed meanwhile.
HEADS, LISTS = 4, 8


@pytest.mark.parametrize("count", sampled([10, 100], 10))
def test_a_plan_asks_each_file_for_its_size_and_its_header(s3_environment, tmp_path, count):
    """And at most six times more where its geometry has to be proved."""
    for number in range(count):
        with IndexFileWriter(tmp_path / f"{20240102030405678 + number}", LAYOUT) as writer:
            writer.put_many(range(100), range(100), [1_700_000_000_000] * 100)
    uri = s3_environment.put(tmp_path, f"planned-{count}")
    for options, most in ((GEOMETRY, 1), ({}, 7)):
        with s3_environment.counted() as requests:
            assert len(list_slices(read_options({"path": uri, **options})).slices) == count
        asked = by_kind(requests)
        assert asked["HEAD"] <= count + HEADS
        assert asked["GET"] <= most * count
        assert asked["LIST"] <= LISTS


def test_a_load_of_entries_behind_the_count_is_refused(s3_environment, tmp_path):
    """As of a local file, though a plan does not ask for them."""
    path = tmp_path / "20240102030405678"
    with IndexFileWriter(path, LAYOUT) as writer:
        writer.put_many(range(100), range(100), [1_700_000_000_000] * 100)
    with path.open("r+b") as file:
        file.seek(36)
        file.write(bytes([0, 0, 0, 51]))
    far = s3_environment.put(tmp_path, "lowered-count-of-a-load")
    for place in (str(tmp_path), far):
        options = {"path": place, **GEOMETRY}
        reader = IndexReader(read_options(options), full_schema(keys=False), options)
        with pytest.raises(CorruptIndexError, match=r"index_count at byte 36: .* got 51"):
            rows_read(reader, reader.partitions())
