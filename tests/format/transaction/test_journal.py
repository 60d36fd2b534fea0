"""The write journal: a commit is seen whole or not at all, whenever its process dies."""

from __future__ import annotations

import contextlib
import errno
import itertools
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

import pytest

from clock import hurry
from killing import assert_one_turn, before_each_step, fork_server, kill_before, lives
from rmqindex import RmqIndexError
from rmqindex.store import IndexSnapshot, Store
from rmqindex.transaction import journal as journal_module
from rmqindex.transaction import owner as owner_module
from rmqindex.transaction.directories import exists
from rmqindex.transaction.jobs import Recovery, recover
from rmqindex.transaction.journal import effective_listing, staging_root
from rmqindex.transaction.local_staging import LocalStaging
from rmqindex.transaction.owner import Owner

OLD = {"100": b"one", "200": b"two", "300": b"three"}
NEW = {"100": b"one", "300": b"three and more", "400": b"four"}
CHANGES = {"300": b"three and more", "400": b"four"}
REMOVED = ["200", "300"]


def make_directory(parent):
    """Make an index directory in the state OLD."""
    path = parent / "index"
    path.mkdir(parents=True)
    for name, data in OLD.items():
        (path / name).write_bytes(data)
    return path


@pytest.fixture
def directory(tmp_path):
    """An index directory in the state OLD."""
    return make_directory(tmp_path / "store")


def seen(directory):
    """Return what a reader finds."""
    return {name: path.read_bytes() for name, path in effective_listing(directory).items()}


def on_disk(directory):
    """Return what stands in the directory itself."""
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def beside(directory):
    """Return the names in the parent directory."""
    return [path.name for path in directory.parent.iterdir()]


def stage(staging, changes):
    """Write the files of a job."""
    staged = []
    for name, data in changes.items():
        path = staging.path / f"staged-{name}"
        path.write_bytes(data)
        staged.append((path, name))
    return staged


def run_job(directory, removed=REMOVED):
    """Take the directory from OLD to NEW."""
    staging = LocalStaging.create(directory, Owner.current())
    staged = stage(staging, CHANGES)
    with staging.exclusive():
        staging.commit(staged, removed)
    staging.discard()


def dead_owner():
    """Return a process that is no more."""
    with subprocess.Popen(["sleep", "60"]) as process:
        owner = Owner.of_process(process.pid)
        process.kill()
    return owner


class TestCommitsDuringAListing:
    """A listing is a committed state, and neither a clock nor a time stamp says so."""

    @pytest.mark.parametrize("commits", [1, 2])
    def test_commits_within_one_tick_are_noticed(self, directory, monkeypatch, commits):
        """On a file system with coarse stamps, and with the staging root gone again."""
        stamps = directory.stat()
        list_names = journal_module._listing
        left = [commits]

        def disturbed(path):
            if not left[0]:
                return list_names(path)
            left[0] -= 1
            before = list_names(path)
            number = 500 + left[0]
            staging = LocalStaging.create(directory, Owner.current())
            with staging.exclusive():
                new = stage(staging, {f"{number}": b"new", f"{number}1": b"newer"})
                staging.commit(new, [min(before)])
            staging.discard()
            os.utime(directory, ns=(stamps.st_atime_ns, stamps.st_mtime_ns))
            assert not staging_root(directory).exists()
            added = list_names(path)
            return {**before, f"{number}": added[f"{number}"]}  # half of the commit

        monkeypatch.setattr(journal_module, "_listing", disturbed)
        assert effective_listing(directory).keys() == on_disk(directory).keys()

    def test_a_directory_that_has_just_changed_is_listed_at_once(self, directory, monkeypatch):
        """However young its time stamp is: nothing waits for a tick to pass."""
        monkeypatch.setattr(time, "sleep", None)  # any wait would fail
        LocalStaging.create(directory, Owner.current())
        for name in ("500", "600"):
            (directory / name).touch()
            assert name in effective_listing(directory)


