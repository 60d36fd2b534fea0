"""Times of the command line: their zone, ranges without entries, and slips; and bodies."""

import json
import shutil
import zlib

import pytest

import rmqindex
from commitlog_encoder import Message

STORE = rmqindex.sample_store()
ORDER = ("lookup", STORE, "TopicTest", "order-49")
# Three of the eleven entries of order-49 are in it.
WINDOW = ("--begin", "2023-11-15 06:13", "--end", "2023-11-15 06:20")


class TestZone:
    """One zone for what is read and what is printed."""

    def test_it_is_the_systems(self, run, monkeypatch):
        """As Spark's, where nobody set another; it is named beside the times."""
        monkeypatch.setenv("TZ", "Asia/Shanghai")
        code, out, _ = run(*ORDER, *WINDOW)
        assert code == 0
        assert "Stored (Asia/Shanghai)" in out
        assert "2023-11-15 06:1" in out
        assert "3 entries" in out

    def test_the_variable_comes_before_the_systems_and_the_option_before_both(
        self, run, monkeypatch
    ):
        """A zone, or an offset."""
        monkeypatch.setenv("TZ", "America/New_York")
        monkeypatch.setenv("RMQINDEX_TIME_ZONE", "Asia/Shanghai")
        assert "Stored (Asia/Shanghai)" in run(*ORDER, *WINDOW)[1]
        assert "Stored (+08:00)" in run(*ORDER, *WINDOW, "--time-zone", "+08:00")[1]
        monkeypatch.setenv("RMQINDEX_TIME_ZONE", "Nowhere")
        code, _, err = run(*ORDER)
        assert (code, "time zone: expected a name such as" in err) == (2, True)

    def test_a_variable_that_names_none_is_an_error(self, run, monkeypatch):
        """Not UTC, as for the C library."""
        monkeypatch.setenv("TZ", "Asia/Nowhere")
        code, _, err = run(*ORDER)
        assert code == 2
        assert "TZ: expected a time zone such as Asia/Shanghai, got 'Asia/Nowhere'" in err
        assert run(*ORDER, "--time-zone", "UTC")[0] == 0


class TestEmptyAnswers:
    """What was looked at, in which zone, and how many lie outside."""

    @pytest.mark.parametrize(
        ("bounds", "window"),
        [
            (
                ("--begin", "2023-11-16", "--end", "2023-11-17"),
                "stored from 2023-11-16 00:00:00.000 to 2023-11-17 23:59:59.999 (UTC)",
            ),
            (("--begin", "2023-11-16"), "stored at 2023-11-16 00:00:00.000 or later (UTC)"),
            (("--end", "2023-11-13"), "stored at 2023-11-13 23:59:59.999 or earlier (UTC)"),
        ],
    )
    def test_a_lookup_names_its_range(self, run, bounds, window):
        """The messages' and the broker's alike."""
        for how in ((), ("--broker",), ("--commit-log", "none")):
            code, out, err = run(*ORDER, *bounds, *how)
            assert (code, out) == (1, "")
            assert f"no entry of TopicTest#order-49 {window}; " in err
            assert " at other times; `rmqindex explain " in err
        assert "; 11 at other times" in run(*ORDER, *bounds)[2]

    def test_a_key_that_is_nowhere_has_none_at_other_times(self, run):
        """Without a range, nothing is said of times."""
        asked = ("lookup", STORE, "TopicTest", "no-such-key")
        assert "; 0 at other times; `" in run(*asked, "--end", "2023-11-13")[2]
        assert "no entry of TopicTest#no-such-key; `" in run(*asked)[2]

    def test_the_nearest_pair_is_not_bound_to_the_range(self, run):
        """What is said of it holds at any time, as its entries may be outside."""
        asked = ("lookup", STORE, "topictest", "order-49")
        assert ", but 11 of TopicTest#order-49; `" in run(*asked)[2]
        assert (
            ", but 11 of TopicTest#order-49 at any time; `" in run(*asked, "--end", "2023-11-13")[2]
        )

    def test_a_document_has_the_number(self, run):
        """Null where entries were found, or where no range was given."""
        for bounds, others in ((("--end", "2023-11-13"), 11), ((), None)):
            _, out, _ = run(*ORDER, *bounds, "--json")
            assert json.loads(out)["at_other_times"] == others

    def test_a_scan_names_its_range(self, run):
        """Beside the entries that are of another key hash there is nothing to count."""
        _, out, _ = run("scan", STORE, "--end", "2023-11-13")
        window = "0 entries stored at 2023-11-13 23:59:59.999 or earlier (UTC); 959 at other times"
        assert out == f"{window}\n"
        _, out, _ = run("scan", STORE, "--end", "2023-11-13", "--key-hash", 1)
        assert out.endswith("; 0 at other times\n")


