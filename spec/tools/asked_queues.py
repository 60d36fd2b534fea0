"""What RocketMQ is asked about ConsumeQueues: files that it wrote, and such files changed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    from ask_rocketmq import RocketMQ

UNIT, BATCH_UNIT = 20, 46
FILE_SIZE, BATCH_FILE_SIZE = 5 * UNIT, 3 * BATCH_UNIT
TOPIC, QUEUE_ID = "TopicTest", 2

Step = list[Any]


def puts(count: int, first: int = 0, phy_offset: int = 1000, size: int = 200) -> list[Step]:
    """Return units to be put: CommitLog offset, size, tags code, queue offset."""
    return [
        ["put", phy_offset + n * size, size, -5 if n % 3 == 2 else 2_598_919 + n, first + n]
        for n in range(count)
    ]


def batches(count: int, phy_offset: int = 1000) -> list[Step]:
    """Return batches to be put: the same, and how many messages each has."""
    base, steps = 0, []
    for n in range(count):
        steps.append(["put", phy_offset + n * 500, 500, 2_598_919, base, n + 1])
        base += n + 1
    return steps


def _unit(phy_offset: int, size: int, tags_code: int = 0) -> bytes:
    return b"".join(
        value.to_bytes(width, "big", signed=True)
        for value, width in ((phy_offset, 8), (size, 4), (tags_code, 8))
    )


#: Queues that RocketMQ writes: whether of batches, and the steps.
WRITTEN: dict[str, tuple[bool, list[Step]]] = {
    "queue_worked_example": (False, puts(7)),
    "queue_one_unit": (False, puts(1, phy_offset=0)),
    "queue_blank_units": (False, puts(4, first=7)),
    "queue_starts_at_file": (False, puts(3, first=10)),
    "queue_repeated_units": (False, [*puts(3), *puts(2), *puts(1, first=3, phy_offset=1600)]),
    "queue_skipped_offset": (False, [*puts(2), *puts(2, first=3, phy_offset=1400)]),
    "queue_tags_codes": (
        False,
        [
            ["put", 0, 100, 0, 0],
            ["put", 100, 100, -(2**31), 1],
            ["put", 200, 100, 2**31 - 1, 2],
            ["put", 300, 100, 1_700_000_005_000, 3],
        ],
    ),
    "queue_correct_min_offset": (
        False,
        [*puts(12), *(["correct_min_offset", at] for at in (0, 1000, 1001, 1200, 1399, 1800))],
    ),
    "queue_all_expired": (False, [*puts(4), ["correct_min_offset", 5000]]),
    "queue_expire": (False, [*puts(12), ["expire", 2100], ["correct_min_offset", 2100]]),
    "queue_truncate": (False, [*puts(12), ["truncate", 3000]]),
    "queue_truncate_between": (False, [*puts(12), ["truncate", 1501]]),
    "queue_truncate_at_file": (False, [*puts(12), ["truncate", 2000]]),
    "queue_truncate_all": (False, [*puts(7), ["truncate", 0]]),
    "queue_truncate_blank_units": (False, [*puts(4, first=7), ["truncate", 1000]]),
    "queue_put_after_truncate": (
        False,
        [*puts(4), ["truncate", 1400], ["put", 1300, 100, 5, 2], ["put", 1300, 101, 5, 2]],
    ),
    "queue_put_after_truncate_all": (
        False,
        [*puts(4), ["truncate", 500], ["put", 300, 200, 5, 0], ["put", 301, 200, 5, 0]],
    ),
    "batch_queue_worked_example": (True, batches(5)),
    "batch_queue_repeated": (True, [*batches(2), *batches(2)]),
    "batch_queue_correct_min_offset": (
        True,
        [*batches(5), *(["correct_min_offset", at] for at in (0, 1000, 1001, 2000))],
    ),
    "batch_queue_truncate": (True, [*batches(5), ["truncate", 2000]]),
    "batch_queue_truncate_at_file": (True, [*batches(5), ["truncate", 2500]]),
    "batch_queue_put_after_truncate": (
        True,
        [*batches(3), ["truncate", 1500], ["put", 1000, 500, 5, 1, 2], ["put", 1001, 500, 5, 1, 2]],
    ),
    "batch_queue_put_after_truncate_all": (
        True,
        [*batches(3), ["truncate", 700], ["put", 699, 500, 5, 0, 2], ["put", 700, 500, 5, 0, 2]],
    ),
}

ZERO = bytes(UNIT)


def changed(files: dict[str, bytes], name: str, at: int, data: bytes) -> dict[str, bytes]:
    """Return files of which one has other bytes at a place."""
    file = files[name]
    return {**files, name: file[:at] + data + file[at + len(data) :]}


def _damages(files: dict[str, bytes], *, is_batch: bool) -> dict[str, dict[str, bytes]]:
    names = sorted(files)
    if is_batch:
        unit = files[names[0]][:BATCH_UNIT]
        return {
            "batch_queue_size_zero": changed(files, names[1], 8, bytes(4)),
            "batch_queue_base_negative": changed(files, names[1], 28, b"\xff" * 8),
            "batch_queue_count_zero": changed(files, names[1], 36, bytes(2)),
            "batch_queue_count_negative": changed(files, names[1], 36, b"\xff\xff"),
            "batch_queue_unit_torn": changed(
                files, names[1], 2 * BATCH_UNIT, unit[:20] + bytes(26)
            ),
        }
    return {
        "queue_zero_unit": changed(files, names[1], UNIT, ZERO),
        "queue_size_negative": changed(files, names[1], UNIT + 8, b"\xff\xff\xff\xff"),
        "queue_phy_offset_negative": changed(files, names[1], UNIT, b"\xff" * 8),
        "queue_unit_torn": changed(files, names[1], 2 * UNIT, _unit(2400, 0)),
        "queue_zero_unit_in_the_first_file": changed(files, names[0], UNIT, ZERO),
        "queue_blank_unit_inside": changed(files, names[0], UNIT, _unit(0, 2**31 - 1)),
        "queue_offsets_descend": changed(files, names[1], UNIT, _unit(5, 200)),
        "queue_file_short": {**files, names[1]: files[names[1]][:-UNIT]},
        "queue_file_empty": {**files, names[1]: b""},
        "queue_first_file_short": {**files, names[0]: files[names[0]][:-UNIT], names[1]: b""},
        "queue_first_file_missing": {names[1]: files[names[1]]},
        "queue_all_zero": {names[0]: bytes(FILE_SIZE)},
    }


def _folder(root: Path) -> Path:
    folder = root / "consumequeue" / TOPIC / str(QUEUE_ID)
    folder.mkdir(parents=True)
    return folder


def _files(folder: Path) -> list[dict[str, str]]:
    return [{"name": p.name, "hex": p.read_bytes().hex()} for p in sorted(folder.iterdir())]


def ask_of_queue(
    judge: RocketMQ, name: str, contents: dict[str, bytes], steps: list[Step], *, is_batch: bool
) -> dict[str, Any]:
    """Return what RocketMQ makes of a queue's files and of steps, and the files at the end."""
    root = judge.folder()
    folder = _folder(root)
    for file_name, data in contents.items():
        (folder / file_name).write_bytes(data)
    before = _files(folder)
    size = BATCH_FILE_SIZE if is_batch else FILE_SIZE
    answers = judge.ask(
        "queue",
        root=str(root / "unused"),
        path=str(root / "consumequeue"),
        file_size=size,
        topic=TOPIC,
        queue_id=QUEUE_ID,
        is_batch=is_batch,
        steps=steps,
    )
    return {
        "name": name,
        "is_batch": is_batch,
        "file_size": size,
        "files": before,
        "steps": steps,
        "answers": answers,
        "files_after": _files(folder),
    }


def ask_about_queues(judge: RocketMQ) -> dict[str, list[dict[str, Any]]]:
    """Return the golden cases of ConsumeQueues."""
    written = [
        ask_of_queue(judge, name, {}, steps, is_batch=is_batch)
        for name, (is_batch, steps) in WRITTEN.items()
    ]
    by_name = {case["name"]: case for case in written}
    damaged = []
    for base, is_batch in (("queue_worked_example", False), ("batch_queue_worked_example", True)):
        files = {f["name"]: bytes.fromhex(f["hex"]) for f in by_name[base]["files_after"]}
        for name, contents in _damages(files, is_batch=is_batch).items():
            damaged.append(ask_of_queue(judge, name, contents, [], is_batch=is_batch))
    return {"queues": written, "damaged_queues": damaged}