def die_after(directory, steps, monkeypatch):
    """Leave the commit from OLD to NEW unfinished: 300, 400 come, 200 goes, one a step."""

    class DeadError(BaseException):
        """The process is no more."""

    def apply(self, new, removed):
        changes = [partial(staged.replace, self.directory / name) for staged, name in new]
        changes += [(self.directory / name).unlink for name in removed if name == "200"]
        for change in changes[:steps]:
            change()
        raise DeadError

    staging = LocalStaging.create(directory, Owner.current())
    staged = stage(staging, CHANGES)
    with monkeypatch.context() as patched:
        patched.setattr(journal_module.Journal, "undo", lambda *_: None)
        patched.setattr(LocalStaging, "_apply", apply)
        with pytest.raises(DeadError), staging.exclusive():
            staging.commit(staged, REMOVED)
    (staging.path / "owner.json").write_text(json.dumps(dead_owner().to_dict()))


def go_on(path):
    """Write to a file as a program does that knows no journal."""
    path.write_bytes(b"by a broker: " + path.read_bytes())


def begin_job(directory):
    """Begin the next write, and end it again."""
    LocalStaging.create(directory, Owner.current()).discard()


class TestAnotherProgramSince:
    """A broker that starts on a dead commit goes on with the newest file: nothing of it is lost."""

    @pytest.mark.parametrize("steps", [2, 3])
    @pytest.mark.parametrize("act", [recover, begin_job], ids=["recover", "the next write"])
    def test_a_commit_that_had_only_old_files_to_remove_is_finished(
        self, directory, monkeypatch, steps, act
    ):
        """All that it brought in is there, with what came since."""
        die_after(directory, steps, monkeypatch)
        go_on(directory / "400")
        expected = {**NEW, "400": b"by a broker: four"}
        assert act(directory) in (None, Recovery.FINISHED)
        assert on_disk(directory) == seen(directory) == expected
        assert recover(directory) is None
        assert beside(directory) == ["index"]

    @pytest.mark.parametrize(
        ("steps", "changed", "named"), [(1, ["300"], "300"), (2, ["200", "400"], "400")]
    )
    @pytest.mark.parametrize("act", [recover, begin_job], ids=["recover", "the next write"])
    def test_any_other_is_refused_with_what_leads_on(
        self, directory, monkeypatch, steps, changed, named, act
    ):
        """Nothing is changed; the commands that are printed work as they stand."""
        die_after(directory, steps, monkeypatch)
        for name in changed:
            go_on(directory / name)
        before = on_disk(directory)
        with pytest.raises(RmqIndexError, match=r"size: |byte \d+: ") as caught:
            act(directory)
        assert str(caught.value).startswith(f"{directory / named}: ")
        assert on_disk(directory) == before
        remove, verify = re.findall("`([^`]*)`", str(caught.value))
        subprocess.run(shlex.split(remove), check=True)
        assert shlex.split(verify) == ["rmqindex", "verify", str(directory)]
        assert recover(directory) is Recovery.REMOVED
        assert on_disk(directory) == before
        assert beside(directory) == ["index"]

    @pytest.mark.parametrize("steps", range(4))
    def test_what_was_appended_to_an_old_file_stays(self, directory, monkeypatch, steps):
        """Where the disk has no hard links, the file in the directory is newer than the copy."""

        def refuse(*_arguments, **_options):
            raise OSError(errno.EPERM, os.strerror(errno.EPERM))

        monkeypatch.setattr(os, "link", refuse)
        die_after(directory, steps, monkeypatch)
        old = dict(OLD)
        if steps < 3:
            go_on(directory / "200")
            old["200"] = b"by a broker: two"
        assert recover(directory) is Recovery.UNDONE
        assert on_disk(directory) == seen(directory) == old

    def test_a_journal_of_an_older_version_is_undone(self, directory, monkeypatch):
        """It has no marks."""
        die_after(directory, 3, monkeypatch)
        path = staging_root(directory) / "journal.json"
        fields = json.loads(path.read_text())
        assert set(fields.pop("old_marks")) == set(REMOVED)
        assert set(fields.pop("new_marks")) == set(CHANGES)
        path.write_text(json.dumps(fields))
        assert recover(directory) is Recovery.UNDONE
        assert on_disk(directory) == OLD

    @pytest.mark.parametrize("mark", [7, "x", "5 0", f"{2**63} 00", f"5 {'00' * 41}"])
    def test_a_damaged_mark_is_refused(self, directory, monkeypatch, mark):
        """Like every damaged field of a journal."""
        die_after(directory, 3, monkeypatch)
        path = staging_root(directory) / "journal.json"
        fields = json.loads(path.read_text())
        fields["new_marks"]["400"] = mark
        path.write_text(json.dumps(fields))
        with pytest.raises(RmqIndexError, match="expected the journal of a write, got a damaged"):
            recover(directory)


