"""A case: one request, with what its answer must be."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rmq_index_conformance.archive import Vector

WRITER = "strict_writer"
STRICT = "strict_reader"
LENIENT = "lenient_reader"
BROKER = "broker_faithful_reader"
#: A broker-faithful reader that may write: it extends and deletes files.
LOADER = "broker_faithful_loader"
#: A strict writer that repairs the slots that a crash left before it goes on.
MENDER = "mending_writer"
CLASSES = (WRITER, MENDER, STRICT, LENIENT, BROKER, LOADER)
#: Oldest first, as the text names them; 5.5 is 5.4 with the checkpoint's edition of that name.
EDITIONS = ("4.0", "4.7.1", "5.0", "5.4", "5.5")
FROM_4_7_1, FROM_5_0, FROM_5_4 = EDITIONS[1:], EDITIONS[2:], EDITIONS[3:]


@dataclass(frozen=True)
class Case:
    """One request and its expectation.

    Attributes:
        name: Vector, operation, class, and what tells it from its like.
        vector: The vector's group and name.
        operation: What is asked.
        conformance_class: Who must answer so; None for every class.
        editions: The editions of which that is true; empty for all.
        request: The document to send, without its number.
        expected: What the answer must be; see :func:`rmq_index_conformance.judge.problem_of`.
        requirements: The requirements that it shows.
    """

    name: str
    vector: str
    operation: str
    conformance_class: str | None
    request: dict[str, Any]
    expected: dict[str, Any]
    requirements: tuple[str, ...] = ()
    editions: tuple[str, ...] = field(default=())


def make_case(
    vector: Vector,
    operation: str,
    conformance_class: str | None,
    request: dict[str, Any],
    expected: dict[str, Any],
    detail: object = "",
    *,
    editions: tuple[str, ...] = (),
    requirements: tuple[str, ...] = (),
) -> Case:
    """Return a case of a vector, whose requirements it shows if none are named."""
    told = {"op": operation, **request}
    if conformance_class is not None:
        told["class"] = conformance_class
    words = [f"{vector.name}:", operation, conformance_class or "", str(detail)]
    name = " ".join(word for word in words if word)
    return Case(
        name, vector.name, operation, conformance_class, told, expected, requirements, editions
    )


def answer(**fields: Any) -> dict[str, Any]:  # noqa: ANN401  (JSON)
    """Expect an answer with these fields."""
    return {"answer": fields}


def or_reject(value: Any, name: str) -> dict[str, Any]:  # noqa: ANN401  (JSON)
    """Expect an answer with a field of this value, or a rejection where it says ``reject``."""
    return {"reject": {}} if value == "reject" else answer(**{name: value})
