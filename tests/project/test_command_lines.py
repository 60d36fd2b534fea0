"""Every command line that the code prints names the path that it is about."""

import ast
import re
from pathlib import Path

import pytest

from command_line import COMMANDS

PACKAGE = Path(__file__).resolve().parents[2] / "format" / "rmqindex"
PRINTED = re.compile(rf"\brmqindex (?:{'|'.join(COMMANDS)})(?![\w-])(?! (?:STORE|FILE)\b)")


def strings(tree):
    """Yield the texts of a module with their lines, but for docstrings and examples of the help."""
    apart = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr):
            apart.add(node.value)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "command":
            apart.update(ast.walk(node))
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and node not in apart:
            yield node.lineno, node.value


@pytest.mark.parametrize(
    "module", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)
def test_a_command_line_is_written_by_one_function(module):
    """``command_line`` requires a path; the rules of the audit stand for one, which is put in."""
    found = [at for at in strings(ast.parse(module.read_text())) if PRINTED.search(at[1])]
    assert found == []
