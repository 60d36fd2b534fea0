"""Writing to S3: the same bytes as locally, all or nothing, whatever dies when."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import uuid
from pathlib import Path

import pyarrow as pa
import pytest
from spark_writes import GEOMETRY, LAYOUT, SCHEMA, batch, write

from damage import DAMAGES, damaged
from kinds import sampled
from limits import small
from pyspark_rmqindex.stream import IndexStreamWriter
from pyspark_rmqindex.write import job as writer_module
from pyspark_rmqindex.write.job import IndexWriter, write_options
from rmqindex import IndexFile, IndexFileWriter, RmqIndexError
from rmqindex.storage import Location
from rmqindex.store import index_files
from rmqindex.transaction import ObjectStaging, Owner
from s3_server import BUCKET, SECRETS

pytestmark = pytest.mark.usefixtures("s3_environment")

# What is staged for an index lies in it under such names.
STAGING_PREFIX = ".rmqindex-"
PYARROW = int(pa.__version__.partition(".")[0])


def offsets(path):
    """Return the numbers of the rows that an index holds, in its order, as readers see them."""
    found = []
    for entry in index_files(path):
        with IndexFile(entry.path, LAYOUT) as file:
            for rows in file.scan():
                found += (rows["phy_offset"].to_numpy() // 100).tolist()
    return found


@pytest.fixture
def prefix():
    """A folder of the bucket for one test."""
    return f"write-{uuid.uuid4().hex}"


@pytest.fixture
def uri(prefix):
    """An index directory that is not there yet."""
    return f"s3://{BUCKET}/{prefix}/index"


def objects(s3, prefix):
    """Return the bytes of the objects of an index by name; nothing else may be there."""
    keys = s3.keys(f"{prefix}/index")
    return {name: s3.read(f"{prefix}/index/{name}") for name in keys}


def local_files(path):
    """Return the bytes of the files of a local index by name."""
    return {file.name: file.read_bytes() for file in Path(path).iterdir()}


class TestSameAsLocally:
    """Names and bytes are those of the same writes to a local directory."""

    def test_appends_continue_the_last_file(self, s3, uri, prefix, tmp_path):
        """Which is stored anew as a whole; further files follow."""
        for start, stop in ((0, 20), (20, 50), (50, 150), (150, 151)):
            write(uri, (start, stop))
            write(tmp_path / "index", (start, stop))
            assert objects(s3, prefix) == local_files(tmp_path / "index")
        assert offsets(uri) == list(range(151))

    def test_several_tasks_and_large_ones(self, s3, uri, prefix, tmp_path, monkeypatch):
        """Runs are merged, and files that tasks built are taken as they are."""
        monkeypatch.setattr(writer_module, "_RUN_ROWS", 40)
        for path in (uri, tmp_path / "index"):
            write(path, (0, 30), (30, 200), (200, 210))
        assert objects(s3, prefix) == local_files(tmp_path / "index")

    def test_overwriting_and_replays(self, s3, uri, prefix, tmp_path):
        """Old files go, and rows that are there are not written twice."""
        for path in (uri, tmp_path / "index"):
            write(path, (0, 100))
            write(path, (500, 600), overwrite=True)
            write(path, (550, 620), onIndexed="skip")
        assert objects(s3, prefix) == local_files(tmp_path / "index")
        assert offsets(uri) == list(range(500, 620))
        with pytest.raises(ValueError, match=r"phy_offset 55000: expected rows after 61900, up to"):
            write(uri, (550, 560))
        assert objects(s3, prefix) == local_files(tmp_path / "index")

    def test_a_store_root_and_a_geometry_that_disagrees(self, s3, prefix):
        """The index goes beside the log, and its files are all of one size."""
        root = f"s3://{BUCKET}/{prefix}"
        with s3.fs.open_output_stream(f"{BUCKET}/{prefix}/commitlog/{0:020d}") as stream:
            stream.write(bytes(100))
        write(root, (0, 10))
        assert len(objects(s3, prefix)) == 1
        with pytest.raises(RmqIndexError, match="file size: expected 1348 bytes"):
            write(root, (10, 20), maxHashSlotNum="7")


class TestRefused:
    """What cannot be done right is not done."""

    def test_streams_checkpoints_and_other_stores(self, uri):
        """Each with what to do instead."""
        with pytest.raises(ValueError, match="expected a local directory for a stream"):
            IndexStreamWriter(SCHEMA, False, {"path": uri})
        with pytest.raises(ValueError, match="option 'checkpoint': only for a local store"):
            write_options({"path": uri, "checkpoint": "true"})
        with pytest.raises(ValueError, match="expected a local directory or one on S3"):
            write_options({"path": "hdfs://host/a"})

    def test_a_second_commit_at_the_same_time(self, s3, uri, prefix):
        """The later one gives up, whole, and says who was first."""
        write(uri, (0, 10))
        first = ObjectStaging.create(Location(uri), Owner.current())
        with first.exclusive():
            with pytest.raises(RmqIndexError, match=r"another write is committing, .* write again"):
                write(uri, (10, 20))
            assert offsets(uri) == list(range(10))
        first.discard()
        assert len(objects(s3, prefix)) == 1
        write(uri, (10, 20))
        assert offsets(uri) == list(range(20))


@pytest.fixture
def elsewhere():
    """The process of another machine, or of a container, that has the name of this one."""
    return Owner(**{**Owner.current().to_dict(), "boot_id": "of another machine", "pid": 1})


class TestAnotherMachine:
    """A process that cannot be seen from here may run, whatever its host's name."""

    def test_what_it_stages_stays(self, uri, elsewhere):
        """No other job removes it, and it is committed."""
        job = ObjectStaging.create(Location(uri), elsewhere)
        build(job, "one", 7)
        write(uri, (0, 10))
        with job.exclusive():
            job.commit([(job.path / "one", "20990101000000000")], [])
        job.discard()
        assert offsets(uri) == [*range(10), 7]

    @pytest.mark.parametrize("is_committed", [False, True])
    def test_its_commit_is_in_nobodys_hands_until_its_end_is_told(
        self, s3, uri, prefix, elsewhere, is_committed
    ):
        """However old it is; the error names what to remove, after which the next write goes on."""
        write(uri, (0, 10))
        job = ObjectStaging.create(Location(uri), elsewhere)
        build(job, "one", 7)
        if is_committed:
            s3.fail(1000, "500", "PUT", f"{prefix}/index/2099")
            with pytest.raises(RmqIndexError, match="The write is committed"), job.exclusive():
                job.commit([(job.path / "one", "20990101000000000")], [])
            s3.recover()
        else:
            job._claim()
        before = offsets(uri)
        assert len(before) == 10 + is_committed
        with pytest.raises(
            RmqIndexError, match=r"know that this process has ended, remove"
        ) as told:
            write(uri, (10, 20), allowOverlap="true", timeZone="UTC")
        assert offsets(uri) == before
        owner = str(told.value).rpartition(" before")[0].rpartition("remove ")[2].rstrip()
        s3.fs.delete_file(owner.removeprefix("s3://"))
        with ObjectStaging.create(Location(uri), Owner.current()).exclusive():
            pass
        assert offsets(uri) == before
        assert not any(name.endswith(".commit") for name in objects(s3, prefix))

    def test_files_that_go_before_the_record_is_stored_undo_the_commit(self, s3, uri, prefix):
        """By whomever, and however late: a record without its files does not count."""
        write(uri, (0, 10))
        job = ObjectStaging.create(Location(uri), Owner.current())
        build(job, "one", 7)
        (staged,) = (key for key in objects(s3, prefix) if key.endswith("/one"))
        file = f"{BUCKET}/{prefix}/index/{staged}"
        s3.before_storing = (".commit", lambda: s3.fs.delete_file(file))
        with pytest.raises(RmqIndexError, match="the write was ended"), job.exclusive():
            job.commit([(job.path / "one", "20990101000000000")], [])
        assert s3.before_storing is None
        assert offsets(uri) == list(range(10))
        job.discard()
        assert len(objects(s3, prefix)) == 1


