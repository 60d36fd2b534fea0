"""Tables of long and wide texts, at terminals of any width and in pipes."""

from __future__ import annotations

import datetime as dt
import io

import pytest
from rich.cells import cell_len

from rmqindex.answers.answer import Zone
from rmqindex.answers.messages import print_message, print_message_list
from rmqindex.answers.terminal import Console, print_text, shortened

ZONE = Zone("UTC", dt.UTC)
LONG_KEY = f"{'K' * 50}-order-{'k' * 63}"
LONG_TOPIC = f"{'T' * 60}_middle_{'t' * 59}"
WIDE = "订单主题" * 20
TEXTS = (LONG_KEY, LONG_TOPIC, WIDE, "👨‍👩‍👧" * 40, ":key:", "[bold]x[/bold]", "tab\tor\nline")


def message(text):
    """Return a row with a text as topic, tags and keys."""
    return {
        "phy_offset": 112_033, "store_timestamp": 1_700_000_000_001, "topic": text, "queue_id": 3,
        "tags": text, "keys": text, "size": 210,
    }  # fmt: skip


def printed(function, *arguments, width=10_000, is_terminal=False):
    """Return what a function prints."""
    out = io.StringIO()
    function(Console(width, is_terminal, file=out), *arguments)
    return out.getvalue()


@pytest.mark.parametrize("width", [40, 60, 80, 170])
@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_no_row_is_wider_than_a_terminal(width, text):
    """Long texts lose their middle, numbers nothing."""
    out = printed(print_message_list, [message(text)], ZONE, width=width, is_terminal=True)
    assert max(map(cell_len, out.splitlines())) <= width
    for number in ("112033", "210", "2023-11-14 22:13:20.001"):
        assert number in out


@pytest.mark.parametrize("text", TEXTS, ids=ascii)
def test_a_pipe_gets_every_text_whole(text):
    """As it is: no markup and no emoji of a name are read into it."""
    out = printed(print_message_list, [message(text)], ZONE)
    assert out.count(text.replace("\t", "\\t").replace("\n", "\\n")) == 3
    assert len(out.splitlines()) == 5


def test_a_pipe_with_a_width_gets_every_text_whole_too():
    """COLUMNS arranges a table anew, and cuts nothing."""
    out = printed(print_message_list, [message(LONG_KEY)], ZONE, width=60)
    assert out.count(LONG_KEY) == 3


@pytest.mark.parametrize("width", [60, 80])
def test_a_message_is_whole_at_a_terminal(width):
    """Its long values go on in the next line, none of which is too wide."""
    names = (
        "queue_offset", "uniq_key", "sys_flag", "flag", "born_timestamp", "born_host",
        "store_host", "reconsume_times", "prepared_transaction_offset", "msg_id",
        "body_crc",
    )  # fmt: skip
    row = {**dict.fromkeys(names), **message(LONG_KEY), "topic": WIDE}
    row |= {"properties": [("KEYS", LONG_KEY), ("p" * 40, "value")], "body": b"body"}
    row["state"] = "record"
    out = printed(print_message, row, ZONE, width=width, is_terminal=True)
    assert max(map(cell_len, out.splitlines())) <= width
    joined = "".join(out.split())
    assert joined.count(LONG_KEY) == 3
    assert WIDE in joined


@pytest.mark.parametrize(
    ("text", "width", "shown"),
    [
        ("order-49", 8, "order-49"),
        ("order-4900", 8, "orde…900"),
        ("订单订单订单", 7, "订…订单"),
        ("订单订单订单", 8, "订单…单"),
        ("ab", 1, "…"),
    ],
)
def test_a_text_loses_its_middle(text, width, shown):
    """Its ends tell most; a character that takes two columns is never halved."""
    assert shortened(text, width) == shown
    assert cell_len(shown) <= width


def test_a_sentence_with_a_long_key_fits_and_a_path_and_a_command_stay_whole():
    """The latter are to be copied."""
    path, command = "/data" * 20, f"    rmqindex lookup store {LONG_TOPIC} {LONG_KEY}"
    text = f"hit: 2 entries of {LONG_TOPIC}#{LONG_KEY} in 1 file\nWrote {path}\n{command}"
    lines = printed(print_text, text, width=60, is_terminal=True).splitlines()
    assert {path, command} < set(lines)
    assert all(len(line) <= 60 for line in lines if line not in {path, command})


def test_a_command_is_not_broken(capsys):
    """So that it can be copied."""
    console = Console(width=60, is_terminal=True)
    command = f"    rmqindex explain store topictest order-49 --search-log all {'x' * 20}"
    print_text(console, f"{'word ' * 20}\n{command}")
    assert command in capsys.readouterr().out.splitlines()
