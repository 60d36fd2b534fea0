"""Run the fenced code blocks of a Markdown page as a reader would paste them.

Blocks run from top to bottom in one directory:
``python`` in one namespace, ``sql`` statement by statement in the namespace's ``spark``, ``bash``
in a shell whose PATH starts with the running Python's programs.
A ``text`` block right after one is what it prints; ``...`` in it stands for anything.
A block that cannot be run here is preceded by ``<!-- not run: why -->``.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

_FENCE = re.compile(
    r"^(?P<indent> *)(?P<fence>```+)(?P<language>[^\n`]*)\n(?P<code>.*?)^(?P=indent)(?P=fence) *$",
    re.MULTILINE | re.DOTALL,
)
_NOT_RUN = re.compile(r"<!-- not run: (?P<reason>(?:(?!-->).)+?) -->\s*\Z", re.DOTALL)
RUN_LANGUAGES = ("python", "sql", "bash")


@dataclass(frozen=True)
class Snippet:
    """One block of a page, and what it is said to print (``None``: nothing is said)."""

    page: Path
    line: int
    language: str
    code: str
    output: str | None
    not_run: str | None

    @property
    def where(self) -> str:
        """The page and line of the block, for messages and tracebacks."""
        return f"{self.page.name}:{self.line}"


def snippets(page: Path) -> list[Snippet]:
    """Return the blocks of a page that are code, each with the output shown below it."""
    text = page.read_text(encoding="utf-8")
    found: list[Snippet] = []
    end_of_last = None
    for match in _FENCE.finditer(text):
        language = match["language"].strip()
        between = "" if end_of_last is None else text[end_of_last : match.start()]
        if language in RUN_LANGUAGES:
            reason = _NOT_RUN.search(text[: match.start()])
            found.append(
                Snippet(
                    page=page,
                    line=text.count("\n", 0, match.start()) + 1,
                    language=language,
                    code=match["code"],
                    output=None,
                    not_run=reason["reason"] if reason else None,
                )
            )
            end_of_last = match.end()
        elif language == "text" and end_of_last is not None and not between.strip():
            found[-1] = replace(found[-1], output=match["code"])
            end_of_last = None
    return found


def run_page(page: Path, directory: Path, namespace: dict[str, object] | None = None) -> int:
    """Run a page's blocks in ``directory`` and compare what they print with what is shown.

    Args:
        page: A Markdown file.
        directory: The working directory of every block, Python's own included.
        namespace: Names that the page takes as given, such as ``spark``.

    Returns:
        How many blocks were run.

    Raises:
        AssertionError: A block printed something else, or a shell command failed.
    """
    names: dict[str, object] = {"__name__": "__main__", **(namespace or {})}
    ran = 0
    with contextlib.chdir(directory):
        for snippet in snippets(page):
            if snippet.not_run is None:
                printed = _RUNNERS[snippet.language](snippet, names)
                if snippet.output is not None:
                    _compare(snippet, printed)
                ran += 1
    return ran


def _run_python(snippet: Snippet, names: dict[str, object]) -> str:
    # The line numbers of the page, so that a traceback points into it.
    source = "\n" * snippet.line + snippet.code
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(source, str(snippet.page), "exec"), names)
    return printed.getvalue()


def _run_sql(snippet: Snippet, names: dict[str, object]) -> str:
    spark = names["spark"]
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        for statement in snippet.code.split(";"):
            if statement.strip():
                answer = spark.sql(statement)
                if answer.columns:
                    answer.show(truncate=False)
    return printed.getvalue()


def _run_bash(snippet: Snippet, names: dict[str, object]) -> str:
    del names
    # The programs of this environment first, as in a shell in which it is activated.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", snippet.code],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**{k: v for k, v in os.environ.items() if k != "COLUMNS"}, "PATH": path},
    )
    assert done.returncode == 0, f"{snippet.where}: exit {done.returncode}\n{done.stderr}"
    return done.stdout


_RUNNERS = {"python": _run_python, "sql": _run_sql, "bash": _run_bash}


def _compare(snippet: Snippet, printed: str) -> None:
    """Fail unless the text printed is the text shown, ``...`` standing for anything."""
    shown = _tidy(snippet.output or "")
    pattern = ".*?".join(re.escape(part) for part in shown.split("..."))
    if not re.fullmatch(pattern, _tidy(printed), re.DOTALL):
        raise AssertionError(
            f"{snippet.where} prints\n{_tidy(printed)}\nand the page shows\n{shown}"
        )


def _tidy(text: str) -> str:
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")).strip("\n")
