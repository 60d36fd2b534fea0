"""The one rule that says whether an entry is its message's, for many entries and for one."""

from __future__ import annotations

import pyarrow as pa
import pytest

from commitlog_encoder import Log, Message, properties_text
from rmqindex import CommitLog, IndexFile, IndexFileWriter, Layout, index_key, key_hash
from rmqindex.query import MATCH_CODES, SearchedFile, Verifier
from rmqindex.query.verification import only_key
from rmqindex.storage import Location

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


def write_index(directory, *files):
    """Write files of entries, each a key and an offset, and return their paths."""
    directory.mkdir(exist_ok=True)
    paths = []
    for number, entries in enumerate(files):
        paths.append(directory / f"{20260101000000000 + number}")
        with IndexFileWriter(paths[-1], Layout(5, 100)) as writer:
            for key, offset in entries:
                writer.put_many([hash_of(key)], [offset], [1_700_000_000_000])
    return paths


def compare(log, scope, path, chosen=slice(None)):
    """Return the comparison of some entries of a file."""
    with IndexFile(path, Layout(5, 100)) as file:
        entries = pa.Table.from_batches(file.scan()).to_pandas().iloc[chosen]
        columns = (entries[name].to_numpy() for name in ("key_hash", "phy_offset", "position"))
        searched = SearchedFile.of(file, Location.of(path))
        return Verifier(scope).compare(log, [searched], *columns)


def states(compared):
    """Return the names of the states."""
    return [MATCH_CODES[code] for code in compared.states]


MESSAGE = [("UNIQ_KEY", "old"), ("UNIQ_KEY", "id"), ("KEYS", "a b"), ("TAGS", "blue")]


@pytest.mark.parametrize(
    ("scope", "found"),
    [
        ("indexed", ["id", "a", "b", "T#blue"]),
        ("members", ["id", "a", "b", "T#blue", "old"]),
    ],
)
def test_a_scope_says_which_keys_of_a_message_count(tmp_path, scope, found):
    """Earlier values of a property count where a broker's own entries are not the question."""
    log, (offset,) = log_of(tmp_path, (0, MESSAGE))
    asked = ["id", "a", "b", "T#blue", "old", "other"]
    (path,) = write_index(tmp_path / "index", [(key, offset) for key in asked])
    compared = compare(log, scope, path)
    expected = ["verified" if key in found else "mismatch" for key in asked]
    assert states(compared) == expected


def test_a_message_that_was_rolled_back_has_no_indexed_keys(tmp_path):
    """It has its keys all the same, for whoever asks for these."""
    log, (offset,) = log_of(tmp_path, (ROLLED_BACK, MESSAGE))
    (path,) = write_index(tmp_path / "index", [("id", offset)])
    indexed = compare(log, "indexed", path)
    assert states(indexed) == ["mismatch"]
    assert indexed.hashes_of(0) == []
    assert states(compare(log, "members", path)) == ["verified"]


def test_an_offset_without_a_message_says_why(tmp_path):
    """The states of offsets are those of the log."""
    log, (first, second) = log_of(tmp_path, (0, MESSAGE), (0, MESSAGE))
    entries = [("id", first), ("id", first + 1), ("id", second), ("id", 2**40), ("id", -1)]
    (path,) = write_index(tmp_path / "index", entries)
    compared = compare(log, "indexed", path)
    assert states(compared) == [
        "verified",
        "not_a_record",
        "verified",
        "beyond_end",
        "not_a_record",
    ]


def keys_of(compared):
    """Return the key of each verified entry, else its state."""
    _, keys = compared.found_pairs()
    return [key or state for key, state in zip(keys.to_pylist(), states(compared), strict=True)]


