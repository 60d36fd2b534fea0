"""The edges: what is done with RocketMQ's classes, case by case, and what they answered.

Each function is one case; what it returns is recorded, and its docstring says what is asked.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .asking import Rocketmq

T0 = 1_700_000_000_000
INT32_MAX, INT64_MAX, INT64_MIN = 2**31 - 1, 2**63 - 1, -(2**63)
ALWAYS = (0, INT64_MAX)
# Of five slots, these keys are in slot 1, these in slot 2.
KEYS = ("T#a", "T#f", "T#k", "T#p")
OTHERS = ("T#b", "T#g")
S, N = 5, 8


def _put(rocketmq: Rocketmq, key: str, number: int) -> str:
    return rocketmq.ask("put", key, 1000 * number, T0 + 1000 * number)


def _select(rocketmq: Rocketmq, key: str, max_num: int = 64) -> str:
    return rocketmq.ask("select", key, max_num, *ALWAYS)


def _made(rocketmq: Rocketmq, keys: list[str], slots: int = S, places: int = N) -> bytearray:
    """Return the file that some puts make."""
    path = rocketmq.file("made")
    path.unlink(missing_ok=True)
    rocketmq.ask("open", str(path), slots, places, 0, 0)
    for number, key in enumerate(keys, 1):
        answer = _put(rocketmq, key, number)
        assert answer == "true", answer
    rocketmq.ask("flush")
    return bytearray(path.read_bytes())


def _loaded(
    rocketmq: Rocketmq, data: bytes, slots: int = S, places: int = N, name: str = "file"
) -> None:
    """Open a file of these bytes as a broker that starts does."""
    rocketmq.file(name).write_bytes(data)
    rocketmq.ask("open", str(rocketmq.file(name)), slots, places, 0, 0)
    rocketmq.ask("load")


def put_on_a_torn_put(rocketmq: Rocketmq) -> dict[str, Any]:
    """A crash between slot and header of put 3; the next put meets slot = index_count."""
    torn = _made(rocketmq, [KEYS[0], OTHERS[0], KEYS[1]])
    torn[:40] = _made(rocketmq, [KEYS[0], OTHERS[0]])[:40]
    _loaded(rocketmq, torn)
    before = [_select(rocketmq, key) for key in KEYS[:3]]
    done = _put(rocketmq, KEYS[2], 9)
    rocketmq.ask("flush")
    after = [_select(rocketmq, key) for key in KEYS[:3]]
    return {
        "hash_slot_num": S,
        "index_num": N,
        "torn_hex": torn.hex(),
        "selected_before": before,
        "put": {"key": KEYS[2], "phy_offset": 9000, "store_timestamp": T0 + 9000},
        "result": done,
        "selected_after": after,
        "hex": rocketmq.data("file"),
    }


def put_on_a_torn_first_put(rocketmq: Rocketmq) -> dict[str, Any]:
    """The same for the first put of a file."""
    torn = _made(rocketmq, [KEYS[0]])
    torn[:40] = bytes(40)
    _loaded(rocketmq, torn)
    done = _put(rocketmq, KEYS[1], 9)
    rocketmq.ask("flush")
    return {
        "hash_slot_num": S,
        "index_num": N,
        "torn_hex": torn.hex(),
        "put": {"key": KEYS[1], "phy_offset": 9000, "store_timestamp": T0 + 9000},
        "result": done,
        "selected_after": [_select(rocketmq, key) for key in KEYS[:2]],
        "hex": rocketmq.data("file"),
    }


def put_counts_that_wrap(rocketmq: Rocketmq) -> dict[str, Any]:
    """A slot count of 2147483647 and a difference of times that both overflow."""
    data = _made(rocketmq, [KEYS[0]])
    struct.pack_into(">i", data, 32, INT32_MAX)
    _loaded(rocketmq, data)
    puts = [(OTHERS[0], 5000, INT64_MIN), (KEYS[1], 6000, INT64_MAX)]
    done = [rocketmq.ask("put", *put) for put in puts]
    rocketmq.ask("flush")
    return {
        "hash_slot_num": S,
        "index_num": N,
        "resume_hex": data.hex(),
        "puts": [
            {"key": key, "phy_offset": offset, "store_timestamp": time}
            for key, offset, time in puts
        ],
        "results": done,
        "hex": rocketmq.data("file"),
    }


def put_beyond_the_places(rocketmq: Rocketmq) -> dict[str, Any]:
    """A header that counts more than there are places: nothing can be put."""
    data = _made(rocketmq, [KEYS[0]])
    struct.pack_into(">i", data, 36, N + 1)
    _loaded(rocketmq, data)
    done = _put(rocketmq, OTHERS[0], 5)
    return {"result": done, "is_same": rocketmq.data("file") == data.hex()}


def max_num(rocketmq: Rocketmq) -> dict[str, Any]:
    """Numbers of results that are 0, negative or huge: one file, file sets with and without."""
    _loaded(rocketmq, _made(rocketmq, list(KEYS)))
    numbers = (0, -1, -(2**31), INT32_MAX)
    of_file = {str(number): _select(rocketmq, KEYS[0], number) for number in numbers}
    answers = {}
    for name in ("empty", "filled"):
        index = Path(rocketmq.path(name)) / "index"
        index.mkdir(parents=True)
        if name == "filled":
            (index / "20260101000000000").write_bytes(rocketmq.file("file").read_bytes())
        rocketmq.ask("service", rocketmq.path(name), S, N, 64, True)
        answers[name] = {
            str(number): rocketmq.ask("query", "T", "a", number, *ALWAYS, None)
            for number in numbers
        }
    return {"select": of_file, "query": answers}


def loops(rocketmq: Rocketmq) -> dict[str, Any]:
    """A chain of six, one slot, that runs from entry 3 back to entry 4."""
    data = _made(rocketmq, ["a", "b", "c", "d", "e", "f"], slots=1)
    struct.pack_into(">i", data, 40 + 4 + 20 * 3 + 16, 4)
    answers = {}
    asked = [("c", 5), ("e", 1), ("f", 1), ("e", 2), ("a", 1), ("d", 3), ("x", 1), ("x", 0)]
    for key, number in asked:
        _loaded(rocketmq, data, slots=1)
        answers[f"{key} {number}"] = rocketmq.ask_briefly("select", key, number, *ALWAYS)
        if answers[f"{key} {number}"] == "hangs":
            rocketmq.stop()
    _loaded(rocketmq, data, slots=1)
    late = rocketmq.ask("select", "x", 64, T0 + 3500, INT64_MAX)
    return {"hash_slot_num": 1, "index_num": N, "hex": data.hex(), "select": answers, "late": late}


def loop_in_an_older_file(rocketmq: Rocketmq) -> dict[str, Any]:
    """A newer file has an answer, an older one a loop without one: what the query gives."""
    loop = _made(rocketmq, ["T#b", "T#c"], slots=1)
    struct.pack_into(">i", loop, 40 + 4 + 20 * 1 + 16, 2)
    sound = _made(rocketmq, ["T#a", "T#d"], slots=1)
    index = Path(rocketmq.path("store")) / "index"
    index.mkdir(parents=True)
    (index / "20260101000000000").write_bytes(loop)
    (index / "20260101000000001").write_bytes(sound)
    answers = {}
    for number in (1, 2):
        rocketmq.ask("service", rocketmq.path("store"), 1, N, 64, True)
        answers[str(number)] = rocketmq.ask_briefly("query", "T", "a", number, *ALWAYS, None)
    rocketmq.stop()
    return {
        "hash_slot_num": 1,
        "index_num": N,
        "files": [loop.hex(), sound.hex()],
        "query": answers,
    }


def outside(rocketmq: Rocketmq) -> dict[str, Any]:
    """Positions behind the last place, with bytes there; in the header; in the slots."""
    base = _made(rocketmq, list(KEYS))
    surplus = struct.pack(">iqii", _hash_of("T#b"), 4242, 0, 0) * 3
    # 20 * position is -60, -20 and -80 modulo 2**32, and the last sum just beyond 2**31.
    cases = {
        "surplus": _pointed(base, "T#b", N) + surplus,
        "last_place": _pointed(base, "", N - 1),
        "header": _pointed(base, chr(T0 >> 32), 2**30 - 3, end_timestamp=5),
        "slots": _pointed(base, "T#a", 2**30 - 1, first_slot=_hash_of("T#a")),
        "before_the_header": _pointed(base, "", 2**30 - 4),
        "sum_wraps": _pointed(base, "", 107_374_180),
    }
    keys = {"surplus": "T#b", "header": chr(T0 >> 32), "slots": "T#a"}
    answers = {}
    for name, data in cases.items():
        key = keys.get(name, "")
        _loaded(rocketmq, data, name=name)
        answers[name] = {"hex": data.hex(), "key": key, "result": _select(rocketmq, key)}
    return {"hash_slot_num": S, "index_num": N, "cases": answers}


def _pointed(
    base: bytes, key: str, position: int, *, end_timestamp: int = 0, first_slot: int = 0
) -> bytes:
    """Return a file that counts 2147483647 entries, with a key's slot at a position."""
    data = bytearray(base)
    struct.pack_into(">i", data, 36, INT32_MAX)
    if end_timestamp:
        struct.pack_into(">q", data, 8, end_timestamp)
    if first_slot:
        struct.pack_into(">i", data, 40, first_slot)
    struct.pack_into(">i", data, 40 + 4 * (_hash_of(key) % S), position)
    return bytes(data)


