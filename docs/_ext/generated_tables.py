"""What is made when the site is built: options, commands, and what shows each requirement."""

from __future__ import annotations

from typing import TYPE_CHECKING

from docutils import nodes
from docutils.parsers.rst import Directive
from docutils.statemachine import StringList

import spectext
from page_texts import (
    audit_rules_text,
    command_text,
    explain_reasons_text,
    option_group_text,
)
from requirement_links import link

if TYPE_CHECKING:
    from sphinx.application import Sphinx


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
    """``{option-list} heading``."""

    required_arguments = 1
    final_argument_whitespace = True

    def content_text(self) -> str:
        """Return the options below the heading."""
        return option_group_text(self.arguments[0])


class Command(_Generated):
    """``{command} name``."""

    required_arguments = 1

    def content_text(self) -> str:
        """Return what the command's help says."""
        return command_text(self.arguments[0])


class AuditRules(_Generated):
    """``{audit-rules}``."""

    def content_text(self) -> str:
        """Return the table."""
        return audit_rules_text()


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
    app.add_directive("command", Command)
    app.add_directive("explain-reasons", ExplainReasons)
    app.add_directive("option-list", OptionList)
    app.add_directive("traceability-table", TraceabilityTable)
    return {"parallel_read_safe": True}
