"""What stores, indexes, logs and explanations look like at a prompt and in a notebook."""

from __future__ import annotations

import shutil

import rmqindex
from rmqindex import CommitLog, IndexDirectory, IndexFile, MessageStore

STORE = rmqindex.sample_store()


class TestReprs:
    """What a prompt and a notebook show."""

    def test_each_says_what_it_is_in_one_line(self, messages):
        """Path, files, entries, log and times."""
        assert repr(messages) == (
            f"MessageStore({str(STORE)!r}: 959 entries in 5 IndexFiles, stored 2023-11-14 "
            "22:13:24.511 to 2023-11-15 04:34:21.666 (UTC), CommitLog from offset 0 in 2 files)"
        )
        assert repr(CommitLog(STORE)) == (
            f"CommitLog({str(STORE / 'commitlog')!r}: 2 files, offsets 0 to 131072)"
        )
        with IndexDirectory(STORE) as index:
            assert repr(index) == f"IndexDirectory({str(STORE / 'index')!r}: 5 files, 959 entries)"
        assert repr(index) == f"IndexDirectory({str(STORE / 'index')!r}: closed)"

    def test_tables_of_html_have_the_facts(self, messages):
        """Every file and its entries, an index being written included."""
        name = "20261120182606803"
        with IndexDirectory(STORE) as index, IndexFile(STORE / "index" / name) as file:
            shown = [messages, CommitLog(STORE), index, file, messages.explain("TopicTest", "BB")]
            for each in shown:
                html = each._repr_html_()
                assert html.count("<table>") == html.count("</table>") >= 1
            assert all(name in each._repr_html_() for each in (messages, index, file))

    def test_a_directory_that_is_written_shows_what_was_put(self, tmp_path):
        """Without a flush, which showing it must not cause."""
        with IndexDirectory(tmp_path / "index", rmqindex.Layout(97, 200), writable=True) as index:
            index.build_index("T", "key", None, 0, 0, 1_700_000_000_000)
            assert "1 file, 1 entry" in repr(index)
            assert "2023-11-14 22:13:20.000 UTC" in index._repr_html_()

    def test_names_and_keys_are_escaped(self, messages, tmp_path):
        """No topic, key or path becomes a tag of the page."""
        html = messages.explain("<b>topic", "<script>alert(1)</script>")._repr_html_()
        assert "<script>" not in html
        assert "&lt;script&gt;" in html
        shutil.copytree(STORE, tmp_path / "<i>")
        for each in (MessageStore(tmp_path / "<i>"), CommitLog(tmp_path / "<i>")):
            assert "<i>" not in each._repr_html_()

    def test_long_tables_are_cut_in_the_middle(self, tmp_path):
        """And say how many rows are left out."""
        (tmp_path / "commitlog").mkdir()
        for number in range(50):
            (tmp_path / "commitlog" / f"{number * 1024:020d}").write_bytes(bytes(1024))
        html = CommitLog(tmp_path)._repr_html_()
        assert "30 more" in html
        assert html.count("<tr>") == 1 + 20 + 1

    def test_a_store_that_cannot_be_read_is_still_shown(self, tmp_path):
        """With the reason, instead of an exception in a prompt."""
        store = MessageStore(tmp_path)
        assert str(tmp_path) in repr(store)
        assert "expected" in repr(store)
        assert "expected" in store._repr_html_()
