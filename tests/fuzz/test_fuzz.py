"""What fuzzing kept: inputs that reach all code, and those that once failed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from . import __main__ as command
from . import kept
from .memory import in_memory, limited
from .run import TARGETS, Result, load

_LARGEST_CORPUS = 1_000_000

# Its module is about streams that PySpark 4.1 has not.
_PARAMETERS = [
    pytest.param(target, marks=pytest.mark.spark_streams if "stream" in target else ())
    for target in TARGETS
]


@pytest.mark.parametrize("target", _PARAMETERS)
def test_kept_inputs_are_values_or_errors_of_ours(target):
    """Each is decoded in every way of its target, with bounded memory, and comes to an end."""
    module = load(target)
    inputs = kept.inputs_of(target)
    assert inputs
    for name, data in [*inputs.items(), *(("a seed", seed) for seed in module.seeds())]:
        with in_memory(), limited():
            try:
                module.check(data)
            except Exception as error:
                error.add_note(f"{target}: {name}")
                raise


@pytest.mark.parametrize("target", _PARAMETERS)
def test_changes_of_inputs_are_values_or_errors_of_ours(target):
    """What a target's own mutator makes of its seeds, without any guidance."""
    module = load(target)
    mutate = getattr(module, "mutate", lambda data, random: data + random.randbytes(1))
    from random import Random

    random = Random(7)
    with in_memory(), limited():
        for _ in range(3):
            for seed in module.seeds():
                module.check(mutate(seed, random)[: module.MAX_LENGTH])


def test_the_kept_inputs_are_few_and_small():
    """The repository does not grow with every run."""
    archives = list(kept.CORPUS.iterdir())
    assert {path.name for path in archives} == {f"{target}.zip" for target in TARGETS}
    assert sum(path.stat().st_size for path in archives) < _LARGEST_CORPUS


@pytest.fixture
def corpus(tmp_path, monkeypatch):
    """A copy of the archives to change."""
    shutil.copytree(kept.CORPUS, tmp_path / "corpus")
    monkeypatch.setattr(kept, "CORPUS", tmp_path / "corpus")
    return tmp_path / "corpus"


def test_the_same_inputs_give_the_same_archive(corpus):
    """A run that finds nothing new changes no file of the repository."""
    for target in TARGETS:
        before = kept.archive_of(target).read_bytes()
        kept.keep(target, dict(reversed(kept.inputs_of(target).items())))
        assert (corpus / f"{target}.zip").read_bytes() == before


def test_an_input_that_failed_is_added_by_the_command(corpus, tmp_path, monkeypatch):
    """It is kept with the others from then on."""
    (tmp_path / "header-crash-1").write_bytes(b"made up")
    before = kept.inputs_of("header")
    monkeypatch.setattr("sys.argv", ["fuzz", "header", "--keep", str(tmp_path / "header-crash-1")])
    assert command.main() == 0
    name = f"finding-{kept.name_of(b'made up')}"
    assert kept.inputs_of("header") == before | {name: b"made up"}
    kept.unpack("header", tmp_path)
    assert (tmp_path / name).read_bytes() == b"made up"
    assert corpus == kept.CORPUS


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (Result(10, 1, 1, (), ""), 0),
        (Result(10, 1, 1, (Path("crash"),), "crash"), 1),
        (Result(0, 0, 0, (), "no end"), 1),
    ],
)
def test_the_command_fails_on_a_finding_and_where_nothing_ran(result, code, monkeypatch):
    """So does CI then."""
    monkeypatch.setattr(command, "run", lambda *_, **__: result)
    monkeypatch.setattr("sys.argv", ["fuzz", "header", "--runs", "10"])
    assert command.main() == code
