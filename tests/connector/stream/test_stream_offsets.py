"""Offsets of streams: every entry in exactly one batch, whatever a broker does meanwhile."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from pyspark_rmqindex.stream.checkpoint import offsets_from_json, offsets_to_json
from pyspark_rmqindex.stream.offsets import (
    cut,
    offset_after,
    only_until,
    share,
    slices_between,
    state_of,
)
from pyspark_rmqindex.stream.store_offset import PositionMark, SeenFile, StoreOffset

DIRECTORY = "/store/index"


class Directory:
    """A directory of files, each a list of the offsets of its entries."""

    def __init__(self):
        """Begin empty."""
        self.files: dict[str, list[int]] = {}

    def seen(self):
        """Return the files that have entries."""
        return [
            SeenFile(name, 1_000 + entries[0], entries[0], len(entries) + 1)
            for name, entries in self.files.items()
            if entries
        ]

    def mark_at(self, file, position):
        """Return the last offset before a position, and a checksum of all of them."""
        before = self.files[file.name][: position - 1]
        return PositionMark(before[-1], zlib.crc32(repr(before).encode()))

    def rows(self, pieces):
        """Return the entries of pieces, by file and position."""
        return [
            (piece.file.name, position, self.files[piece.file.name][position - 1])
            for piece in pieces
            for position in range(piece.start, piece.stop)
        ]

    def everything(self):
        """Return every entry."""
        return [
            (name, position, entry)
            for name, entries in self.files.items()
            for position, entry in enumerate(entries, 1)
        ]


def name(number):
    """Return a name that sorts by its number."""
    return f"{number:017d}"


def state(directory, offset):
    """Return what there is to do."""
    return state_of(DIRECTORY, offset, directory.seen(), directory.mark_at)


def step(directory, offset, limit=None):
    """Return the offset behind the next batch of a stream that may not lose anything."""
    found = state(directory, offset)
    assert found.loss == ""
    total = sum(piece.size for piece in found.pieces)
    pieces = cut(found.pieces, total if limit is None else min(limit, total))
    return offset_after(offset, pieces, directory.seen(), directory.mark_at)


def batch(directory, start, end):
    """Return the rows of a batch that loses nothing."""
    found = slices_between(DIRECTORY, start, end, directory.seen(), directory.mark_at)
    assert found.loss == ""
    return directory.rows(found.pieces)


def kept(offset):
    """Return an offset as it comes back from a checkpoint."""
    if offset is None:
        return None
    text = json.dumps(offsets_to_json({DIRECTORY: offset}))
    return offsets_from_json(StoreOffset, json.loads(text))[DIRECTORY]


class World:
    """A broker that writes a directory, and a stream that follows it."""

    def __init__(self, capacity):
        """Begin with nothing."""
        self.directory, self.capacity = Directory(), capacity
        self.clock, self.message, self.last = 10_000, 100, None
        self.written, self.handed = [], []
        self.begin, self.end = None, None

    def put(self, count):
        """Append entries, over as many files as they need."""
        files = self.directory.files
        for _ in range(count):
            if self.last is None or len(files[self.last]) == self.capacity:
                while name(self.clock) in files:
                    self.clock += 1
                self.last = name(self.clock)
                files[self.last] = []
            self.clock += 7
            self.message += 3
            files[self.last].append(self.message)
            self.written.append((self.last, len(files[self.last]), self.message))

    def batch(self, limit):
        """Hand out a batch, if there is anything."""
        end = kept(step(self.directory, self.end, limit))
        if end != self.end:
            self.begin, self.end = self.end, end
            self.handed += batch(self.directory, self.begin, self.end)

    def again(self, _):
        """Plan the last batch once more, however the directory went on since."""
        if self.end is not None:
            rows = batch(self.directory, self.begin, self.end)
            assert rows == self.handed[len(self.handed) - len(rows) :]

    def clock_back(self, step_back):
        """Set the broker's clock back, so that the next name may lie before the last."""
        self.clock -= step_back

    def leave_room(self, _):
        """Begin a new file though the last has room: a broker with a smaller maxIndexNum."""
        self.last = None

    def older_messages(self, count):
        """Add a file of older messages, named behind every other (allowOverlap)."""
        files = self.directory.files
        self.clock = max([self.clock, *(int(each) + 1 for each in files)])
        added = name(self.clock)
        files[added] = [self.message - 50 - each for each in range(count)]
        self.written += [(added, place, entry) for place, entry in enumerate(files[added], 1)]
        self.clock, self.last = self.clock + 1, None

    def expire(self, _):
        """Delete the oldest file, if no batch needs it any more."""
        if self.begin is not None and self.directory.seen():
            oldest = min(self.directory.seen(), key=lambda file: file.name)
            is_current = oldest.name in {self.begin.file, self.end.file, self.last}
            if self.begin.has_begun(oldest) and not is_current:
                del self.directory.files[oldest.name]