class TestSlips:
    """Ranges that nobody means."""

    @pytest.mark.parametrize("command", ["lookup", "explain", "scan"])
    def test_a_begin_after_the_end_is_refused(self, run, command):
        """Equal ones are a range of one millisecond; one without any is refused as well."""
        key = () if command == "scan" else ("TopicTest", "order-49")
        code, out, err = run(command, STORE, *key, "--begin", "2023-11-15", "--end", "2023-11-14")
        assert (code, out) == (2, "")
        assert "--begin: '2023-11-15' is after --end '2023-11-14'" in err
        for end in ("2023-11-15", "2023-11-15 00:00:00.000"):
            code, _, _ = run(command, STORE, *key, "--begin", "2023-11-15", "--end", end)
            assert code in (0, 1)
        finer = ("--begin", "2023-11-15 00:00:00.0001", "--end", "2023-11-15 00:00:00.0002")
        code, _, err = run(command, STORE, *key, *finer)
        assert (code, "there is no whole millisecond from" in err) == (2, True)

    @pytest.mark.parametrize("command", ["lookup", "explain", "scan"])
    def test_seconds_are_refused(self, run, command):
        """With what was probably meant."""
        key = () if command == "scan" else ("TopicTest", "order-49")
        code, _, err = run(command, STORE, *key, "--end", 1700000000)
        assert code == 2
        assert "did you mean 1700000000000 (2023-11-14 22:13:20.000 UTC)?" in err


class TestRelativeTimes:
    """Ages and days, from one moment, in the zone that is named."""

    NOW = 1_700_021_800_000  # 2023-11-15 04:16:40 in UTC, in the hours of the sample

    @pytest.fixture(autouse=True)
    def _now(self, monkeypatch):
        monkeypatch.setattr("time.time_ns", lambda: self.NOW * 1_000_000)

    @pytest.mark.parametrize(
        "command",
        [
            ("lookup", STORE, "TopicTest", "order-49"),
            ("explain", STORE, "TopicTest", "order-49"),
            ("scan", STORE),
            ("messages", STORE, "--limit", 1000),
            ("usage", STORE),
        ],
    )
    def test_every_range_of_times_takes_them(self, run, command):
        """As it takes the same moments in digits; an age alone is for --since."""
        absolute = run(*command, "--begin", self.NOW - 7_200_000, "--json")
        assert absolute[0] in (0, 1)
        for given in (("--since", "2h"), ("--since", "-2h"), ("--begin", "now-120m")):
            assert run(*command, *given, "--json") == absolute
        absolute = run(*command, "--begin", "2023-11-15", "--end", "2023-11-15", "--json")
        assert run(*command, "--begin", "today", "--end", "today", "--json") == absolute
        assert run(*command, "--since", "today", "--end", "2023-11-15", "--json") == absolute

    def test_a_day_is_that_of_the_zone(self, run):
        """It is the 15th in Shanghai since 16:00 of the 14th in UTC."""
        asked = ("lookup", STORE, "TopicTest", "no-such-key", "--since", "yesterday")
        window = "stored from {} 00:00:00.000 to {} 23:59:59.999 ({})"
        for zone, first, last in (
            ("Asia/Shanghai", "2023-11-14", "2023-11-14"),
            ("America/Los_Angeles", "2023-11-13", "2023-11-13"),
        ):
            _, _, err = run(*asked, "--end", "yesterday", "--time-zone", zone)
            assert window.format(first, last, zone) in err

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            (("--since", "2"), "--since: expected a time, or an age with its unit such as 2h"),
            (("--since", "99999999999d"), "--since: expected an age of at most 19676d"),
            (("--since", "2x"), "--since: expected epoch milliseconds or a timestamp"),
            (("--begin", "2h"), "--begin: expected a time, such as -2h for 2h ago, got '2h'"),
            (("--since", "2h", "--begin", "-2h"), "--begin and --since: give one of them"),
            (("--since", "1h", "--end", "-2h"), "--since: '1h' is after --end '-2h'"),
            (("--begin", "today", "--end", "yesterday"), "'today' is after --end 'yesterday'"),
            (("--begin", "yesterday", "14:00"), "in quotes, --begin 'yesterday 14:00'"),
            (("--end=2023-11-14", "9:30:15.5"), "in quotes, --end '2023-11-14 9:30:15.5'"),
        ],
    )
    def test_slips_are_refused_as_they_were_typed(self, run, given, told):
        """With what to type."""
        code, out, err = run("messages", STORE, *given)
        assert (code, out) == (2, "")
        assert told in err


