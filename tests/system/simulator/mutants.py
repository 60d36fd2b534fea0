"""Planted faults of the package, each of a kind that was found: is every one found again?

Runs: ``python -m tests.system.simulator.mutants [NAME..]``. Each is planted in a copy of the
packages, and seeds are run over it until one finds a fault that the packages do not have.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from argparse import ArgumentParser
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

__all__ = ["MUTANTS", "Mutant"]

_ROOT = Path(__file__).parents[3]
_PACKAGES = ("format", "connector")


@dataclass(frozen=True)
class Mutant:
    """A planted fault.

    Attributes:
        name: What is wrong.
        file: The module, in ``format/rmqindex``.
        old: The text, which is there once.
        new: What takes its place.
        write: The kind of write after whose calls the power is cut; empty to run seeds.
    """

    name: str
    file: str
    old: str
    new: str
    write: str = ""

    def plant(self, tree: Path) -> None:
        """Change the module in a copy of the packages.

        Raises:
            ValueError: The text is not there once.
        """
        path = tree / "format/rmqindex" / self.file
        text = path.read_text(encoding="utf-8")
        if text.count(self.old) != 1:
            raise ValueError(f"{path}: expected once, got {text.count(self.old)} times: {self.old}")
        path.write_text(text.replace(self.old, self.new), encoding="utf-8")


MUTANTS = (
    Mutant(
        "the store's lock is not taken",
        "transaction/broker_lock.py",
        "is_locked = lock(descriptor)",
        "is_locked = True",
    ),
    Mutant(
        "a broker that crashed counts as stopped",
        "transaction/broker_lock.py",
        "return BrokerState.CRASHED if self.broker is None else BrokerState.RUNNING",
        "return BrokerState.STOPPED",
    ),
    Mutant(
        "zeros are the end of the log",
        "commitlog/end.py",
        "other = source.first_nonzero(at, size)",
        "other = None",
    ),
    Mutant(
        "zeros are the end although a later file has records",
        "commitlog/reading.py",
        'return Fault("total_size", 0, "a record, since later files hold some", 0)',
        "return None",
    ),
    Mutant(
        "nothing proves the end of the log",
        "commitlog/reading.py",
        "            self._prove_end()\n",
        "            pass\n",
    ),
    Mutant(
        "what DLedger's group has agreed on is ignored",
        "bulk/rebuild.py",
        "        stop = log.agreed_stop(stop)\n",
        "",
    ),
    Mutant(
        "an entry's rank is forgotten",
        "query/message_keys.py",
        "np.arange(first, len(run.hashes)) == run.place",
        "np.arange(first, len(run.hashes)) == len(run.hashes) - 1",
    ),
    Mutant(
        "entries of another key with the hash are kept",
        "query/verification.py",
        "kept: NDArray[np.bool_] = ~verified | same.to_numpy(zero_copy_only=False)",
        "kept: NDArray[np.bool_] = np.ones(len(verified), np.bool_)",
    ),
    Mutant(
        "the first of several keys with the hash is taken",
        "query/verification.py",
        "return fitting.pop() if len(fitting) == 1 else None",
        "return min(fitting) if fitting else None",
    ),
    Mutant(
        "entries that a rebuild would lose are lost",
        "bulk/rebuild.py",
        "        replacement.ensure_nothing_lost(target)\n",
        "",
    ),
    Mutant(
        "the journal is written after the files",
        "transaction/local_staging.py",
        """\
        journal.write(self.root, None if append is None else append.undo)
        try:
            if append is not None:
                append.apply()
            self._apply(new, removed)
""",
        """\
        try:
            if append is not None:
                append.apply()
            self._apply(new, removed)
            journal.write(self.root, None if append is None else append.undo)
