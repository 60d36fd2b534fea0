"""The pages on implementations, from what ``status.py`` found when it ran them.

One for all, one for each with its failures and their reasons, one for each requirement, and what
badges are drawn from.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SPEC = HERE.parent
sys.path[:0] = [str(HERE), str(SPEC / "kit")]

import spectext  # noqa: E402
from rmq_index_conformance.cases import CLASSES  # noqa: E402
from rmq_index_conformance.report import as_badge, requirements_met  # noqa: E402

DATA = SPEC / "kit" / "status.json"
EXPLANATIONS = SPEC / "kit" / "explanations.json"
#: What was run, in words, in the order of the pages.
IMPLEMENTATIONS = {
    "rmqindex": "this project's package, by its public names",
    "rocketmq-5.5.1": "`org.apache.rocketmq:rocketmq-store:5.5.1`",
    "rocketmq-5.3.3": "`org.apache.rocketmq:rocketmq-store:5.3.3`",
    "rocketmq-4.9.8": "`org.apache.rocketmq:rocketmq-store:4.9.8`",
    "alibaba-3.2.6": "`com.alibaba.rocketmq:rocketmq-store:3.2.6` of 2015, before Apache",
    "rocketmq-rust": (
        "the crate `rocketmq-store-local` 1.0.0, put together as the crate `rocketmq-store` does"
    ),
    "kaitai": "the parser made of `spec/indexfile.ksy`",
    "oracle": "the steps of the text as a program, from which the mutants are made",
}
#: Chapters by the first part of their requirements' names, with their pages.
CHAPTERS = {
    "IDX": ("index", "index.md"),
    "LOG": ("CommitLog", "commitlog.md"),
    "CQ": ("ConsumeQueue", "consumequeue.md"),
    "CHK": ("checkpoint", "checkpoint.md"),
    "MID": ("message ids", "message-ids.md"),
}
#: Versions of one implementation, the oldest first.
VERSIONS = ("rocketmq-4.9.8", "rocketmq-5.3.3", "rocketmq-5.5.1")
_SHOWN = 100
_CLASSES = (*CLASSES, "every class")

Run = dict[str, Any]


def pages() -> dict[str, str]:
    """Return the pages by their paths in ``spec``."""
    runs = _runs()
    return {
        "implementation-status.md": _overview(runs),
        **{f"status/{name}.md": _page_of(name, ran) for name, ran in runs.items()},
        "status/requirements.md": _by_requirement(runs),
    }


def badges() -> dict[str, str]:
    """Return what shields.io draws badges from, by the names of the implementations."""
    return {name: json.dumps(as_badge(ran)) for name, ran in _runs().items()}


def explanation_of(name: str, failure: dict[str, Any]) -> dict[str, Any]:
    """Return the explanation of a failure.

    Raises:
        ValueError: Nobody has explained it.
    """
    for each in json.loads(EXPLANATIONS.read_text(encoding="utf-8")):
        if (
            re.fullmatch(each["implementation"], name)
            and re.search(each["case"], failure["case"])
            and re.search(each["why"], failure["why"])
        ):
            return dict(each)
    raise ValueError(
        f"{name}: {failure['case']}: {failure['why']}: no explanation in {EXPLANATIONS}"
    )


def _runs() -> dict[str, Run]:
    runs = json.loads(DATA.read_text(encoding="ascii"))["runs"]
    return {name: runs[name] for name in IMPLEMENTATIONS if name in runs}


def _overview(runs: dict[str, Run]) -> str:
    totals = [["Implementation", "Editions", "Passed", "Failed", "Skipped", "Requirements met"]]
    for name, ran in runs.items():
        counts = (str(ran["totals"][each]) for each in ("passed", "failed", "skipped"))
        met = "{} of {}".format(*requirements_met(ran))
        totals.append([_link(name), ", ".join(ran["editions"]), *counts, met])
    chapters = [["Implementation", *(_chapter(each) for each in CHAPTERS)]]
    for name, ran in runs.items():
        chapters.append([_link(name), *(_met(ran, f"{each}-") for each in CHAPTERS)])
    classes = [["Implementation", *(each.replace("_", " ") for each in _CLASSES)]]
    for name, ran in runs.items():
        counts = (_cell(ran["by_class"].get(each)) for each in _CLASSES)
        classes.append([_link(name), *counts])
    known = _known()
    total = ", ".join(f"{known[each]} of {_chapter(each)}" for each in CHAPTERS)
    first = next(iter(runs.values()))
    lines = [
        "# Implementation status",
        "",
        f"{sum(first['totals'].values())} cases, of version {first['vectors']} of the vectors.",
        "The [kit](conformance-kit.md) put them to each; `python spec/tools/status.py run` does.",
        "",
        *_table(totals),
        "",
        "Skipped is what an implementation does not claim: an operation, a class or an edition.",
        "Each has a page with its failures and their reasons.",
        "Another page has [each requirement](status/requirements.md).",
        "",
        "## By chapter",
        "",
        f"Requirements that were put to each, and how many of them it met; there are {total}.",
        "",
        *_table(chapters),
        "",
        "## By class",
        "",
        "Passed cases of each class that is claimed, and failed ones in bold.",
        "",
        *_table(classes),
        "",
        *_trend({name: runs[name] for name in VERSIONS if name in runs}),
        "## Badges",
        "",
        "shields.io draws one from `badges/rmqindex.json` of this site, and so on for each page.",
        "The kit writes one for any program with `--badge FILE`.",
        "",
        "```{toctree}",
        ":hidden:",
        "",
        *(f"status/{name}" for name in runs),
        "status/requirements",
        "```",
        "",
    ]
    return "\n".join(lines)


def _trend(runs: dict[str, Run]) -> list[str]:
    """What became of the requirements from version to version."""
    rows = [["RocketMQ", *(ran["version"] for ran in runs.values())]]
    rows += [
        [_chapter(each), *(_met(ran, f"{each}-") for ran in runs.values())] for each in CHAPTERS
    ]
    rows.append(["all", *(_met(ran) for ran in runs.values())])
    rows.append(["cases that fail", *(str(ran["totals"]["failed"]) for ran in runs.values())])
    lines = ["## Trend", "", "Requirements met, of those asked, by version.", "", *_table(rows), ""]
    for before, after in pairwise(runs.values()):
        was, now = _is_met(before), _is_met(after)
        for told, each in (
            ("Met, and not before", [name for name in now if now[name] > was.get(name, True)]),
            ("No longer met", [name for name in now if now[name] < was.get(name, False)]),
            ("Asked for the first time", [name for name in now if name not in was]),
        ):
            if each:
                lines.append(f"- {told} in {after['version']}: {', '.join(each)}.")
    return [*lines, ""]


def _page_of(name: str, ran: Run) -> str:
    """The page of one implementation."""
    known, is_met = _known(), _is_met(ran)
    chapters = [["Chapter", "In the text", "Asked", "Met", "Not met"]]
    for each in CHAPTERS:
        met, asked = requirements_met(ran, f"{each}-")
        missed = [name for name in is_met if name.startswith(f"{each}-") and not is_met[name]]
        row = [str(known[each]), str(asked), str(met), ", ".join(missed)]
        chapters.append([_chapter(each, "../"), *row])
    classes = [["Class", "Passed", "Failed", "Skipped"]]
    for each in _CLASSES:
        if counts := ran["by_class"].get(each):
            numbers = (str(counts[part]) for part in ("passed", "failed", "skipped"))
            classes.append([each.replace("_", " "), *numbers])
    totals = ran["totals"]
    lines = [
        f"# {_title(ran)}",
        "",
        f"What was run: {IMPLEMENTATIONS[name]}.",
        f"Claimed editions: {', '.join(ran['editions'])}.",
        f"{totals['passed']} cases passed, {totals['failed']} failed, {totals['skipped']} skipped.",
        "",
        "## By chapter",
        "",
        *_table(chapters),
        "",
        "## By class",
        "",
        *_table(classes),
        "",
        *_failures(name, ran),
        *_skipped(ran),
    ]
    return "\n".join(lines).rstrip() + "\n"


def _failures(name: str, ran: Run) -> list[str]:
    """Every failed case below its reason, and the reasons by chapter."""
    reasons: dict[str, list[dict[str, Any]]] = {}
    texts: dict[str, str] = {}
    for failure in ran["failures"]:
        found = explanation_of(name, failure)
        texts[found["says"]] = found["reproduce"]
        reasons.setdefault(found["says"], []).append(failure)
    lines = ["## Failures", ""] if reasons else []
    ordered = sorted(reasons.items(), key=lambda item: _chapter_of(item[1]))
    for place, chapter in groupby(ordered, key=lambda item: _chapter_of(item[1])):
        told = list(CHAPTERS.values())[place][0]
        lines += [f"### {told[0].upper()}{told[1:]}", ""]
        for says, failures in chapter:
            names = sorted({each for failure in failures for each in failure["requirements"]})
            count = f"{len(failures)} cases" if len(failures) > 1 else "1 case"
            lines += [
                f"**{count}**: {_by_sentence(_from_below(says))}",
                *([f"Requirements: {', '.join(names)}."] if names else []),
                "",
                f"To reproduce: {_by_sentence(_from_below(texts[says]))}",
                "",
                *(f"- `{each['case']}`:\n  `{_shown(each['why'])}`" for each in failures),
                "",
            ]
    return lines


def _chapter_of(failures: list[dict[str, Any]]) -> int:
    """Return the place of the chapter that most of the requirements are of."""
    names = [
        name
        for failure in failures
        for name in failure["requirements"] or _of_vector(failure["case"].partition(":")[0])
    ]
    counts = Counter(name.partition("-")[0] for name in names)
    return list(CHAPTERS).index(counts.most_common(1)[0][0])


def _of_vector(name: str) -> list[str]:
    return list(spectext.vectors()[name]["requirements"])


def _skipped(ran: Run) -> list[str]:
    if not ran["skips"]:
        return []
    rows = [["Why", "Cases"]]
    ordered = sorted(ran["skips"].items(), key=lambda item: -item[1])
    rows += [[why, str(count)] for why, count in ordered]
    return ["## Skipped", "", *_table(rows)]


def _by_requirement(runs: dict[str, Run]) -> str:
    names = list(dict.fromkeys(name for ran in runs.values() for name in ran["by_requirement"]))
    rows = [["Requirement", *(f"[{name}]({name}.md)" for name in runs)]]
    rows += [
        [name, *(_cell(ran["by_requirement"].get(name)) for ran in runs.values())] for name in names
    ]
    lines = [
        "# Each requirement",
        "",
        "Passed cases, and failed ones in bold; nothing where no case was asked.",
        "",
        *_table(rows),
    ]
    return "\n".join(lines) + "\n"


def _known() -> Counter[str]:
    return Counter(each.name.partition("-")[0] for each in spectext.requirements())


def _is_met(ran: Run) -> dict[str, bool]:
    """Return each requirement that was asked, and whether it is met."""
    return {
        name: not counts["failed"]
        for name, counts in ran["by_requirement"].items()
        if counts["passed"] + counts["failed"]
    }


def _met(ran: Run, prefix: str = "") -> str:
    met, asked = requirements_met(ran, prefix)
    return f"{met} of {asked}" if asked else ""


def _title(ran: Run) -> str:
    text = f"{ran['name']} {ran['version']}"
    return text[0].upper() + text[1:] if text.startswith("the ") else text


def _link(name: str) -> str:
    return f"[{name}](status/{name}.md)"


def _chapter(name: str, folder: str = "") -> str:
    told, page = CHAPTERS[name]
    return f"[{told}]({folder}{page})"


def _cell(counts: dict[str, int] | None) -> str:
    if counts is None or not counts["passed"] + counts["failed"]:
        return ""
    failed = f", **{counts['failed']}**" if counts["failed"] else ""
    return f"{counts['passed']}{failed}"


def _table(rows: list[list[str]]) -> list[str]:
    first, *rest = rows
    return [f"| {' | '.join(row)} |" for row in (first, ["---"] * len(first), *rest)]


def _from_below(text: str) -> str:
    """Let links to pages of the specification lead there from a folder below."""
    return re.sub(r"\]\((?=[\w-]+\.md)", "](../", text)


def _by_sentence(text: str) -> str:
    """Put each sentence on a line of its own."""
    return text.replace(". ", ".\n")


def _shown(text: str) -> str:
    cut = f"{text[:_SHOWN]}.." if len(text) > _SHOWN else text
    return cut.replace("`", "'")