class TestCommit:
    """What a commit does, and what it leaves when it fails."""

    def test_files_appear_are_replaced_and_go_in_one_commit(self, directory):
        """A commit adds, replaces and removes, and leaves nothing beside the directory."""
        run_job(directory)
        assert seen(directory) == on_disk(directory) == NEW
        assert beside(directory) == ["index"]

    def test_a_missing_directory_and_its_parents_are_made(self, tmp_path):
        """A first write needs no directory."""
        directory = tmp_path / "a" / "b" / "index"
        staging = LocalStaging.create(directory, Owner.current())
        staged = stage(staging, {"1": b"x"})
        assert not directory.exists()
        with staging.exclusive():
            staging.commit(staged, [])
        staging.discard()
        assert seen(directory) == {"1": b"x"}

    def test_a_file_that_is_there_is_never_replaced_unasked(self, directory):
        """A final name that is taken fails the commit, and nothing changes."""
        staging = LocalStaging.create(directory, Owner.current())
        staged = stage(staging, {"300": b"other"})
        with staging.exclusive(), pytest.raises(RmqIndexError, match="300: expected no such file"):
            staging.commit(staged, [])
        staging.discard()
        assert seen(directory) == OLD

    def test_a_file_to_remove_must_be_there(self, directory):
        """A removal of a name that is not there fails the commit."""
        staging = LocalStaging.create(directory, Owner.current())
        with staging.exclusive(), pytest.raises(RmqIndexError, match="999: expected a file"):
            staging.commit([], ["999"])
        staging.discard()
        assert seen(directory) == OLD

    @pytest.mark.parametrize("failing", ["replace", "unlink"])
    def test_a_commit_that_fails_half_way_is_undone(self, directory, monkeypatch, failing):
        """An error in the middle restores what was there before it is raised."""
        staging = LocalStaging.create(directory, Owner.current())
        staged = stage(staging, CHANGES)
        original = getattr(Path, failing)
        calls = []

        def fail(path, *arguments, **options):
            if path.parent == directory or (arguments and Path(arguments[0]).parent == directory):
                calls.append(path)
                if len(calls) == (2 if failing == "replace" else 1):
                    raise OSError(errno.ENOSPC, "No space left on device")
            return original(path, *arguments, **options)

        monkeypatch.setattr(Path, failing, fail)
        with staging.exclusive(), pytest.raises(OSError, match="No space left"):
            staging.commit(staged, REMOVED)
        assert seen(directory) == on_disk(directory) == OLD
        staging.discard()
        assert beside(directory) == ["index"]

    def test_file_systems_without_hard_links_are_served_by_copies(self, directory, monkeypatch):
        """Where no hard link can be made, old files are copied aside instead."""

        def refuse(*_, **__):
            raise OSError(errno.EPERM, "Operation not permitted")

        monkeypatch.setattr(os, "link", refuse)
        run_job(directory)
        assert seen(directory) == NEW

    def test_a_commit_whose_application_died_is_undone(self, directory):
        """A commit that outlives its application must not surprise the application's retry."""
        staging = LocalStaging.create(directory, Owner.current())
        staged = stage(staging, CHANGES)
        with staging.exclusive():
            (staging.path / "owner.json").write_text(json.dumps(dead_owner().to_dict()))
            with pytest.raises(RmqIndexError, match="application ended"):
                staging.commit(staged, REMOVED)
        assert seen(directory) == on_disk(directory) == OLD
        with pytest.raises(RmqIndexError, match="it was ended"), staging.exclusive():
            pass

    def test_a_linked_directory_is_the_directory_it_links_to(self, directory, tmp_path):
        """The staging sibling stands beside the real directory."""
        link = tmp_path / "link"
        link.symlink_to(directory)
        assert staging_root(link) == staging_root(directory)
        run_job(link)
        assert seen(directory) == seen(link) == NEW


