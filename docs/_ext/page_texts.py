"""What pages say that the code knows: options, audit rules, reasons of an explanation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_rmqindex.options import OPTIONS, scopes_of
from rmqindex import AUDIT_RULES, EXPLAIN_REASONS

if TYPE_CHECKING:
    from pyspark_rmqindex.options import Option

_SCOPES = {
    "read": "`load`",
    "table": "`table`",
    "write": "`save`",
    "messages": "`rmqcommitlog`",
    "queues": "`rmqconsumequeue`",
    "stream": "`readStream`",
    "message_stream": "`readStream` of `rmqcommitlog`",
}


def options_text() -> str:
    """Return a Markdown definition list of the data source's options."""
    return "\n".join(_item(option) for option in OPTIONS)


def _item(option: Option) -> str:
    default = option.default_doc or (f"`{option.default}`" if option.default is not None else "")
    scopes = ", ".join(_SCOPES[scope] for scope in scopes_of(option))
    facts = f"*{option.kind.words}*, for {scopes}" + (f"; default: {default}" if default else "")
    return f"[`{option.name}`]{{#option-{_anchor(option)}}}\n: {option.doc}\n\n  {facts}\n"


def _anchor(option: Option) -> str:
    # A dot would begin a class.
    return option.name.lower().replace(".", "-")


def audit_rules_text() -> str:
    """Return a Markdown table of the audit's rules."""
    rows = [f"| `{rule.name}` | {rule.severity} | {rule.meaning} |" for rule in AUDIT_RULES]
    return "\n".join(["| rule | severity | what a finding says |", "|---|---|---|", *rows])


def explain_reasons_text() -> str:
    """Return a Markdown table of the reasons of an explained lookup."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in EXPLAIN_REASONS.items()]
    return "\n".join(["| reason | what it means |", "|---|---|", *rows])
