"""What a command does where standard output or standard error cannot be written."""

import os
import shlex
import subprocess
import sys

import pytest

from kinds import sampled
from rmqindex.cli.command import COMMANDS
from typed import CLOSED, typed

# Arguments with which each command prints an answer.
ANSWERED = {
    "info": "store",
    "scan": "store --limit 3 --csv",
    "sample": "new",
    "lookup": "store TopicTest order-49 --json",
    "explain": "store TopicTest order-49",
    "cat": "store 0 --raw",
    "messages": "store",
    "export": "store new",
    "usage": "store",
    "dump": "store/checkpoint",
    "verify": "store --json",
    "plot": "store --out plot.png",
    "rebuild": "store --replace --dry-run",
    "expire": "store --before 0 --dry-run",
    "relayout": "store --slots 100 --entries 400 --dry-run",
    "rebuild-queues": "store --replace --dry-run",
    "recover": "store",
    "groups": "store",
    "diff": "store store",
}


def shell(store, text, redirection="", stdout=subprocess.PIPE):
    """Run a command line in a shell, beside a store."""
    # As at a user's: what is printed is buffered, and fails when Python writes it at its end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    return subprocess.run(
        ["sh", "-c", f"{shlex.quote(sys.executable)} -m rmqindex {text} {redirection}"],
        cwd=store.parent,
        env=environment,
        stdout=stdout,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
        timeout=60,
    )


REFUSALS = {
    CLOSED: (
        2,
        "rmqindex: standard output: expected a file, a pipe or a terminal, found it closed\n",
    ),
    "/dev/full": (2, "rmqindex: standard output: cannot be written: No space left on device\n"),
}


def answer(store, command, stdout):
    """Run a command that prints an answer, beside a store."""
    return typed(command, *ANSWERED[command].split(), cwd=store.parent, stdout=stdout)


def unread():
    """Return the end of a pipe whose reader is gone."""
    reader, writer = os.pipe()
    os.close(reader)
    return os.fdopen(writer, "wb")


@pytest.fixture
def consumed(store):
    """A store whose messages a consumer group has read."""
    (store / "config").mkdir()
    offsets = '{"offsetTable": {"TopicTest@readers": {0: 1}}}'
    (store / "config" / "consumerOffset.json").write_text(offsets)


@pytest.mark.usefixtures("consumed")
@pytest.mark.parametrize("command", COMMANDS)
class TestStandardOutput:
    """An answer that nobody can read is none."""

    def test_closed_it_is_refused_before_anything_is_done(self, store, command):
        """A write whose report nobody could see is not begun."""
        done = answer(store, command, CLOSED)
        assert (done.returncode, done.stderr.decode()) == REFUSALS[CLOSED]
        assert not (store.parent / "new").exists()

    def test_full_it_is_an_error(self, store, command):
        """Once, in one line, though Python tries again when it ends."""
        done = answer(store, command, "/dev/full")
        assert (done.returncode, done.stderr.decode()) == REFUSALS["/dev/full"]

    def test_unread_it_ends_silently(self, store, command):
        """As a program that SIGPIPE ends, which is no error."""
        with unread() as pipe:
            done = answer(store, command, pipe.fileno())
        assert (done.returncode, done.stderr) == (141, b"")


@pytest.mark.parametrize(
    ("redirection", "refusal"), [(">&-", REFUSALS[CLOSED]), (">/dev/full", REFUSALS["/dev/full"])]
)
def test_a_shell_gets_the_same(store, redirection, refusal):
    """Where Python itself finds standard output so when it starts."""
    done = shell(store, "info store", redirection)
    assert (done.returncode, done.stderr) == refusal


@pytest.mark.parametrize("text", ["--help", "--version", "--completion bash", "verify --help"])
@pytest.mark.parametrize("redirection", [">&-", ">/dev/full"])
def test_help_that_cannot_be_written_is_an_error(store, text, redirection):
    """Also what no command prints."""
    assert shell(store, text, redirection).returncode == 2


@pytest.mark.parametrize("text", ["--help", "--version", "--completion bash", "verify --help"])
def test_help_that_nobody_reads_ends_silently(store, text):
    """With the exit code of any other answer."""
    with unread() as pipe:
        done = shell(store, text, stdout=pipe)
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.parametrize("redirection", sampled(["2>&-", "2>/dev/full", "2>&- <&-"], "2>/dev/full"))
class TestStandardError:
    """Where an error cannot be told, the exit code tells it."""

    def test_an_error_has_its_exit_code(self, store, redirection):
        """Of a bad file as of bad usage."""
        for text in ("info nonsense", "info --nonsense", "nonsense"):
            done = shell(store, text, redirection)
            assert (done.returncode, done.stdout) == (2, "")

    def test_an_answer_is_complete(self, store, redirection):
        """Nothing of it goes into a file that the command opens."""
        done = shell(store, "messages store --limit 1 --csv", redirection)
        assert (done.returncode, len(done.stdout.splitlines())) == (0, 2)