class TestJobs:
    """How jobs begin, end and wait for each other."""

    def test_a_discarded_job_leaves_nothing(self, directory):
        """Discarding removes the staged files, the lock and the staging root; twice is harmless."""
        staging = LocalStaging.create(directory, Owner.current())
        stage(staging, CHANGES)
        staging.discard()
        staging.discard()
        assert beside(directory) == ["index"]
        assert seen(directory) == OLD

    def test_a_discarded_job_cannot_commit(self, directory):
        """Whoever comes too late is told that the job was ended."""
        staging = LocalStaging.create(directory, Owner.current())
        staging.discard()
        with pytest.raises(RmqIndexError, match="it was ended"), staging.exclusive():
            pass

    def test_a_straggler_finds_nothing_to_write_into(self, directory):
        """A task that goes on after the end of its job cannot leave a file behind."""
        staging = LocalStaging.create(directory, Owner.current())
        with (staging.path / "straggler").open("wb") as file:
            staging.discard()
            file.write(b"late")
        with pytest.raises(FileNotFoundError):
            (staging.path / "later").write_bytes(b"later")
        assert beside(directory) == ["index"]

    def test_what_cannot_be_removed_is_named_whole(self, directory, monkeypatch):
        """As on a disk that is read-only by now."""
        dead = LocalStaging.create(directory, dead_owner())

        def refused(*_arguments, **_options):
            raise OSError(errno.EROFS, os.strerror(errno.EROFS), dead.job)

        monkeypatch.setattr(os, "rename", refused)
        with pytest.raises(OSError, match="Read-only") as caught:
            LocalStaging.create(directory, Owner.current())
        assert caught.value.filename == str(dead.path)

    def test_the_next_writer_removes_jobs_of_the_dead_and_keeps_those_of_the_living(
        self, directory, monkeypatch
    ):
        """Only a job whose process is known to be dead is removed; host names tell nothing."""
        monkeypatch.setattr(owner_module, "_machine", lambda: "this one")
        living = LocalStaging.create(directory, Owner.current())
        elsewhere = LocalStaging.create(
            directory, Owner("another-host", "boot", "pid:[1]", pid=1, start_time=1)
        )
        here = os.uname().nodename
        namesake = LocalStaging.create(
            directory, Owner(here, "boot", "pid:[1]", pid=1, start_time=1, machine="another")
        )
        unknown = LocalStaging.create(
            directory, Owner(here, "boot", "pid:[1]", pid=1, start_time=1)
        )
        rebooted = LocalStaging.create(
            directory, Owner(here, "boot", "pid:[1]", pid=1, start_time=1, machine="this one")
        )
        dead = LocalStaging.create(directory, dead_owner())
        half_made = staging_root(directory) / "job-half-made"
        half_made.mkdir()
        last = LocalStaging.create(directory, Owner.current())
        assert living.path.exists()
        assert elsewhere.path.exists()
        assert namesake.path.exists()
        assert unknown.path.exists()
        assert last.path.exists()
        assert not rebooted.path.exists()
        assert not dead.path.exists()
        assert not half_made.exists()

    def test_a_reused_process_id_is_another_process(self):
        """The start time tells a process from a later one with the same id."""
        current = Owner.current()
        assert not current.is_gone
        other = Owner(
            current.host, current.boot_id, current.namespace, current.pid, current.start_time - 1
        )
        assert other.is_gone
        assert other.has_ended

    def test_an_ancestor_is_found_by_its_command(self):
        """A child of a process names that process by its command, and itself without one."""
        script = (
            "import os, sys; from rmqindex.transaction.owner import Owner;"
            "assert Owner.of_ancestor('no-such-command').pid == os.getpid();"
            "print(Owner.of_ancestor('bash').pid)"
        )
        with subprocess.Popen(
            ["bash", "-c", f'"{sys.executable}" -c "{script}"; true'], stdout=subprocess.PIPE
        ) as bash:
            output, _ = bash.communicate(timeout=60)
        assert int(output) == bash.pid

    def test_two_writers_commit_one_after_the_other(self, directory):
        """A writer waits for the commit lock of another."""
        first = LocalStaging.create(directory, Owner.current())
        second = LocalStaging.create(directory, Owner.current())
        order = []

        def commit_second():
            with second.exclusive():
                order.append("second")

        with first.exclusive():
            thread = threading.Thread(target=commit_second)
            thread.start()
            time.sleep(0.2)
            order.append("first")
        thread.join(timeout=30)
        assert order == ["first", "second"]

    def test_a_writer_does_not_wait_for_ever(self, directory, monkeypatch):
        """A lock that is never released is an error, not a hang."""
        staging = LocalStaging.create(directory, Owner.current())
        hurry(monkeypatch, least=3600)
        with (
            staging.exclusive(),
            pytest.raises(RmqIndexError, match="another write"),
            staging.exclusive(),
        ):
            pass

    def test_a_writer_whose_store_is_gone_ends(self, directory, monkeypatch):
        """Where the lock cannot be made any more, it is an error and no endless loop."""
        staging = LocalStaging.create(directory, Owner.current())
        shutil.rmtree(directory.parent)
        monkeypatch.setattr(Path, "mkdir", lambda *_, **__: None)
        with pytest.raises(FileNotFoundError), staging.exclusive(create=True):
            pass


