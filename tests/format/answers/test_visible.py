"""What a terminal is given: texts, never commands."""

from __future__ import annotations

import datetime as dt
import io

import pytest

from commitlog_encoder import Message
from rmqindex import CommitLog
from rmqindex.answers.answer import Zone
from rmqindex.answers.messages import print_message, read_messages
from rmqindex.answers.terminal import Console, print_text
from rmqindex.answers.text import complain, visible

TITLE = "\x1b]0;title\x07"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("order-49\tx\ny 订单 \u3000é👨‍👩‍👧", "order-49\tx\ny 订单 \u3000é👨‍👩‍👧"),
        (TITLE, r"\x1b]0;title\x07"),
        ("a\rb\x9b2Jc\x7f", r"a\rb\x9b2Jc\x7f"),
        ("invoice\u202efdp.exe", r"invoice\u202efdp.exe"),
    ],
)
def test_control_characters_are_written_out(text, shown):
    """Everything else stays as it is."""
    assert visible(text) == shown


def test_a_message_commands_no_terminal(tmp_path):
    """Neither by its topic nor by the names and values of its properties nor by its body."""
    message = Message(
        topic=f"t{TITLE}",
        properties=f"n{TITLE}\x01v{TITLE}\x02KEYS\x01k{TITLE}\x02".encode(),
        body=TITLE.encode(),
    )
    (tmp_path / f"{0:020d}").write_bytes(message.encode(0))
    out = io.StringIO()
    console = Console(is_terminal=True, file=out)
    with CommitLog(tmp_path) as log:
        (row,) = read_messages(log, [0])
    print_message(console, row, Zone("UTC", dt.UTC))
    print_text(console, f"store/{TITLE}")
    assert "t\\x1b]0;title" in out.getvalue()
    assert "\x1b" not in out.getvalue()
    assert "\x07" not in out.getvalue()


def test_an_error_commands_no_terminal(capsys):
    """Errors name topics, keys and files."""
    complain(f"no entry of {TITLE}")
    assert capsys.readouterr().err == "rmqindex: no entry of \\x1b]0;title\\x07\n"
