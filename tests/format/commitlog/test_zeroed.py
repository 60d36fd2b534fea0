"""A message that lost its keys to zeros is damage of the log, though its record still parses."""

import numpy as np
import pytest

from rmqindex import CommitLog, MessageStore, RmqIndexError, explain_lookup, rebuild_index, verify
from rmqindex.commitlog.selection import zeroed_messages

OFFSET = 11_053
TOPIC = b"TopicTest"
# The bytes that are zeroed, from the start of the properties, as a page's end, its begin, or both.
PARTS = {"all": (0, 102), "their head": (0, 40), "their tail": (20, 102), "between": (6, 70)}


@pytest.fixture(params=PARTS)
def zeroed(store, request):
    """A store of which one message has zeros in its properties."""
    path = store / "commitlog" / f"{0:020d}"
    content = path.read_bytes()
    first = content.index(b"KEYS\x01", OFFSET)
    begin, end = PARTS[request.param]
    assert content[first : first + 102].endswith(b"TAGS\x01TagB\x02")
    path.write_bytes(content[: first + begin] + bytes(end - begin) + content[first + end :])
    return store


def test_verify_names_the_message_and_not_its_entries(zeroed):
    """What a rebuild would take for wrong entries is all that is left of the keys."""
    findings = [row for row in verify(zeroed, "auto").to_pylist() if row["severity"] == "error"]
    (damage,) = (row for row in findings if row["rule"] == "log_damaged")
    assert (damage["file"], damage["byte"]) == (str(zeroed / "commitlog" / f"{0:020d}"), OFFSET)
    assert f"bytes of 0 in them (message at {OFFSET})" in damage["got"]
    assert not [row for row in findings if row["rule"] == "entry_hash"]


@pytest.mark.parametrize("zeroed", ["all"], indirect=True)
def test_a_lookup_marks_the_entry_by_the_same_word(zeroed):
    """It is not wrong itself: what is wrong is the message that it leads to."""
    found = MessageStore(zeroed).lookup("TopicTest", ["uk40_0_1", "order-49"]).to_pylist()
    states = {(row["key"], row["phy_offset"]): row["match_state"] for row in found}
    assert states.pop(("uk40_0_1", OFFSET)) == "zeroed"
    assert {state for (_, offset), state in states.items() if offset != OFFSET} == {"verified"}
    assert {state for (_, offset), state in states.items() if offset == OFFSET} <= {"zeroed"}


def test_a_rebuild_does_not_throw_the_entries_away(zeroed):
    """They are counted as lost, and the log is to be restored first."""
    before = {path.name: path.read_bytes() for path in (zeroed / "index").iterdir()}
    with pytest.raises(RmqIndexError, match=r"would be lost\. Nothing was changed.*restore it"):
        rebuild_index(zeroed, zeroed / "index", replace=True)
    shown = rebuild_index(zeroed, zeroed / "index", replace=True, dry_run=True)
    assert (shown.replacement.lost.first, shown.replacement.lost.last) == (OFFSET, OFFSET)
    assert {path.name: path.read_bytes() for path in (zeroed / "index").iterdir()} == before


@pytest.mark.parametrize("zeroed", ["all"], indirect=True)
def test_an_explanation_names_the_damage(zeroed):
    """The entry is no collision: nothing tells whose it was but the entry itself."""
    explained = explain_lookup(zeroed, "TopicTest", "uk40_0_1", commit_log="auto")
    (reason,) = (each for each in explained.reasons if each.code == "zeroed")
    assert reason.phy_offsets == (OFFSET,)
    assert reason.remedy == f"rmqindex verify {zeroed}"
    assert not explained.hits
    assert "collision" not in {each.code for each in explained.reasons}


def test_a_topic_of_zeros_is_damage_as_well(store):
    """All keys are those of another topic then."""
    path = store / "commitlog" / f"{0:020d}"
    content = path.read_bytes()
    at = content.index(TOPIC, OFFSET)
    path.write_bytes(content[:at] + bytes(len(TOPIC)) + content[at + len(TOPIC) :])
    with CommitLog(store) as log:
        assert zeroed_messages(log, np.array([OFFSET, 0, 109_318])).tolist() == [OFFSET]
    assert "log_damaged" in verify(store, "auto")["rule"].to_pylist()
    with pytest.raises(RmqIndexError, match="would be lost"):
        rebuild_index(store, store / "index", replace=True)