class TestListing:
    """What readers see."""

    def test_a_directory_without_a_journal_is_listed_as_it_is(self, directory):
        """Without a commit under way, a listing is the directory."""
        assert seen(directory) == OLD

    def test_a_missing_directory_is_an_error(self, tmp_path):
        """Nothing can be listed where nothing is."""
        with pytest.raises(FileNotFoundError):
            effective_listing(tmp_path / "nowhere")

    def test_a_reader_has_the_old_state_while_a_commit_lives(self, directory, monkeypatch):
        """The journal tells the old state at once, so that nobody waits for the commit's end."""
        staging = LocalStaging.create(directory, Owner.current())
        staged = stage(staging, CHANGES)
        original = Path.unlink
        listings = []

        def look_and_unlink(path, *, missing_ok=False):
            if path.parent == directory:
                listings.append(seen(directory))
            original(path, missing_ok=missing_ok)

        monkeypatch.setattr(Path, "unlink", look_and_unlink)
        with staging.exclusive():
            staging.commit(staged, REMOVED)
        staging.discard()
        assert listings == [OLD]
        assert seen(directory) == NEW

    def test_a_directory_that_a_commit_makes_is_not_there_before_its_end(
        self, tmp_path, monkeypatch
    ):
        """Before the first commit there is no index, which is not the same as an empty one."""
        directory = tmp_path / "index"
        staging = LocalStaging.create(directory, Owner.current())
        staged = stage(staging, {"1": b"x"})
        original = LocalStaging._apply
        refusals = []

        def apply_and_look(self, new, removed):
            original(self, new, removed)
            with pytest.raises(FileNotFoundError) as refused:
                effective_listing(directory)
            refusals.append(refused.value.filename)

        monkeypatch.setattr(LocalStaging, "_apply", apply_and_look)
        with staging.exclusive():
            staging.commit(staged, [])
        assert refusals == [str(directory)]
        assert seen(directory) == {"1": b"x"}

    def test_commits_without_a_pause_are_an_error_that_names_the_directory(
        self, directory, monkeypatch
    ):
        """A listing that is disturbed each time is refused, and never returned as it came."""
        hurry(monkeypatch, least=3600)
        numbers = itertools.count()
        original = Path.iterdir

        def iterate_and_commit(path):
            names = list(original(path))
            if path == directory:
                (directory / f"{next(numbers)}").touch()
            return iter(names)

        monkeypatch.setattr(Path, "iterdir", iterate_and_commit)
        with pytest.raises(RmqIndexError, match=r"index: expected one reading .*stop what writes"):
            effective_listing(directory)
        assert next(numbers) >= 5

    def test_a_time_stamp_in_the_future_is_no_reason_to_wait(self, directory):
        """A directory that was copied from a clock ahead is listed at once."""
        staging_root(directory).mkdir()
        ahead = time.time() + 3600
        os.utime(directory, (ahead, ahead))
        assert seen(directory) == OLD

    def test_a_directory_that_a_dead_commit_made_is_not_there(self, tmp_path):
        """Whether it is asked for, listed, or written to next."""
        directory = tmp_path / "index"
        assert not lives(run_job_without_commit_point, directory, [])
        assert directory.exists()
        assert not exists(directory)
        with pytest.raises(RmqIndexError, match="no such file or directory"):
            Store.open(directory)
        (tmp_path / "commitlog").mkdir()
        with pytest.raises(RmqIndexError, match="a store with a folder index, found none"):
            Store.open(tmp_path)
        assert IndexSnapshot.of_headers(directory).names == []
        assert recover(directory)
        assert not directory.exists()

    def test_old_files_that_are_gone_are_an_error_by_name(self, directory):
        """Without what a dead commit set aside, readers and writers refuse its old state."""
        assert not lives(run_job_without_commit_point, directory)
        (saved,) = staging_root(directory).glob("job-*/old/300")
        assert seen(directory) == OLD
        saved.unlink()
        for act in (effective_listing, recover):
            with pytest.raises(RmqIndexError, match=r"old/300: expected the file .*journal\.json"):
                act(directory)
        (staging_root(directory) / "journal.json").unlink()
        recover(directory)
        assert seen(directory) == NEW

    @pytest.mark.parametrize(
        "text",
        [
            "",
            "[]",
            '{"job": "a"}',
            '{"job": "a", "created": false, "old": ["../x"], "new": []}',
            '{"job": "..", "created": false, "old": [], "new": []}',
        ],
    )
    def test_a_journal_that_is_none_is_an_error(self, directory, text):
        """A broken journal is reported, and names that lead elsewhere are never followed."""
        root = staging_root(directory)
        root.mkdir()
        (root / "journal.json").write_text(text)
        with pytest.raises(RmqIndexError, match=r"journal\.json: expected"):
            effective_listing(directory)


