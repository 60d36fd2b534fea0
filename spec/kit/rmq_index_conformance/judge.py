"""Whether an answer is what a case expects."""

from __future__ import annotations

import json
import re
from typing import Any

_FILE_NAME = re.compile(r"[0-9]{17}")
_SHOWN = 160
_NOTHING = object()


def problem_of(expected: dict[str, Any], answer: dict[str, Any]) -> str | None:
    """Say what is wrong with an answer; None if nothing is.

    Args:
        expected: One of ``answer`` (fields, which must be equal), ``contains`` (likewise, but a
            field that is an object or a list of them, such as records, may have further fields in
            these, though not below), ``reject`` (fields of the rejection, which must be equal;
            those in ``said`` must be there), ``one_of`` (any of several expectations), ``names``
            (how many files, in names of 17 digits that rise).
        answer: What the program wrote.
    """
    if "one_of" in expected:
        problems = [problem_of(each, answer) for each in expected["one_of"]]
        return None if None in problems else str(problems[0])
    if "reject" in expected:
        return _problem_of_reject(expected["reject"], answer)
    if "reject" in answer:
        return f"expected an answer, got the rejection {shown(answer['reject'])}"
    if "names" in expected:
        return _problem_of_names(expected["names"], answer.get("names"))
    wanted = expected.get("contains", expected.get("answer", {}))
    for name, value in wanted.items():
        got = answer.get(name, _NOTHING)
        if "contains" in expected:
            got = _asked_fields(value, got)
        if not same(value, got):
            return _difference(name, value, None if got is _NOTHING else got)
    return None


def same(expected: object, got: object) -> bool:
    """Whether two JSON values are equal; true is not 1, and 1.0 is not 1."""
    if isinstance(expected, dict) and isinstance(got, dict):
        return expected.keys() == got.keys() and all(same(expected[k], got[k]) for k in expected)
    if isinstance(expected, list) and isinstance(got, list):
        return len(expected) == len(got) and all(map(same, expected, got))
    return type(expected) is type(got) and expected == got


def shown(value: object) -> str:
    """Return a value as JSON, cut where it is long."""
    text = json.dumps(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}.. ({len(text)} characters)"


def _asked_fields(expected: Any, got: Any) -> Any:  # noqa: ANN401  (JSON)
    """Leave further fields out of an object, or of those in a list, but not of what they hold.

    The properties of a record are an object as well, and one too many is a wrong answer.
    """
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        return [_asked_fields(*pair) for pair in zip(expected, got, strict=True)]
    if isinstance(expected, dict) and isinstance(got, dict):
        return {name: got[name] for name in expected if name in got}
    return got


def _problem_of_names(count: int, names: object) -> str | None:
    if isinstance(names, list) and len(names) == count:
        texts = [str(name) for name in names]
        if names == sorted(set(texts)) and all(map(_FILE_NAME.fullmatch, texts)):
            return None
    return f"names: expected {count} of 17 digits that rise, got {shown(names)}"


def _problem_of_reject(expected: dict[str, Any], answer: dict[str, Any]) -> str | None:
    reject = answer.get("reject")
    if not isinstance(reject, dict):
        told = {name: value for name, value in answer.items() if name != "id"}
        return f"expected a rejection, got {shown(told)}"
    for name, value in expected.items():
        if name == "said":
            missing = [part for part in value if not str(reject.get(part) or "").strip()]
            if missing:
                return f"the rejection does not say {' and '.join(missing)}: {shown(reject)}"
        elif not same(value, reject.get(name)):
            return f"the rejection's {name}: expected {shown(value)}, got {shown(reject.get(name))}"
    return None


def _difference(name: str, expected: object, got: object) -> str:
    """Say where two values differ first."""
    if isinstance(expected, dict) and isinstance(got, dict) and expected.keys() == got.keys():
        key = next(key for key in expected if not same(expected[key], got[key]))
        return _difference(f"{name}.{key}", expected[key], got[key])
    if isinstance(expected, dict) and isinstance(got, dict):
        lacks, has = set(expected) - set(got), set(got) - set(expected)
        return f"{name}: lacks the fields {sorted(lacks)}, and has {sorted(has)} that it must not"
    if isinstance(expected, list) and isinstance(got, list) and len(expected) == len(got):
        place = next(i for i, pair in enumerate(zip(expected, got, strict=True)) if not same(*pair))
        return _difference(f"{name}[{place}]", expected[place], got[place])
    if isinstance(expected, str) and isinstance(got, str) and len(expected) == len(got) > _SHOWN:
        pairs = enumerate(zip(expected, got, strict=True))
        at = next(place for place, (one, other) in pairs if one != other) // 2
        return (
            f"{name}: the byte at {at}: expected {expected[2 * at : 2 * at + 2]}, "
            f"got {got[2 * at : 2 * at + 2]}"
        )
    return f"{name}: expected {shown(expected)}, got {shown(got)}"