ACTIONS = st.lists(
    st.one_of(
        st.tuples(st.just(World.put), st.integers(1, 9)),
        st.tuples(st.just(World.batch), st.one_of(st.none(), st.integers(1, 12))),
        st.tuples(st.just(World.again), st.none()),
        st.tuples(st.just(World.clock_back), st.integers(1, 300)),
        st.tuples(st.just(World.leave_room), st.none()),
        st.tuples(st.just(World.older_messages), st.integers(1, 5)),
        st.tuples(st.just(World.expire), st.none()),
    ),
    max_size=40,
)


@settings(max_examples=examples(400))
@given(actions=ACTIONS, capacity=st.integers(1, 6))
def test_every_entry_is_in_exactly_one_batch(actions, capacity):
    """Rolls, clocks that step back, early ends, files of older messages: nothing is lost."""
    world = World(capacity)
    for action, value in actions:
        action(world, value)
    world.batch(None)
    assert sorted(world.handed) == sorted(world.written)
    assert world.end is None or world.end.entries == len(world.written)


def two_files():
    """Return a directory of two files, and a stream that is in the first."""
    directory = Directory()
    directory.files = {name(1): [10, 20, 30, 40], name(2): [50, 60]}
    return directory, step(directory, None, 3)


def test_an_offset_is_a_file_and_a_position():
    """It says what was handed out so far, in a form that people read."""
    _, offset = two_files()
    assert offset.to_json() == {
        "file": name(1),
        "position": 4,
        "entries": 3,
        "phy_offset": 30,
        "begin_timestamp": 1010,
        "begin_phy_offset": 10,
        "checksum": zlib.crc32(b"[10, 20, 30]"),
        "begun": [name(1)],
        "pending": {name(2): 50},
    }


def test_a_batch_goes_over_the_end_of_a_file():
    """The rest of one file, and then the next from its first entry."""
    directory, offset = two_files()
    end = step(directory, offset, 2)
    assert batch(directory, offset, end) == [(name(1), 4, 40), (name(2), 1, 50)]
    assert (end.file, end.position) == (name(2), 2)


def test_a_file_that_expired_before_it_was_read_is_a_loss():
    """The error names the file, the position, and the messages whose entries are gone."""
    directory, offset = two_files()
    del directory.files[name(1)]
    found = state(directory, offset)
    assert found.loss == (
        f"{DIRECTORY}/{name(1)}: the file is gone, with its entries from position 4 on and all "
        f"between it and the next file, {name(2)}; those are of messages from offset 30 to 50"
    )
    assert directory.rows(found.pieces) == [(name(2), 1, 50), (name(2), 2, 60)]


def test_an_index_of_which_all_files_were_made_anew_is_not_returned_again():
    """By a relayout or a rebuild: a broker that starts after a crash keeps most files."""
    directory = Directory()
    directory.files = {name(1): [10, 20, 30, 40], name(2): [50, 60]}
    offset = step(directory, None)
    directory.files = {name(3): [10, 20, 30], name(4): [40, 50, 60]}
    assert state(directory, offset).loss == (
        f"{DIRECTORY}: expected some of the 2 files that were there, got none, and {name(3)}, "
        "which begins before the last of them did: the index was made anew, as by "
        "`rmqindex relayout` or `rebuild --replace`; a stream with a new checkpoint returns all"
    )
    directory, offset = two_files()  # also where the second one was not begun
    directory.files = {name(3): [10, 20, 30], name(4): [40, 50, 60]}
    assert "the index was made anew" in state(directory, offset).loss


def test_a_broker_whose_older_files_have_expired_since_a_crash_has_made_nothing_anew():
    """It has indexed the last file's messages again, and no file that was read is left."""
    directory = Directory()
    directory.files = {name(1): [10, 20, 30, 40], name(2): [50, 60]}
    offset = step(directory, None)
    directory.files = {name(3): [50, 60, 70]}
    found = state(directory, offset)
    assert (found.loss, "its messages were indexed anew" in found.note) == ("", True)


def test_a_broker_that_indexes_anew_after_a_crash_loses_nothing():
    """It deletes its last file and begins, under a new name, with messages that it had indexed."""
    directory = Directory()
    directory.files = {name(1): [10, 20, 30, 40]}
    offset = step(directory, None, 3)
    directory.files = {name(3): [20, 30, 40, 50, 60, 70]}
    found = state(directory, offset)
    assert found.loss == ""
    assert "its messages were indexed anew" in found.note
    assert len(directory.rows(found.pieces)) == 6


