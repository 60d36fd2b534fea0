"""The layout of ``--help``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

__all__ = ["Argument", "Command", "Context"]

# Lines are broken at a hyphen but not at this one.
_HYPHEN = "\u2011"
# Wider terms stand on a line of their own, which leaves room for the texts.
_TERM_WIDTH = 24


class HelpFormatter(click.HelpFormatter):
    """Never breaks the name of an option into two lines."""

    def write_dl(
        self,
        rows: Iterable[tuple[str, str]],
        col_max: int = _TERM_WIDTH,
        col_spacing: int = 2,
    ) -> None:
        """Write terms and what they mean."""
        kept = [(term, text.replace("-", _HYPHEN)) for term, text in rows]
        super().write_dl(kept, col_max, col_spacing)

    def write_text(self, text: str) -> None:
        """Write paragraphs."""
        super().write_text(text.replace("-", _HYPHEN))

    def getvalue(self) -> str:
        """Return what was written."""
        return super().getvalue().replace(_HYPHEN, "-")


class Context(click.Context):
    """Formats help with the formatter above."""

    formatter_class = HelpFormatter


class Argument(click.Argument):
    """An argument that the help explains; click has this from 8.5 on, under another heading."""

    def __init__(self, declarations: Sequence[str], text: str, **attributes: Any) -> None:  # noqa: ANN401
        """Take the text of the help and what click takes."""
        super().__init__(declarations, **attributes)
        self.text = text

    @property
    def human_readable_name(self) -> str:
        """Its name in errors and in the list of arguments, without the dots of several."""
        return super().human_readable_name.removesuffix("...")

    def get_error_hint(self, ctx: click.Context | None) -> str:  # noqa: ARG002  (click's own signature)
        """Return the name as errors quote it."""
        return f"'{self.human_readable_name}'"


class Command(click.Command):
    """Lists its arguments in its help, above its options."""

    context_class = Context

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the arguments and the options."""
        arguments = [each for each in self.get_params(ctx) if isinstance(each, Argument)]
        with formatter.section("Arguments"):
            formatter.write_dl([(each.human_readable_name, each.text) for each in arguments])
        super().format_options(ctx, formatter)