def _hash_of(text: str) -> int:
    code = 0
    for unit in text:
        code = (31 * code + ord(unit)) % 2**32
    code = code - 2**32 if code >= 2**31 else code
    return abs(code) % 2**31


def header_reaches_bytes(rocketmq: Rocketmq) -> dict[str, Any]:
    """The file at creation, after each put, after a flush and after closing."""
    answers = {}
    for name, seed in (("new", (0, 0)), ("rolled", (777, T0)), ("negative", (-5, -6))):
        rocketmq.ask("open", str(rocketmq.file(name)), 2, 3, *seed)
        created = rocketmq.data(name)
        _put(rocketmq, "a", 1)
        put = rocketmq.data(name)
        _put(rocketmq, "b", 2)
        again = rocketmq.data(name)
        rocketmq.ask("open", str(rocketmq.file(f"{name}-flushed")), 2, 3, *seed)
        rocketmq.ask("flush")
        flushed = rocketmq.data(f"{name}-flushed")
        rocketmq.ask("open", str(rocketmq.file(f"{name}-closed")), 2, 3, *seed)
        rocketmq.ask("close")
        closed = rocketmq.data(f"{name}-closed")
        answers[name] = {
            "seed": seed,
            "created": created,
            "after_put": put,
            "after_two_puts": again,
            "flushed": flushed,
            "closed": closed,
        }
    return {"hash_slot_num": 2, "index_num": 3, "files": answers}


