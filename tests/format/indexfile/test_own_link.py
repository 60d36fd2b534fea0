"""An entry that leads to itself: a broker killed between slot and count puts there again."""

from __future__ import annotations

import numpy as np
import pytest

import live_broker
from rmqindex import IndexFile, Layout, verify
from rmqindex.keys import HashSet
from rmqindex.query import PointFile

LAYOUT = Layout(5, 30)
OLD, NEW = "20231114221320000", "20231114221320029"
BEGIN = 1_700_000_000_000
HASHES = [
    3,
    8,
    4,
    3,
    3,
    9,
    3,
    1,
    2,
    3,
    4,
    11,
    13,
    3,
    7,
    3,
    12,
    6,
    8,
    3,
    2,
    9,
    4,
    3,
    1,
    13,
    6,
    3,
    12,
]
HASHES += [each + 5 for each in HASHES]


class KilledError(Exception):
    """The broker is gone."""


def store_killed(folder, monkeypatch, puts, stores, *, restarted=True):
    """Put hashes, be killed in the put after so many, start again and put the others.

    Returns:
        The newest file, and the hashes that lie in it by its header.
    """
    index = live_broker.LiveIndex(folder, LAYOUT.hash_slot_num, LAYOUT.index_num)
    index.roll(OLD)

    def put(index, place):
        if index.count >= LAYOUT.index_num:
            index.roll(NEW)
        index.put(HASHES[place], 100 + 100 * place, BEGIN + 1000 * place)

    for place in range(puts):
        put(index, place)
    if index.count >= LAYOUT.index_num:
        index.roll(NEW)
    put_number, left = live_broker.store, stores

    def dying(*arguments):
        nonlocal left
        if not left:
            raise KilledError
        left -= 1
        put_number(*arguments)

    with monkeypatch.context() as patched:
        patched.setattr(live_broker, "store", dying)
        with pytest.raises(KilledError):
            put(index, puts)
    index = live_broker.LiveIndex(folder, LAYOUT.hash_slot_num, LAYOUT.index_num)
    last = max(folder.iterdir()).name
    for place in range(puts, len(HASHES) if restarted else puts):
        put(index, place)
    return folder / last


def truth(path):
    """Return hash, position and link of each entry, newest first."""
    data = path.read_bytes()
    count = int.from_bytes(data[36:40], "big")
    found = []
    for position in range(count - 1, 0, -1):
        entry = data[LAYOUT.entry_offset(position) :][:20]
        link = int.from_bytes(entry[16:], "big")
        found.append((int.from_bytes(entry[:4], "big"), position, link))
    return found


def answers(path, mode, layout):
    """Return hashes with positions as each way of reading gives them."""
    wanted = np.unique(np.array(HASHES, np.int32))
    with IndexFile(path, layout, mode=mode) as file:
        assert file.layout == LAYOUT
        yield from (file.search(HashSet(wanted), by_scan=by_scan) for by_scan in (False, True))
        yield file.scan()
        yield [file.lookup(wanted)]
        yield [file.lookup([each]) for each in wanted.tolist()]


# Of the first entry in a file that inherits its end, and of one in the first file; of later ones,
# in a slot that had none and in one that had some.
@pytest.mark.parametrize(
    ("puts", "stores"),
    [(puts, stores) for puts in (0, 29) for stores in (5, 6, 7, 8)]
    + [(2, 5), (2, 6), (4, 5), (33, 5)],
)
@pytest.mark.parametrize("mode", ["FAILFAST", "DROPMALFORMED"])
@pytest.mark.parametrize("layout", [LAYOUT, None])
def test_every_way_of_reading_finds_all_entries(tmp_path, monkeypatch, puts, stores, mode, layout):
    """What the broker finds, and the older entries that the link hides from it."""
    path = store_killed(tmp_path / "index", monkeypatch, puts, stores)
    entries = truth(path)
    assert [position for _, position, link in entries if link == position] == [puts % 29 + 1]
    expected = sorted(entry[:2] for entry in entries)
    for batches in answers(path, mode, layout):
        rows = [row for batch in batches for row in batch.to_pylist()]
        assert sorted((row["key_hash"], row["position"]) for row in rows) == expected
    for hash_ in set(HASHES):
        point = PointFile(str(path), LAYOUT)
        found = point.lookup(hash_, len(entries) + 1)
        point.close()
        if found is not None:
            assert [each.position for each in found] == [p for h, p, _ in entries if h == hash_]


@pytest.mark.parametrize(
    ("puts", "stores", "rules"),
    [
        (0, 5, {"chain_own_link": "info"}),
        (29, 5, {"chain_own_link": "info", "first_entry_late": "info"}),
        (29, 8, {"chain_own_link": "info"}),
        (2, 5, {"chain_own_link": "info"}),
        (2, 6, {"chain_own_link": "info"}),
        (4, 5, {"chain_link": "error", "entry_unreachable": "error"}),
    ],
)
def test_verify_remarks_on_it_and_advises_a_rebuild_only_where_entries_are_hidden(
    tmp_path, monkeypatch, puts, stores, rules
):
    """The count of slots may be one less, and is no finding either."""
    path = store_killed(tmp_path / "index", monkeypatch, puts, stores)
    found = verify(path, None).to_pylist()
    assert {row["rule"]: row["severity"] for row in found} == rules


@pytest.mark.parametrize(("puts", "stores"), [(4, 4), (4, 5), (33, 5), (2, 5)])
def test_before_the_broker_puts_again_no_entry_is_hidden(tmp_path, monkeypatch, puts, stores):
    """Searches go on from the slot; whether it has older entries decides what the put would do."""
    path = store_killed(tmp_path / "index", monkeypatch, puts, stores, restarted=False)
    expected = sorted(entry[:2] for entry in truth(path))
    for mode in ("FAILFAST", "DROPMALFORMED"):
        for batches in answers(path, mode, LAYOUT):
            rows = [row for batch in batches for row in batch.to_pylist()]
            found = {(row["key_hash"], row["position"]) for row in rows}
            assert found >= set(expected)
    count = int.from_bytes(path.read_bytes()[36:40], "big")
    slots = {"slot_torn"} if puts in (4, 33) else {"slot_uncounted"}
    findings = verify(path, None).to_pylist()
    rules = {row["rule"]: row["severity"] for row in findings if row["rule"] != "first_entry_late"}
    assert rules == dict.fromkeys({"uncounted_entries", *(slots if stores == 5 else ())}, "warning")
    for row in findings:
        if row["rule"] == "slot_torn":
            assert row["got"] == str(count)


@pytest.mark.parametrize(("field", "value"), [(16, 1), (0, 4)], ids=["link", "hash"])
def test_a_slot_that_leads_past_its_older_entries_is_an_error(tmp_path, monkeypatch, field, value):
    """The entry behind the count does not lead to them, or is of another slot."""
    path = store_killed(tmp_path / "index", monkeypatch, 4, 5, restarted=False)
    data = bytearray(path.read_bytes())
    count = int.from_bytes(data[36:40], "big")
    at = LAYOUT.entry_offset(count) + field
    data[at : at + 4] = value.to_bytes(4, "big")
    path.write_bytes(data)
    rules = {row["rule"] for row in verify(path, None, LAYOUT).to_pylist()}
    wrong = "slot_newest" if field else "slot_range"
    assert rules == {"uncounted_entries", "entry_unreachable", wrong}