def run_killed_job(directory, fatal):
    """Run the job in this process, which dies before its n-th step."""
    kill_before(fatal)
    run_job(directory)


def run_job_without_commit_point(directory, removed=REMOVED):
    """Run the job in this process, which dies when nothing but the commit point is missing."""
    apply = LocalStaging._apply

    def apply_and_die(self, new, removed):
        apply(self, new, removed)
        os.kill(os.getpid(), signal.SIGKILL)

    LocalStaging._apply = apply_and_die
    run_job(directory, removed)


def run_killed_recovery(directory, fatal):
    """Begin another job in this process, which dies before its n-th step."""
    kill_before(fatal)
    LocalStaging.create(directory, Owner.current())


def test_a_process_killed_at_any_step_leaves_the_old_state_or_the_new_one(tmp_path):
    """Kill a job before each of its steps: readers, the retry and the clean-up all find order."""
    outcomes = []
    for fatal in itertools.count(1):
        directory = make_directory(tmp_path / str(fatal))
        finished = lives(run_killed_job, directory, fatal)
        state = seen(directory)
        assert state in (OLD, NEW), f"killed before step {fatal}"
        outcomes.append(state == NEW)
        # The retry starts from the state that readers saw, and finishes.
        staging = LocalStaging.create(directory, Owner.current())
        with staging.exclusive():
            assert on_disk(directory) == state
            if state == OLD:
                staging.commit(stage(staging, CHANGES), REMOVED)
        staging.discard()
        assert seen(directory) == on_disk(directory) == NEW
        assert beside(directory) == ["index"]
        if finished:
            break
    assert_one_turn(outcomes, more_than=20)


def run_stopping_job(directory):
    """Run the job in this process, which stops before each of its steps."""
    before_each_step(lambda _: os.kill(os.getpid(), signal.SIGSTOP))
    run_job(directory)