def _service(rocketmq: Rocketmq, places: int, *, name: str = "store", exit_ok: bool = True) -> str:
    Path(rocketmq.path(name)).mkdir(exist_ok=True)
    return rocketmq.ask("service", rocketmq.path(name), S, places, 64, exit_ok)


def _build(
    rocketmq: Rocketmq,
    number: int,
    unique_key: str | None,
    keys: str | None,
    *,
    sys_flag: int = 0,
    tags: str | None = None,
    time: int | None = None,
) -> int:
    """Build one message and return how many files there are."""
    when = T0 + 1000 * number if time is None else time
    names = rocketmq.ask("build", "T", unique_key, keys, sys_flag, 1000 * number, when, tags)
    return len(names.split()) - 1


def _index_files(rocketmq: Rocketmq, name: str = "store") -> list[str]:
    index = Path(rocketmq.path(name)) / "index"
    return [path.read_bytes().hex() for path in sorted(index.iterdir())]


def shutdown(rocketmq: Rocketmq) -> dict[str, Any]:
    """A clean shutdown with an empty last file, and with a full one: header and checkpoint."""
    _service(rocketmq, 3, name="empty")
    created = _build(rocketmq, 1, None, "a", sys_flag=12)
    before = _index_files(rocketmq, "empty")
    rocketmq.ask("shutdown")
    after = _index_files(rocketmq, "empty")
    _service(rocketmq, 3, name="full")
    _build(rocketmq, 1, "u", "a")
    rocketmq.ask("shutdown")
    return {
        "files": created,
        "empty_before": before,
        "empty_after": after,
        "full_after": _index_files(rocketmq, "full"),
        "index_msg_timestamp": rocketmq.ask("index_msg_timestamp"),
    }


def roll_over_without_a_time(rocketmq: Rocketmq) -> dict[str, Any]:
    """A full file whose end_timestamp is 0 or negative: seed and checkpoint."""
    answers = {}
    for name, time in (("zero", 0), ("negative", -7)):
        _service(rocketmq, 3, name=name)
        _build(rocketmq, 1, "u", "a", time=T0)
        _build(rocketmq, 2, "v", "b", time=time)
        _build(rocketmq, 3, "w", None, time=time)
        answers[name] = {
            "files": _index_files(rocketmq, name),
            "index_msg_timestamp": rocketmq.ask("index_msg_timestamp"),
        }
    return {"hash_slot_num": S, "index_num": 3, "sets": answers}


