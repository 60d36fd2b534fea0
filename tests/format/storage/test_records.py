"""Records: a sound one is read, and anything else is an error that names it."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from damage import DAMAGES, damaged
from record_kinds import RECORD_KINDS
from rmqindex import RmqIndexError
from rmqindex.storage.records import Fields, RecordKind
from rmqindex.transaction import Owner

OWNER = {"host": "a", "boot_id": "b", "namespace": "pid:[1]", "pid": 7, "start_time": 9}
APPEND = {
    "name": "1", "hash_slot_num": 97, "index_num": 200, "header": "00" * 40, "entries": 1,
    "end_phy_offset": 0, "end_timestamp": 0, "checksum": 0,
}  # fmt: skip
JOURNAL = {
    "job": "job-1", "created": False, "old": ["1"], "new": ["2"], "append": APPEND, "ledger": {}
}  # fmt: skip
FIELDS = {
    "owner": OWNER,
    "journal": JOURNAL,
    "ledger": JOURNAL,
    "note": {"old": ["consumequeue"], "new": ["batchconsumequeue"]},
    "commit": {
        "job": "j",
        "owner": OWNER,
        "new": [["staged", "1", 8]],
        "removed": ["2"],
        "committed": True,
    },
}
KINDS = {name: (kind, FIELDS[name]) for name, kind in RECORD_KINDS.items()}
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
kinds = pytest.mark.parametrize(("kind", "fields"), KINDS.values(), ids=KINDS)


class TestDamaged:
    """Every kind of record, after every damage."""

    @kinds
    @pytest.mark.parametrize("how", DAMAGES)
    def test_the_error_names_the_file_and_what_to_do(self, tmp_path, kind, fields, how):
        """And what was expected there."""
        path = tmp_path / "record.json"
        path.write_bytes(damaged(fields, how))
        start = re.escape(f"{path}: expected {kind.what}")
        with pytest.raises(RmqIndexError, match=f"{start}.* got .*; {re.escape(kind.remedy)}$"):
            kind.read(path)

    @kinds
    def test_a_large_file_is_refused_unread(self, tmp_path, kind, fields):
        """By its size, of which no byte is on the disk."""
        path = tmp_path / "record.json"
        path.write_bytes(json.dumps(fields).encode())
        with path.open("r+b") as file:
            file.truncate(1 << 40)
        with pytest.raises(RmqIndexError, match="got 1,099,511,627,776 bytes"):
            kind.read(path)

    @kinds
    def test_errors_stay_short(self, kind, fields):
        """Whatever length a field has."""
        for name in fields:
            for value in ("\n" * 50_000, [["x" * 50_000]], 10**4000):
                with pytest.raises(RmqIndexError) as caught:
                    kind.parse("f", json.dumps({**fields, name: value}).encode())
                assert len(str(caught.value)) < 700

    @kinds
    @given(data=st.data())
    def test_bytes_are_a_record_or_an_error(self, kind, fields, data):
        """No other exception comes from any change of any field."""
        changes = st.dictionaries(st.sampled_from(sorted(fields)), JSON)
        changed = json.dumps({**fields, **data.draw(changes)}).encode()
        for text in (changed, changed[: data.draw(st.integers(0, len(changed)))]):
            try:
                kind.parse("f", text)
            except RmqIndexError as error:
                assert str(error).startswith(f"f: expected {kind.what}")  # noqa: PT017


class TestSound:
    """What was written."""

    @kinds
    def test_what_is_encoded_is_read(self, tmp_path, kind, fields):
        """As it was."""
        path = tmp_path / "record.json"
        path.write_bytes(kind.encode("f", fields))
        assert kind.read(path) == kind.parse("f", json.dumps(fields).encode())

    @kinds
    def test_nothing_is_encoded_that_would_not_be_read(self, kind, fields):
        """The writer fails, and not everybody after it."""
        with pytest.raises(RmqIndexError, match=f"expected {kind.what} of at most"):
            kind.encode("f", {**fields, "more": "x" * kind.limit})
        with pytest.raises(RmqIndexError, match="got a damaged one"):
            kind.encode("f", {})

    @kinds
    def test_nothing_there_is_no_record(self, tmp_path, kind, fields):
        """Nor is a file in the place of its directory."""
        (tmp_path / "file").write_bytes(json.dumps(fields).encode())
        assert kind.read(tmp_path / "none") is None
        assert kind.read(tmp_path / "file" / "none") is None

    def test_fields_of_later_versions_are_passed_over(self):
        """So that an older version can still tell whose a job is."""
        assert RECORD_KINDS["owner"].parse(
            "f", json.dumps({**OWNER, "more": {}}).encode()
        ) == Owner(**OWNER)

    @pytest.mark.parametrize(
        "change",
        [{"pid": 0}, {"pid": -1}, {"start_time": -1}, {"host": "\b"}],
    )
    def test_an_owner_is_a_process(self, change):
        """One that never was would count as dead."""
        with pytest.raises(RmqIndexError, match=f"{next(iter(change))}: expected"):
            RECORD_KINDS["owner"].parse("f", json.dumps({**OWNER, **change}).encode())


class _Object:
    """An object that is replaced by a longer one between two requests."""

    def __init__(self, *contents):
        self.contents = list(contents)

    def open_input_file(self, _):
        return self

    def __enter__(self):
        self.there = self.contents.pop(0)
        return self

    def __exit__(self, *_):
        pass

    def size(self):
        return len(self.there)

    def read_at(self, size, offset):
        """The bytes that are there by now."""
        self.there = self.contents[0] if self.contents else self.there
        return self.there[offset : offset + size]

    def get_file_info(self, _):
        return _Info(len(self.there))


class _Info:
    def __init__(self, size):
        self.size = size


def test_an_object_that_is_replaced_while_it_is_read_is_read_again():
    """A claim becomes a record; of that, no half is taken for damaged."""
    kind = RecordKind("a thing", lambda fields: fields.integer("a", 0, 9), "remove it")
    assert kind.read_object(_Object(b'{"a": 1}', b'{"a": 2, "b": 3}'), "x", "s3://x") == 2
    with pytest.raises(RmqIndexError, match="s3://x: expected a thing, got a damaged one"):
        kind.read_object(_Object(b'{"a": 1'), "x", "s3://x")


def test_fields_say_which_one_is_wrong():
    """The name, what was expected, and what was found."""
    fields = Fields({"a": True, "b": "2", "c": [1]})
    with pytest.raises(ValueError, match="a: expected an integer from 0 to 5, got True"):
        fields.integer("a", 0, 5)
    with pytest.raises(ValueError, match="b: expected true or false, got '2'"):
        fields.flag("b")
    with pytest.raises(ValueError, match="c: expected a printable text, got \\[1\\]"):
        fields.text("c")
    with pytest.raises(ValueError, match="d: expected this field, got none"):
        fields.get("d")
