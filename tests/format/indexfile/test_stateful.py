"""Whatever happens to a file, it is what the broker's would be: writer, reader and a plain twin."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from examples import examples
from rmqindex import IndexFile, IndexFileWriter, IndexHeader, Layout
from twin import LONG_MAX, BrokerFile, java_hash

# Few keys, some of which share a hash or a slot, so that chains cross.
KEYS = ["T#Aa", "T#BB", "T#a", "T#b", "T#c", "T#", "T#é", "polygenelubricants"]
OFFSETS = st.integers(0, 2**40)
TIMESTAMPS = st.integers(0, 20).map(lambda step: 1_700_000_000_000 + step * 700)
ENTRIES = st.tuples(st.sampled_from(KEYS), OFFSETS, TIMESTAMPS)
TIMES = TIMESTAMPS | st.sampled_from([0, LONG_MAX])


class FileMachine(RuleBasedStateMachine):
    """One file, written in any order of steps, killed in any step, and read at any time.

    The twin is rebuilt from the entries, of which ``flushed`` counts those that are safe.
    """

    def __init__(self):
        """Make a folder for the file."""
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "20240102030405678"

    def teardown(self):
        """Remove the folder."""
        self.writer._appender.close()
        shutil.rmtree(self.folder)

    @initialize(
        hash_slot_num=st.sampled_from([1, 2, 5, 2000]),
        index_num=st.sampled_from([2, 6, 40]),
        inherited=st.sampled_from([(0, 0), (77, 1_699_999_990_000), (0, 1_700_000_005_000)]),
    )
    def create(self, hash_slot_num, index_num, inherited):
        """Make the file."""
        self.layout = Layout(hash_slot_num, index_num)
        self.inherited = inherited
        self.writer = IndexFileWriter(self.path, self.layout, *inherited)
        self.entries = []
        self.flushed = 0
        self.is_lifted = False

    @rule(entry=ENTRIES)
    def put(self, entry):
        """Put one entry."""
        fits = len(self.entries) < self.layout.capacity
        assert self.writer.put(*entry) is fits
        if fits:
            self.entries.append(entry)

    @rule(entries=st.lists(ENTRIES, max_size=12))
    def put_many(self, entries):
        """Put several entries at once."""
        fit = min(len(entries), self.layout.capacity - len(self.entries))
        keys, offsets, timestamps = ([entry[place] for entry in entries] for place in range(3))
        assert self.writer.put_many([java_hash(key) for key in keys], offsets, timestamps) == fit
        self.entries += entries[:fit]

    @rule()
    def flush(self):
        """Make everything visible."""
        self.writer.flush()
        self.flushed = len(self.entries)
        self.is_lifted = True

    @rule()
    def reopen(self):
        """Close and resume."""
        self.writer.close()
        self.flushed = len(self.entries)
        self.is_lifted = True
        self.writer = IndexFileWriter(self.path, self.layout)

    @rule(writes_slots=st.booleans(), writes_entries=st.booleans())
    def die_and_resume(self, writes_slots, writes_entries):
        """Die before a flush or within it, lose what was not safe, and resume."""
        appender = self.writer._appender
        if writes_entries or writes_slots:
            appender._write_pending()
        if writes_slots:
            appender._write_slots()
        appender.close()
        del self.entries[self.flushed :]
        self.writer = IndexFileWriter(self.path, self.layout)

    def twin(self, count):
        """Return the broker's file with so many of the entries."""
        twin = BrokerFile(self.layout.hash_slot_num, self.layout.index_num, *self.inherited)
        for key, offset, timestamp in self.entries[:count]:
            twin.put(java_hash(key), offset, timestamp)
        if self.is_lifted:
            twin.flush()
        return twin

    @rule(key=st.sampled_from(KEYS), max_num=st.integers(0, 50), begin=TIMES, end=TIMES)
    def select(self, key, max_num, begin, end):
        """Search the file as it was left by the last flush."""
        self.flush()
        twin = self.twin(self.flushed)
        with IndexFile(self.path, self.layout) as file:
            found = file.select_phy_offset(key, max_num, begin, end)
            assert found == twin.select(java_hash(key), max_num, begin, end)
            assert file.is_time_matched(begin, end) is twin.is_time_matched(begin, end)

    @rule()
    def look_up(self):
        """Find the entries of all keys, newest first."""
        self.flush()
        hashes = [java_hash(key) for key in KEYS]
        with IndexFile(self.path, self.layout) as file:
            found = file.lookup(hashes)
        assert list(
            zip(found["query"].to_pylist(), found["phy_offset"].to_pylist(), strict=True)
        ) == [
            (query, offset)
            for query, hashed in enumerate(hashes)
            for key, offset, _ in reversed(self.entries)
            if java_hash(key) == hashed
        ]

    @invariant()
    def the_writer_counts_what_was_put(self):
        """Flushed or not."""
        twin = self.twin(len(self.entries))
        twin.flush()
        assert self.writer.header == IndexHeader.from_bytes(twin.data)

    @invariant()
    def the_file_holds_what_was_flushed(self):
        """Header and counted entries are the broker's, byte for byte; slots are after a flush."""
        data, twin = self.path.read_bytes(), self.twin(self.flushed)
        assert data[:40] == twin.data[:40]
        start, end = self.layout.entry_offset(0), self.layout.entry_offset(self.flushed + 1)
        assert data[start:end] == twin.data[start:end]
        if self.flushed == len(self.entries) and self.writer.header.index_count == (
            IndexHeader.from_bytes(data).index_count
        ):
            self._check_slots(data, twin)

    def _check_slots(self, data, twin):
        """After a death the slots are right in memory, and on disk with the next flush."""
        slots = self.writer._appender.slots
        assert slots.astype(">i4").tobytes() == twin.data[40 : self.layout.entry_offset(0)]
        self.writer.flush()
        self.is_lifted = True
        flushed = self.path.read_bytes()
        start, end = 40, self.layout.entry_offset(self.flushed + 1)
        assert flushed[start:end] == twin.data[start:end]
        assert len(data) == self.layout.file_size


FileMachine.TestCase.settings = settings(
    max_examples=examples(60), stateful_step_count=25, deadline=None
)


class TestFileMachine(FileMachine.TestCase):
    """Runs the machine."""
