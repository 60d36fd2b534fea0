"""The command line, ``rmqindex``.

Standard output carries the answer, as a table for people or as JSON for machines.
Standard error carries errors, one line each, and progress bars at a terminal.
The exit code is 0 for an answer, 1 for a search that found nothing, an audit that found errors
or a comparison that found differences,
2 for bad usage, a bad file or a standard output that cannot be written, 141 where its reader wanted
no more.
"""

from __future__ import annotations

import os
import sys
from difflib import get_close_matches
from importlib import import_module
from typing import Any, NamedTuple

import click

from rmqindex.answers.text import complain
from rmqindex.cli.invocation import Context, error_text, reworded
from rmqindex.cli.streams import OutputError, drop_output, open_streams
from rmqindex.errors import RmqIndexError

_NAME = "rmqindex"
_SHELLS = ("bash", "zsh", "fish")
_BAD = 2
_INTERRUPTED = 130
# As the shell says of a program that SIGPIPE ends.
_PIPE_CLOSED = 141


class Entry(NamedTuple):
    """The module that defines a command, and what the list of commands says about it."""

    module: str
    summary: str


#: Every command, in the order of the help; its function has the command's name.
COMMANDS = {
    "info": Entry("info", "Show what each IndexFile contains."),
    "scan": Entry("info", "Print the entries of an index."),
    "sample": Entry("info", "Create a small store for trying things out."),
    "lookup": Entry("lookup", "Find the messages with a key."),
    "explain": Entry("explain", "Explain why a key is or is not found."),
    "cat": Entry("cat", "Print a message from the CommitLog."),
    "messages": Entry("browse", "List messages by topic, queue, tag and time, newest first."),
    "export": Entry("export", "Write messages or entries to Parquet, JSON lines or CSV."),
    "usage": Entry("browse", "Show which topics, queues and hours fill the disk."),
    "groups": Entry("groups", "Show how far consumer groups are, and their lag."),
    "dump": Entry("browse", "Show the fields of any file of a store, byte by byte."),
    "diff": Entry("diff", "Tell whether two indexes, logs or stores hold the same."),
    "verify": Entry("audit", "Check an index byte by byte and against its CommitLog."),
    "plot": Entry("audit", "Plot slot usage, chain lengths and store times."),
    "rebuild": Entry("rebuild", "Rebuild the index of a store from its CommitLog."),
    "expire": Entry("maintenance", "Delete IndexFiles whose messages have expired."),
    "relayout": Entry("maintenance", "Change the number of slots and entries per IndexFile."),
    "rebuild-queues": Entry("rebuild", "Rebuild the ConsumeQueues of a store from its CommitLog."),
    "recover": Entry("maintenance", "Undo a write that was interrupted."),
}


def load(name: str) -> click.Command:
    """Import a command of the list."""
    module = import_module(f"rmqindex.cli.commands.{COMMANDS[name].module}")
    command: click.Command = getattr(module, name.replace("-", "_"))
    return command


class _CommandGroup(click.Group):
    """Loads the module of a command when the command is used."""

    context_class = Context

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands, for the help and for shell completion."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        """Import a command."""
        return load(cmd_name) if cmd_name in COMMANDS else None

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the command that the arguments name, or suggest one."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if near := get_close_matches(args[0], COMMANDS, 1):
                ctx.fail(f"{error.message} Did you mean {near[0]!r}?")
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  (click's own signature)
        """Run a command, and write out its answer."""
        try:
            return super().invoke(ctx)
        except click.UsageError as error:
            raise reworded(error) from error
        except RmqIndexError as error:
            name = ctx.invoked_subcommand
            complain(error_text(error, load(name)) if name in COMMANDS else str(error))
            raise click.exceptions.Exit(_BAD) from error
        except KeyboardInterrupt:
            raise click.exceptions.Exit(_INTERRUPTED) from None
        finally:
            sys.stdout.flush()


def _print_completion(ctx: click.Context, _param: click.Parameter, shell: str | None) -> None:
    if shell is None:
        return
    from click.shell_completion import get_completion_class  # noqa: PLC0415  (few ask for it)

    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(ctx.command, {}, _NAME, f"_{_NAME.upper()}_COMPLETE").source())
    ctx.exit()


def _print_manual(ctx: click.Context, _param: click.Parameter, is_asked: bool) -> None:
    if not is_asked:
        return
    from rmqindex.cli.manual import manual_page  # noqa: PLC0415  (few ask for it)

    summary = "inspect and repair the IndexFiles, CommitLogs and ConsumeQueues of RocketMQ"
    click.echo(manual_page(ctx.command, {name: load(name) for name in COMMANDS}, summary), nl=False)
    ctx.exit()


@click.group(
    cls=_CommandGroup,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Completion, for this shell or in its profile:\n\n\b\n"
    '  eval "$(rmqindex --completion bash)"',
)
@click.option(
    "--completion",
    metavar="SHELL",
    type=click.Choice(_SHELLS),
    is_eager=True,
    expose_value=False,
    callback=_print_completion,
    help="Print the script that completes commands and options in bash, zsh or fish, and exit.",
)
@click.option(
    "--man",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_manual,
    help="Print the manual page, for `man -l -`, and exit.",
)
@click.version_option(
    package_name="rmqindex",
    message="rmqindex %(version)s",
    help="Print the version and exit.",
)
@click.pass_context
def _rmqindex(ctx: click.Context) -> None:
    """Inspect and repair Apache RocketMQ IndexFiles, CommitLogs and ConsumeQueues.

    Neither a broker nor Spark is needed.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help(), err=True)
        ctx.exit(_BAD)


def run() -> None:
    """Run the command line, with an error as one line on standard error."""
    if not open_streams():
        complain("standard output: expected a file, a pipe or a terminal, found it closed")
        sys.exit(_BAD)
    try:
        _rmqindex(prog_name=_NAME)
    except OutputError as error:
        drop_output()
        if error.is_unread:
            sys.exit(_PIPE_CLOSED)
        complain(str(error))
    except RmqIndexError as error:
        complain(str(error))
    except OSError as error:
        complain(_failure(error))
    sys.exit(_BAD)


def _failure(error: OSError) -> str:
    """Return what failed where; the lack of a working directory is an error without a path."""
    if error.filename:
        return f"{error.filename}: {error.strerror}"
    try:
        os.getcwd()  # noqa: PTH109  (no path is made of it)
    except FileNotFoundError:
        return (
            ".: expected the working directory of relative paths, found it deleted; change to one "
            "that is there, or give absolute paths"
        )
    return str(error)