def test_an_index_that_was_made_anew_is_another():
    """A rebuild of a lost index gives its first file the old name; here it has an entry more."""
    directory, offset = two_files()
    offset = step(directory, offset)
    del directory.files[name(2)]
    assert state(directory, offset).loss == ""
    directory.files[name(1)] = [10, 20, 25, 30, 40, 50]
    assert f"{name(1)} before it has other entries" in state(directory, offset).loss


def test_a_file_that_begins_with_the_last_message_does_not_replace_the_one_before():
    """A message with many keys reaches over the end of a file; the rest of the file is gone."""
    directory, offset = two_files()
    directory.files = {name(2): [30, 30, 50]}
    assert "the file is gone" in state(directory, offset).loss


def test_files_of_older_messages_are_begun_in_the_order_of_their_names():
    """So that each still is new, by its name, when those before it are begun."""
    directory, offset = two_files()
    offset = step(directory, offset)
    directory.files |= {name(5): [11, 12], name(4): [35]}
    first = step(directory, offset, 1)
    assert batch(directory, offset, first) == [(name(4), 1, 35)]
    second = step(directory, first)
    assert batch(directory, first, second) == [(name(5), 1, 11), (name(5), 2, 12)]
    assert kept(second) == second


def test_nothing_is_decided_while_a_broker_that_crashed_is_away():
    """A directory without files may be that of a broker that is about to index anew."""
    directory, offset = two_files()
    directory.files = {}
    found = state(directory, offset)
    assert (found.pieces, found.loss) == ([], "")
    assert "no newer file" in found.note


def test_a_batch_of_which_a_broker_indexes_the_rest_anew_goes_on():
    """What was planned and is gone comes again in the new file."""
    directory = Directory()
    directory.files = {name(1): [5, 10], name(2): [20, 30, 40], name(3): [50, 60]}
    start = step(directory, None, 4)
    end = step(directory, start)
    directory.files = {name(1): [5, 10], name(4): [10, 20, 30, 40, 50, 60, 70]}
    found = slices_between(DIRECTORY, start, end, directory.seen(), directory.mark_at)
    assert (found.pieces, found.loss) == ([], "")
    assert "anew" in found.note


def test_a_batch_of_which_a_crashed_broker_keeps_the_first_files_goes_on():
    """The next file begins with the last message of those, and has all that comes behind."""
    directory, start = two_files()
    end = step(directory, start)
    directory.files = {name(1): [10, 20, 30, 40], name(3): [40, 50, 60, 70]}
    found = slices_between(DIRECTORY, start, end, directory.seen(), directory.mark_at)
    assert (directory.rows(found.pieces), found.loss) == ([(name(1), 4, 40)], "")
    assert "anew" in found.note
    rows = batch(directory, end, step(directory, end))
    assert [phy_offset for _, _, phy_offset in rows] == [40, 50, 60, 70]


@pytest.mark.parametrize("first", [None, 3])
def test_a_batch_of_an_index_that_was_made_anew_is_refused_when_it_runs_again(first):
    """As the next one is, rather than to have no rows."""
    directory = Directory()
    directory.files = {name(1): [10, 20, 30, 40], name(2): [50, 60]}
    start = None if first is None else step(directory, None, first)
    end = step(directory, start)
    directory.files = {name(3): [10, 20, 30], name(4): [40, 50, 60]}
    found = slices_between(DIRECTORY, start, end, directory.seen(), directory.mark_at)
    assert "made anew" in found.loss or "are gone" in found.loss


def test_a_batch_whose_middle_file_is_lost_is_a_loss():
    """The file behind it was there before, so that no broker indexed anything anew."""
    directory = Directory()
    directory.files = {name(1): [10, 20], name(2): [20, 20], name(3): [20, 30]}
    end = step(directory, None, 4)
    del directory.files[name(2)]
    found = slices_between(DIRECTORY, None, end, directory.seen(), directory.mark_at)
    assert "are gone" in found.loss


def test_a_batch_whose_files_expired_is_a_loss():
    """The counts of the two offsets say how much is missing."""
    directory, start = two_files()
    end = step(directory, start)
    del directory.files[name(1)]
    found = slices_between(DIRECTORY, start, end, directory.seen(), directory.mark_at)
    assert found.loss == (
        f"{DIRECTORY}: expected 3 entries from {name(1)} position 4 to {name(2)} position 3, "
        "got 2: files are gone"
    )


