"""The one rule that says whether an entry is its message's, for many entries and for one."""

from __future__ import annotations

import numpy as np
import pytest

from commitlog_encoder import Log, Message, properties_text
from rmqindex import CommitLog, index_key, key_hash
from rmqindex.query import MATCH_CODES, EntryVerifier
from rmqindex.query.verification import KeyVerifier, only_key

TOPIC = "TopicTest"
ROLLED_BACK = 0b1100


def hash_of(key):
    """Return the hash of a key under the topic."""
    return key_hash(index_key(TOPIC, key))


def log_of(directory, *messages):
    """Write a log, and return it with the offsets of its messages."""
    log = Log(64 * 1024)
    offsets = [
        log.append(Message(topic=TOPIC, sys_flag=flag, properties=properties_text(pairs)))
        for flag, pairs in messages
    ]
    return CommitLog(log.write_to(directory / "commitlog")), offsets


def compare(log, scope, entries, rank=None):
    """Return the states of entries, each a key and an offset."""
    hashes = np.array([hash_of(key) for key, _ in entries], np.int32)
    offsets = np.array([offset for _, offset in entries], np.int64)
    return EntryVerifier(scope).compare(log, hashes, offsets, rank)


def states(compared):
    """Return the names of the states."""
    return [MATCH_CODES[code] for code in compared.states]


MESSAGE = [("UNIQ_KEY", "old"), ("UNIQ_KEY", "id"), ("KEYS", "a b"), ("TAGS", "blue")]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("indexed", ["id", "a", "b", "T#blue"]),
        ("properties", ["id", "a", "b", "T#blue", "old"]),
        ("members", ["id", "a", "b", "T#blue", "old"]),
    ],
)
def test_a_scope_says_which_keys_of_a_message_count(tmp_path, scope, found):
    """Earlier values of a property count where a broker's own entries are not the question."""
    log, (offset,) = log_of(tmp_path, (0, MESSAGE))
    asked = ["id", "a", "b", "T#blue", "old", "other"]
    compared = compare(log, scope, [(key, offset) for key in asked])
    expected = ["verified" if key in found else "mismatch" for key in asked]
    assert states(compared) == expected


def test_a_message_that_was_rolled_back_has_no_indexed_keys(tmp_path):
    """It has its keys all the same, for whoever asks for these."""
    log, (offset,) = log_of(tmp_path, (ROLLED_BACK, MESSAGE))
    indexed = compare(log, "indexed", [("id", offset)])
    assert states(indexed) == ["mismatch"]
    assert indexed.hashes_of(0) == []
    assert states(compare(log, "properties", [("id", offset)])) == ["verified"]


def test_an_offset_without_a_message_says_why(tmp_path):
    """The states of offsets are those of the log."""
    log, (first, second) = log_of(tmp_path, (0, MESSAGE), (0, MESSAGE))
    entries = [("id", first), ("id", first + 1), ("id", second), ("id", 2**40), ("id", -1)]
    compared = compare(log, "indexed", entries)
    assert states(compared) == [
        "verified",
        "not_a_record",
        "verified",
        "beyond_end",
        "not_a_record",
    ]


def test_of_several_keys_of_a_hash_the_rank_chooses(tmp_path):
    """Without a rank, any of them may be the entry's; a rank that is not known is ambiguous."""
    assert hash_of("Aa") == hash_of("BB")
    log, (offset,) = log_of(tmp_path, (0, [("KEYS", "Aa x BB")]))
    entries = [("Aa", offset)] * 3
    assert compare(log, "indexed", entries).texts_of(0) == ["Aa", "BB"]
    ranks = [1, 0, None]
    ranked = compare(log, "members", entries, lambda entry, _: ranks[entry])
    assert states(ranked) == ["verified", "verified", "ambiguous"]
    assert ranked.keys.texts.take(ranked.places[:2]).to_pylist() == ["BB", "Aa"]


def test_a_single_entry_is_decided_as_many_are(tmp_path):
    """Where one message's own keys leave nothing open, they give what the batch gives."""
    keys = ["id", "Aa", "b", "b"]
    log, (offset,) = log_of(tmp_path, (0, [("UNIQ_KEY", "id"), ("KEYS", "Aa b b")]))
    for asked in ["id", "Aa", "BB", "b"]:
        compared = compare(log, "members", [(asked, offset)])
        (text,) = set(compared.texts_of(0))
        assert only_key(TOPIC, keys, hash_of(asked), (TOPIC, asked)) == text


def test_a_single_entry_is_left_open_where_more_decides():
    """No key of the hash may mean tags or members, several mean ranks."""
    assert only_key(TOPIC, ["id"], hash_of("a"), (TOPIC, "a")) is None
    assert only_key(TOPIC, ["Aa", "BB"], hash_of("Aa"), (TOPIC, "Aa")) is None


def test_a_collision_is_not_the_key_that_was_asked_for(tmp_path):
    """The message has the hash and not the key, and is named."""
    log, (offset,) = log_of(tmp_path, (0, [("KEYS", "Aa")]))
    (verdict,) = KeyVerifier(log, TOPIC, "BB").compare([offset])
    assert (verdict.state, verdict.message) == ("mismatch", f"{TOPIC}: Aa")
    (verdict,) = KeyVerifier(log, TOPIC, "Aa").compare([offset])
    assert verdict.state == "verified"