def one_place(rocketmq: Rocketmq) -> dict[str, Any]:
    """Files of one place: messages without keys, then one with a key."""
    _service(rocketmq, 1)
    without = [_build(rocketmq, number, None, None) for number in (1, 2)]
    index = Path(rocketmq.path("store")) / "index"
    names = len(list(index.iterdir()))
    # It makes files until the machine lets it make no more: how that ends is not the format's.
    rocketmq.ask_briefly("build", "T", "u", None, 0, 3000, T0, None)
    rocketmq.stop()
    return {
        "files_without_keys": without,
        "names": names,
        "makes_files_without_end": len(list(index.iterdir())) > names + 10,
    }


def one_millisecond(rocketmq: Rocketmq) -> dict[str, Any]:
    """Two files that are created in one millisecond have one name, and are one file."""
    path = str(rocketmq.file("one"))
    rocketmq.ask("open", path, 2, 3, 0, 0)
    _put(rocketmq, "a", 1)
    _put(rocketmq, "b", 2)
    first = rocketmq.data("one")
    rocketmq.ask("open_again", path, 2, 3, 2000, T0 + 2000)
    opened = rocketmq.data("one")
    _put(rocketmq, "c", 3)
    put = rocketmq.data("one")
    rocketmq.ask("use", 0)
    rocketmq.ask("flush")
    return {
        "full": first,
        "opened_again": opened,
        "put_again": put,
        "first_flushed": rocketmq.data("one"),
    }


def load(rocketmq: Rocketmq) -> dict[str, Any]:
    """Directories that are missing, end in failure, or hold symbolic links."""
    file = bytes(_made(rocketmq, ["T#a"]))
    answers: dict[str, Any] = {}

    def root(name: str) -> Path:
        index = Path(rocketmq.path(name)) / "index"
        index.mkdir(parents=True)
        return index

    def told(name: str, *, exit_ok: bool = True) -> None:
        result = _service(rocketmq, N, name=name, exit_ok=exit_ok)
        index = Path(rocketmq.path(name)) / "index"
        answers[name] = {
            "load": result,
            "files": rocketmq.ask("files").encode().decode(),
            "query": rocketmq.ask("query", "T", "a", 64, *ALWAYS, None),
            "directory": sorted(path.name for path in index.iterdir()) if index.exists() else None,
        }

    Path(rocketmq.path("missing")).mkdir()
    told("missing")
    index = root("failure")
    (index / "1").write_bytes(file)
    (index / "2").mkdir()
    (index / "3").write_bytes(file)
    told("failure")
    index = root("failure_after_a_crash")
    (index / "1").write_bytes(file)
    (index / "2").mkdir()
    (index / "3").write_bytes(file)
    told("failure_after_a_crash", exit_ok=False)
    index = root("link_to_file")
    (index.parent / "elsewhere").write_bytes(file)
    (index / "1").symlink_to(index.parent / "elsewhere")
    told("link_to_file")
    index = root("link_to_directory")
    (index.parent / "elsewhere").mkdir()
    (index / "1").symlink_to(index.parent / "elsewhere")
    told("link_to_directory")
    index = root("link_to_nothing")
    (index / "1").symlink_to(index.parent / "elsewhere")
    told("link_to_nothing")
    answers["link_to_nothing"]["made"] = (index.parent / "elsewhere").exists()
    index = root("digits")
    for name in ("\u0661", "1\u0662", "\U0001d7d9", "\uff11", "+\u0967", "007"):
        (index / name).write_bytes(file)
    told("digits")
    return answers


def load_with_a_checkpoint(rocketmq: Rocketmq) -> dict[str, Any]:
    """After a crash, with no checkpoint, an empty one, one of 20 and one of 24 bytes."""
    file = bytes(_made(rocketmq, ["T#a"]))
    answers = {}
    whole = struct.pack(">qqq", T0, T0, INT64_MAX)
    for name, data in (
        ("none", None),
        ("empty", b""),
        ("twenty_bytes", whole[:20]),
        ("twenty_four_bytes", whole),
    ):
        index = Path(rocketmq.path(name)) / "index"
        index.mkdir(parents=True)
        (index / "1").write_bytes(file)
        checkpoint = index.parent / "checkpoint"
        if data is not None:
            checkpoint.write_bytes(data)
        result = _service(rocketmq, N, name=name, exit_ok=False)
        answers[name] = {
            "load": result,
            "files": rocketmq.ask("files"),
            "index_msg_timestamp": rocketmq.ask("index_msg_timestamp"),
            "size": checkpoint.stat().st_size,
        }
    return answers


