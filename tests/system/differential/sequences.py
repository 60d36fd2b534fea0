"""Random sequences of operations on an index, and their text form.

A sequence is a dictionary of plain values, so that one that found a difference is kept as JSON.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from random import Random

INT_MAX = 2**31 - 1
LONG_MIN, LONG_MAX = -(2**63), 2**63 - 1

BEGIN = 1_700_000_000_000
ROLLBACK = 12

# Few texts, so that they repeat; some share a hash or a slot, one has no hash but 0.
TOPICS = ["T", "TopicTest", "订单主题", "", "\ud800", "AaTopic", "BBTopic"]
KEYS = [
    *("Aa", "BB", "AaAa", "BBBB", "AaBB", "BBAa", "a", "b", "c", "k1", "k2", "k3"),
    *("", "#", "T#TagA", "T#", "TagA", "polygenelubricants", "订单-1", "订单-2", "é", "é"),
    *("\ud800", "\udc00\ud800", "😀", "\0", "\x7f", "tab\tbed", "x" * 300, "U", "K", "T"),
]
INDEX_KEYS = [*(f"T#{key}" for key in KEYS), *KEYS, "TopicTest#T#TagA"]
TAGS = [None, None, None, "TagA", "TagB", "", "TagA || TagB", "标签", "\ud800", " ", "T#TagA"]
SYS_FLAGS = [0, 0, 0, 0, 4, 8, ROLLBACK, ROLLBACK, 1, 0x700, ROLLBACK | 1, -1, INT_MAX]

_EDGES = [0, 1, -1, 999, -999, 1000, INT_MAX, INT_MAX + 1, LONG_MAX, LONG_MIN, LONG_MAX - 999]
_OPEN_TIMES = [(0, LONG_MAX), (LONG_MIN, LONG_MAX), (LONG_MAX, LONG_MIN), (0, 0)]
# How often an odd number takes the place of a likely one.
_ODD = 0.06
_NO_BOUND = 0.4
_SHARE_OF_FILES = 0.5
_SHARE_OF_DAMAGED = 0.4


def make_sequence(random: Random) -> dict[str, Any]:
    """Draw a sequence: one file or one directory, opened a few times.

    Args:
        random: Where the choices come from.

    Returns:
        ``kind`` (``file`` or ``service``), ``layout`` and ``segments``, each of which is one
        opening; see :mod:`.ours` for what the operations in it are.
    """
    kind = "file" if random.random() < _SHARE_OF_FILES else "service"
    make = _file_segment if kind == "file" else _service_segment
    slots = random.choice([1, 1, 2, 3, 5, 7, 16, 97])
    numbers = _Numbers(random)
    if kind == "file":
        index_num = random.choice([1, 2, 3, 5, 9, 20, 60])
    else:
        # So many places that no message needs three files: the broker would give two of them,
        # made within a millisecond, one name.
        index_num = random.choice([_MOST_KEYS + 1, _MOST_KEYS + 2, 12, 30])
    segments = [make(random, numbers, place) for place in range(random.choice([1, 1, 2, 3, 4]))]
    if kind == "file" and random.random() < _SHARE_OF_DAMAGED:
        segments.append(_damaged_segment(random, numbers, slots, index_num))
    return {"kind": kind, "layout": [slots, index_num], "segments": segments}


class _Numbers:
    """Times and offsets that a broker writes, and others now and then."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._time = random.choice([BEGIN, BEGIN, BEGIN, 0, 5, -4_000, LONG_MAX - 3_000])
        self._offset = random.choice([0, 0, 0, 1 << 40, -300])

    def timestamp(self) -> int:
        """A store time: clocks go on, stand, and step back."""
        if self._random.random() < _ODD:
            return self._random.choice([*_EDGES, self._random.randrange(LONG_MIN, LONG_MAX)])
        self._time = _int64(self._time + self._random.choice([0, 0, 1, 37, 999, 1000, 5000, -700]))
        return self._time

    def phy_offset(self) -> int:
        """A CommitLog offset: mostly the next one, at times the last one again or one before."""
        if self._random.random() < _ODD / 3:
            return self._random.choice([*_EDGES, self._random.randrange(LONG_MIN, LONG_MAX)])
        self._offset = _int64(self._offset + self._random.choice([211, 211, 211, 97, 0, 0, -211]))
        return self._offset

    def range(self) -> tuple[int, int]:
        """The times of a query: any, near the last ones, or nonsense."""
        if self._random.random() < _NO_BOUND:
            return self._random.choice(_OPEN_TIMES)
        return self._bound(), self._bound()

    def _bound(self) -> int:
        if self._random.random() < _ODD:
            return self._random.choice(_EDGES)
        near = self._random.choice([0, 0, 1, -1, 999, 1000, -1000, 10_000, -10_000, -60_000])
        return _int64(self._time + near)


