"""Files of ConsumeQueues in the place of others, where some messages have expired.

What verify prints is typed until it finds nothing more, from the broken store on.
"""

from __future__ import annotations

import re
import shlex
import shutil

import pytest

from commitlog_encoder import Log, Message
from rmqindex import ConsumeQueue, RmqIndexError, rebuild_consume_queues, verify

FILE_SIZE = 200  # ten units
LOG_FILE_SIZE = 1024


def store_of(root, messages, expired_files):
    """Write a store whose broker stopped, and whose log has lost its first files.

    Return the offset at which it then begins.
    """
    log = Log(LOG_FILE_SIZE)
    for message in messages:
        log.append(message)
    log.write_to(root / "commitlog")
    (root / "index").mkdir()
    (root / "checkpoint").write_bytes(bytes(4096))
    rebuild_consume_queues(root, root, file_size=FILE_SIZE)
    for path in sorted((root / "commitlog").iterdir())[:expired_files]:
        path.unlink()
    assert "error" not in verify(root, "auto")["severity"].to_pylist()
    return expired_files * LOG_FILE_SIZE


def numbered(count, queue_id=0, first=0):
    """Return messages of a queue."""
    return [Message(queue_id=queue_id, queue_offset=place) for place in range(first, first + count)]


def interleaved(*queues):
    """Return the messages of queues in turns."""
    return [message for messages in zip(*queues, strict=True) for message in messages]


def file_of(root, queue_id, place):
    """Return the file of a queue that has a place."""
    name = f"{place // 10 * FILE_SIZE:020d}"
    return root / "consumequeue" / "TopicTest" / str(queue_id) / name


def exchange(first, second):
    """Exchange the names of two files."""
    aside = first.with_suffix(".aside")
    first.rename(aside)
    second.rename(first)
    aside.rename(second)


def follow(root, run):
    """Type the remedy that verify prints; return what the command said once nothing is left."""
    code, out, _ = run("verify", root)
    assert code == 1
    (command,) = re.findall("`rmqindex (rebuild-queues [^`]*)`", out.splitlines()[-1])
    assert "--allow-loss" not in command
    code, out, err = run(*shlex.split(command))
    assert code == 0, err
    code, left, _ = run("verify", root)
    assert code == 0, left
    return out


def answers(root, start):
    """Return what a broker can answer of each queue: its messages in the log, and its end."""
    return {
        queue.queue_id: (
            queue.max_offset,
            [
                (row["queue_offset"], row["phy_offset"])
                for batch in queue.scan()
                for row in batch.to_pylist()
                if row["phy_offset"] >= start
            ],
        )
        for queue in ConsumeQueue.find(root)
    }


@pytest.mark.parametrize(
    ("count", "expired_files", "pair"),
    [(24, 1, (0, 20)), (21, 1, (0, 20)), (24, 2, (0, 20)), (33, 2, (0, 30)), (33, 2, (10, 30))],
)
def test_files_of_one_queue_that_were_exchanged_are_mended(
    tmp_path, run, count, expired_files, pair
):
    """Units of expired messages behind those of the log were before them, and tell nothing."""
    start = store_of(tmp_path, numbered(count), expired_files)
    before = answers(tmp_path, start)
    exchange(*(file_of(tmp_path, 0, place) for place in pair))
    said = follow(tmp_path, run)
    assert "of the old queue, from queue offset" in said
    assert answers(tmp_path, start) == before


def test_a_file_under_the_name_of_another_is_mended(tmp_path, run):
    """Nothing stands before its units of expired messages."""
    start = store_of(tmp_path, [*3 * [Message(topic="Other")], *numbered(14)], 1)
    before = answers(tmp_path, start)
    file_of(tmp_path, 0, 0).replace(file_of(tmp_path, 0, 10))
    follow(tmp_path, run)
    assert answers(tmp_path, start) == before


@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize("count", [9, 17])
def test_files_of_an_expired_queue_and_of_another_are_mended(tmp_path, run, count, is_copied):
    """The next queue offset of the expired one is where its last unit stands, whatever it is."""
    messages = [*numbered(count), *numbered(40, queue_id=1)]
    start = store_of(tmp_path, messages, count // 4)
    before = answers(tmp_path, start)
    mine, other = file_of(tmp_path, 0, count - 1), file_of(tmp_path, 1, count - 1)
    if is_copied:
        shutil.copy(other, mine)
    else:
        exchange(mine, other)
    said = follow(tmp_path, run)
    assert "TopicTest, queue 0: kept" in said
    after = answers(tmp_path, start)
    assert after[1] == before[1]
    # The other's file is full.
    assert after[0] == (-(-count // 10) * 10, [])


@pytest.mark.parametrize("is_copied", [False, True])
@pytest.mark.parametrize("live", [1, 2])
def test_files_of_two_queues_of_which_both_have_messages_are_mended(tmp_path, run, live, is_copied):
    """The one has units of the other's expired messages behind all of its own."""
    messages = [*numbered(8), *numbered(2, queue_id=1), Message(topic="Other")]
    messages += interleaved(numbered(live, first=8), numbered(live, queue_id=1, first=2))
    start = store_of(tmp_path, messages, 1)
    before = answers(tmp_path, start)
    mine, other = file_of(tmp_path, 0, 0), file_of(tmp_path, 1, 0)
    if is_copied:
        shutil.copy(mine, other)
    else:
        exchange(mine, other)
    follow(tmp_path, run)
    assert answers(tmp_path, start) == before


@pytest.mark.parametrize("fallen", [numbered(1, first=3), numbered(3, first=3)])
def test_units_of_expired_messages_alone_tell_the_next_queue_offset(tmp_path, fallen):
    """Where queue offsets fall back in the log, no other unit shows that these stand wrongly."""
    start = store_of(tmp_path, [*numbered(12), Message(topic="Other")], 0)
    assert not start
    log = Log(LOG_FILE_SIZE, start=4 * LOG_FILE_SIZE)
    for message in fallen:
        log.append(message)
    for path in (tmp_path / "commitlog").iterdir():
        path.unlink()
    log.write_to(tmp_path / "commitlog")
    with pytest.raises(RmqIndexError, match=rf"got none of {12 - 3 - len(fallen)} of "):
        rebuild_consume_queues(tmp_path, tmp_path, replace=True)


def test_one_message_with_a_damaged_queue_offset_contradicts_no_units(tmp_path):
    """It is the only one of its queue in the log, and those before it tell where it was."""
    store_of(tmp_path, numbered(19), 0)
    log = Log(LOG_FILE_SIZE)
    for message in [*numbered(18), Message(queue_offset=8)]:
        log.append(message)
    shutil.rmtree(tmp_path / "commitlog")
    log.write_to(tmp_path / "commitlog")
    while len(paths := sorted((tmp_path / "commitlog").iterdir())) > 1:
        paths[0].unlink()
    with pytest.raises(RmqIndexError, match="got none of 9 of their 19 units"):
        rebuild_consume_queues(tmp_path, tmp_path, replace=True)