def build(job, name, number):
    """Stage an IndexFile of one entry."""
    with IndexFileWriter(job.path / name, LAYOUT) as writer:
        writer.put_many([1], [number * 100], [1_700_000_000_000])
    job.publish([name])


class TestFetch:
    """Files that other processes have staged."""

    @small(copy_bytes=1000)
    def test_a_download_that_failed_is_made_again(self, s3, uri):
        """What it left is not taken for the file."""
        job = ObjectStaging.create(Location(uri), Owner.current())
        content = os.urandom(4500)
        (job.path / "run").write_bytes(content)
        job.publish(["run"])
        s3.fail(1000, "403", "GET", "/run", behind=2)
        with pytest.raises(RmqIndexError, match="expected bytes from 2000 on, got AWS Error"):
            job.fetch(["run"])
        assert not (job.path / "run").exists()
        s3.recover()
        job.fetch(["run"])
        assert (job.path / "run").read_bytes() == content
        job.discard()


class TestDamaged:
    """Records in the directory that are not what a job stored."""

    @pytest.fixture
    def staged(self, uri, prefix):
        """The prefix of what another job has staged; its owner is dead."""
        write(uri, (0, 10))
        owner = Owner(**{**Owner.current().to_dict(), "start_time": 1})
        return f"{prefix}/index/{STAGING_PREFIX}{ObjectStaging.create(Location(uri), owner).job}"

    def test_a_job_of_a_dead_owner_is_removed(self, s3, uri, prefix, staged):
        """As long as the owner can be read."""
        assert s3.keys(staged) == {"owner.json": len(s3.read(f"{staged}/owner.json"))}
        write(uri, (10, 20))
        assert s3.keys(staged) == {}
        assert len(objects(s3, prefix)) == 1

    def test_a_job_without_its_owner_was_ended_and_is_removed(self, s3, uri, staged):
        """Its removal died, or a request that was sent twice came late."""
        store(s3, f"{staged}/run", b"staged")
        s3.fs.delete_file(f"{BUCKET}/{staged}/owner.json")
        write(uri, (10, 20))
        assert s3.keys(staged) == {}
        assert offsets(uri) == list(range(20))

    def test_a_record_that_comes_late_takes_nothing_back(self, s3, uri, prefix):
        """The commit was finished, and another one since; the next write removes it."""
        write(uri, (0, 10))
        late = {}
        s3.before_change = lambda: late.update(
            (name, s3.read(f"{prefix}/index/{name}"))
            for name in s3.keys(f"{prefix}/index")
            if name.endswith((".claim", ".commit"))
        )
        try:
            write(uri, (10, 20))
        finally:
            s3.before_change = None
        assert len(late) == 2
        write(uri, (20, 120))
        for name, data in late.items():
            store(s3, f"{prefix}/index/{name}", data)
            assert offsets(uri) == list(range(120))
        write(uri, (120, 130))
        assert offsets(uri) == list(range(130))
        assert not any(name.startswith(STAGING_PREFIX) for name in objects(s3, prefix))

    def test_a_claim_that_comes_late_takes_no_record_back(self, s3, uri, prefix):
        """They are two objects."""
        write(uri, (0, 50))
        s3.fail(1000, "500", "PUT", f"{prefix}/index/2")
        with pytest.raises(RmqIndexError, match=r"The write is committed"):
            write(uri, (50, 150), **{"fs.s3a.attempts.maximum": "1"})
        s3.recover()
        (claim,) = (name for name in s3.keys(f"{prefix}/index") if name.endswith(".claim"))
        store(s3, f"{prefix}/index/{claim}", s3.read(f"{prefix}/index/{claim}"))
        assert offsets(uri) == list(range(150))
        _forget_owner(s3, prefix)
        write(uri, (150, 160))
        assert offsets(uri) == list(range(160))
        assert not any(name.startswith(STAGING_PREFIX) for name in objects(s3, prefix))

    @pytest.mark.parametrize("how", sampled(DAMAGES, "truncated", "huge", "a field twice"))
    def test_a_job_whose_owner_is_damaged_stays(self, s3, uri, staged, how):
        """It may be alive; a later write goes on, and nobody downloads more than a record has."""
        store(s3, f"{staged}/owner.json", damaged(Owner.current().to_dict(), how))
        with s3.counted() as seen:
            write(uri, (10, 20))
        assert offsets(uri) == list(range(20))
        assert s3.keys(staged).keys() == {"owner.json"}
        fetched = [each for each in seen if each.method == "GET" and each.key.startswith(staged)]
        assert sum(each.sent for each in fetched) <= 64 * 1024 * len(fetched)

    @pytest.mark.parametrize("record", ["owner.json", ".commit"])
    def test_a_record_of_1_gib_is_not_fetched(self, s3, uri, prefix, staged, record):
        """Its size says enough; what refuses it has asked for no byte of it."""
        store(s3, f"{staged}/owner.json", b"{}")
        key = f"{staged}/owner.json" if record == "owner.json" else f"{staged}.commit"
        store(s3, key, b"{}")
        with s3.pretending(key, 1 << 30), s3.counted() as seen:
            if record == "owner.json":
                write(uri, (10, 20))
            else:
                expected = r"\.commit: expected the record of a commit .* got 1,073,741,824 bytes"
                for act in (offsets, lambda uri: write(uri, (10, 20))):
                    with pytest.raises(RmqIndexError, match=expected):
                        act(uri)
        asked = [each for each in seen if each.key == key]
        assert {each.method for each in asked} == {"HEAD"}
        assert sum(each.sent for each in asked) == 0
        assert any(each.key.startswith(f"{prefix}/index") for each in seen)

    @pytest.mark.parametrize("how", sampled(DAMAGES, "truncated", "huge", "a field twice"))
    def test_a_damaged_record_of_a_commit_stops_readers_and_writers(self, s3, uri, staged, how):
        """What is committed is not known without it; nothing is deleted."""
        store(s3, f"{staged}.commit", damaged(commit_record(staged), how))
        before = s3.keys(staged.rpartition("/")[0])
        expected = rf"{STAGING_PREFIX}\w*\.commit: expected the record of a commit.* remove it"
        for act in (offsets, lambda uri: write(uri, (10, 20))):
            with pytest.raises(RmqIndexError, match=f"^{uri}/{expected}"):
                act(uri)
        assert s3.keys(staged.rpartition("/")[0]) == before

    @pytest.mark.parametrize(
        "change",
        sampled(
            [
                {"job": "another"},
                {"job": "../j"},
                {"owner": {}},
                {"owner": None},
                {"new": [["a/b", "1", 8]]},
                {"new": [["staged", "../1", 8]]},
                {"new": [["staged", "1", "8"]]},
                {"new": [["staged", "1", True]]},
                {"new": [["staged", "1", -1]]},
                {"new": [["staged", "1"]]},
                {"removed": ["commitlog/1"]},
                {"removed": "12"},
                {"committed": 1},
            ],
            {"job": "another"},
            {"new": [["staged", "../1", 8]]},
            {"removed": ["commitlog/1"]},
        ),
    )
    def test_a_record_changes_index_files_of_its_own_job_alone(self, s3, uri, staged, change):
        """It is checked as a local journal is."""
        store(s3, f"{staged}.commit", json.dumps({**commit_record(staged), **change}).encode())
        for act in (offsets, lambda uri: write(uri, (10, 20))):
            with pytest.raises(RmqIndexError, match=r"\.commit: expected the record of a commit"):
                act(uri)

    def test_a_folder_is_no_record(self, s3, uri, staged):
        """Whatever its name ends with."""
        store(s3, f"{staged}.commit/owner.json", b"")
        write(uri, (10, 20))
        assert offsets(uri) == list(range(20))