""",
    ),
    Mutant(
        "an append in place is not undone",
        "transaction/journal.py",
        "        if self.append is None:\n            return\n        undo = self.read_undo(root)",
        "        if self.append is None or self.append:\n            return\n"
        "        undo = self.read_undo(root)",
        write="writeStream, large batches",
    ),
    Mutant(
        "a new folder's name is not synced",
        "storage/disk.py",
        "    path.mkdir(exist_ok=True)\n    sync_name(path)\n",
        "    path.mkdir(exist_ok=True)\n",
        write="rmqindex rebuild, a new store",
    ),
    Mutant(
        "a moved file's name is not synced",
        "storage/disk.py",
        "    source.replace(target)\n    sync_name(target)\n",
        "    source.replace(target)\n",
        write="df.write, append",
    ),
    Mutant(
        "the names of committed files are not synced",
        "transaction/local_staging.py",
        "        if new or removed:\n            sync_directory(self.directory)\n",
        "",
        write="rmqindex rebuild --replace",
    ),
    Mutant(
        "a stream goes on behind another record",
        "commitlog/tailing.py",
        'return f"another one ({found})"',
        'return ""',
    ),
    Mutant(
        "a rebuild goes on behind another log",
        "bulk/resume.py",
        "            ensure_of_log(file, log, _HOW)\n",
        "            pass\n",
    ),
    Mutant(
        "the fingerprint of another file is accepted",
        "indexfile/fingerprint.py",
        "if not self.identity.names_same(source.identity):\n            return False",
        "if not self.identity.names_same(source.identity):\n            return True",
    ),
    Mutant(
        "the first geometry that fits is assumed",
        "indexfile/geometry.py",
        "    if len(found) == 1:\n        return found[0]\n    if not found:",
        "    if found:\n        return found[0]\n    if not found:",
    ),
    Mutant(
        "queue offsets that fall back begin no queue anew",
        "consumequeue/places.py",
        "begun = [cut for cut in cuts[:-1] if offsets[cut] == 0]",
        "begun = cuts[:0]",
    ),
    Mutant(
        "a body's CRC is not compared",
        "commitlog/bodies.py",
        "self.without(bodies, phy_offsets, body_crc_faults(bodies, crcs), self._crc_advice)",
        "bodies",
    ),
    Mutant(
        "an entry's whole seconds are taken for its time",
        "query/verification.py",
        "kept &= (read > _in_64_bits(earliest - MILLISECONDS))",
        "kept &= (read >= _in_64_bits(earliest))",
    ),
    Mutant(
        "whether tags are indexed is not asked of the files",
        "bulk/tags.py",
        "        if shown is not None:\n            return shown\n",
        "",
    ),
    Mutant(
        "a damaged header's count is believed",
        "bulk/salvaging.py",
        "uncounted=not is_counted",
        "uncounted=False",
    ),
    Mutant(
        "a file that vanished from a listing is left out",
        "transaction/directories.py",
        'raise UnsteadyError(f"{name} was listed and then gone") from None',
        "continue",
    ),
    Mutant(
        "delays are those of the default levels",
        "consumequeue/deviations.py",
        "return delays[max(bisect_right(offsets, phy_offset) - 1, 0)]",
        "return usual",
    ),
)


def _copy(tree: Path) -> None:
    """Copy the packages; what Python compiled of them serves the copy, too."""
    for package in _PACKAGES:
        shutil.copytree(_ROOT / package, tree / package)


def _run(arguments: list[object], tree: Path | None) -> tuple[int, str]:
    path = [] if tree is None else [str(tree / package) for package in _PACKAGES]
    ended = subprocess.run(
        [sys.executable, "-m", *map(str, arguments)],
        cwd=_ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


def _faults(first: int, seeds: int, tree: Path | None, folder: Path) -> list[dict[str, str]]:
    """Return the faults of the first of some seeds that has any."""
    log = folder / "faults"
    log.unlink(missing_ok=True)
    arguments = ["tests.system.simulator", "--seeds", seeds, "--first", first, "--jobs", 1]
    arguments += ["--log", log, "--stop", *(() if tree is None else ("--tree", tree))]
    code, text = _run(arguments, tree)
    if bool(code) != log.exists():
        raise RuntimeError(text)
    return [json.loads(line) for line in log.read_text().splitlines()] if code else []


def _by_seeds(tree: Path, folder: Path, first: int, seeds: int) -> tuple[int, str]:
    """Return how many seeds it took to find what is wrong, and what; 0 if nothing was found."""
    at = first
    while at < first + seeds:
        faults = _faults(at, first + seeds - at, tree, folder)
        if not faults:
            break
        seed = int(faults[0]["seed"])
        known = {(each["rule"], each["user"]) for each in _faults(seed, 1, None, folder)}
        for fault in faults:
            if (fault["rule"], fault["user"]) not in known:
                said = f"seed {seed}: {fault['rule']}: {fault['user']}: {fault['what'][:160]}"
                return seed - first + 1, said
        at = seed + 1
    return 0, ""


def _by_cuts(tree: Path, write: str) -> tuple[int, str]:
    """Return how many states after power cuts it took, at most, and what one of them showed."""
    arguments = ["tests.system.simulator.disk", "--write", write, "--seed", 1, "--jobs", 1]
    code, text = _run([*arguments, "--states", 300, "--model", "ordered", "--model", "fsync"], tree)
    if not code:
        return 0, ""
    lines = text.splitlines()
    shown = next((number for number, line in enumerate(lines) if line.startswith("    ")), -1)
    states = sum(int(line.split(" | ")[3].split()[0]) for line in lines if line.count(" | ") > 3)
    return states, " ".join(line.strip() for line in lines[shown : shown + 2])[:200]


def _try(mutant: Mutant, first: int, seeds: int) -> tuple[int, str, float]:
    start = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        tree = Path(folder) / "tree"
        _copy(tree)
        mutant.plant(tree)
        if mutant.write:
            count, said = _by_cuts(tree, mutant.write)
        else:
            count, said = _by_seeds(tree, Path(folder), first, seeds)
    return count, said, time.monotonic() - start


def main() -> int:
    """Plant each mutant, and print after how many seeds it was found.

    Returns:
        1 if any was not found.
    """
    parser = ArgumentParser(prog="python -m tests.system.simulator.mutants", description=__doc__)
    parser.add_argument("name", nargs="*", help="only mutants with this in their name")
    parser.add_argument("--seeds", type=int, default=2000, help="how many at most for each")
    parser.add_argument("--first", type=int, default=1, help="the first seed")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    given = parser.parse_args()
    chosen = [
        mutant
        for mutant in MUTANTS
        if not given.name or any(name in mutant.name for name in given.name)
    ]
    missed = 0
    with ThreadPoolExecutor(given.jobs) as pool:
        ended = pool.map(lambda mutant: _try(mutant, given.first, given.seeds), chosen)
        for mutant, (count, said, seconds) in zip(chosen, ended, strict=True):
            missed += not count
            unit = "states" if mutant.write else "seeds"
            shown = f"found, {count} {unit}: {said}" if count else "NOT FOUND"
            print(f"{mutant.name} ({seconds:.0f} s): {shown}", flush=True)
    print(f"{len(chosen) - missed} of {len(chosen)} found")
    return min(missed, 1)


if __name__ == "__main__":
    sys.exit(main())
