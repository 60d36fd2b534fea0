"""Tables of long and wide texts, at terminals of any width and in pipes."""

from __future__ import annotations

import datetime as dt
import io

import pytest
from rich.cells import cell_len

from rmqindex.answers.answer import Zone
from rmqindex.answers.entries import Shortfall, entries_answer, hits_answer
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


def hit(offset):
    """Return an entry of a lookup."""
    return {
        "path": "store/index/1", "name": "20231114221320000", "position": 12_345_678,
        "phy_offset": offset, "store_timestamp": 1_700_000_000_001, "state": "verified",
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
def test_messages_are_a_table_at_80_columns(text):
    """Whatever their topics and keys are, in logs of up to a terabyte."""
    row = message(text) | {"phy_offset": 999_999_999_999}
    out = printed(print_message_list, [row], ZONE, width=80, is_terminal=True)
    assert len(out.splitlines()) == 5
    assert len({cell_len(line.rstrip()) for line in out.splitlines()[:3]}) == 1


@pytest.mark.parametrize("zone", ["UTC", "America/Argentina/ComodRivadavia"])
@pytest.mark.parametrize("width", [80, 120, 200])
def test_hits_are_a_table_at_80_columns(width, zone):
    """The milliseconds go first, since the time stands beside them; no number is cut."""
    question = {"path": "store", "topic": "T", "key": "k", "begin": None, "end": None}
    answer = hits_answer(
        question, [hit(99_999_999_999_999)], None, None, [], [], Zone(zone, dt.UTC)
    )
    lines = printed(answer.text, width=width, is_terminal=True).splitlines()
    assert len(lines) == 5
    assert max(map(cell_len, lines)) <= width
    assert ("1700000000001" in lines[2]) == (width > 80)
    for number in ("99999999999999", "12345678", "2023-11-14 22:13:20.001"):
        assert number in lines[2]


@pytest.mark.parametrize(("width", "heads"), [(80, 5), (120, 7)])
def test_entries_are_a_table_at_80_columns(width, heads):
    """The links of the slots need more."""
    row = {
        "file": "20231114221320000", "position": 19_999_999, "prev_position": 19_999_998,
        "slot": 4_999_999, "key_hash": 2_147_483_647, "phy_offset": 99_999_999_999_999,
        "store_timestamp": 1_700_000_000_001,
    }  # fmt: skip
    answer = entries_answer([row], Shortfall(None, None), ZONE)
    lines = printed(answer.text, width=width, is_terminal=True).splitlines()
    assert max(map(len, lines)) <= width
    assert len(lines[0].split("  ")) >= heads
    assert len(lines) == 5
    assert ("19999998" in lines[2]) == (heads == 7)


@pytest.mark.parametrize("width", [80, 10_000])
def test_a_key_that_cannot_be_printed_widens_no_table(width):
    """In a pipe neither, where each of its characters would take four columns."""
    text = "FD00" + "\x00" * 150
    out = printed(print_message_list, [message(text)], ZONE, width=width, is_terminal=width == 80)
    assert "FD00" in out
    assert max(map(len, out.splitlines())) <= min(width, 240)


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