def store(s3, key, data):
    """Put an object."""
    with s3.fs.open_output_stream(f"{BUCKET}/{key}") as stream:
        stream.write(data)


def commit_record(staged):
    """Return the record of a commit that changes nothing, of a job."""
    job = staged.rpartition("/")[2].removeprefix(STAGING_PREFIX)
    owner = Owner.current().to_dict()
    return {"job": job, "owner": owner, "new": [], "removed": [], "committed": True}


class TestFailures:
    """A commit counts or does not; readers see the one or the other."""

    def test_before_the_record_is_stored_nothing_is_changed(self, s3, uri, prefix):
        """And the next write removes what was staged, once its writer is gone."""
        write(uri, (0, 50))
        before = objects(s3, prefix)
        s3.before_change = _fail_after(s3, 3)
        try:
            with pytest.raises(RmqIndexError, match=r"cannot be written: .*AWS Error"):
                write(uri, (50, 150), **{"fs.s3a.attempts.maximum": "1"})
        finally:
            s3.before_change = None
            s3.recover()
        assert offsets(uri) == list(range(50))
        _forget_owner(s3, prefix)
        write(uri, (50, 60))
        assert objects(s3, prefix).keys() == before.keys()

    def test_after_it_readers_see_all_and_the_next_write_finishes(self, s3, uri, prefix):
        """Although no file stands under its name yet."""
        write(uri, (0, 50))
        s3.fail(1000, "500", "PUT", f"{prefix}/index/2")
        with pytest.raises(RmqIndexError, match=r"The write is committed: .* finishes it"):
            write(uri, (50, 150), **{"fs.s3a.attempts.maximum": "1"})
        s3.recover()
        assert offsets(uri) == list(range(150))
        assert len(s3.keys(f"{prefix}/index")) > 3
        finisher = ObjectStaging.create(Location(uri), Owner.current())
        with pytest.raises(RmqIndexError, match="another write is committing"):
            finisher.exclusive().__enter__()
        finisher.discard()
        _forget_owner(s3, prefix)
        write(uri, (150, 160))
        assert offsets(uri) == list(range(160))
        assert sum(name.startswith(STAGING_PREFIX) for name in objects(s3, prefix)) == 0

    def test_a_record_whose_answer_was_lost_counts(self, s3, uri, prefix):
        """The store is asked whether it has it."""
        write(uri, (0, 50))
        s3.lose_answers_of(".commit", 2)
        write(uri, (50, 150), **{"fs.s3a.attempts.maximum": "1"})
        assert offsets(uri) == list(range(150))
        assert len(objects(s3, prefix)) == 3


