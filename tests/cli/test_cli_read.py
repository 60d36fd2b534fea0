"""``rmqindex scan``, ``lookup --message``, ``cat`` and ``explain``."""

import base64
import json
import shutil

import pytest

import rmqindex
from recorded import MESSAGE_KINDS, ROCKETMQ_CLASSES
from typed import typed

STORE = rmqindex.sample_store()
STORE2 = MESSAGE_KINDS / "store"
FILES = sorted((STORE / "index").iterdir())
MESSAGES = json.loads((ROCKETMQ_CLASSES / "store_messages.json").read_text())
MESSAGES2 = json.loads((MESSAGE_KINDS / "store_messages.json").read_text())


def lines(out):
    """Return JSON objects, one a line."""
    return [json.loads(line) for line in out.splitlines()]


class TestScan:
    """``rmqindex scan``."""

    def test_its_json_lines_are_the_entries(self, run):
        """Every entry of every file, oldest first."""
        code, out, err = run("scan", STORE, "--json")
        rows = lines(out)
        assert (code, err, len(rows)) == (0, "", 959)
        with rmqindex.IndexFile(FILES[0]) as file:
            (batch,) = file.scan()
        assert rows[:199] == [{"file": FILES[0].name, **row} for row in batch.to_pylist()]

    def test_ranges_are_inclusive_of_times_and_exclusive_of_the_last_offset(self, run):
        """As everywhere else here: --end is included, --to is not."""
        _, out, _ = run("scan", STORE, "--json", "--from", 19_997, "--to", 24_638)
        offsets = {row["phy_offset"] for row in lines(out)}
        assert (min(offsets), max(offsets) < 24_638) == (19_997, True)
        _, out, _ = run("scan", STORE, "--json", "--begin", 1700000004511, "--end", 1700000004511)
        assert {row["store_timestamp"] for row in lines(out)} == {1700000004511}

    def test_times_finer_than_milliseconds_are_rounded_into_the_range(self, run):
        """An entry of 04.511 is neither after 04.5110001 nor within an end of 04.5109999."""
        zone = "2023-11-14T22:13:24"
        bounds = ("--begin", f"{zone}.511000", "--end", f"{zone}.511999")
        _, out, _ = run("scan", STORE, "--json", *bounds)
        assert {row["store_timestamp"] for row in lines(out)} == {1700000004511}
        for bounds in (
            ("--begin", f"{zone}.511001", "--end", f"{zone}.511999"),
            ("--begin", f"{zone}.510001", "--end", f"{zone}.510999"),
        ):
            assert run("scan", STORE, "--json", *bounds)[1] == ""

    def test_one_hash_and_a_limit(self, run):
        """Hash and limit narrow what is printed."""
        _, out, _ = run("scan", STORE, "--json", "--key-hash", 870421146, "--limit", 3)
        assert [row["phy_offset"] for row in lines(out)] == [0, 19_997, 24_638]

    def test_its_table_has_a_row_an_entry_and_a_count(self, run):
        """Columns keep their width however many rows come."""
        code, out, _ = run("scan", FILES[0], "--limit", 1)
        head, rule, row, empty, count = out.splitlines()
        assert code == 0
        assert head.split()[:4] == ["File", "Position", "Previous", "Slot"]
        assert set(rule) == {"─"}
        assert row.split()[:5] == [FILES[0].name, "1", "0", "66", "1593100712"]
        assert (empty, count) == ("", "1 entry")

    def test_an_index_without_entries_has_none(self, run, tmp_path):
        """That is an answer."""
        (tmp_path / "index").mkdir()
        (tmp_path / "commitlog").mkdir()
        assert run("scan", tmp_path) == (0, "0 entries\n", "")

    def test_a_damaged_file_stops_it_or_is_salvaged(self, run, tmp_path):
        """FAILFAST stops, --salvage reads entries whose links are broken."""
        layout = rmqindex.Layout(97, 200)
        data = bytearray(FILES[0].read_bytes())
        data[layout.entry_offset(5) + 16 :][:4] = b""
        data[layout.entry_offset(5) + 16 : layout.entry_offset(5) + 20] = b"\x7f\0\0\0"
        (tmp_path / FILES[0].name).write_bytes(data)
        geometry = ("--max-hash-slot-num", 97, "--max-index-num", 200)
        code, _, err = run("scan", tmp_path, "--json", *geometry)
        assert code == 2
        assert "prev_position" in err
        _, dropped, _ = run("scan", tmp_path, "--json", "--mode", "DROPMALFORMED", *geometry)
        _, salvaged, _ = run("scan", tmp_path, "--json", "--salvage", *geometry)
        assert len(lines(dropped)) == 198
        assert len(lines(salvaged)) == 199


