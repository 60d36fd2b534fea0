"""What pages say that the code knows: options, commands, audit rules, reasons."""

from __future__ import annotations

import inspect
import re
from typing import TYPE_CHECKING

import click

from pyspark_rmqindex.options import OPTIONS, scopes_of
from rmqindex import AUDIT_RULES, EXPLAIN_REASONS
from rmqindex.cli.command import load
from rmqindex.cli.invocation import Argument, Context

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


#: The headings of the options page, and the options below each.
OPTION_GROUPS = {
    "What to read": (
        "path",
        "pathGlobFilter",
        "recursiveFileLookup",
        "ignoreMissingFiles",
        "storeColumn",
        "columns",
        "mode",
        "maxHashSlotNum",
        "maxIndexNum",
        "audit",
    ),
    "Keys": ("topic", "key", "keys", "keyHash", "pushdown"),
    "Times": ("beginTimestamp", "endTimestamp", "timeZone", "maxClockStep"),
    "Messages": (
        "commitLog",
        "unverified",
        "message",
        "decompressBody",
        "bodyText",
        "maxBodySize",
        "checkCrc",
        "queueId",
        "tags",
        "beginOffset",
        "endOffset",
    ),
    "Writing": (
        "checkpoint",
        "indexTags",
        "indexMembers",
        "onIndexed",
        "brokerRedispatch",
        "allowOverlap",
        "allowLiveStore",
    ),
    "Streams": (
        "startingPosition",
        "failOnDataLoss",
        "maxEntriesPerTrigger",
        "maxFilesPerTrigger",
        "maxMessagesPerTrigger",
        "maxBytesPerTrigger",
    ),
    "Partitions and logs": ("maxPartitionBytes", "logLevel"),
    "Object storage": tuple(option.name for option in OPTIONS if option.name.startswith("fs.s3a.")),
}


def option_group_text(heading: str) -> str:
    """Return a Markdown definition list of the options below a heading."""
    by_name = {option.name: option for option in OPTIONS}
    return "\n".join(_item(by_name[name]) for name in OPTION_GROUPS[heading])


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
    rows = [
        f"| `{rule.name}` | {rule.severity} | {rule.meaning} | {rule.remedy} |"
        for rule in AUDIT_RULES
    ]
    head = ["| rule | severity | what a finding says | what to do |", "|---|---|---|---|"]
    return "\n".join([*head, *rows])


def explain_reasons_text() -> str:
    """Return a Markdown table of the reasons of an explained lookup."""
    rows = [f"| `{name}` | {meaning} |" for name, meaning in EXPLAIN_REASONS.items()]
    return "\n".join(["| reason | what it means |", "|---|---|", *rows])


def command_text(name: str) -> str:
    """Return what a command's ``--help`` says, as Markdown."""
    command = load(name)
    context = Context(command, info_name=f"rmqindex {name}")
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    terms = [term for param in command.get_params(context) if (term := _term(param, context))]
    described = inspect.cleandoc(command.help or "").replace("\b\n", "")
    parts = [
        f"```text\n{usage}\n```",
        _escaped(described),
        "\n".join(f"`{term}`\n: {_escaped(text)}\n" for term, text in terms),
        _examples(command.epilog or ""),
    ]
    return "\n\n".join(part for part in parts if part)


def _term(param: click.Parameter, context: click.Context) -> tuple[str, str] | None:
    if isinstance(param, Argument):
        return param.human_readable_name, param.text
    is_help = isinstance(param, click.Option) and "--help" in param.opts
    return None if is_help else param.get_help_record(context)


def _examples(epilog: str) -> str:
    """Return the end of a help, whose indented lines are commands."""
    _, _, body = epilog.partition("\b\n")
    lines, _, note = body.partition("\n\n")
    commands = "\n".join(line.removeprefix("  ") for line in lines.splitlines())
    return f"```bash\n{commands}\n```\n\n{_escaped(note)}".rstrip()


def _escaped(text: str) -> str:
    """Return plain text as Markdown that shows it, with the names of options as code."""
    text = re.sub(r"(?<!\S)(--[a-z][a-z-]+)", r"\0\1\0", text)
    return re.sub(r"([\\\[\]<>*_`|])", r"\\\1", text).replace("\0", "`")
