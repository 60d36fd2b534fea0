"""``rmqindex export``: what nobody finds, relative times, texts of bodies, and other filters."""

import json
import os
import shutil

import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import rmqindex
from rmqindex.commitlog import Selection
from rmqindex.export import OtherExportError, export_messages
from typed import typed

STORE = rmqindex.sample_store()
NOW = 1_700_021_800_000  # 2023-11-15 04:16:40 in UTC, in the hours of the sample
HOUR = 3_600_000


@pytest.fixture
def at(monkeypatch):
    """Set the clock, epoch milliseconds."""

    def set_clock(millis):
        monkeypatch.setattr("time.time_ns", lambda: millis * 1_000_000)

    set_clock(NOW)
    return set_clock


def rows(folder, column="phy_offset"):
    """Return a column of all files of an export in Parquet."""
    return pq.read_table(folder)[column].to_pylist()


class TestNothing:
    """No green job for an empty folder."""

    @pytest.mark.parametrize(
        ("given", "told"),
        [
            (
                ("--topic", "Nope"),
                "matches; nothing was exported; there is no queue of the topic Nope\n",
            ),
            (
                ("--topic", "Nope", "--topic", "topictest"),
                "Nope; there is no queue of the topic topictest, but of TopicTest\n",
            ),
            (
                ("--topic", "TopicTest", "--begin", "2024-01-01", "--time-zone", "UTC"),
                "no message stored at 2024-01-01 00:00:00.000 or later (UTC) matches; nothing",
            ),
            (("--entries", "--key-hash", 1), "no entry matches; nothing was exported"),
        ],
    )
    def test_what_nobody_finds_leaves_nothing_behind(self, run, tmp_path, given, told):
        """Neither the folder nor those above it, which another export may then have."""
        target = tmp_path / "new" / "deep"
        code, out, err = run("export", STORE, target, *given)
        assert (code, out) == (1, "")
        assert told in err
        assert not target.parent.exists()
        code, out, err = run("export", STORE, target, *given, "--json")
        assert (code, err, json.loads(out)["row_count"]) == (1, "", 0)
        assert not target.parent.exists()
        target.mkdir(parents=True)
        assert run("export", STORE, target, *given)[0] == 1
        assert list(target.iterdir()) == []
        assert run("export", STORE, target)[0] == 0

    def test_a_range_that_ends_before_it_begins_is_refused(self, run, tmp_path):
        """In the words that were typed."""
        target = tmp_path / "new"
        code, out, err = run("export", STORE, target, "--begin", "today", "--end", "yesterday")
        assert (code, out, target.exists()) == (2, "", False)
        assert "--begin: 'today' is after --end 'yesterday'" in err

    def test_a_next_part_without_rows_is_an_answer(self, run, tmp_path):
        """The folder has all that there is."""
        assert run("export", STORE, tmp_path / "new")[0] == 0
        code, out, _ = run("export", STORE, tmp_path / "new")
        assert (code, out.endswith(": complete, nothing new to export\n")) == (0, True)

    def test_of_several_stores_one_with_rows_is_enough(self, run, tmp_path):
        """As for a search; the other one is named."""
        other = tmp_path / "other"
        (other / "commitlog").mkdir(parents=True)
        (other / "commitlog" / f"{0:020d}").write_bytes(bytes(1024))
        code, out, err = run("export", STORE, other, tmp_path / "new")
        assert (code, "Exported 430 rows" in out) == (0, True)
        assert err == f"rmqindex: {other}: no message matches; nothing was exported\n"
        assert len(list((tmp_path / "new").iterdir())) == 1

    def test_of_several_stores_one_may_have_a_name_of_other_bytes(self, tmp_path):
        """The folder's name has them escaped."""
        other = tmp_path / os.fsdecode(b"st\xffre")
        shutil.copytree(STORE, other)
        assert typed("export", STORE, other, tmp_path / "new").returncode == 0
        names = sorted(path.name for path in (tmp_path / "new").iterdir())
        assert (len(names), "st%FFre" in "".join(names)) == (2, True)


