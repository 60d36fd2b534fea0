"""The page of inputs: for each vector whose bytes are printed, what makes the bytes anew.

``python spec/tools/example_inputs.py`` writes ``spec/examples.md`` anew.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import spectext  # noqa: E402
from mutations import BROKEN, LEGAL, Mutation  # noqa: E402

PAGE = spectext.SPEC / "examples.md"
HEAD = """# Inputs of the examples

Each block of bytes in this document names a vector.
Here is what makes its file anew: the geometry, the seed and the puts.
Code units outside of printable ASCII are written `\\uxxxx`.
`reopen` closes the file and opens it again.
Unless another beginning is named, a file is made by [create](file-operations.md#create),
[put](file-operations.md#put) and [close](file-operations.md#flush-and-close)."""
_CHANGES = {mutation.name: mutation for mutation in (*LEGAL, *BROKEN)}


def printed() -> list[str]:
    """Return the vectors whose bytes are printed, by the order in which they come first."""
    vectors = spectext.vectors()
    found = [name for page in spectext.pages() for name, _ in spectext.hex_blocks(page)]
    return list(dict.fromkeys(name for name in found if vectors[name]["kind"] == "file"))


def escaped(text: str) -> str:
    """Return a text in printable ASCII."""
    return re.sub(
        r"[^ -~]|[`|\\]",
        lambda match: "".join(
            f"\\u{unit:04x}" for unit in memoryview(match[0].encode("utf-16-le")).cast("H")
        ),
        text,
    )


def section(name: str, vector: dict[str, Any]) -> str:
    """Return the inputs of one vector in Markdown."""
    short = name.partition("/")[2]
    lines = [f"## {short}", ""]
    change = _CHANGES.get(short)
    if change:
        lines += [_changed(change)]
        return "\n".join(lines)
    lines += [f"`S` = {vector['hash_slot_num']}, `N` = {vector['index_num']}"]
    writer = vector.get("writer")
    if writer is None:
        lines[-1] += "; " + _UNFINISHED[short]
        return "\n".join(lines)
    if "resume_hex" in writer:
        lines[-1] += "; the file to go on with:"
        lines += ["", "```text", *_rows(writer["resume_hex"]), "```"]
    else:
        seed = f"{writer['prev_end_phy_offset']}, {writer['prev_end_timestamp']}"
        lines[-1] += f"; create({seed})"
    if writer["puts"]:
        lines += ["", "| index key | offset | store time |", "|---|---|---|"]
    for put in writer["puts"]:
        if "reopen" in put:
            lines.append("| reopen | | |")
            continue
        key = f"`{escaped(put['key'])}`" if put["key"] else "(empty)"
        lines.append(f"| {key} | {put['phy_offset']} | {put['store_timestamp']} |")
    return "\n".join(lines)


_UNFINISHED = {
    "empty_before_flush": "create(0, 0), not closed",
    "empty_inherited_before_flush": "create(987654321, 1700000000000), not closed",
    "two_files_of_one_millisecond": (
        "create(0, 0); put `a`, 1000, 1700000001000; put `b`, 2000, 1700000002000.\n"
        "The same bytes are then taken for a new file: the seed 2000, 1700000002000 is written as "
        "by steps 3 and 4 of create, and put `c`, 3000, 1700000003000 is done with an "
        "`index_count` of 1 and a `hash_slot_count` of 0.\n"
        "At last the header from before the seed is written again."
    ),
}


def _changed(change: Mutation) -> str:
    base = f"[{change.base}](#{change.base.replace('_', '-')})"
    what = [f"{base} with these bytes written over:"]
    for at, form, value in change.changes:
        size = {"i": 4, "q": 8}[form[1]]
        what.append(f"| {at} | i{8 * size} | {value} |")
    slots, places = change.geometry
    return "\n".join(
        [
            f"`S` = {slots}, `N` = {places}; {what[0]}",
            "",
            "| byte | type | value |",
            "|---|---|---|",
            *what[1:],
        ]
    )


def _rows(text: str) -> list[str]:
    return [text[start : start + 64] for start in range(0, len(text), 64)]


def page() -> str:
    """Return the page."""
    vectors = spectext.vectors()
    names = printed()
    bases = [
        f"accept/{_CHANGES[name.partition('/')[2]].base}"
        for name in names
        if name.partition("/")[2] in _CHANGES
    ]
    every = list(dict.fromkeys([*names, *bases]))
    return "\n\n".join([HEAD, *(section(name, vectors[name]) for name in every)]) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