@pytest.mark.parametrize("size", [1, 20, 101])
@pytest.mark.parametrize("zeros", [60, 700])
def test_zeros_that_go_on_behind_the_message_are_told_of_it_too(store, size, zeros):
    """What is left of its properties is read, since its body is whole."""
    path = store / "commitlog" / f"{0:020d}"
    content = path.read_bytes()
    with CommitLog(store) as log:
        sound = {
            row["phy_offset"]: row["body"] for batch in log.scan() for row in batch.to_pylist()
        }
    end = content.index(b"TAGS\x01TagB\x02", OFFSET) + len(b"TAGS\x01TagB\x02")
    path.write_bytes(content[: end - size] + bytes(size + zeros) + content[end + zeros :])
    told = []
    with CommitLog(store) as log:
        batches = log.scan(mode="DROPMALFORMED", on_malformed=told.append)
        rows = [row for batch in batches for row in batch.to_pylist()]
    assert [error.byte for error in told] == [end - size, end]
    assert told[0].got == f"{size} zeros, as behind the message: its keys, tags or others are lost"
    assert OFFSET in {row["phy_offset"] for row in rows}
    assert {row["phy_offset"]: row["body"] for row in rows}.items() <= sound.items()


def test_a_property_that_ends_in_a_zero_is_one(store):
    """A client may write it; what is damaged lies further behind."""
    path = store / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    end = content.index(b"TAGS\x01TagB\x02", OFFSET) + len(b"TAGS\x01TagB\x02")
    content[end - 1] = 0
    following = end + int.from_bytes(content[end : end + 4], "big")
    content[following : following + 60] = bytes(60)
    path.write_bytes(content)
    told = []
    with CommitLog(store) as log:
        list(log.scan(mode="DROPMALFORMED", on_malformed=told.append))
    assert [error.byte for error in told] == [following]


def test_a_sound_message_proves_its_entry_wrong(store):
    """As before: the entry's hash was damaged, and a rebuild mends it."""
    path = min((store / "index").iterdir())
    content = bytearray(path.read_bytes())
    first = 40 + 4 * 97 + 20 * 84
    content[first] ^= 1
    path.write_bytes(content)
    rules = verify(store, "auto")["rule"].to_pylist()
    assert "entry_hash" in rules
    assert "log_damaged" not in rules
    rebuild_index(store, store / "index", replace=True)
    assert "error" not in verify(store, "auto")["severity"].to_pylist()


@pytest.mark.parametrize("field", [TOPIC, b"uk40_0_1"])
def test_a_flipped_bit_of_a_key_is_damage_of_the_message(store, field):
    """A sound entry of its time, before entries that have their messages, is of no other one."""
    path = store / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[content.index(field, OFFSET) + 1] ^= 1
    path.write_bytes(content)
    before = {path.name: path.read_bytes() for path in (store / "index").iterdir()}
    message = rf"entr(y|ies) in \d+, of messages at offset {OFFSET}, would be lost"
    with pytest.raises(RmqIndexError, match=message):
        rebuild_index(store, store / "index", replace=True)
    assert {path.name: path.read_bytes() for path in (store / "index").iterdir()} == before
    rebuild_index(store, store / "index", replace=True, allow_loss=True)


@pytest.mark.parametrize("byte", [3, 4, 28 + 7])
def test_each_damaged_record_is_named_with_what_to_do(store, byte):
    """Its size, its magic code, and its own offset."""
    path = store / "commitlog" / f"{0:020d}"
    content = bytearray(path.read_bytes())
    content[OFFSET + byte] ^= 1
    path.write_bytes(content)
    with CommitLog(store) as log, pytest.raises(RmqIndexError, match="; restore the file from a"):
        list(log.scan())
