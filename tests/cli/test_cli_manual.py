"""The manual page and the completion of shells, as a wheel brings them."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

from rmqindex.cli.command import COMMANDS, load
from rmqindex.cli.invocation import Argument

ROOT = Path(__file__).resolve().parents[2]
SHARE = ROOT / "docs" / "share"


def page(run):
    """Return the manual page as a man reads it."""
    code, out, err = run("--man")
    assert (code, err) == (0, "")
    return out


@pytest.mark.parametrize("name", COMMANDS)
def test_the_page_has_each_command_with_all_its_parameters(run, name):
    """The texts are those of the help."""
    _, _, section = page(run).partition(f'.SH "RMQINDEX {name.upper()}"\n')
    section = section.partition("\n.SH ")[0].replace("\\-", "-").replace("\\e", "\\")
    for param in load(name).params:
        if isinstance(param, Argument):
            assert f".I {param.human_readable_name}\n{param.text}" in section
        else:
            names = ", ".join((*param.opts, *param.secondary_opts))
            assert re.search(rf"\.B {re.escape(names)}( .*)?\n{re.escape(param.help)}", section)
    assert f"\nrmqindex {name}" in section.replace("  rmqindex", "rmqindex")


def test_the_page_is_sound(run):
    """No line is taken for a macro that is none, and nothing is wider than a terminal."""
    if shutil.which("groff") is None:
        macros = {"TH", "SH", "PP", "TP", "B", "I", "nf", "fi"}
        lines = [line for line in page(run).splitlines() if line.startswith((".", "'"))]
        assert {re.split(r"\W", line[1:])[0] for line in lines} <= macros
        return
    done = subprocess.run(
        ["groff", "-man", "-Tascii", "-ww"],
        input=page(run),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert "rmqindex lookup store TopicTest order-49 --broker" in done.stdout


def test_a_wheel_brings_the_page_and_the_scripts():
    """In the folders where man and the shells look for them; each asks the command itself."""
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert build["targets"]["wheel"]["shared-data"] == {"docs/share": "share"}
    assert (SHARE / "man" / "man1" / "rmqindex.1").read_text().startswith(".TH RMQINDEX 1\n")
    scripts = {
        "bash": SHARE / "bash-completion" / "completions" / "rmqindex",
        "zsh": SHARE / "zsh" / "site-functions" / "_rmqindex",
        "fish": SHARE / "fish" / "vendor_completions.d" / "rmqindex.fish",
    }
    for shell, script in scripts.items():
        assert f"_RMQINDEX_COMPLETE={shell}_complete" in script.read_text()
    assert scripts["zsh"].read_text().startswith("#compdef rmqindex\n")