def geometry(rocketmq: Rocketmq) -> dict[str, Any]:
    """Geometries without slots or places, and sizes that overflow."""
    answers = {}
    for slots, places in ((0, 8), (5, 0), (-1, 8), (5, -1), (1, 107_374_181), (1, 214_748_365)):
        name = f"{slots}-{places}"
        answers[name] = {
            "open": rocketmq.ask("open", str(rocketmq.file(name)), slots, places, 0, 0),
        }
        if answers[name]["open"] == "done":
            answers[name] |= {
                "size": rocketmq.file(name).stat().st_size,
                "put": _put(rocketmq, "a", 1),
                "select": _select(rocketmq, "a"),
            }
    return answers


def total_size(rocketmq: Rocketmq) -> dict[str, Any]:
    """Three files of a geometry of 220 bytes: one of that size, one longer, one shorter."""
    index = Path(rocketmq.path("store")) / "index"
    index.mkdir(parents=True)
    file = bytes(_made(rocketmq, ["T#a"]))
    for name, data in (("1", file), ("2", file + bytes(100)), ("3", file[:60])):
        (index / name).write_bytes(data)
    _service(rocketmq, N)
    return {"hash_slot_num": S, "index_num": N, "total_size": rocketmq.ask("total_size")}


def editions(rocketmq: Rocketmq) -> dict[str, Any]:
    """The same messages, some with tags, into files of seven entries, then a clean shutdown."""
    messages = [
        ("u1", "a b", None, 0),
        ("u2", "a", "red", 0),
        (None, None, "red", 0),
        ("u3", "b b", "", 4),
        ("u4", "c", "blue || red", 8),
        ("u5", "c", "red", 12),
        ("", " d  e ", None, 0),
    ]
    _service(rocketmq, N)
    for number, (unique_key, keys, tags, sys_flag) in enumerate(messages, 1):
        _build(rocketmq, number, unique_key, keys, sys_flag=sys_flag, tags=tags)
    answers = {
        f"{key} {number}": rocketmq.ask("query", "T", key, number, *ALWAYS, None)
        for key, number in (("a", 64), ("b", 1), ("T#red", 64), ("d", 64), ("", 64))
    }
    rocketmq.ask("shutdown")
    return {
        "hash_slot_num": S,
        "index_num": N,
        "messages": [
            {
                "topic": "T",
                "unique_key": unique_key,
                "keys": keys,
                "tags": tags,
                "sys_flag": sys_flag,
                "phy_offset": 1000 * number,
                "store_timestamp": T0 + 1000 * number,
            }
            for number, (unique_key, keys, tags, sys_flag) in enumerate(messages, 1)
        ],
        "files": _index_files(rocketmq),
        "index_msg_timestamp": rocketmq.ask("index_msg_timestamp"),
        "queries": answers,
    }


def digits(rocketmq: Rocketmq) -> dict[str, Any]:
    """The code units that ``Long.parseLong`` takes for digits: the first of each run of ten."""
    units = [int(unit, 16) for unit in rocketmq.ask("digits").split()[1:]]
    zeros = units[::10]
    assert units == [zero + value for zero in zeros for value in range(10)]
    return {"zeros": [f"{zero:04x}" for zero in zeros]}


def utf8(rocketmq: Rocketmq) -> dict[str, Any]:
    """Malformed UTF-8, as ``new String(bytes, UTF_8)`` decodes it: its code units."""
    texts = (
        "41 80 42", "c3 a9", "c3", "c3 41", "c0 80", "c1 bf", "e0 80 80", "e0 9f bf", "e0 a0",
        "e0 a0 41", "e2 82 ac", "e2 82", "e2 28 a1", "ed 9f bf", "ed a0 80", "ed bf bf", "ed a0",
        "ed a0 41", "ed a0 80 ed b0 80", "ee 80 80", "ef bf bd", "f0 9f 98 80", "f0 9f 98",
        "f0 9f 98 41", "f0 8f bf bf", "f0 28 8c bc", "f4 8f bf bf", "f4 90 80 80", "f5 80 80 80",
        "f8 88 80 80 80", "fe", "ff", "f0 9f 41", "f1 80 80", "ed 41 80",
    )  # fmt: skip
    return {
        "decoded": {text: rocketmq.ask("decode", bytes.fromhex(text))[1:] for text in texts},
    }


CASES: list[Callable[[Rocketmq], dict[str, Any]]] = [
    put_on_a_torn_put,
    put_on_a_torn_first_put,
    put_counts_that_wrap,
    put_beyond_the_places,
    max_num,
    loops,
    loop_in_an_older_file,
    outside,
    header_reaches_bytes,
    shutdown,
    roll_over_without_a_time,
    one_place,
    one_millisecond,
    load,
    load_with_a_checkpoint,
    geometry,
    total_size,
    digits,
    utf8,
    editions,
]
