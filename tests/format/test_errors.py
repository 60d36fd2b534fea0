"""The error tree."""

from __future__ import annotations

import pickle

from rmqindex import CorruptIndexError, RmqIndexError


def test_a_corrupt_file_is_an_error_of_ours():
    """One class catches everything that bytes can do wrong."""
    assert issubclass(CorruptIndexError, RmqIndexError)
    assert not issubclass(RmqIndexError, (ValueError, OSError))


def test_the_message_says_where_and_what():
    """The parts are kept as attributes."""
    error = CorruptIndexError("/a/1", "index_count", 36, "at most 5", 9)
    assert str(error) == "/a/1: index_count at byte 36: expected at most 5, got 9"
    assert (error.path, error.field, error.byte) == ("/a/1", "index_count", 36)
    assert (error.expected, error.got) == ("at most 5", 9)


def test_errors_cross_process_boundaries():
    """Spark pickles them."""
    error = pickle.loads(pickle.dumps(CorruptIndexError("/a/1", "slot", 40, 0, -1)))
    assert isinstance(error, CorruptIndexError)
    assert (error.field, error.byte, error.got) == ("slot", 40, -1)
    assert str(error) == "/a/1: slot at byte 40: expected 0, got -1"
