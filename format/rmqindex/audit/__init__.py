"""The audit of an index: its rules, and the findings of violations; and lost files of its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rmqindex.rooms import importer

if TYPE_CHECKING:
    from rmqindex.audit.missing import MissingPart, missing_parts
    from rmqindex.audit.plan import plan_audit, run_audit, verify
    from rmqindex.audit.rules import AUDIT_RULES, FINDING_SCHEMA, AuditRule
    from rmqindex.audit.units import AuditUnit, StoreUnit

__all__ = [
    "AUDIT_RULES",
    "FINDING_SCHEMA",
    "AuditRule",
    "AuditUnit",
    "MissingPart",
    "StoreUnit",
    "missing_parts",
    "plan_audit",
    "run_audit",
    "verify",
]

__getattr__ = importer(
    __name__,
    {
        "missing": ("MissingPart", "missing_parts"),
        "plan": (
            "plan_audit",
            "run_audit",
            "verify",
        ),
        "rules": (
            "AUDIT_RULES",
            "FINDING_SCHEMA",
            "AuditRule",
        ),
        "units": ("AuditUnit", "StoreUnit"),
    },
)


def __dir__() -> list[str]:
    """List the room's names."""
    return __all__
