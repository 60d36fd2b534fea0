"""Reading from S3: how much is asked, what becomes of failures, and what never shows."""

from __future__ import annotations

import json
import pickle
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import rmqindex
from kinds import sampled
from recorded import MESSAGE_KINDS
from rmqindex import (
    CommitLog,
    ConsumeQueue,
    CorruptIndexError,
    IndexFile,
    IndexFileWriter,
    Layout,
    RmqIndexError,
    index_key,
    key_hash,
)
from rmqindex.storage.location import Location, Storage
from rmqindex.storage.opening import open_source
from rmqindex.storage.s3 import (
    S3Settings,
    check_no_secret,
    without_keys,
)
from rmqindex.store import has_pattern, index_files, list_index_files
from s3_server import ACCESS_KEY, SECRET_KEY, SECRETS, SESSION_TOKEN, by_kind

pytestmark = pytest.mark.usefixtures("s3_environment")

SAMPLE = Layout(97, 200)
# Like the broker's own, but a fifth of the size.
BIG = Layout(1_000_000, 4_000_000)
BEGIN = 1_700_000_000_000
# A fiftieth, and as many entries to a slot.
FULL = Layout(100_000, 400_000)
OFFSETS = range(40_000)
CROWDED = 90_001
QUICK = Storage(S3Settings(attempts=2))
IMPATIENT = Storage(S3Settings(attempts=2, request_timeout=1.0, connect_timeout=1.0))


@pytest.fixture(scope="module")
def big_file(s3, tmp_path_factory):
    """An object of 84 MB with 40,000 entries, of which 1,000 have one hash and two another."""
    path = tmp_path_factory.mktemp("big") / "20240102030405678"
    hashes = [CROWDED if number % 40 == 0 else number % 800_000 for number in OFFSETS]
    hashes[3] = hashes[39_003] = 999_999
    with IndexFileWriter(path, BIG) as writer:
        writer.put_many(hashes, list(OFFSETS), [BEGIN + number for number in OFFSETS])
    uri = s3.put(path.parent, "big")
    return f"{uri}/{path.name}"


@pytest.fixture(scope="module")
def full_file(s3, tmp_path_factory):
    """A full object whose chains have four links on average, and the hashes of its entries."""
    path = tmp_path_factory.mktemp("full") / "20240102030405678"
    hashes = np.random.default_rng(8).integers(0, 1 << 31, FULL.capacity).tolist()
    with IndexFileWriter(path, FULL) as writer:
        offsets = range(FULL.capacity)
        writer.put_many(hashes, offsets, [BEGIN + number for number in offsets])
    return f"{s3.put(path.parent, 'full')}/{path.name}", hashes


