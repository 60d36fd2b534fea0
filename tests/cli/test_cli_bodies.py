"""Bodies on the command line: damaged ones are named, and texts are texts."""

import base64
import csv
import io
import json
import re
import struct
import zlib

import pytest

from commitlog_encoder import Log, Message, properties_text
from recorded import MESSAGE_KINDS
from rmqindex import Layout, rebuild_index
from rmqindex.cli.command import load
from typed import typed

COMPRESSED, INNER = 0x001, 0x40 | 0x80
HAND_OUTS = [
    ("cat", "STORE", "OFFSET"),
    ("messages", "STORE", "--body"),
    ("lookup", "STORE", "T", "key1", "--message"),
]


def store_of(folder, *messages):
    """Write a store with an index, and return it with the offsets of its messages."""
    log = Log(65_536)
    offsets = [
        log.append(
            Message(
                **{
                    "topic": "T",
                    "properties": properties_text([("KEYS", f"key{number}")]),
                    "store_timestamp": 1_700_000_000_000 + number,
                    **fields,
                }
            )
        )
        for number, fields in enumerate(messages)
    ]
    log.write_to(folder / "commitlog")
    rebuild_index(folder, folder / "index", Layout(97, 200))
    return folder, offsets


@pytest.fixture
def damaged(tmp_path):
    """A store of three messages, the body of whose second is damaged, and its offset."""
    store, offsets = store_of(
        tmp_path / "store",
        {"body": b"first"},
        {"body": b"damaged", "body_crc": zlib.crc32(b"changed") & 0x7FFFFFFF},
        {"body": b"third"},
    )
    return store, offsets[1]


def line(arguments, store, offset):
    """Return arguments with a store and an offset in them."""
    named = {"STORE": str(store), "OFFSET": str(offset)}
    return [named.get(each, each) for each in arguments]


@pytest.mark.parametrize("arguments", HAND_OUTS, ids=lambda each: each[0])
def test_a_damaged_body_is_named_where_it_is_handed_out(run, damaged, arguments):
    """People read it on standard error, machines in a field of the message."""
    store, offset = damaged
    code, out, err = run(*line(arguments, store, offset))
    assert (code, "damaged" in out) == (0, True)
    assert f"the CRC of the message at {offset} does not agree" in err
    code, out, _ = run(*line(arguments, store, offset), "--csv")
    states = {row["body"]: row["message_state"] for row in csv.DictReader(io.StringIO(out))}
    assert (code, states.pop("damaged")) == (0, "bad_crc")
    assert set(states.values()) <= {"record"}
    code, out, _ = run(*line(arguments, store, offset), "--json")
    assert (code, out.count('"message_state": "bad_crc"')) == (0, 1)


def test_a_damaged_body_is_named_beside_its_raw_bytes(damaged):
    """Standard output has the bytes alone."""
    store, offset = damaged
    done = typed("cat", store, offset, "--raw")
    assert (done.returncode, done.stdout) == (0, b"damaged")
    assert b"does not agree" in done.stderr


def test_an_export_refuses_a_damaged_body_or_makes_it_null(run, damaged, tmp_path):
    """By its file and offset, with the option that goes on, which names it, too."""
    store, offset = damaged
    for more in ((), ("--raw-bodies",)):
        code, _, err = run("export", store, tmp_path / "out", "--format", "jsonl", *more)
        assert code == 2
        assert f"message at offset {offset}: body: expected the CRC-32" in err
        assert f"{0:020d}" in err
        assert re.findall(r"--[a-z-]+", err) == ["--mode"]
        out = tmp_path / f"sound{more}"
        drop = ("--format", "jsonl", "--mode", "DROPMALFORMED", *more)
        code, _, err = run("export", store, out, *drop)
        assert (code, f"message at offset {offset}: " in err) == (0, True)
        (path,) = out.glob("messages-*")
        bodies = [json.loads(each).get("body") for each in path.read_text().splitlines()]
        assert bodies == ["first", None, "third"]
        assert not (tmp_path / "out").exists()


def test_inner_batches_are_listed_with_what_is_inside(run):
    """As JSON and as CSV, like any other message."""
    store = MESSAGE_KINDS / "store"
    code, out, err = run("messages", store, "--limit", 100_000, "--body", "--json")
    assert (code, "Traceback" in err) == (0, False)
    batches = [each for each in json.loads(out)["messages"] if "inner_messages" in each]
    assert batches
    assert all(each["inner_messages"] for each in batches)
    code, out, _ = run("messages", store, "--limit", 100_000, "--body", "--csv")
    assert code == 0
    assert sum(bool(row["inner_messages"]) for row in csv.DictReader(io.StringIO(out))) == len(
        batches
    )


@pytest.mark.parametrize("more", [(), ("--no-decompress",)])
def test_listed_bodies_are_those_of_cat(run, tmp_path, more):
    """Unpacked, unless they are asked for as they are stored."""
    body = zlib.compress(b"text" * 50)
    store, (offset,) = store_of(tmp_path, {"body": body, "sys_flag": COMPRESSED})
    listed = json.loads(run("messages", store, "--body", "--json", *more)[1])["messages"]
    assert listed == [json.loads(run("cat", store, offset, "--json", *more)[1])]
    assert listed[0].get("body") == (None if more else "text" * 50)


