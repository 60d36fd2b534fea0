"""Whoever breaks a requirement is caught by a case that shows it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import mutants
import mutants_by_rule
import spectext
from kinds import sampled
from make_archive import build
from rmq_index_conformance.archive import read_archive
from rmq_index_conformance.cases import Case, cases_of

if TYPE_CHECKING:
    from pathlib import Path

MUTANTS = mutants.mutants()
TWO_WAYS = ["x = 1 if (True) else 2", "x = 1 if (False) else 2"]


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


def test_a_program_that_never_answers_is_caught(cases: list[Case]) -> None:
    """A walk that goes around in a chain is stopped, and counts as no answer."""
    name = "oracle.File.lookup_strictly: position -> True"
    change = next(each for each in mutants.changes() if each.name == name)
    chain = [case for case in cases if case.operation == "lookup"]
    assert mutants.catcher_of(change, chain)


@pytest.mark.system
def test_each_rule_makes_changes_and_cases_catch_them(cases: list[Case]) -> None:
    """Two of each rule and source; `mutants.py rules` runs all."""
    reasons = mutants_by_rule.reasons()
    through = mutants.by_function(cases)
    some: dict[tuple[str, str], list[mutants_by_rule.Change]] = {}
    for change in mutants.changes():
        if change.name not in reasons:
            some.setdefault((change.module, change.rule), []).append(change)
    assert len(some) == 3 * len(mutants.SOURCES)
    for changes in some.values():
        for change in (changes[0], changes[-1]):
            assert mutants.catcher_of(change, through.get(change.function, cases)), change.name


def test_a_reason_is_that_of_a_change_that_is_made() -> None:
    """None is left of a line that is gone, and no two changes have one name."""
    names = [change.name for change in mutants.changes()]
    assert len(set(names)) == len(names)
    assert set(mutants_by_rule.reasons()) < set(names)


@pytest.mark.parametrize(
    ("source", "rule", "changed"),
    [
        ("x = a < 5", mutants_by_rule.BOUNDARY, ["x = (a <= 5)", "x = (a < (5 - 1))"]),
        ("x = a == 5", mutants_by_rule.BOUNDARY, ["x = (a != 5)"]),
        ("x = max(a, 0)", mutants_by_rule.BOUNDARY, ["x = (a)", "x = (0)"]),
        ("f = '>qi'", mutants_by_rule.HIGH_BITS, ["f = ('>4xii')", "f = ('>4xIi')"]),
        ("x = wrap(a, 64)", mutants_by_rule.HIGH_BITS, ["x = (wrap(a, 32))"]),
        ("x = 1 if a else 2", mutants_by_rule.BRANCH, TWO_WAYS),
        ("x = a and b", mutants_by_rule.BRANCH, ["x = (b)", "x = (a)"]),
    ],
)  # fmt: skip
def test_a_rule_changes_one_place(source: str, rule: str, changed: list[str]) -> None:
    """The boundary, the lower half, or the way that is taken."""
    found = mutants_by_rule.changes_of("m", source)
    assert [(each.rule, each.source) for each in found] == [(rule, text) for text in changed]
