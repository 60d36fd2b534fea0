"""Changes that a rule makes at every place of a source, each of which a case must notice.

The rules are the boundary of each comparison, the upper half of each 64-bit number, and each way
that a step can go. A change that no answer can show stands with its reason in
``mutants_by_rule.txt``.
"""

from __future__ import annotations

import ast
import itertools
import re
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

TABLE = Path(__file__).with_suffix(".txt")
BOUNDARY, HIGH_BITS, BRANCH = "boundaries", "64-bit numbers", "branches"

_OPERATORS: dict[type[ast.cmpop], str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.Is: "is", ast.IsNot: "is not", ast.In: "in", ast.NotIn: "not in",
}  # fmt: skip
_OTHERS = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==",
    "is": "is not", "is not": "is", "in": "not in", "not in": "in",
}  # fmt: skip
#: What makes a comparison one narrower; its other operator makes it wider, or the reverse.
_FURTHER = {"<": "- 1", "<=": "+ 1", ">": "+ 1", ">=": "- 1"}
#: What the parameters are called that are numbers of 64 bits.
_LONG_NAMES = {
    "begin", "end", "end_offset", "end_time", "logics", "min_phy_offset", "min_time", "near",
    "phy_offset", "physic", "place", "queue_max", "queue_offset", "start", "store_timestamp",
    "tags_code",
}  # fmt: skip
_BYTES_OF_LONG = 8


@dataclass(frozen=True)
class Change:
    """One change of one source.

    Attributes:
        name: The module, the function, what is there and what is put there; it does not change
            as lines move.
        rule: The rule that makes it.
        module: The module that is changed.
        source: The whole source, changed.
    """

    name: str
    rule: str
    module: str
    source: str

    @property
    def function(self) -> str:
        """What its name begins with."""
        return self.name.partition(": ")[0]


@dataclass(frozen=True)
class _Edit:
    """A node, and what is put in its place, or before it where it is a statement."""

    node: ast.expr | ast.stmt
    rule: str
    old: str
    new: str


def changes_of(module: str, source: str) -> list[Change]:
    """Return every change of a source, in the order of its places."""
    lines = source.splitlines(keepends=True)
    starts = list(itertools.accumulate((len(line) for line in lines), initial=0))
    seen: Counter[str] = Counter()
    changes = []
    for where, edit in _edits(ast.parse(source), module):
        node = edit.node
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        name = f"{where}: {edit.old} -> {edit.new}"
        seen[name] += 1
        if seen[name] > 1:
            name += f" ({seen[name]})"
        if isinstance(node, ast.stmt):
            put = edit.new + "\n" + " " * node.col_offset + source[begin:end]
        else:
            put = f"({edit.new})"
        changes.append(Change(name, edit.rule, module, source[:begin] + put + source[end:]))
    return changes


def reasons() -> dict[str, str]:
    """Read ``mutants_by_rule.txt``: why no answer shows a change, by its name."""
    found = {}
    for block in TABLE.read_text(encoding="utf-8").split("\n\n"):
        lines = [line for line in block.splitlines() if line and not line.startswith("#")]
        why = " ".join(line for line in lines if not line.startswith("- "))
        found |= {line[2:]: why for line in lines if line.startswith("- ")}
    return found


def _edits(node: ast.AST, where: str) -> Iterator[tuple[str, _Edit]]:
    """Give the edits below a node, with the names of the functions that they are in."""
    if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
        where = f"{where}.{node.name}"
    if isinstance(node, (ast.JoinedStr, ast.arguments)) or _is_of_the_module(node):
        return
    for edit in (*_boundaries(node), *_cut(node), *_branches(node)):
        yield where, edit
    for child in ast.iter_child_nodes(node):
        yield from _edits(child, where)


def _is_of_the_module(node: ast.AST) -> bool:
    """Whether it is a condition of how a module is loaded."""
    return isinstance(node, ast.If) and bool(
        {each.id for each in ast.walk(node.test) if isinstance(each, ast.Name)}
        & {"TYPE_CHECKING", "__name__"}
    )


def _boundaries(node: ast.AST) -> Iterator[_Edit]:
    old = ast.unparse(node) if isinstance(node, (ast.Compare, ast.Call)) else ""
    if isinstance(node, ast.Compare):
        parts = [_operand(each) for each in (node.left, *node.comparators)]
        signs = [_OPERATORS[type(each)] for each in node.ops]
        for i, sign in enumerate(signs):
            others = [*signs[:i], _OTHERS[sign], *signs[i + 1 :]]
            yield _Edit(node, BOUNDARY, old, _joined(parts, others))
            if sign in _FURTHER:
                more = list(parts)
                # A number between two limits is moved at the limit.
                at, by = (i + 1, _FURTHER[sign])
                if i == 0 and len(signs) > 1:
                    at, by = 0, {"- 1": "+ 1", "+ 1": "- 1"}[by]
                more[at] = f"({more[at]} {by})"
                yield _Edit(node, BOUNDARY, old, _joined(more, signs))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and not node.keywords:
        arguments = [ast.unparse(each) for each in node.args]
        if node.func.id == "range":
            for i, by in itertools.product(range(min(len(arguments), 2)), ("+ 1", "- 1")):
                moved = [*arguments[:i], f"{arguments[i]} {by}", *arguments[i + 1 :]]
                yield _Edit(node, BOUNDARY, old, f"range({', '.join(moved)})")
        elif node.func.id in ("min", "max") and len(arguments) > 1:
            for i in range(len(arguments)):
                yield _Edit(node, BOUNDARY, old, arguments[i])


