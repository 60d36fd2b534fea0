"""Results for people, for build servers (JUnit), and as data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any
from xml.etree import ElementTree as ET

from rmq_index_conformance.run import FAILED, SKIPPED

if TYPE_CHECKING:
    from rmq_index_conformance.archive import Archive
    from rmq_index_conformance.run import Outcome

_MAX_FAILURES = 40
# What XML 1.0 cannot hold.
_NOT_XML = re.compile(r"[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def summary(outcome: Outcome, archive: Archive, *, everything: bool = False) -> str:
    """Return what a person wants to know.

    Args:
        outcome: The results.
        archive: The vectors.
        everything: Whether all failures are listed, and not some.
    """
    claims, totals = outcome.claims, outcome.totals
    lines = [
        f"{claims.name} {claims.version}".strip(),
        f"claims {', '.join(claims.classes) or 'no class'}",
        f"editions {', '.join(claims.editions) or 'none'}",
        f"vectors {archive.manifest['version']}, manifest {archive.digest[:16]}",
        "",
        f"{'class':<24}{'passed':>8}{'failed':>8}{'skipped':>9}",
    ]
    for name, counts in outcome.by_class.items():
        lines.append(f"{name:<24}{counts.passed:>8}{counts.failed:>8}{counts.skipped:>9}")
    lines.append(f"{'all':<24}{totals.passed:>8}{totals.failed:>8}{totals.skipped:>9}")
    met, asked = requirements_met(as_data(outcome, archive))
    known = len(archive.manifest["requirements"])
    lines += ["", f"requirements: {met} of the {asked} asked are met; {known} in the text"]
    broken = {name: c for name, c in outcome.by_requirement.items() if c.failed}
    texts = {each["name"]: each["text"] for each in archive.manifest["requirements"]}
    for name, counts in sorted(broken.items()):
        total = counts.failed + counts.passed
        lines += [f"  {name}: {counts.failed} of {total} failed", f"    {texts.get(name, '')}"]
    if outcome.skips:
        lines += ["", "skipped:"]
        lines += [f"  {count:>5}  {why}" for why, count in outcome.skips.most_common()]
    failures = [result for result in outcome.results if result.status == FAILED]
    if failures:
        lines += ["", "failed:"]
        shown = failures if everything else failures[:_MAX_FAILURES]
        for result in shown:
            lines += [f"  {result.case.name}", f"    {result.why}"]
        if len(shown) < len(failures):
            lines.append(f"  and {len(failures) - len(shown)} more; --all lists them")
    lines += ["", f"{totals.passed} passed, {totals.failed} failed, {totals.skipped} skipped"]
    return "\n".join(lines)


def as_data(outcome: Outcome, archive: Archive) -> dict[str, Any]:
    """Return the results as a JSON document: counts, and each failure."""
    return {
        "name": outcome.claims.name,
        "version": outcome.claims.version,
        "classes": list(outcome.claims.classes),
        "editions": list(outcome.claims.editions),
        "operations": list(outcome.claims.operations),
        "vectors": archive.manifest["version"],
        "manifest": archive.digest,
        "totals": vars(outcome.totals),
        "by_class": {name: vars(counts) for name, counts in outcome.by_class.items()},
        "by_requirement": {
            name: vars(counts) for name, counts in sorted(outcome.by_requirement.items())
        },
        "skips": dict(outcome.skips),
        "failures": [
            {
                "case": result.case.name,
                "requirements": list(result.case.requirements),
                "why": result.why,
            }
            for result in outcome.results
            if result.status == FAILED
        ],
    }


def requirements_met(data: dict[str, Any], prefix: str = "") -> tuple[int, int]:
    """Return how many requirements are met, and how many were asked.

    Args:
        data: What :func:`as_data` returned.
        prefix: What their names begin with.
    """
    asked = [
        counts
        for name, counts in data["by_requirement"].items()
        if name.startswith(prefix) and counts["passed"] + counts["failed"]
    ]
    return sum(not counts["failed"] for counts in asked), len(asked)


def as_badge(data: dict[str, Any]) -> dict[str, Any]:
    """Return what an endpoint badge of shields.io is drawn from.

    Args:
        data: What :func:`as_data` returned.
    """
    met, asked = requirements_met(data)
    return {
        "schemaVersion": 1,
        "label": f"RocketMQ index {data['vectors']}",
        "message": f"{met} of {asked} requirements",
        "color": "brightgreen" if met == asked else "orange",
    }


def as_junit(outcome: Outcome) -> bytes:
    """Return a JUnit file: one suite a vector, one test a case, its requirements as properties."""
    claims, totals = outcome.claims, outcome.totals
    root = ET.Element(
        "testsuites",
        name=_text(f"{claims.name} {claims.version}"),
        tests=str(len(outcome.results)),
        failures=str(totals.failed),
        skipped=str(totals.skipped),
    )
    suites: dict[str, ET.Element] = {}
    for result in outcome.results:
        case = result.case
        suite = suites.get(case.vector)
        if suite is None:
            suite = suites[case.vector] = ET.SubElement(root, "testsuite", name=_text(case.vector))
        test = ET.SubElement(
            suite,
            "testcase",
            classname=_text(f"{case.vector}.{case.conformance_class or 'every_class'}"),
            name=_text(case.name),
            time=f"{result.seconds:.3f}",
        )
        if case.requirements:
            properties = ET.SubElement(test, "properties")
            for name in case.requirements:
                ET.SubElement(properties, "property", name="requirement", value=name)
        if result.status == FAILED:
            failure = ET.SubElement(test, "failure", message=_text(result.why))
            failure.text = _text(f"requirements: {', '.join(case.requirements)}\n{result.why}")
        elif result.status == SKIPPED:
            ET.SubElement(test, "skipped", message=_text(result.why))
    for suite in suites.values():
        for name, tag in (("tests", "testcase"), ("failures", "failure"), ("skipped", "skipped")):
            suite.set(name, str(len(list(suite.iter(tag)))))
    return b'<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="utf-8")


def _text(value: str) -> str:
    return _NOT_XML.sub(lambda match: f"\\u{ord(match[0]):04x}", value)