class TestSeveralKeysOfOneHash:
    """``Aa`` and ``BB`` of one message: the n-th entry of their hash is the n-th key's."""

    @pytest.fixture
    def message(self, tmp_path):
        """Return a log, the message's offset, and that of another message."""
        pairs = [("UNIQ_KEY", "id"), ("KEYS", "Aa x BB"), ("TAGS", "t")]
        log, (offset, other) = log_of(tmp_path, (0, pairs), (0, [("KEYS", "y")]))
        return log, offset, other

    @pytest.mark.parametrize(
        "tail",
        [[], ["T#t"], ["id", "Aa", "x", "BB"], ["T#t", "id", "Aa", "x", "BB", "T#t"]],
        ids=["plain", "with tags", "indexed twice", "indexed twice with tags"],
    )
    def test_each_entry_belongs_to_one_of_them(self, tmp_path, message, tail):
        """With and without tags, and where a broker indexed the message again after a crash."""
        log, offset, other = message
        keys = ["id", "Aa", "x", "BB", *tail]
        entries = [(key, offset) for key in keys]
        (path,) = write_index(tmp_path / "index", [("y", other), *entries, ("y", other)])
        assert keys_of(compare(log, "members", path)) == ["y", *keys, "y"]

    @pytest.mark.parametrize("chosen", [[1], [3], [3, 1]])
    def test_it_is_counted_in_the_index(self, tmp_path, message, chosen):
        """And not among the entries that a search has found."""
        log, offset, _ = message
        keys = ["id", "Aa", "x", "BB"]
        (path,) = write_index(tmp_path / "index", [(key, offset) for key in keys])
        assert keys_of(compare(log, "members", path, chosen)) == [keys[each] for each in chosen]

    @pytest.mark.parametrize("cuts", [(1, 2), (2, 3), (1, 3), (2, 2), (3, 5), (2, 6)])
    @pytest.mark.parametrize("times", [1, 2])
    def test_the_entries_of_a_message_in_several_files_are_one_run(
        self, tmp_path, message, cuts, times
    ):
        """Whichever of the files is searched; an empty one between them is none."""
        log, offset, other = message
        keys = ["id", "Aa", "x", "BB"] * times
        entries = [("y", other), *((key, offset) for key in keys)]
        parts = [entries[: cuts[0]], entries[cuts[0] : cuts[1]], entries[cuts[1] :]]
        paths = write_index(tmp_path / "index", *parts)
        found = [
            keys_of(compare(log, "members", path))
            for path, part in zip(paths, parts, strict=True)
            if part
        ]
        assert [key for part in found for key in part] == ["y", *keys]

    @pytest.mark.parametrize("kept", [["id", "Aa", "x"], ["x", "BB"], ["BB"], ["BB", "id", "Aa"]])
    def test_where_entries_are_missing_it_is_ambiguous(self, tmp_path, message, kept):
        """A removed file may have held the first of them."""
        log, offset, _ = message
        (path,) = write_index(tmp_path / "index", [(key, offset) for key in kept])
        expected = ["ambiguous" if key in ("Aa", "BB") else key for key in kept]
        if kept.count("Aa") + kept.count("BB") == 2:
            expected = ["Aa", "id", "BB"]
        assert keys_of(compare(log, "members", path)) == expected

    @pytest.mark.parametrize(
        "keys",
        [
            ["id", "Aa"],
            ["id", "Aa", "x", "id"],
            ["x", "BB", "id", "Aa"],
        ],
    )
    def test_a_dispatch_that_broke_off_is_told_from_the_next_one(self, tmp_path, message, keys):
        """A kill left a part of the entries, perhaps in a file of its own; then all came again."""
        log, offset, _ = message
        keys = [*keys, "id", "Aa", "x", "BB"]
        for cut in range(1, len(keys)):
            entries = [(key, offset) for key in keys]
            index = tmp_path / str(cut)
            paths = write_index(index, entries[:cut], entries[cut:])
            found = [keys_of(compare(log, "members", path)) for path in paths]
            assert [key for part in found for key in part] == keys

    def test_a_rest_of_a_dispatch_may_be_of_each_key(self, tmp_path):
        """If its file may have expired."""
        log, (offset,) = log_of(tmp_path, (0, [("KEYS", "Aa BB")]))
        (path,) = write_index(tmp_path / "index", [(key, offset) for key in ["BB", "Aa", "BB"]])
        assert keys_of(compare(log, "members", path)) == ["ambiguous", "Aa", "BB"]

    def test_an_entry_of_a_replaced_message_may_be_of_each_key(self, tmp_path, message):
        """It stood at this offset before the log was cut; those behind are of this one."""
        log, offset, _ = message
        keys = ["old", "Aa", "id", "Aa", "x", "BB"]
        (path,) = write_index(tmp_path / "index", [(key, offset) for key in keys])
        found = keys_of(compare(log, "members", path))
        assert found == ["mismatch", "ambiguous", *keys[2:]]

    def test_a_damaged_file_beside_leaves_it_open(self, tmp_path, message):
        """The rest of the message may be in it."""
        log, offset, _ = message
        first, second = write_index(
            tmp_path / "index", [("id", offset), ("Aa", offset)], [("x", offset), ("BB", offset)]
        )
        first.write_bytes(first.read_bytes()[:60])
        assert keys_of(compare(log, "members", second)) == ["x", "ambiguous"]

    def test_tags_of_the_hash_count_as_a_key(self, tmp_path):
        """Whether the broker indexed tags shows in the other entries of the message."""
        assert hash_of("T#Aa") == hash_of("T#BB")
        pairs = [("UNIQ_KEY", "id"), ("KEYS", "T#BB"), ("TAGS", "Aa")]
        log, (first, second) = log_of(tmp_path, (0, pairs), (0, pairs))
        with_tags, without = ["id", "T#BB", "T#Aa"], ["id", "T#BB"]
        (path,) = write_index(
            tmp_path / "index",
            [(key, first) for key in with_tags] + [(key, second) for key in without * 2],
        )
        assert keys_of(compare(log, "members", path)) == with_tags + without * 2

    def test_a_key_that_a_message_has_twice_has_two_entries(self, tmp_path):
        """Each is the key's: an index gives a row for an entry."""
        log, (offset,) = log_of(tmp_path, (0, [("UNIQ_KEY", "k"), ("KEYS", "k k")]))
        (path,) = write_index(tmp_path / "index", [("k", offset)] * 3)
        assert keys_of(compare(log, "members", path)) == ["k", "k", "k"]

    def test_more_entries_than_are_read_at_once_are_one_run(self, tmp_path):
        """A message may have hundreds of keys."""
        keys = [key for n in range(150) for key in (f"k{n}", "Aa" if n % 2 else "BB")]
        log, (offset,) = log_of(tmp_path, (0, [("KEYS", " ".join(keys))]))
        parts = [[(key, offset) for key in keys[start : start + 90]] for start in range(0, 300, 90)]
        paths = write_index(tmp_path / "index", *parts)
        found = [key for path in paths for key in keys_of(compare(log, "members", path))]
        assert found == keys