class TestRequests:
    """What is asked of the store, counted there."""

    def test_a_lookup_is_a_handful_of_small_reads(self, s3, big_file):
        """The size, the header, a slot, and an entry or two."""
        with s3.counted() as requests, IndexFile(big_file, BIG) as file:
            found = file.lookup([999_999])
        assert found["phy_offset"].to_pylist() == [39_003, 3]
        assert [request.method for request in requests] == ["HEAD", "GET", "GET", "GET", "GET"]
        header, slot, *entries = requests[1:]
        assert (header.span, slot.sent) == ("bytes=0-39", 4)
        assert sum(request.sent for request in entries) <= 8 * 1024

    def test_a_long_chain_is_read_in_ever_larger_pieces(self, s3, big_file):
        """1,000 entries of one hash, which lie 800 bytes apart, take few requests."""
        with s3.counted() as requests, IndexFile(big_file, BIG) as file:
            found = file.lookup([CROWDED])
        assert found.num_rows == 1_000
        assert len(requests) <= 20
        assert sum(request.sent for request in requests) < 2_000_000

    def test_a_scan_reads_the_entries_and_eight_places_behind_them(self, s3, big_file):
        """Neither the 4 MB of slots nor the 79 MB of tail; entries there were not counted."""
        with s3.counted() as requests, IndexFile(big_file, BIG) as file:
            rows = sum(batch.num_rows for batch in file.scan())
        assert rows == len(OFFSETS)
        assert sum(request.sent for request in requests) == 40 + 20 * (len(OFFSETS) + 8)
        assert all(request.method == "HEAD" or request.span for request in requests)

    def test_the_usual_geometry_is_found_by_few_reads(self, s3, big_file):
        """The header, the first and the newest entries, and the slots of these."""
        with s3.counted() as requests, IndexFile(big_file) as file:
            assert file.layout == BIG
        assert len(requests) <= 9
        assert sum(request.sent for request in requests) < 1024

    def test_a_full_file_takes_a_read_for_each_link_of_a_chain(self, s3, full_file):
        """And, where its geometry has to be proved, six more."""
        uri, hashes = full_file
        lengths = Counter(number % FULL.hash_slot_num for number in hashes)
        for wanted in hashes[:: len(hashes) // 10]:
            links = lengths[wanted % FULL.hash_slot_num]
            for layout, proof in ((FULL, 0), (None, 6)):
                with s3.counted() as requests, IndexFile(uri, layout) as file:
                    assert file.lookup([wanted]).num_rows
                asked = by_kind(requests)
                assert (asked["HEAD"], asked["LIST"]) == (1, 0)
                assert asked["GET"] <= 2 + links + proof
                # Each piece of a chain is at most twice as large as the one before.
                assert asked["bytes"] <= 44 + 4096 * (2**links - 1) + 2048 * bool(proof)

    @pytest.mark.parametrize("count", sampled([10, 100, 1_000], 10, 100))
    def test_a_directory_is_one_request(self, s3, tmp_path, count):
        """For up to a thousand files, a page; to find out what a path is takes three more."""
        for number in range(count):
            (tmp_path / f"{20240102030405678 + number}").touch()
        uri = s3.put(tmp_path, f"listed-{count}")
        with s3.counted() as requests:
            assert len(list_index_files(uri)) == count
        assert by_kind(requests) == {"HEAD": 0, "GET": 0, "LIST": 1, "bytes": 0}
        with s3.counted() as requests:
            assert len(index_files(uri)) == count
        assert by_kind(requests) == {"HEAD": 1, "GET": 0, "LIST": 3, "bytes": 0}

    def test_many_hashes_are_gathered_together(self, s3, s3_store):
        """A read each would be thousands."""
        (first, *_) = index_files(s3_store)
        with s3.counted() as requests, IndexFile(first.path, SAMPLE) as file:
            file.lookup(list(range(5_000)))
        assert len(requests) < 60


class TestSameAsLocally:
    """Answers do not depend on where the bytes lie."""

    def test_entries_and_lookups(self, s3_store):
        """Every file of the sample store."""
        local = Path(rmqindex.sample_store())
        wanted = [key_hash(index_key("TopicTest", key)) for key in ("order-49", "BB", "none")]
        for there, here in zip(index_files(s3_store), index_files(local), strict=True):
            assert (there.name, there.size) == (here.name, here.size)
            with IndexFile(there.path, SAMPLE) as far, IndexFile(here.path, SAMPLE) as near:
                assert list(far.scan()) == list(near.scan())
                assert far.lookup(wanted) == near.lookup(wanted)

    def test_entries_behind_the_count_are_damage(self, s3, store):
        """A scan is refused behind the last counted entry; it gave those alone, as if all."""
        path = min((store / "index").iterdir())
        with path.open("r+b") as file:
            file.seek(36)
            file.write(bytes([0, 0, 0, 51]))
        uri = s3.put(store / "index", "lowered-count")
        damage = "index_count at byte 36: expected more than .* to which a slot leads, got 51"
        with IndexFile(f"{uri}/{path.name}", SAMPLE) as far:
            assert sum(batch.num_rows for batch in far.scan(1, 40)) == 39
            with pytest.raises(CorruptIndexError, match=damage):
                list(far.scan())

    def test_messages(self, s3_store):
        """The whole CommitLog, bodies as well."""
        with CommitLog(s3_store) as far, CommitLog(rmqindex.sample_store()) as near:
            assert list(far.scan()) == list(near.scan())

    def test_an_audit_with_the_log(self, s3_store):
        """Nothing is found, as locally but for what only a local store has."""
        findings = rmqindex.verify(s3_store, commit_log="auto", layout=SAMPLE)
        local = rmqindex.verify(rmqindex.sample_store(), commit_log="auto", layout=SAMPLE)
        assert findings["rule"].to_pylist() == local["rule"].to_pylist()

    @pytest.mark.system
    def test_consume_queues(self, s3):
        """Queue by queue."""
        local = MESSAGE_KINDS / "store"
        uri = s3.put(local, "queues")
        far, near = ConsumeQueue.find(uri), ConsumeQueue.find(local)
        assert [(queue.topic, queue.queue_id) for queue in far] == [
            (queue.topic, queue.queue_id) for queue in near
        ]

    @pytest.mark.parametrize(
        "command",
        [
            ["info", "--json"],
            ["scan", "--json"],
            ["lookup", "TopicTest", "order-49", "--json"],
            ["lookup", "TopicTest", "order-49", "--message", "--json"],
            ["verify", "--json"],
        ],
        ids=" ".join,
    )
    def test_commands(self, run, s3_store, command):
        """Exit code and output are those of the local store, but for its path."""
        name, *rest = command
        geometry = ["--max-hash-slot-num", 97, "--max-index-num", 200]
        local = str(rmqindex.sample_store())
        code, out, _ = run(name, s3_store, *rest, *geometry)
        expected, local_out, _ = run(name, local, *rest, *geometry)
        assert (code, _without_disk(out)) == (
            expected,
            _without_disk(local_out.replace(local, s3_store)),
        )

    def test_one_message(self, run, s3_store):
        """``cat`` by its offset."""
        assert run("cat", s3_store, "0", "--json") == run(
            "cat", rmqindex.sample_store(), "0", "--json"
        )


def _without_disk(text):
    """Leave out what a remote file does not have: its blocks on a disk."""
    documents = (
        [json.loads(line) for line in text.splitlines()] if _is_lines(text) else [json.loads(text)]
    )
    return [_pruned(document) for document in documents]


def _is_lines(text):
    first = text.splitlines()[0]
    return first.startswith("{") and first.endswith("}")


def _pruned(value):
    if isinstance(value, dict):
        return {name: _pruned(each) for name, each in value.items() if "disk" not in name}
    return [_pruned(each) for each in value] if isinstance(value, list) else value


class TestFailures:
    """A request that fails is sent again; what goes on failing is an error."""

    @pytest.mark.parametrize("how", ["500", "503", "cut", "half"])
    def test_a_failure_now_and_then_does_not_show(self, s3, big_file, how):
        """Whichever way it fails."""
        with IndexFile(Storage(S3Settings(attempts=3)).at(big_file), BIG) as file:
            s3.fail(1, how, "GET")
            assert file.lookup([999_999]).num_rows == 2

    @pytest.mark.parametrize(
        ("how", "what"),
        [("503", "HTTP status 503"), ("cut", "NETWORK_CONNECTION"), ("half", "partial file")],
    )
    def test_an_error_says_what_was_asked_and_what_came(self, s3, big_file, how, what):
        """And where, and how often it was tried."""
        with IndexFile(QUICK.at(big_file), BIG) as file:
            s3.fail(9, how, "GET")
            with pytest.raises(RmqIndexError) as caught:
                file.lookup([999_999])
        message = str(caught.value)
        slot = BIG.slot_offset(999_999)
        assert message.startswith(
            f"{big_file}: cannot be read: expected bytes {slot} to {slot + 3}, got AWS Error"
        )
        assert what in message
        assert "during GetObject operation" in message
        assert message.endswith("(sent at most 2 times)")

    def test_opening_and_listing_fail_likewise(self, s3, big_file):
        """With what was to be found out."""
        place = QUICK.at(big_file)
        s3.fail(2, "500", "HEAD")
        with pytest.raises(RmqIndexError, match=r"expected the file's size, got .*status 500"):
            IndexFile(place, BIG)
        s3.recover()
        s3.fail(2, "500", "HEAD")
        with pytest.raises(RmqIndexError, match=r"expected what is there, got .*status 500"):
            index_files(place.parent)
        s3.recover()
        s3.fail(9, "500", "GET")
        with pytest.raises(RmqIndexError, match=r"expected .*, got .*status 500"):
            index_files(place.parent)

    @pytest.mark.system
    def test_nothing_waits_for_ever(self, s3, big_file):
        """A server that says nothing is given up after the time that was set."""
        s3.fail(9, "hang")
        with pytest.raises(RmqIndexError, match="Timeout was reached"):
            open_source(IMPATIENT.at(big_file))

    def test_a_server_that_is_not_there(self, monkeypatch):
        """The same for connections."""
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        with pytest.raises(RmqIndexError, match=r"s3://b/a: .*NETWORK_CONNECTION"):
            open_source(QUICK.at("s3://b/a"))

    def test_what_is_not_there_is_said_plainly(self, s3_store):
        """A missing object, a folder in its place, a missing bucket."""
        with pytest.raises(RmqIndexError, match="index/1: cannot be read: no such file"):
            open_source(f"{s3_store}/index/1")
        with pytest.raises(RmqIndexError, match="cannot be read: a directory, not a file"):
            open_source(f"{s3_store}/index")
        with pytest.raises(RmqIndexError, match="s3://no-such-bucket/a: "):
            index_files("s3://no-such-bucket/a")


class TestWhereItIs:
    """The endpoint, the region and the keys come from three places."""

    def test_the_query_of_a_uri_goes_before_the_environment(self, s3, s3_store, monkeypatch):
        """As Arrow names these things."""
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        host = s3.endpoint.removeprefix("http://")
        uri = f"{s3_store}/index?endpoint_override={host}&scheme=http&region=eu-west-3"
        (first, *_) = index_files(uri)
        assert first.path.endswith(f"?endpoint_override={host}&scheme=http&region=eu-west-3")
        with IndexFile(first.path, SAMPLE) as file:
            assert file.entry_count == 199
        assert first.name == file.name

    def test_an_endpoint_in_a_query_may_be_a_url(self, s3, s3_store, monkeypatch):
        """Its slashes and brackets belong to no name, and it is no pattern."""
        monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
        uri = f"{s3_store}/index?endpoint_override={s3.endpoint}/"
        (first, *_) = index_files(uri)
        with IndexFile(first.path, SAMPLE) as file:
            assert file.name == first.name
        assert not has_pattern(Location("s3://bucket/a?endpoint_override=http://[::1]:9000"))

    def test_a_certificate_authority_needs_a_newer_pyarrow(self, s3_store, monkeypatch):
        """What an older one cannot do is not left out in silence."""
        monkeypatch.setattr("rmqindex.storage.s3.pa.__version__", "20.0.0")
        assert len(index_files(s3_store)) == 5
        with pytest.raises(RmqIndexError, match=r"expected PyArrow 21 or later, got 20\.0\.0"):
            index_files(f"{s3_store}/index?tls_ca_file_path=/ca.pem")

    def test_settings_go_before_the_environment_and_with_their_locations(
        self, s3, s3_store, monkeypatch
    ):
        """Two readers of one process can have different keys, in whichever order they read."""
        monkeypatch.delenv("AWS_ENDPOINT_URL")
        stores = {
            key: Storage(S3Settings(endpoint=s3.endpoint, access_key=key, secret_key="x"))
            for key in ("ONE", "OTHER")
        }
        found = {key: index_files(storage.at(s3_store)) for key, storage in stores.items()}
        for number in range(5):
            for key, files in found.items():
                with s3.counted() as requests, IndexFile(files[number].path, SAMPLE) as file:
                    file.lookup([7])
                assert {request.access_key for request in requests} == {key}

    def test_a_pickled_location_is_reached_as_before(self, s3, s3_store, monkeypatch):
        """Another process needs nothing else."""
        monkeypatch.delenv("AWS_ENDPOINT_URL")
        storage = Storage(S3Settings(endpoint=s3.endpoint, access_key="OTHER", secret_key="x"))
        (first, *_) = pickle.loads(pickle.dumps(index_files(storage.at(s3_store))))
        with s3.counted() as requests, IndexFile(first.path, SAMPLE) as file:
            assert file.entry_count == 199
        assert {request.access_key for request in requests} == {"OTHER"}

    def test_hadoops_schemes_are_the_same(self, s3_store):
        """s3a and s3n."""
        for scheme in ("s3a", "s3n", "S3"):
            uri = s3_store.replace("s3://", f"{scheme}://")
            assert index_files(uri)[0].path.startswith(f"{scheme}://")

    def test_an_unknown_setting_in_a_query_is_an_error(self, s3_store):
        """Which names those that are known."""
        with pytest.raises(RmqIndexError, match=r"expected some of endpoint_override, .*'retries'"):
            index_files(f"{s3_store}?retries=3")


class TestSecrets:
    """Keys show nowhere."""

    URIS = (
        f"s3://{ACCESS_KEY}:{SECRET_KEY}@bucket/store",
        f"s3a://{ACCESS_KEY}:a/b+{SECRET_KEY}@bucket/store",
        f"S3://{ACCESS_KEY}@bucket/store?region={SECRET_KEY}",
        f"s3n://:{SECRET_KEY}",
    )

    @pytest.mark.parametrize("uri", URIS)
    def test_keys_in_a_uri_are_refused_and_not_repeated(self, uri):
        """Where they would have been shown by everything that names the path."""
        for attempt in (index_files, open_source, CommitLog, check_no_secret):
            with pytest.raises(ValueError, match="expected a bucket behind") as caught:
                attempt(uri)
            assert not any(secret in str(caught.value) for secret in SECRETS)

    def test_other_uris_are_shown_as_they_are(self):
        """An @ or a colon means nothing there."""
        for uri in (
            "s3://bucket/a@b:c",
            "abfss://container@account/x",
            "hdfs://host:1/a",
            "/a:b@c",
        ):
            assert without_keys(uri) == uri

    def test_settings_do_not_show_them(self):
        """Neither their text nor what a server says."""
        settings = S3Settings(
            endpoint="e", access_key=ACCESS_KEY, secret_key=SECRET_KEY, session_token=SESSION_TOKEN
        )
        storage = Storage(settings)
        place = storage.at("s3://bucket/store").child("index")
        text = f"{settings} {settings!r} {settings.hidden_in(f'bad key {SECRET_KEY}')}"
        text += f"{storage} {storage!r} {place} {place!r} {json.dumps({place: [place]})}"
        assert not any(secret in text for secret in SECRETS)
        assert "bad key ***" in text

    def test_errors_do_not_show_them(self, s3, big_file):
        """However a request fails."""
        settings = S3Settings(
            access_key=ACCESS_KEY, secret_key=SECRET_KEY, session_token=SESSION_TOKEN, attempts=1
        )
        for how in ("403", "400", "503", "cut"):
            s3.fail(9, how)
            with pytest.raises(RmqIndexError) as caught:
                open_source(Storage(settings).at(big_file))
            s3.recover()
            shown_text = f"{caught.value!r} {caught.value.__cause__!r}"
            assert not any(secret in shown_text for secret in SECRETS)