def test_a_malformed_inner_batch_is_named_by_file_and_offset(run, tmp_path):
    """Or shown without the messages inside."""
    store, offsets = store_of(
        tmp_path, {"body": b"first"}, {"body": b"no batch", "sys_flag": INNER}
    )
    for command in (("cat", store, offsets[1]), ("messages", store, "--body")):
        code, _, err = run(*command, "--json")
        assert code == 2
        assert f"{0:020d}: message at offset {offsets[1]}: inner batch: message at byte 0" in err
        code, out, _ = run(*command, "--json", "--mode", "DROPMALFORMED")
        assert (code, "no batch" in out) == (0, True)


@pytest.mark.parametrize("kind", ["zlib", "inner"])
@pytest.mark.parametrize(
    "arguments",
    [*HAND_OUTS, ("export", "STORE", "OUT"), ("explain", "STORE", "T", "key1")],
    ids=lambda each: each[0],
)
def test_advice_names_options_of_the_command_alone(run, tmp_path, monkeypatch, arguments, kind):
    """And what it advises works as it is typed."""
    monkeypatch.chdir(tmp_path)
    bad = {"body": b"no zlib", "sys_flag": COMPRESSED}
    if kind == "inner":
        bad = {"body": struct.pack(">i", 5), "sys_flag": INNER}
    store, offsets = store_of(tmp_path / "store", {"body": b"first"}, bad)
    command = line(arguments, store, offsets[1])
    machine = () if command[0] in {"export", "explain"} else ("--json",)
    code, _, err = run(*command, *machine)
    known = {name for each in load(command[0]).params for name in each.opts}
    advised = re.findall(r"--[a-z-]+", err)
    assert known.issuperset(advised), err
    if code == 2:
        assert "--mode" in advised
        assert run(*command, *machine, "--mode", "DROPMALFORMED")[0] == 0
    if "--no-decompress" in advised and kind == "zlib":
        assert run(*command, *machine, "--no-decompress")[0] == 0


def test_explain_goes_on_behind_a_body_that_does_not_unpack(run, tmp_path):
    """It names the batch whose inside it could not search, and finds compressed ones' keys."""
    pairs = b"KEYS\x01inside\x02"
    member = struct.pack(">iiiii", 23 + len(pairs), 0, 0, 0, 1) + b"m"
    member += struct.pack(">h", len(pairs)) + pairs
    store, offsets = store_of(
        tmp_path,
        {"body": b"no zlib", "sys_flag": COMPRESSED | INNER},
        {"body": zlib.compress(member), "sys_flag": COMPRESSED | INNER},
        {"body": b"third"},
    )
    code, out, _ = run("explain", store, "T", "key2", "--search-log", "all")
    assert code == 0
    code, out, err = run("explain", store, "T", "inside", "--search-log", "all", "--json")
    assert code == 1, err
    reasons = {each["code"]: each for each in json.loads(out)["reasons"]}
    assert reasons["key_of_member"]["phy_offsets"] == [offsets[1]]
    assert f"message at offset {offsets[0]}: body: expected zlib data" in out


@pytest.mark.parametrize("text", ["\u3000wide", "\ufefftext", "👩\u200d🔬", "a\u2028b", "\u00a0"])
def test_unusual_characters_are_text(run, tmp_path, text):
    """As in an export; a separator of lines breaks no table."""
    store, (offset,) = store_of(tmp_path, {"body": text.encode(), "properties": b""})
    assert json.loads(run("cat", store, offset, "--json")[1])["body"] == text
    _, out, _ = run("messages", store, "--body")
    assert "\u2028" not in out
    assert text.replace("\u2028", "\\u2028") in out


@pytest.mark.parametrize("body", [b"\x00", b"\x1b[31m", b"\x7f", "\x85".encode(), b"\xff"])
def test_control_characters_are_bytes(run, tmp_path, body):
    """They are shown as hex, or given in Base64."""
    store, (offset,) = store_of(tmp_path, {"body": body, "properties": b""})
    document = json.loads(run("cat", store, offset, "--json")[1])
    assert base64.b64decode(document["body_base64"]) == body


@pytest.mark.parametrize("key", ["a\rb", "a\nb", "a\r\nb", 'a"b', "a,b"])
def test_csv_quotes_every_line_break(run, tmp_path, key):
    """A reader gets as many rows as there are messages."""
    properties = properties_text([("KEYS", key), ("UNIQ_KEY", "U")])
    store, _ = store_of(tmp_path, {"properties": properties})
    _, out, _ = run("messages", store, "--csv")
    (row,) = csv.DictReader(io.StringIO(out, newline=""))
    assert row["keys"] == key


@pytest.mark.parametrize("command", ["messages", "cat"])
def test_a_body_that_does_not_unpack_is_named_where_it_is_null(run, tmp_path, command):
    """With DROPMALFORMED, on standard error; the answer is whole."""
    log = Log(64 * 1024)
    log.append(Message(body=b"no zlib", sys_flag=1))
    log.write_to(tmp_path / "store" / "commitlog")
    asked = ("--body",) if command == "messages" else ("0",)
    code, _, err = run(command, tmp_path / "store", *asked, "--json", "--mode", "DROPMALFORMED")
    assert code == 0
    assert "message at offset 0: body: expected zlib data" in err