class TestLookupWithTheLog:
    """``rmqindex lookup`` beside a CommitLog."""

    def test_other_keys_of_the_same_hash_are_left_out(self, run):
        """What is printed are the key's own messages, with their exact times."""
        code, out, _ = run("lookup", STORE, "TopicTest", "BB", "--json")
        hits = json.loads(out)["hits"]
        by_offset = {message["phy_offset"]: message for message in MESSAGES["messages"]}
        assert code == 0
        assert 0 < len(hits) < 26
        for hit in hits:
            decoded = by_offset[hit["phy_offset"]]["decoded"]
            assert hit["state"] == "verified"
            assert decoded["topic"] == "TopicTest"
            assert "BB" in decoded["keys"].split(" ")
            assert hit["store_timestamp"] == decoded["store_timestamp"]

    def test_the_message_is_printed(self, run):
        """Its fields, its properties and its body."""
        code, out, _ = run("lookup", STORE, "TopicTest", "order-49", "--message", "--limit", 1)
        assert code == 0
        assert "verified" in out
        assert "0A00000100002A9F000000000001B5A1" in out
        assert '{"id":65641}' in out
        _, out, _ = run(
            "lookup", STORE, "TopicTest", "order-49", "--message", "--json", "--limit", 1
        )
        (hit,) = json.loads(out)["hits"]
        assert hit["message"]["keys"] == "k order-49"

    def test_an_expired_message_is_said_to_be(self, run, tmp_path):
        """The entry is still a candidate."""
        shutil.copytree(STORE, tmp_path / "store")
        (tmp_path / "store" / "commitlog" / "00000000000000000000").unlink()
        _, out, _ = run(
            "lookup", tmp_path / "store", "TopicTest", "order-49", "--message", "--json"
        )
        states = {hit["phy_offset"]: hit for hit in json.loads(out)["hits"]}
        assert (states[0]["state"], states[0]["message"]) == ("unverified", None)
        assert states[112_033]["state"] == "verified"

    def test_messages_need_a_log(self, run):
        """Without one that is bad usage."""
        code, _, err = run(
            "lookup", STORE, "TopicTest", "order-49", "--message", "--commit-log", "none"
        )
        assert code == 2
        assert "needs a CommitLog" in err


