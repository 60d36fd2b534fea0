"""The audit of an index: its rules, and the findings of violations."""

from typing import TYPE_CHECKING

from rmqindex.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from rmqindex.audit.plan import plan_audit as plan_audit
    from rmqindex.audit.plan import run_audit as run_audit
    from rmqindex.audit.plan import verify as verify
    from rmqindex.audit.remedies import FINDING_SCHEMA as FINDING_SCHEMA
    from rmqindex.audit.remedies import AuditRule as AuditRule
    from rmqindex.audit.rules import AUDIT_RULES as AUDIT_RULES
    from rmqindex.audit.units import AuditUnit as AuditUnit
    from rmqindex.audit.units import StoreUnit as StoreUnit
else:
    __getattr__, __dir__, __all__ = lazy_exports(__name__)
