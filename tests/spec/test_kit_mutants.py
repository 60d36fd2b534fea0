"""Whoever breaks a requirement is caught by a case that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import mutants
import spectext
from kinds import sampled
from make_archive import build
from rmq_index_conformance.archive import read_archive
from rmq_index_conformance.cases import Case, cases_of

if TYPE_CHECKING:
    from pathlib import Path

MUTANTS = mutants.mutants()


@pytest.fixture(scope="module")
def cases(tmp_path_factory: pytest.TempPathFactory) -> list[Case]:
    """All cases."""
    folder: Path = tmp_path_factory.mktemp("vectors")
    return cases_of(read_archive(build(folder)))


@pytest.mark.parametrize(
    "mutant",
    sampled(MUTANTS, *MUTANTS[::10]),
    ids=[f"{each.requirement}-{i}" for i, each in enumerate(MUTANTS)],
)
def test_a_program_that_breaks_a_requirement_is_caught(
    mutant: mutants.Mutant, cases: list[Case]
) -> None:
    """A case that names the requirement fails."""
    assert mutants.caught_by(mutant, cases)


def test_every_requirement_is_broken_or_cannot_be() -> None:
    """Each has a mutant, or a reason why it has none; the page lists these."""
    broken = {mutant.requirement for mutant in MUTANTS}
    names = {each.name for each in spectext.requirements()}
    assert broken | set(mutants.NOT_BY_AN_ANSWER) == names
    assert not broken & set(mutants.NOT_BY_AN_ANSWER)
    rows = spectext.table("conformance-kit.md", "not-by-an-answer")
    listed = {row["Requirement"]: row["Why no answer breaks it"] for row in rows}
    assert listed == mutants.NOT_BY_AN_ANSWER


def test_a_change_that_no_longer_fits_is_told() -> None:
    """A mutant whose text is gone breaks nothing, and must not pass for caught."""
    with pytest.raises(ValueError, match="IDX-PUT-1: expected once, found 0 times: no such line"):
        mutants.Mutant("IDX-PUT-1", "no such line", "").sources()