class TestCat:
    """``rmqindex cat``."""

    def test_a_unique_key_of_a_batch_queue(self, run):
        """Its topic has no folder in consumequeue/, only in batchconsumequeue/."""
        code, out, _ = run("cat", STORE2, "410AC23E85FB9E8E3824313500000240", "--json")
        assert code == 0
        assert json.loads(out)["topic"] == "BatchCqTopic"

    @pytest.mark.parametrize("number", range(0, 430, 43))
    def test_offset_offset_id_and_unique_key_name_the_same_message(self, run, number):
        """Three names of one message."""
        message = MESSAGES["messages"][number]
        decoded = message["decoded"]
        documents = []
        names = (message["phy_offset"], decoded["msg_id"], decoded["uniq_key"])
        for name in names if decoded["uniq_key"] else names[:2]:
            code, out, err = run("cat", STORE, name, "--json")
            assert (code, err) == (0, "")
            documents.append(json.loads(out))
        document = documents[0]
        assert all(other == document for other in documents)
        assert document["phy_offset"] == message["phy_offset"]
        assert document["properties"] == decoded["properties"]

    def test_bodies_are_unpacked(self, run):
        """Whatever packed them, the body is what was sent."""
        packed = [
            message
            for message in MESSAGES2["messages"]
            if message["kind"] == "compressed" and not message["deleted"]
        ]
        assert packed
        for message in packed:
            sent = base64.b64decode(message["sent"]["body_b64"])
            _, out, _ = run("cat", STORE2, message["phy_offset"], "--json")
            document = json.loads(out)
            body = (
                document["body"].encode()
                if "body" in document
                else base64.b64decode(document["body_base64"])
            )
            assert body == sent

    def test_raw_writes_the_body_alone(self):
        """Byte for byte, for other programs."""
        message = next(m for m in MESSAGES["messages"] if m["phy_offset"] == 112_033)
        done = typed("cat", STORE, 112_033, "--raw")
        body = base64.b64decode(message["sent"]["body_b64"])
        assert (done.returncode, done.stdout) == (0, body)

    @pytest.mark.parametrize("form", ["--json", "--csv"])
    def test_a_raw_body_has_no_other_form(self, run, form):
        """It is not left to guess which one counts."""
        code, out, err = run("cat", STORE, 112_033, "--raw", form)
        assert (code, out, f"--raw: not together with {form}" in err) == (2, "", True)

    def test_an_inner_batch_shows_its_messages(self, run):
        """One record, several messages."""
        batch = next(
            m for m in MESSAGES2["messages"] if m["kind"] == "inner_batch" and not m["deleted"]
        )
        _, out, _ = run("cat", STORE2, batch["phy_offset"], "--json")
        assert len(json.loads(out)["inner_messages"]) == len(batch["inner_messages"])

    def test_a_body_that_is_no_text_is_shown_as_hex(self, run, tmp_path):
        """People get a dump, machines base64."""
        shutil.copytree(STORE / "commitlog", tmp_path / "commitlog")
        log = tmp_path / "commitlog" / "00000000000000065536"
        at = 112_033 - 65_536 + 88
        with log.open("r+b") as file:
            file.seek(at)
            file.write(b"\xff\x00")
        code, out, err = run("cat", tmp_path, 112_033)
        assert code == 0
        assert "00000000  ff 00" in out
        assert "CRC" in err

    @pytest.mark.parametrize(
        ("name", "why"),
        [
            ("1", "none starts at this byte; the command messages shows where messages start"),
            ("999999999", "the CommitLog ends at 123120"),
            ("no-such-id", "no message no-such-id: the index leads to no message"),
            ("0A00000100002A9F0000000000000001", "no message"),
        ],
    )
    def test_a_message_that_is_not_there_gives_1(self, run, name, why):
        """One line on standard error says why."""
        code, out, err = run("cat", STORE, name)
        assert (code, out) == (1, "")
        assert why in err
        code, out, told = run("cat", STORE, name, "--json")
        assert (code, json.loads(out), told) == (1, {"messages": []}, err)


class TestExplain:
    """``rmqindex explain``."""

    def test_its_json_is_the_explanation(self, run):
        """What explain_lookup returns, with all its numbers."""
        code, out, _ = run("explain", STORE, "TopicTest", "order-49", "--json")
        document = json.loads(out)
        assert code == 0
        assert document["key_hash"] == 870421146
        assert [file["reason"] for file in document["files"]] == [
            "hit", "hit", "hit", "other_keys", "hit",
        ]  # fmt: skip

    def test_its_table_names_the_reasons_and_says_what_they_mean(self, run):
        """Also where else the key is."""
        code, out, _ = run("explain", STORE, "TopicTest", "order-49", "--begin", "2023-11-15T00:00")
        assert code == 0
        assert "outside_window: The entry is not of the time asked for." in out
        assert "Under the topic %RETRY%group1: messages with this key at 49473, 13267" in out
        assert out.endswith("7 of 11 entries of hash 870421146 answer the query.\n")

    def test_a_message_that_the_index_lacks_is_named_with_the_command(self, run, store):
        """The newest file was lost; the exit code says whether any entry answers."""
        max((store / "index").iterdir()).unlink()
        code, out, _ = run("explain", store, "TopicTest", "order-49")
        assert code == 0
        assert "not_indexed: The CommitLog has 4 messages of TopicTest#order-49 at 112033" in out
        assert f"    rmqindex rebuild {store} --resume\n" in out
        document = json.loads(run("explain", store, "TopicTest", "order-49", "--json")[1])
        codes = [reason["code"] for reason in document["reasons"]]
        assert codes[:2] == ["hit", "not_indexed"]
        assert document["index"]["end_phy_offset"] == 101565

    def test_times_in_sentences_are_of_the_zone_asked_for(self, run):
        """As those of the table."""
        _, out, _ = run("explain", STORE, "TopicTest", "x", "--time-zone", "Asia/Shanghai")
        assert "stored 2023-11-15 06:13:24.511 +08:00 to" in out

    def test_a_store_without_an_index_is_explained(self, run, store):
        """By its CommitLog."""
        shutil.rmtree(store / "index")
        code, out, _ = run("explain", store, "TopicTest", "order-49")
        assert code == 1
        assert out.startswith("no_index: There are no IndexFiles.")
        assert "not_indexed: The CommitLog has 11 messages" in out

    @pytest.mark.parametrize("command", ["lookup", "explain"])
    def test_an_empty_topic_is_refused(self, run, command):
        """No message has one."""
        code, _, err = run(command, STORE, "", "BB")
        assert code == 2
        assert "expected the name of a topic, got an empty text" in err

    def test_a_key_without_an_answer_gives_1(self, run):
        """The table is printed all the same."""
        code, out, _ = run("explain", STORE, "TopicTest", "nobody")
        assert code == 1
        assert "0 entries of hash" in out