def test_a_single_entry_is_decided_as_many_are(tmp_path):
    """Where one message's own keys leave nothing open, they give what the batch gives."""
    keys = ["id", "Aa", "b", "b", "T#t"]
    pairs = [("UNIQ_KEY", "id"), ("KEYS", "Aa b b"), ("TAGS", "t")]
    log, (offset,) = log_of(tmp_path, (0, pairs))
    (path,) = write_index(tmp_path / "index", [(key, offset) for key in keys])
    for place, text in enumerate(keys_of(compare(log, "members", path))):
        assert only_key(TOPIC, keys, hash_of(keys[place]), (TOPIC, keys[place])) == text
    assert only_key(TOPIC, keys, hash_of("BB"), (TOPIC, "BB")) == "Aa"


def test_a_single_entry_is_left_open_where_more_decides():
    """No key of the hash may mean members, several mean ranks."""
    assert only_key(TOPIC, ["id"], hash_of("a"), (TOPIC, "a")) is None
    assert only_key(TOPIC, ["Aa", "BB"], hash_of("Aa"), (TOPIC, "Aa")) is None


def test_a_collision_is_not_the_key_that_was_asked_for(tmp_path):
    """The message has the hash and not the key, and is named."""
    log, (offset,) = log_of(tmp_path, (0, [("KEYS", "Aa")]))
    (path,) = write_index(tmp_path / "index", [("Aa", offset)])
    compared = compare(log, "members", path)
    verdict = compared.verdict(0, TOPIC, "BB")
    assert (verdict.state, verdict.message) == ("mismatch", f"{TOPIC}: Aa")
    assert compared.verdict(0, TOPIC, "Aa").state == "verified"
