"""Two stores of the same shape, and the ways in which one takes the place of the other."""

from __future__ import annotations

import shutil
import subprocess

from commitlog_encoder import Message, properties_text
from live_broker import LiveLog
from rmqindex import Layout, rebuild_consume_queues, rebuild_index

LAYOUT = Layout(31, 24)
TOPIC = "TopicTest"
COUNT = 60
FILE_SIZE = 4096


def make_store(root, prefix):
    """Write a store of 60 messages in four log files, three index files and two queues.

    Two stores differ in the keys, the tags and the bodies alone: offsets, sizes, times and the
    names of all files are the same.
    """
    log = LiveLog(root / "commitlog", FILE_SIZE)
    for number in range(COUNT):
        log.append(
            Message(
                topic=TOPIC,
                body=f"{prefix}{number:03d}".encode() * 20,
                properties=properties_text([("KEYS", f"{prefix}{number:03d}"), ("TAGS", prefix)]),
                queue_id=number % 2,
                queue_offset=number // 2,
                store_timestamp=1_700_000_000_000 + 1000 * number,
            )
        )
    log.map.flush()
    rebuild_index(root, root / "index", LAYOUT)
    rebuild_consume_queues(root, root, file_size=20 * 16)
    return root


def _files(folder):
    return sorted(path for path in folder.rglob("*") if path.is_file())


def removed_and_copied(source, target):
    """Remove a folder, and copy another one to its place: inodes may be used again."""
    shutil.rmtree(target)
    shutil.copytree(source, target, copy_function=shutil.copy)


def restored_with_times(source, target):
    """``cp -a``, which keeps the times of the files."""
    shutil.rmtree(target)
    subprocess.run(["cp", "-a", str(source), str(target)], check=True)


def renamed_over(source, target):
    """Put each file of a copy in the place of the one of its name."""
    copy = target.with_name("incoming")
    shutil.copytree(source, copy)
    for path in _files(copy):
        path.replace(target / path.relative_to(copy))
    shutil.rmtree(copy)


def truncated_and_rewritten(source, target):
    """Write each file anew where it is, as ``cp`` over it does."""
    for path in _files(source):
        (target / path.relative_to(source)).write_bytes(path.read_bytes())


def rewritten(source, target):
    """Write other bytes over those of each file, which keeps its size."""
    for path in _files(source):
        with (target / path.relative_to(source)).open("r+b") as file:
            file.write(path.read_bytes())


def directory_renamed(source, target):
    """Rename the folder away, and another one in."""
    shutil.copytree(source, target.with_name("incoming"))
    target.rename(target.with_name("away"))
    target.with_name("incoming").rename(target)


REPLACEMENTS = (
    removed_and_copied,
    restored_with_times,
    renamed_over,
    truncated_and_rewritten,
    rewritten,
    directory_renamed,
)