def _fail_after(s3, changes):
    """Let everything fail after so many requests that change something."""
    left = [changes]

    def count():
        left[0] -= 1
        if left[0] == 0:
            s3.fail(1000, "500", "P")

    return count


def _forget_owner(s3, prefix):
    """Let what a job has left name a process that is gone."""
    for name in s3.keys(f"{prefix}/index"):
        if name.endswith((".claim", ".commit", "owner.json")):
            key = f"{prefix}/index/{name}"
            text = s3.read(key).decode()
            changed = text.replace(f'"start_time": {Owner.current().start_time}', '"start_time": 1')
            assert changed != text
            with s3.fs.open_output_stream(f"{BUCKET}/{key}") as stream:
                stream.write(changed.encode())


_WRITER = """
import sys
sys.path[:0] = sys.argv[3:]
from spark_writes import write
first, stop = map(int, sys.argv[2].split("-"))
print("ready", flush=True)
sys.stdin.readline()
write(sys.argv[1], (first, stop))
"""


@pytest.mark.system
class TestKilled:
    """kill -9 at every other request that changes something."""

    def test_no_partial_object_and_no_mixture_is_ever_seen(self, s3, uri, prefix, tmp_path):
        """Old or new, and the next write clears up; it dies at one request after another."""
        write(uri, (0, 20))
        write(tmp_path / "index", (0, 20))
        old_end, killed, states = 20, 0, set()
        while True:
            point = 2 * killed + 1
            new_end = old_end + 70
            before = objects(s3, prefix)
            ended = _write_and_kill(s3, uri, f"{old_end}-{new_end}", point, str(tmp_path))
            seen = offsets(uri)
            assert seen in (list(range(old_end)), list(range(new_end)))
            for name, data in objects(s3, prefix).items():
                if not name.startswith(STAGING_PREFIX):
                    assert len(data) == LAYOUT.file_size
                    with IndexFile(f"{uri}/{name}", LAYOUT) as file:
                        assert sum(rows.num_rows for rows in file.scan()) == file.entry_count
            if len(seen) == old_end:
                assert all(
                    before[name] == data
                    for name, data in objects(s3, prefix).items()
                    if not name.startswith(STAGING_PREFIX)
                )
            states.add(len(seen) - old_end)
            for path in (uri, tmp_path / "index"):
                write(path, (len(seen) if path == uri else old_end, new_end + 1), onIndexed="skip")
            assert offsets(uri) == list(range(new_end + 1))
            assert not any(name.startswith(STAGING_PREFIX) for name in objects(s3, prefix))
            old_end = new_end + 1
            if ended:
                break
            killed += 1
        assert states == {0, 70}
        assert killed >= 5
        # Before PyArrow 21 all that is small is a multipart upload, which the dead leave behind.
        assert s3.uploads() == [] or PYARROW < 21