def is_stopped(process):
    """Wait until a process has stopped or ended; return whether it has stopped."""
    stat = Path(f"/proc/{process.pid}/stat")
    while process.is_alive():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has just ended
            if stat.read_text().rpartition(")")[2].split()[0] == "T":
                return True
        time.sleep(0.001)
    return False


def test_a_reader_beside_a_stopped_writer_has_the_old_state_or_the_new_one(directory):
    """However long a writer stops, and before whichever step: never fewer files, and no wait."""
    context = fork_server()
    process = context.Process(target=run_stopping_job, args=(directory,))
    process.start()
    outcomes = []
    while is_stopped(process):
        try:
            state = seen(directory)
            assert state in (OLD, NEW), f"stopped before step {len(outcomes) + 1}"
            outcomes.append(state == NEW)
        finally:
            os.kill(process.pid, signal.SIGCONT)
    process.join(timeout=60)
    assert process.exitcode == 0
    assert_one_turn(outcomes, more_than=20)
    assert seen(directory) == on_disk(directory) == NEW


def test_a_recovery_killed_at_any_step_is_finished_by_the_next(tmp_path):
    """Undoing a dead commit may itself die, and still ends in the old state."""
    for fatal in itertools.count(1):
        directory = make_directory(tmp_path / str(fatal))
        assert not lives(run_job_without_commit_point, directory)
        assert on_disk(directory) == NEW
        assert seen(directory) == OLD
        finished = lives(run_killed_recovery, directory, fatal)
        assert seen(directory) == OLD
        LocalStaging.create(directory, Owner.current()).discard()
        assert seen(directory) == on_disk(directory) == OLD
        assert beside(directory) == ["index"]
        if finished:
            break
    assert fatal > 10


@pytest.mark.parametrize("text", [b"\xff", b"[" * 100_000, b'{"job": "x', b"{}"])
def test_a_journal_that_cannot_be_understood_is_our_error(directory, text):
    """Whatever stands there, be it no text at all, is told from no journal."""
    root = staging_root(directory)
    root.mkdir()
    (root / "journal.json").write_bytes(text)
    with pytest.raises(RmqIndexError, match=r"journal\.json: expected the journal of a write"):
        effective_listing(directory)


def test_a_run_that_joins_the_job_of_a_dead_one_keeps_what_it_stages(directory):
    """As when a stream's application dies in a batch, and a new one runs the batch again."""
    LocalStaging.at(directory, "batch-7").join(dead_owner())
    staging = LocalStaging.at(directory, "batch-7")
    (staging.path / "half").write_bytes(b"of the dead run")
    staging.join(Owner.current())
    assert not (staging.path / "half").exists()
    staged = stage(staging, CHANGES)
    staging.join(Owner.current())  # another task
    with staging.exclusive():
        staging.commit(staged, REMOVED)
    staging.discard()
    assert seen(directory) == NEW


def test_a_journal_that_kept_its_name_as_the_ledger_is_of_a_finished_commit(directory):
    """A power failure may leave both names of a rename."""
    staging = LocalStaging.create(directory, Owner.current())
    staged = stage(staging, CHANGES)
    with staging.exclusive():
        staging.commit(staged, REMOVED, ledger={"batch": 7})
    staging.discard()
    root = staging_root(directory)
    os.link(root / "ledger.json", root / "journal.json")
    assert seen(directory) == NEW
    assert not recover(directory)
    assert seen(directory) == on_disk(directory) == NEW
    assert sorted(path.name for path in root.iterdir()) == ["ledger.json", "lock"]


def test_names_are_synced_before_a_journal_relies_on_them(directory, monkeypatch):
    """The staging root in its parent, the job in it, what is set aside in that, and the undo."""
    synced, fsync = [], os.fsync

    def see(descriptor):
        synced.append(Path(f"/proc/self/fd/{descriptor}").readlink())
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", see)
    run_job(directory)
    root = staging_root(directory)
    journal = synced.index(root / "journal.next")
    job = next(path for path in synced if path.parent == root and path.name.startswith("job-"))
    assert {directory.parent, root, job, job / "old"} <= set(synced[:journal])
    assert synced[journal + 1] == root
