"""A pipe under the name of a store's file keeps no command waiting: it is a file that is none."""

from __future__ import annotations

import os
import shutil
import signal

import pytest

from rmqindex import sample_store

# Names that a broker could have given, and one beyond what 64 bits can name.
PLACES = {
    "queue": "consumequeue/TopicTest/0/00000000000006000000",
    "queue beyond 64 bits": "consumequeue/TopicTest/0/99999999999999999999",
    "batch queue": "batchconsumequeue/TopicTest/0/00000000000000000000",
    "index": "index/20991114221320100",
}
COMMANDS = [
    ("messages",),
    ("usage",),
    ("rebuild", "--replace", "--dry-run"),
    ("rebuild-queues", "--replace", "--dry-run"),
]


@pytest.fixture
def impatient():
    """End what waits for a writer of a pipe."""

    def fail(*_):
        raise AssertionError("it waits for a pipe")  # which no handler of OSError takes

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(20)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


@pytest.fixture
def store(tmp_path):
    """A copy of the sample store."""
    return shutil.copytree(sample_store(), tmp_path / "store")


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("place", PLACES)
def test_a_pipe_is_told_as_any_file_that_is_none(run, store, place):
    """Verify answers as for a link to a device there; what needs the file refuses it by name."""
    path = store / PLACES[place]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(os.devnull)
    of_device = run("verify", store)
    path.unlink()
    os.mkfifo(path)
    assert run("verify", store) == of_device
    for command in COMMANDS:
        code, _, err = run(command[0], store, *command[1:])
        assert code == 0 or str(path) in err
