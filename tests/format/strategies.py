"""Hypothesis strategies: files as a broker writes them, whole and damaged."""

from __future__ import annotations

from hypothesis import strategies as st

from twin import INT_MAX, LONG_MAX, BrokerFile

BEGIN = 1_700_000_000_000


def key_hashes():
    """Hashes that often repeat and often share a slot, with the edges of the range."""
    return st.integers(0, 12) | st.integers(0, INT_MAX) | st.sampled_from([0, INT_MAX])


def phy_offsets():
    """Offsets as brokers write them, and any other 64-bit number now and then."""
    return st.integers(0, 10**6) | st.integers(-LONG_MAX - 1, LONG_MAX)


def store_timestamps():
    """Times near one another, with clocks that step back, and zero or less now and then."""
    near = st.integers(BEGIN - 60_000, BEGIN + 600_000)
    return near | st.integers(-5_000, 5_000) | st.integers(0, 2**52)


def puts(max_size=40):
    """Entries to put: hash, offset, store time."""
    return st.lists(st.tuples(key_hashes(), phy_offsets(), store_timestamps()), max_size=max_size)


@st.composite
def broker_files(draw, min_entries=0):
    """A file that the oracle wrote, whole and flushed."""
    file = BrokerFile(
        draw(st.integers(1, 12) | st.just(97)),
        draw(st.integers(min_entries + 1, 45)),
        draw(st.sampled_from([0, 0, 5, 987_654_321])),
        draw(st.sampled_from([0, 0, BEGIN - 100_000])),
    )
    for put in draw(puts().filter(lambda drawn: len(drawn) >= min_entries)):
        file.put(*put)
    file.flush()
    return file


@st.composite
def damaged_files(draw):
    """A file of a few entries with one to three bytes changed, or cut off somewhere."""
    file = draw(broker_files(min_entries=1))
    data = bytearray(file.data)
    used = len(data) - 20 * (file.index_num - file.index_count)
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, min(used + 20, len(data)) - 1))
        data[place] = draw(st.integers(0, 255))
    if draw(st.booleans()):
        del data[draw(st.integers(0, len(data))) :]
    return file, bytes(data)