def test_a_file_that_grows_behind_a_later_one_is_told():
    """No broker does that; the entries would be in no batch."""
    directory, start = two_files()
    end = step(directory, start)
    directory.files[name(1)].append(41)
    found = slices_between(DIRECTORY, start, end, directory.seen(), directory.mark_at)
    assert "grew" in found.loss


@pytest.mark.parametrize(
    ("entries", "words", "first"),
    [
        ([11, 20, 30, 40], "another one of that name", (name(1), 1, 11)),
        ([10, 20], "at least the 3 entries", (name(2), 1, 50)),
        ([10, 20, 31, 41], "written anew", (name(1), 4, 41)),
    ],
)
def test_a_file_that_was_replaced_is_a_loss(entries, words, first):
    """Another head, fewer entries, or another entry where the last one was read."""
    directory, offset = two_files()
    directory.files[name(1)] = entries
    found = state(directory, offset)
    assert words in found.loss
    assert directory.rows(found.pieces)[0] == first


def test_a_file_that_came_up_after_the_end_was_decided_is_no_part_of_the_batch():
    """Even one of older messages, which comes first in the order of what is to be done."""
    directory, start = two_files()
    end = step(directory, start)
    rows = batch(directory, start, end)
    directory.files[name(3)] = [5, 6]
    assert batch(directory, start, end) == rows
    assert batch(directory, end, step(directory, end)) == [(name(3), 1, 5), (name(3), 2, 6)]


def test_the_offset_of_another_source_is_refused():
    """Its error shows what was found."""
    with pytest.raises(ValueError, match="expected that of a stream of rmqindex"):
        offsets_from_json(StoreOffset, {"/store": {"offset": 5}})
    with pytest.raises(ValueError, match="expected that of a stream of rmqindex"):
        offsets_from_json(StoreOffset, {"offset": 5})


def test_a_target_cuts_files_to_what_they_were():
    """Files without entries at that time are left out."""
    directory, _ = two_files()
    first, second = directory.seen()
    assert only_until([first, second], {first.name: 3}) == [replace(first, stop=3)]


@given(st.lists(st.integers(0, 50), max_size=6), st.one_of(st.none(), st.integers(1, 100)))
def test_a_limit_is_shared_and_used_up(available, limit):
    """Nobody gets more than he has, and nothing stays over that somebody could use."""
    shares = share(available, limit)
    assert all(0 <= share <= have for share, have in zip(shares, available, strict=True))
    assert sum(shares) == min(sum(available), sum(available) if limit is None else limit)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("position", "3"),
        ("entries", None),
        ("phy_offset", 1.5),
        ("file", 7),
        ("last_name", True),
        ("checksum", "1"),
    ],
)
def test_an_offset_with_a_value_of_another_type_is_refused(name, value):
    """What is no offset of ours is told before anything is read by it."""
    directory, start = two_files()
    offset = offsets_to_json({DIRECTORY: step(directory, start)})
    assert offsets_from_json(StoreOffset, offset)
    offset[DIRECTORY][name] = value
    with pytest.raises(ValueError, match="expected that of a stream of rmqindex"):
        offsets_from_json(StoreOffset, offset)


def test_the_offset_behind_several_files_holds_the_checksums_of_those_that_it_finished():
    """So that the same batch, run again, is known to be the same."""
    directory, start = two_files()
    end = step(directory, start)
    assert end.finished == {name(1): zlib.crc32(b"[10, 20, 30, 40]")}
    assert end.checksum == zlib.crc32(b"[50, 60]")
    assert kept(end) == end


def test_an_older_checkpoint_has_no_checksums_and_is_read_all_the_same():
    """What it does hold is checked as before."""
    directory, start = two_files()
    old = start.to_json()
    del old["checksum"]
    (offset,) = offsets_from_json(StoreOffset, {DIRECTORY: old}).values()
    assert offset.checksum is None
    assert state(directory, offset) == state(directory, start)
    assert step(directory, offset) == step(directory, start)
    directory.files[name(1)] = [10, 21, 30, 40]
    assert state(directory, offset).loss == ""
    assert "written anew" in state(directory, start).loss
    directory.files[name(1)] = [10, 20, 31, 40]
    assert "phy_offset 30, got 31" in state(directory, offset).loss


