"""The audit of an index: its rules, and the findings of violations."""

from rmqindex.audit.plan import AuditUnit, StoreUnit, plan_audit, run_audit, verify
from rmqindex.audit.rules import AUDIT_RULES, FINDING_SCHEMA, AuditRule

__all__ = [
    "AUDIT_RULES",
    "FINDING_SCHEMA",
    "AuditRule",
    "AuditUnit",
    "StoreUnit",
    "plan_audit",
    "run_audit",
    "verify",
]