def _cut(node: ast.AST) -> Iterator[_Edit]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield from _cut_format(node, node.value)
    elif isinstance(node, ast.FunctionDef):
        yield from _cut_parameters(node)
        yield from _cut_fields(node)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
        old, last = ast.unparse(node), node.args[-1]
        if node.func.id == "int" or (node.func.id == "int_at" and _is(last, _BYTES_OF_LONG)):
            for new in _halves(old):
                yield _Edit(node, HIGH_BITS, old, new)
        elif node.func.id in ("wrap", "read_number"):
            for bits, other in ((64, 32), (32, 64)):
                if _is(last, bits):
                    first = ", ".join(ast.unparse(each) for each in node.args[:-1])
                    yield _Edit(node, HIGH_BITS, old, f"{node.func.id}({first}, {other})")


def _cut_format(node: ast.Constant, text: str) -> Iterator[_Edit]:
    """Each number of 64 bits of a format of ``struct``, as the lower half of its bytes."""
    if not re.fullmatch(r">(\d*[a-zA-Z])+", text):
        return
    whole = re.sub(r"(\d+)q", lambda found: "q" * int(found[1]), text)
    for place in (found.start() for found in re.finditer("q", whole)):
        for half in ("4xi", "4xI"):
            yield _Edit(
                node, HIGH_BITS, repr(text), repr(whole[:place] + half + whole[place + 1 :])
            )


def _cut_parameters(node: ast.FunctionDef) -> Iterator[_Edit]:
    body = next(
        each
        for each in node.body
        if not (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant))
    )
    for argument in (*node.args.args, *node.args.kwonlyargs):
        if argument.arg in _LONG_NAMES:
            for half in _halves(argument.arg):
                guard = " if near is not None else None" if argument.arg == "near" else ""
                yield _Edit(body, HIGH_BITS, argument.arg, f"{argument.arg} = {half}{guard}")


def _cut_fields(node: ast.FunctionDef) -> Iterator[_Edit]:
    """Each field of 64 bits that a function reads by its name and size."""
    read = [
        each
        for each in ast.walk(node)
        if isinstance(each, ast.Call)
        and ast.unparse(each) in ("int_at(data, at, size)", "int_at(data, at, width)")
    ]
    pairs: list[list[ast.expr]] = []
    for each in ast.walk(node):
        if isinstance(each, ast.Tuple):
            pairs.append(each.elts)
        elif isinstance(each, ast.Call) and ast.unparse(each.func) == "take":
            pairs.append(each.args)
    for call in read:
        old = ast.unparse(call)
        for pair in pairs:
            if len(pair) == 2 and _is(pair[1], _BYTES_OF_LONG):
                name = ast.unparse(pair[0])
                for half in _halves(old):
                    yield _Edit(call, HIGH_BITS, old, f"{half} if name == {name} else {old}")


def _halves(text: str) -> tuple[str, str]:
    """A number of which the lower 32 bits are taken, without and with their sign."""
    return f"{text} % 2**32", f"({text} + 2**31) % 2**32 - 2**31"


def _branches(node: ast.AST) -> Iterator[_Edit]:
    tests = [node.test] if isinstance(node, (ast.If, ast.IfExp, ast.While)) else []
    if isinstance(node, ast.comprehension):
        tests = node.ifs
    for test in tests:
        if not isinstance(test, ast.Constant):
            for way in ("True", "False"):
                yield _Edit(test, BRANCH, ast.unparse(test), way)
    if isinstance(node, ast.BoolOp):
        sign = " and " if isinstance(node.op, ast.And) else " or "
        for i in range(len(node.values)):
            kept = [_operand(each) for each in (*node.values[:i], *node.values[i + 1 :])]
            yield _Edit(node, BRANCH, ast.unparse(node), sign.join(kept))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield _Edit(node, BRANCH, ast.unparse(node), f"bool({ast.unparse(node.operand)})")


def _operand(node: ast.expr) -> str:
    """Return an operand, in parentheses where it is more than a name, a call or a number."""
    text = ast.unparse(node)
    simple = (ast.Name, ast.Call, ast.Constant, ast.Attribute, ast.Subscript, ast.Tuple)
    return text if isinstance(node, simple) else f"({text})"


def _joined(parts: list[str], signs: list[str]) -> str:
    pairs = zip(["", *signs], parts, strict=True)
    return " ".join(f"{sign} {part}".strip() for sign, part in pairs)


def _is(node: ast.expr, value: int) -> bool:
    return isinstance(node, ast.Constant) and type(node.value) is int and node.value == value