def _int64(value: int) -> int:
    return max(LONG_MIN, min(LONG_MAX, value))


def _max_num(random: Random) -> int:
    return random.choice([0, 1, 2, 3, 10, 32, 64, 65, 1000])


def _file_segment(random: Random, numbers: _Numbers, place: int) -> dict[str, Any]:
    operations: list[list[Any]] = []
    for _ in range(random.randrange(26)):
        kind = random.choices("pqmb", [12, 4, 1, 1])[0]
        if kind == "p":
            key = random.choice(INDEX_KEYS)
            operations.append([kind, key, numbers.phy_offset(), numbers.timestamp()])
        elif kind == "q":
            key = random.choice(INDEX_KEYS)
            operations.append([kind, key, _max_num(random), *numbers.range()])
        elif kind == "m":
            operations.append([kind, *numbers.range()])
        else:
            operations.append([kind])
    previous = [0, 0]
    if not place and random.random() < _SHARE_OF_FILES:
        previous = [numbers.phy_offset(), numbers.timestamp()]
    return {"previous": previous, "operations": operations}


def _damaged_segment(
    random: Random, numbers: _Numbers, slots: int, index_num: int
) -> dict[str, Any]:
    """Questions to a file of which some bytes were changed; mostly links and counts."""
    used = 40 + 4 * slots + 20 * min(index_num, 15)
    changes = []
    for _ in range(random.choice([1, 1, 2, 4, 8])):
        place, value = random.randrange(used), random.randrange(256)
        if random.random() < _SHARE_OF_FILES:
            # The low byte of a slot, a link, or something else of four bytes.
            place, value = place // 4 * 4 + 3, random.randrange(min(index_num, 15) + 2)
        changes.append([place, value])
    operations: list[list[Any]] = []
    for kind in random.choices("qqqm", k=12):
        key = [random.choice(INDEX_KEYS), _max_num(random)] if kind == "q" else []
        operations.append([kind, *key, *numbers.range()])
    return {"previous": [0, 0], "damage": changes, "operations": operations}


_MOST_PARTS = 4
_MOST_KEYS = _MOST_PARTS + 2


def _service_segment(random: Random, numbers: _Numbers, place: int) -> dict[str, Any]:
    operations: list[list[Any]] = []
    for _ in range(random.randrange(26)):
        kind = random.choices("pqedb", [16, 6, 1, 0.3, 1])[0]
        if kind == "p":
            operations.append([kind, *_message(random, numbers)])
        elif kind == "q":
            topic, key = random.choice(TOPICS[:3]), random.choice(KEYS)
            index_type = random.choices([None, "T", "K", "U", ""], [6, 3, 1, 1, 1])[0]
            window = numbers.range()
            operations.append([kind, topic, key, index_type, _max_num(random), *window])
        elif kind == "e":
            operations.append([kind, numbers.phy_offset()])
        else:
            operations.append([kind])
    return {
        "max_msgs_num_batch": random.choice([64, 64, 64, 1, 3]),
        "last_exit_ok": not place or random.random() < _SHARE_OF_FILES,
        "index_msg_timestamp": None if random.random() < _SHARE_OF_FILES else numbers.timestamp(),
        "is_clean": random.random() < _SHARE_OF_FILES,
        "is_cut": bool(place) and random.random() < _NO_BOUND / 2,
        "operations": operations,
    }


def _message(random: Random, numbers: _Numbers) -> list[Any]:
    """Topic, unique key, keys, tags, flags, offset and time of a message."""
    parts = random.choices(KEYS, k=random.randrange(_MOST_PARTS + 1))
    keys = random.choice([" ", " ", " ", "  "]).join(parts)
    padded = random.choice([keys, keys, keys, f" {keys}", f"{keys} ", None])
    return [
        random.choice(TOPICS[:3] if random.random() < _SHARE_OF_FILES else TOPICS),
        random.choice([None, "", *KEYS, *KEYS]),
        padded,
        random.choice(TAGS),
        random.choice(SYS_FLAGS),
        numbers.phy_offset(),
        numbers.timestamp(),
    ]
