"""Nothing in the specification is without something that shows it."""

from __future__ import annotations

import pytest

import spectext


@pytest.mark.parametrize("requirement", spectext.requirements(), ids=lambda each: each.name)
def test_every_requirement_has_a_vector_or_a_test(requirement: spectext.Requirement) -> None:
    """At least one names it."""
    shown = spectext.traces().get(requirement.name)
    assert shown, f"{requirement.name} has no vector and no test: {requirement.text}"


def test_nothing_names_a_requirement_that_is_not_there() -> None:
    """Vectors and tests name existing requirements only."""
    names = {requirement.name for requirement in spectext.requirements()}
    assert set(spectext.traces()) <= names


def test_every_erratum_has_a_vector_and_no_vector_names_another() -> None:
    """The errata of the vectors are those of the text."""
    named = {erratum for vector in spectext.vectors().values() for erratum in vector["errata"]}
    assert named == set(spectext.errata())


def test_links_of_requirements_name_their_file() -> None:
    """The table of requirements, on another page, has them, too."""
    assert [one.name for one in spectext.requirements() if "](#" in one.text] == []


def test_the_generated_table_has_every_requirement() -> None:
    """One row each, in the order of the text."""
    rows = spectext.traceability_table().splitlines()[2:]
    names = [requirement.name for requirement in spectext.requirements()]
    assert [row.split("|")[1].strip() for row in rows] == names