class TestCatInAnIncompleteStore:
    """What the index or the log lacks may be why there is no message."""

    def test_a_unique_key_of_a_lost_file(self, run, store):
        """The message is in the log, which verify reads."""
        (row,) = json.loads(run("messages", store, "--to", 1, "--json")[1])["messages"]
        min((store / "index").iterdir()).unlink()
        code, out, err = run("cat", store, row["uniq_key"], "--topic", row["topic"])
        assert (code, out) == (1, "")
        assert f"`rmqindex verify {store}` says whether any of them has keys" in err

    def test_an_offset_in_a_lost_file_of_the_log(self, run, store):
        """To which the index leads."""
        max((store / "commitlog").iterdir()).unlink()
        code, _, err = run("cat", store, 112_033)
        assert code == 2
        assert "the CommitLog ends at offset 65504, but " in err
        assert "total_size at byte 65504: expected a record, since " in err
        code, _, err = run("cat", store, 112_033, "--mode", "DROPMALFORMED")
        assert code == 1
        assert "no message 112033: the CommitLog is damaged there" in err

    @pytest.mark.parametrize("filler", [b"\0", b"\xff"])
    def test_a_message_in_damage_is_not_one_that_never_was(self, run, store, filler):
        """By its offset, by its key, and for explain; a byte without a message is no damage."""
        first, row, *_ = json.loads(run("messages", store, "--json")[1])["messages"][::-1]
        offset = row["phy_offset"]
        topic, key = row["topic"], row["uniq_key"]
        place, path = next(
            (offset - int(file.name), file)
            for file in sorted((store / "commitlog").iterdir(), reverse=True)
            if int(file.name) <= offset
        )
        with path.open("r+b") as file:
            file.seek(place)
            file.write(filler * row["size"])
        what = f"{path}: total_size at byte {place}: expected a record, since one follows"
        if any(filler):
            what = f"{path}: magic_code at byte {place + 4}: expected "
        for name in (str(offset), key):
            code, out, err = run("cat", store, name, "--topic", topic)
            assert (code, out) == (2, "")
            assert what in err
            code, _, err = run("cat", store, name, "--topic", topic, "--mode", "DROPMALFORMED")
            assert code == 1
            assert f"no message {name}: the CommitLog is damaged there" in err
        code, _, err = run("cat", store, first["phy_offset"] + 1)
        assert (code, "none starts at this byte" in err) == (1, True)
        code, out, _ = run("explain", store, topic, key, "--json")
        reasons = {reason["code"]: reason for reason in json.loads(out)["reasons"]}
        assert code == 1
        assert "leads to a message of" in reasons["no_entry"]["sentence"]
        assert reasons["dangling"]["phy_offsets"] == [offset]
        assert what in reasons["log_damaged"]["sentence"]
        assert "DROPMALFORMED" not in out
        assert reasons["log_damaged"]["remedy"] == f"rmqindex verify {store}"
