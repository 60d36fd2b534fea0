"""The search of the parts of a log that the index does not cover."""

from __future__ import annotations

from commitlog_encoder import Log, Message
from rmqindex import CommitLog
from rmqindex.explanation.log_search import KeyForms, LogParts, LogSearch

FILE_SIZE = 64 * 1024


def test_a_hole_that_several_parts_touch_is_explained_once(tmp_path):
    """An explanation searches the parts of the log that the index does not cover."""
    written = Log(FILE_SIZE)
    while written.end < FILE_SIZE + FILE_SIZE // 2:
        written.append(Message(body=b"x" * 100))
    folder = written.write_to(tmp_path / "commitlog")
    with max(folder.iterdir()).open("r+b") as file:
        file.write(bytes(4096))
    parts = tuple((start, start + 1) for start in (0, FILE_SIZE + 10, FILE_SIZE + 20))
    with CommitLog(folder) as log:
        reach = LogSearch("T", KeyForms("nothing")).run(log, LogParts(parts, ()), ())
    assert len(reach.faults) == 1
