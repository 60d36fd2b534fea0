"""The examples in docstrings print what they show."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import rmqindex

MODULES = [
    module.name
    for module in pkgutil.walk_packages(rmqindex.__path__, "rmqindex.")
    if not module.name.endswith("__main__")
]


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_of_a_module_are_right(name: str) -> None:
    """Each prints what stands below it."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0


def test_there_are_examples() -> None:
    """The tests above test something."""
    finder = doctest.DocTestFinder()
    found = [
        test
        for name in MODULES
        for test in finder.find(importlib.import_module(name))
        if test.examples
    ]
    assert len(found) >= 2
