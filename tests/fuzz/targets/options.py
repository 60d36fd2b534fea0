"""The options of the data sources: parsed, or refused with what was expected."""

from __future__ import annotations

from pyspark_rmqindex.options import (
    OPTIONS,
    message_options,
    message_stream_options,
    queue_options,
    read_options,
    stream_options,
    wants_pushdown,
)
from rmqindex.times import LocalTime

from ..outcome import outcome

MAX_LENGTH = 6000
SHORT = 6_000
_WAYS = (read_options, message_options, queue_options, stream_options, message_stream_options)
_VALUES = (
    b"true",
    b"FALSE",
    b"128m",
    b"1kb",
    b"0",
    b"-1",
    b"9223372036854775808",
    b"2024-01-31 12:30:00.250",
    b"2024-01-31T12:30:00+08:00",
    b"0001-01-01 00:00:00 +18:00",
    b"9999-12-31 23:59:59 Asia/Shanghai",
    b"2024-02-30",
    b"+99:99",
    b"Asia/Shanghai",
    b'["a", "b"]',
    b"[1, 2, 2147483647]",
    b"[" * 2000,
    b"latest",
    b"DROPMALFORMED",
    b"auto",
    b"\xd9\xa3",
    b"9" * 100,
    b"9" * 5000,
)


def seeds():
    """Return options of each kind for each format."""
    lines = (
        b'topic=T\nkeys=["a"]\nbeginTimestamp=1700000000000\ntimeZone=+08:00',
        b"maxHashSlotNum=97\nmaxIndexNum=200\nmode=dropmalformed\nmaxPartitionBytes=1m",
        b"pushdown=true\nkeyColumns=false\ncommitLog=auto",
        b"keyHash=[1,2]\nendTimestamp=2024-01-31 12:30:00.250 Asia/Shanghai",
        b"startingPosition=123\nfailOnDataLoss=false\nmaxBytesPerTrigger=1g",
        b"topci=T",
    )
    return [bytes([way]) + b"path=/a\n" + line for way in range(len(_WAYS)) for line in lines]


def mutate(data, random):
    """Exchange a name or a value, or add an option."""
    lines = data[1:].split(b"\n")
    place = random.randrange(len(lines))
    name, _, value = lines[place].partition(b"=")
    kind = random.randrange(4)
    if kind == 0:
        name = random.choice(OPTIONS).name.encode()
    elif kind == 1:
        value = random.choice(_VALUES)
    elif kind == 2:
        lines.append(random.choice(OPTIONS).name.encode() + b"=" + random.choice(_VALUES))
    else:
        value = value[: random.randrange(len(value) + 1)] + random.choice(_VALUES)
    lines[place] = name + b"=" + value
    return data[:1] + b"\n".join(lines)


def check(data):
    """Parse options as Spark passes them."""
    if not data:
        return
    raw = {}
    for line in data[1:].decode("utf-8", "surrogateescape").split("\n"):
        name, _, value = line.partition("=")
        raw[name] = value
    wants_pushdown(raw)
    found = outcome(_WAYS[data[0] % len(_WAYS)], raw, refuses=True)
    if not found.is_value:
        text = str(found.error)
        assert "option" in text, text
        assert "limit" not in text, text
        assert "timedelta" not in text, text
        return
    options = getattr(found.value, "read", found.value)
    for bound in (getattr(options, "begin", None), getattr(options, "end", None)):
        if isinstance(bound, LocalTime):
            assert bound.earliest <= bound.in_zone("Asia/Shanghai") <= bound.latest
