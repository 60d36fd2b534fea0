"""The sample store in the wheel (provenance: ``sample/PROVENANCE.md``)."""

from __future__ import annotations

from pathlib import Path

from rmqindex.storage.writable import write_own


def sample_store() -> Path:
    """Return the root of a small broker store written by Apache RocketMQ 5.3.3's own classes.

    It holds five IndexFiles of 97 slots and 200 entry places, with the CommitLog and the
    ConsumeQueues they belong to: 430 messages, about 200 KB.
    The files are part of the installed package, so read them and do not write to them;
    ``rmqindex sample DIR`` writes a copy of your own.

    Returns:
        A directory that has ``index/``, ``commitlog/`` and ``consumequeue/``.
    """
    return Path(__file__).parent.with_name("sample") / "store"


def write_sample_store(directory: Path) -> Path:
    """Write a copy of the sample store, with ``directory`` as its root.

    Returns:
        The directory.
    """
    if directory.exists() and not (directory.is_dir() and not any(directory.iterdir())):
        raise FileExistsError(f"{directory}: expected a new or empty directory")
    source = sample_store()
    # Not shutil.copytree: an installed package may be read-only, and its copy must not be.
    for path in sorted(source.rglob("*")):
        target = directory / path.relative_to(source)
        if path.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            write_own(target, path.read_bytes())
    return directory