def _write_and_kill(s3, uri, rows, point, scratch):
    """Run a writer that is killed at a request; return whether it ended before."""
    left = [point]
    folders = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    process = subprocess.Popen(
        [sys.executable, "-c", _WRITER, uri, rows, *folders],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "TMPDIR": scratch},
    )
    with process:
        process.stdout.readline()
        lock = threading.Lock()

        def count():
            with lock:
                left[0] -= 1
                if left[0] == 0:
                    process.send_signal(signal.SIGKILL)
                    process.wait()

        s3.before_change = count
        try:
            process.stdin.write("go\n")
            process.stdin.flush()
            code = process.wait()
        finally:
            s3.before_change = None
    assert code in (0, -signal.SIGKILL)
    return code == 0


def test_nothing_of_a_write_shows_its_keys(s3, uri):
    """Its options, its job, and what it stores."""
    options = {"path": uri, **GEOMETRY, **s3.options}
    writer = IndexWriter(SCHEMA, False, options)
    task = writer.write(iter([batch(0, 10)]))
    texts = [repr(write_options(options)), repr(writer._job), repr(task)]
    prefix = uri.removeprefix(f"s3://{BUCKET}/")
    texts += [str(s3.read(f"{prefix}/{name}")) for name in s3.keys(prefix)]
    writer.commit([task])
    assert not any(secret in text for text in texts for secret in SECRETS)
    assert offsets(uri) == list(range(10))