@pytest.fixture
def packed(tmp_path):
    """Return a store of a compressed message, and of one whose body is not what its flag says."""
    bodies = (zlib.compress(b"hello"), b"broken")
    records, at = [], 0
    for body in bodies:
        records.append(Message(body=body, sys_flag=1).encode(at))
        at += len(records[-1])
    (tmp_path / "commitlog").mkdir()
    (tmp_path / "commitlog" / f"{0:020d}").write_bytes(b"".join(records))
    return tmp_path, len(records[0]), bodies


class TestBodies:
    """``cat`` and ``lookup --message``."""

    def test_they_are_decompressed_unless_asked_not_to_be(self, run, packed):
        """As text, as a document, and alone."""
        store, _, _ = packed
        assert run("cat", store, 0)[1].endswith("\nhello\n")
        assert json.loads(run("cat", store, 0, "--json")[1])["body"] == "hello"
        assert "body_base64" in json.loads(run("cat", store, 0, "--json", "--no-decompress")[1])

    def test_one_that_does_not_unpack_is_an_error(self, run, packed):
        """It names the place and what shows the message none the less."""
        store, offset, _ = packed
        code, out, err = run("cat", store, offset)
        assert (code, out) == (2, "")
        assert f"message at offset {offset}: body: expected zlib data" in err
        assert "--no-decompress" in err
        code, out, _ = run("cat", store, offset, "--no-decompress")
        assert (code, out.endswith("\nbroken\n")) == (0, True)

    def test_a_lookup_drops_what_does_not_unpack_if_asked(self, run, tmp_path):
        """The fields of the message are shown all the same."""
        store = tmp_path / "store"
        shutil.copytree(STORE, store)
        with rmqindex.CommitLog(STORE) as read:
            columns = ["uniq_key", "topic", "phy_offset", "sys_flag", "body"]
            batch = next(read.scan(columns=columns, decompress_body=False))
        packed = next(row for row in batch.to_pylist() if row["sys_flag"] & 1 and row["uniq_key"])
        log = store / "commitlog" / f"{packed['phy_offset'] // 65536 * 65536:020d}"
        data = bytearray(log.read_bytes())
        at = data.index(packed["body"], packed["phy_offset"] % 65536)
        data[at : at + len(packed["body"])] = bytes(len(packed["body"]))
        log.write_bytes(data)
        asked = ("lookup", store, packed["topic"], packed["uniq_key"], "--json", "--message")
        assert run(*asked)[0] == 2
        code, out, _ = run(*asked, "--mode", "DROPMALFORMED")
        (hit,) = json.loads(out)["hits"]
        assert (code, hit["message"]["uniq_key"]) == (0, packed["uniq_key"])
        assert hit["message"]["body"] is None

    @pytest.mark.parametrize(
        "command", ["messages", "usage", "export", "scan", "rebuild", "rebuild-queues"]
    )
    def test_a_from_behind_the_to_is_refused(self, run, command, tmp_path):
        """Nothing is written for it; equal ones are a range of nothing."""
        target = tmp_path / "new"
        out = {"export": (target,), "rebuild": ("--out", target)}.get(command, ())
        out = ("--out", target) if command == "rebuild-queues" else out
        code, answer, err = run(command, STORE, *out, "--from", 500, "--to", 100)
        assert (code, answer) == (2, "")
        assert "--from: 500 is behind --to 100" in err
        assert not target.exists()
        code, _, _ = run(command, STORE, *out, "--from", 500, "--to", 500)
        assert code in (0, 1)
