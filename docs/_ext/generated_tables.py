"""What is made when the site is built: the options, and what shows each requirement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import spectext
from pyspark_rmqindex.options import OPTIONS, scopes_of
from requirement_links import link
from rmqindex import AUDIT_RULES, EXPLAIN_REASONS

if TYPE_CHECKING:
    from sphinx.application import Sphinx

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


class _Generated(Directive):
    """A directive whose content is made by a function."""

    def run(self) -> list[nodes.Node]:
        lines = link(self.content_text()).splitlines()
        content = StringList(lines, self.state.document.current_source)
        holder = nodes.container(classes=[self.name.partition("-")[0]])
        self.state.nested_parse(content, self.content_offset, holder)
        return [holder]

    def content_text(self) -> str:
        raise NotImplementedError


class OptionList(_Generated):
    """``{option-list}``."""

    def content_text(self) -> str:
        """Return the list."""
        return options_text()


def audit_rules_text() -> str:
    """Return a Markdown table of the audit's rules."""
    rows = [f"| `{rule.name}` | {rule.severity} | {rule.meaning} |" for rule in AUDIT_RULES]
    return "\n".join(["| rule | severity | what a finding says |", "|---|---|---|", *rows])


class AuditRules(_Generated):
    """``{audit-rules}``."""

    def content_text(self) -> str:
        """Return the table."""
        return audit_rules_text()


def explain_reasons_text() -> str:
    """Return a Markdown table of the reasons of an explained lookup."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in EXPLAIN_REASONS.items()]
    return "\n".join(["| reason | what it means |", "|---|---|", *rows])


class ExplainReasons(_Generated):
    """``{explain-reasons}``."""

    def content_text(self) -> str:
        """Return the table."""
        return explain_reasons_text()


class TraceabilityTable(_Generated):
    """``{traceability-table}``."""

    def content_text(self) -> str:
        """Return the table."""
        return spectext.traceability_table()


def setup(app: Sphinx) -> dict[str, bool]:
    """Register with Sphinx."""
    app.add_directive("audit-rules", AuditRules)
    app.add_directive("explain-reasons", ExplainReasons)
    app.add_directive("option-list", OptionList)
    app.add_directive("traceability-table", TraceabilityTable)
    return {"parallel_read_safe": True}