@pytest.mark.parametrize(
    ("number", "entries", "words"),
    [
        (1, [10, 20, 31, 40], "written anew"),
        (1, [10, 21, 30, 40], "the 3 entries that were read, with checksum"),
        (1, [11, 20, 30, 40], "another one of that name"),
        (2, [50, 61, 70], "grew or was written anew"),
        (2, [50, 60], "grew or was written anew"),
        (3, [81, 90], "another one of that name"),
        (3, [80, 91, 100], "the 2 entries that were read, with checksum"),
        (3, [80], "at least the 2 entries"),
    ],
)
def test_a_batch_of_which_a_file_was_replaced_is_a_loss_that_names_it(number, entries, words):
    """The first, one in the middle, and the last, of whatever number of entries."""
    directory = Directory()
    directory.files = {
        name(1): [10, 20, 30, 40], name(2): [50, 60, 70], name(3): [80, 90, 100]
    }  # fmt: skip
    start = step(directory, None, 3)
    end = step(directory, start, 6)
    assert (end.file, end.position) == (name(3), 3)
    directory.files[name(number)] = entries
    found = slices_between(DIRECTORY, start, end, directory.seen(), directory.mark_at)
    assert f"{DIRECTORY}/{name(number)}" in found.loss
    assert words in found.loss


def without(offset, *fields):
    """Return an offset of an older checkpoint, which lacks some fields."""
    data = {name: value for name, value in offset.to_json().items() if name not in fields}
    return offsets_from_json(StoreOffset, {DIRECTORY: data})[DIRECTORY]


@pytest.mark.parametrize("lacks", [(), ("begun", "pending")])
def test_a_file_that_comes_after_a_later_one_was_read_is_a_loss(lacks):
    """As a parallel copy leaves it; an older checkpoint knows it by the number of entries."""
    directory, _ = two_files()
    directory.files[name(4)] = [90, 95]
    offset = without(step(directory, None), *lacks)
    assert state(directory, offset).loss == ""
    directory.files |= {name(3): [70, 80, 85], name(5): [100]}
    found = state(directory, offset)
    assert "a stream with a new checkpoint returns all" in found.loss
    assert lacks or f"{name(3)} after {name(4)} had been read: 3 entries" in found.loss
    assert directory.rows(found.pieces) == [(name(5), 1, 100)]


def test_a_file_that_vanishes_before_it_is_read_is_a_loss():
    """Although the file before it is still there."""
    directory, offset = two_files()
    assert kept(offset).pending == {name(2): 50}
    del directory.files[name(2)]
    assert f"expected {name(2)}, seen when {name(1)} was read" in state(directory, offset).loss
    directory.files[name(3)] = [50, 60, 70]
    assert state(directory, offset).loss == "", "a broker that crashed has indexed it anew"
    directory.files[name(3)] = [60, 70]
    assert "its entries are lost" in state(directory, offset).loss


def test_an_older_checkpoint_goes_on_and_names_its_files_from_then_on():
    """The fields that it lacks come with the next batch."""
    directory, _ = two_files()
    offset = without(step(directory, None), "begun", "pending")
    assert offset.begun is None
    directory.files[name(3)] = [70]
    assert step(directory, offset).begun == (name(1), name(2), name(3))


def test_an_offset_forgets_the_files_that_expired():
    """So that it does not grow with the life of a broker; others that are away it remembers."""
    directory, _ = two_files()
    directory.files[name(3)] = [70]
    offset = step(directory, None)
    del directory.files[name(1)]
    away = directory.files.pop(name(3))
    directory.files[name(4)] = [80]
    offset = offset_after(
        offset, state(directory, offset).pieces, directory.seen(), directory.mark_at
    )
    assert offset.begun == (name(2), name(3), name(4))
    directory.files[name(3)] = away
    assert state(directory, offset).loss == ""


@pytest.mark.parametrize("value", [[], {"1": "2"}, {"1": True}, 7])
def test_finished_files_of_another_type_are_refused(value):
    """They are names and checksums."""
    directory, start = two_files()
    offset = offsets_to_json({DIRECTORY: step(directory, start)})
    offset[DIRECTORY]["finished"] = value
    with pytest.raises(ValueError, match="expected that of a stream of rmqindex"):
        offsets_from_json(StoreOffset, offset)


OFFSET = {
    "file": "100", "position": 1, "entries": 1, "phy_offset": 0, "begin_timestamp": 0,
    "begin_phy_offset": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"file": 100},
        {"file": None},
        {"position": "1"},
        {"position": True},
        {"entries": 1.0},
        {"last_name": 1},
        {"furthest_phy_offset": "0"},
    ],
)
def test_an_offset_of_entries_has_its_own_fields(change):
    """The checkpoint is a file like others."""
    with pytest.raises(ValueError, match="the checkpoint's offset: expected that of a stream"):
        offsets_from_json(StoreOffset, {"/store/index": {**OFFSET, **change}})
    assert offsets_from_json(StoreOffset, {"/store/index": OFFSET})