class TestRelativeTimes:
    """They are fixed when an export is begun."""

    def test_the_same_words_go_on_with_it(self, run, tmp_path, at):
        """An hour later they still begin where they began, and no message is lost between."""
        target = tmp_path / "new"
        assert run("export", STORE, target, "--since", "2h", "--to", "112033")[0] == 0
        first = rows(target)
        at(NOW + HOUR)
        code, _, err = run("export", STORE, target, "--since", "2h", "--to", "112033")
        assert code == 0
        assert "went on with each message stored at 2023-11-15 02:16:40.000 or later (UTC), " in err
        assert "which --since 2h stood for when it was begun" in err
        assert rows(target) == first
        absolute = ("--begin", NOW - 2 * HOUR, "--to", "112033")
        assert run("export", STORE, target, *absolute)[::2] == (0, "")

    def test_other_words_are_refused_in_the_words_that_were_typed(self, run, tmp_path, at):
        """With the time for which they stood, in the zone of the command."""
        target = tmp_path / "new"
        assert run("export", STORE, target, "--since", "2h")[0] == 0
        at(NOW + HOUR)
        for given, got in (
            (("--since", "1h"), "got --begin '2023-11-15 12:16:40.000' (Asia/Shanghai); go on"),
            ((), "got no --begin; go on"),
        ):
            asked = ("export", STORE, target, *given, "--time-zone", "Asia/Shanghai")
            code, _, err = run(*asked)
            assert code == 2
            was = "--since 2h, which was '2023-11-15 10:16:40.000' (Asia/Shanghai)"
            assert f"expected {was}, as the export was begun, {got}" in err

    def test_an_end_that_has_moved_on_is_not_taken_for_the_new_one(self, run, tmp_path, at):
        """A daily job into one folder would be green every day, and export one day only."""
        target = tmp_path / "new"
        day = ("--begin", "today", "--end", "today", "--time-zone", "UTC")
        assert run("export", STORE, target, *day, "--to", "112033")[0] == 0
        assert run("export", STORE, target, *day, "--to", "112033")[0] == 0
        at(NOW + 24 * HOUR)
        code, out, err = run("export", STORE, target, *day, "--to", "112033")
        assert (code, out) == (1, "")
        assert "complete: it has each message stored from 2023-11-15 00:00:00.000 to " in err
        assert "which --begin today (UTC) and --end today (UTC) stood for" in err
        code, _, err = run("export", STORE, target, *day[:4], "--time-zone", "+08:00")
        assert (code, "expected --begin today (UTC), which was" in err) == (2, True)

    def test_entries_have_them_too(self, run, tmp_path, at):
        """As messages."""
        target = tmp_path / "new"
        assert run("export", STORE, target, "--entries", "--since", "2h")[0] == 0
        at(NOW + HOUR)
        code, _, err = run("export", STORE, target, "--entries", "--since", "2h")
        assert (code, "went on with each entry stored at" in err) == (0, True)
        assert run("export", STORE, target, "--entries", "--since", "4h")[0] == 2


@pytest.mark.parametrize(
    ("begun", "given", "told"),
    [
        ((), ("--topic", "A"), "expected no --topic, as the export was begun, got --topic A; go"),
        (("--queue", 1, "--queue", 0), (), "expected --queue 1 --queue 0, as the export was begun"),
        (("--from", 0), ("--from", 500), "expected --from 0, as the export was begun, got --from"),
        (("--raw-bodies",), (), "expected --raw-bodies, as the export was begun, got no --raw"),
        ((), ("--entries",), "expected no --entries, as the export was begun, got --entries; go"),
        (("--entries",), (), "expected --entries, as the export was begun, got no --entries; go"),
        (("--columns", "size"), ("--columns", "topic"), "expected --columns size, as the export"),
        (
            ("--columns", "size,tags"),
            ("--columns", "tags,size"),
            "expected --columns size,tags, as",
        ),
        ((), ("--format", "csv"), "expected --format parquet, as the export was begun, got --for"),
    ],
)
def test_another_question_is_refused_with_the_options_that_were_typed(
    run, tmp_path, begun, given, told
):
    """Whatever differs."""
    target = tmp_path / "new"
    assert run("export", STORE, target, *begun)[0] == 0
    code, _, err = run("export", STORE, target, *given)
    assert code == 2
    assert told in err


@pytest.mark.parametrize(
    ("option", "values"),
    [("--queue", (1, 0, 1)), ("--topic", ("TopicTest", "Other")), ("--tag", ("TagB", "TagA"))],
)
def test_the_same_filters_in_another_order_go_on(run, tmp_path, option, values):
    """They ask for the same messages."""
    target = tmp_path / "new"
    begun, given = (
        [word for each in order for word in (option, each)] for order in (values, values[1::-1])
    )
    assert run("export", STORE, target, *begun)[0] == 0
    code, out, err = run("export", STORE, target, *given)
    assert (code, out, err) == (0, f"{target}: complete, nothing new to export\n", "")


def test_in_python_a_time_is_shown_as_one(tmp_path):
    """Beside its milliseconds."""
    with rmqindex.CommitLog(STORE) as log:
        export_messages(log, tmp_path / "new", Selection(begin=NOW - HOUR), words={"begin": "-1h"})
        with pytest.raises(OtherExportError, match=r"begin 1700018200000 \(2023-11-15 03:16") as it:
            export_messages(log, tmp_path / "new")
    assert (it.value.name, it.value.before, it.value.words) == ("begin", NOW - HOUR, "-1h")
    assert "(given as '-1h'), as it was begun, got None" in str(it.value)


def test_bodies_are_texts_if_asked(run, tmp_path):
    """In each format, as Spark and MessageStore have them; null where one is no text."""
    store = rmqindex.MessageStore(STORE)
    expected = store.messages(columns=["body_text"]).read_all()["body_text"].to_pylist()
    for kind in ("parquet", "csv", "jsonl"):
        asked = ("--columns", "phy_offset,body_text", "--format", kind)
        assert run("export", STORE, tmp_path / kind, *asked)[0] == 0
    assert rows(tmp_path / "parquet", "body_text") == expected
    (path,) = (tmp_path / "csv").glob("*.csv")
    nulls = pyarrow.csv.ConvertOptions(strings_can_be_null=True, quoted_strings_can_be_null=False)
    table = pyarrow.csv.read_csv(path, convert_options=nulls)
    assert table["body_text"].to_pylist() == expected
    (path,) = (tmp_path / "jsonl").glob("*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["body_text"] for line in lines] == expected
    code, _, err = run("export", STORE, tmp_path / "no", "--columns", "body_txt")
    assert (code, "--columns" in err, (tmp_path / "no").exists()) == (2, True, False)
