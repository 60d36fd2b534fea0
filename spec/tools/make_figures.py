"""Draw ``spec/figures`` from the bytes of the worked example.

``python spec/tools/make_figures.py [DIRECTORY]`` writes the same files every time.
"""

from __future__ import annotations

import argparse
import json
from html import escape
from pathlib import Path

SPEC = Path(__file__).resolve().parents[1]
VECTOR = SPEC / "vectors" / "accept" / "worked_example.json"
HEADER_FIELDS = (
    ("begin_timestamp", 8),
    ("end_timestamp", 8),
    ("begin_phy_offset", 8),
    ("end_phy_offset", 8),
    ("hash_slot_count", 4),
    ("index_count", 4),
)
ENTRY_FIELDS = (("key_hash", 4), ("phy_offset", 8), ("time_diff", 4), ("prev_position", 4))
# The slot of the worked example whose chain is drawn.
CHAINED_SLOT = 4

WIDTH, HEIGHT = 820, 500
LEFT = 56
STYLE = """
text { font: 13px ui-sans-serif, system-ui, sans-serif; fill: #1f2328; }
.title { font-weight: 600; }
.small { font-size: 11px; fill: #59636e; }
.number { font-family: ui-monospace, monospace; }
rect { stroke: #59636e; }
.header { fill: #dbeafe; }
.slot { fill: #dcfce7; }
.entry { fill: #fef3c7; }
.unused { fill: #eeeeee; }
path { fill: none; stroke: #b42318; stroke-width: 1.6; }
.arrow { fill: #b42318; stroke: none; }
.brace { stroke: #59636e; stroke-width: 1; }
.paper { fill: #ffffff; stroke: none; }
"""


ARROW_HEAD = (
    '<defs><marker id="head" markerWidth="9" markerHeight="9" refX="8" refY="4.5" '
    'orient="auto"><path class="arrow" d="M0,0 L9,4.5 L0,9 z"/></marker></defs>'
)
CELL = 36


class Drawing:
    """A list of SVG elements."""

    def __init__(self, label: str, height: int, width: int = WIDTH) -> None:
        """Begin with an arrow head and a white background."""
        self.opening = (
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'role="img" aria-label="{escape(label)}">'
        )
        self.parts = [
            ARROW_HEAD,
            f'<rect class="paper" width="{width}" height="{height}"/>',
        ]

    def text(self, x: float, y: float, text: str, kind: str = "", anchor: str = "start") -> None:
        """Write a line of text."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" class="{kind}" text-anchor="{anchor}">{escape(text)}</text>'
        )

    def box(self, x: float, y: float, width: float, kind: str, above: str, below: str) -> None:
        """Draw a field with its name and its value."""
        self.parts.append(
            f'<rect class="{kind}" x="{x:g}" y="{y:g}" width="{width:g}" height="44"/>'
        )
        self.text(x + width / 2, y + 17, above, "small", "middle")
        self.text(x + width / 2, y + 35, below, "number", "middle")

    def arrow(self, points: str) -> None:
        """Draw an arrow along an SVG path."""
        self.parts.append(f'<path d="{points}" marker-end="url(#head)"/>')

    def cells(self, x: float, y: float, data: bytes, kind: str, first: int) -> None:
        """Draw bytes, one a cell, with the number of each above it."""
        for place, byte in enumerate(data):
            left = x + CELL * place
            self.text(left + CELL / 2, y - 5, str(first + place), "small", "middle")
            self.parts.append(
                f'<rect class="{kind}" x="{left:g}" y="{y:g}" width="{CELL}" height="28"/>'
            )
            self.text(left + CELL / 2, y + 19, f"{byte:02x}", "number", "middle")

    def brace(self, x: float, y: float, cells: int, name: str, value: str) -> None:
        """Name the field that some cells are."""
        right = x + CELL * cells
        self.parts.append(f'<path class="brace" d="M{x + 3:g},{y:g} v6 H{right - 3:g} v-6"/>')
        middle = (x + right) / 2
        self.text(middle, y + 21, name, "small title", "middle")
        self.text(middle, y + 36, value, "small", "middle")

    def svg(self) -> str:
        """Return the whole picture."""
        return "\n".join(
            [
                self.opening,
                f"<style>{STYLE}</style>",
                *self.parts,
                "</svg>\n",
            ]
        )


def draw_header(vector: dict) -> str:
    """Return the figure of the 40 bytes of a header."""
    data = bytes.fromhex(vector["hex"])[:40]
    drawing = Drawing("The header, byte by byte", 540, 400)
    drawing.text(LEFT, 28, "Header: bytes 0 to 39 of the file", "title")
    at = row = 0
    x = float(LEFT)
    for name, size in HEADER_FIELDS:
        y = 62 + 98 * row
        drawing.cells(x, y, data[at : at + size], "header", at)
        drawing.brace(x, y + 33, size, name, f"i{8 * size} = {vector['header'][name]}")
        at += size
        x = LEFT if at % 8 == 0 else LEFT + CELL * 4
        row = at // 8
    return drawing.svg()


def draw_slot(vector: dict) -> str:
    """Return the figure of the four bytes of a slot."""
    at = 40 + 4 * CHAINED_SLOT
    data = bytes.fromhex(vector["hex"])[at : at + 4]
    drawing = Drawing("A slot, byte by byte", 150, 400)
    drawing.text(LEFT, 28, f"Slot s: bytes 40 + 4 * s on (here s = {CHAINED_SLOT})", "title")
    drawing.cells(LEFT, 62, data, "slot", at)
    value = vector["slots"][CHAINED_SLOT]
    drawing.brace(LEFT, 95, 4, f"slot[{CHAINED_SLOT}]", f"i32 = {value}")
    return drawing.svg()


def draw_entry(vector: dict) -> str:
    """Return the figure of the twenty bytes of an entry."""
    entry = vector["entries"][-1]
    position = entry["position"]
    at = 40 + 4 * vector["hash_slot_num"] + 20 * position
    data = bytes.fromhex(vector["hex"])
    drawing = Drawing("An entry, byte by byte", 150)
    title = f"Entry p: bytes 40 + 4 * S + 20 * p on (here S = {vector['hash_slot_num']}, p = "
    drawing.text(LEFT, 28, f"{title}{position})", "title")
    x = float(LEFT)
    for name, size in ENTRY_FIELDS:
        drawing.cells(x, 62, data[at : at + size], "entry", at)
        drawing.brace(x, 95, size, name, f"i{8 * size} = {entry[name]}")
        at += size
        x += CELL * size
    return drawing.svg()


def draw_chain(vector: dict) -> str:
    """Return the figure of one chain, from its slot to its end."""
    entries = {entry["position"]: entry for entry in vector["entries"]}
    value = vector["slots"][CHAINED_SLOT]
    drawing = Drawing("A chain, from the newest entry to the oldest", 200)
    drawing.text(LEFT, 28, f"The chain of slot {CHAINED_SLOT}, newest entry first", "title")
    drawing.box(LEFT, 80, 90, "slot", f"slot[{CHAINED_SLOT}]", str(value))
    x = LEFT + 90
    position = value
    while position:
        entry = entries[position]
        left = x + 56
        drawing.arrow(f"M{x},102 H{left - 2}")
        drawing.text(left, 68, f"entry {position}, put {position}", "title")
        drawing.box(left, 80, 110, "entry", "key_hash", str(entry["key_hash"]))
        drawing.box(left + 110, 80, 90, "entry", "prev_position", str(entry["prev_position"]))
        slots = vector["hash_slot_num"]
        hashed = f"{entry['key_hash']} % {slots} = {CHAINED_SLOT}"
        drawing.text(left, 144, hashed, "small")
        x = left + 200
        position = entry["prev_position"]
    drawing.text(x + 12, 106, "0: the end")
    drawing.text(
        LEFT, 180, "A put writes its entry, with the slot's old value, then the slot.", "small"
    )
    return drawing.svg()


def draw_layout(vector: dict) -> str:
    """Return the figure of a whole file."""
    drawing = Drawing("Layout of an IndexFile", HEIGHT)
    slots, places = vector["hash_slot_num"], vector["index_num"]
    header, entries = vector["header"], vector["entries"]

    drawing.text(LEFT, 28, "Header: 40 bytes from byte 0", "title")
    x = LEFT
    for name, value in header.items():
        width = 130 if "count" not in name else 100
        drawing.box(x, 40, width, "header", name, str(value))
        x += width

    drawing.text(
        LEFT, 122, f"Slot table: S slots of 4 bytes from byte 40 (here S = {slots})", "title"
    )
    slot_x = []
    for slot, value in enumerate(vector["slots"]):
        slot_x.append(LEFT + 110 * slot)
        drawing.box(slot_x[slot], 134, 110, "slot", f"slot[{slot}] at {40 + 4 * slot}", str(value))

    base = 40 + 4 * slots
    drawing.text(
        LEFT,
        252,
        f"Entry table: N places of 20 bytes from byte 40 + 4 * S = {base} (here N = {places})",
        "title",
    )
    top = {place: 264 + 44 * place for place in range(places)}
    widths = (120, 150, 170, 110, 130)
    names = ("place", "key_hash", "phy_offset", "time_diff", "prev_position")
    drawing.box(LEFT, top[0], sum(widths), "unused", f"entry 0 at {base}", "never used, all zero")
    for entry in entries:
        place = entry["position"]
        x = LEFT
        for name, width in zip(names, widths, strict=True):
            if name == "place":
                drawing.box(
                    x, top[place], width, "unused", f"entry {place} at", str(base + 20 * place)
                )
            else:
                drawing.box(x, top[place], width, "entry", name, str(entry[name]))
            x += width
    right = LEFT + sum(widths)
    for slot, value in enumerate(vector["slots"]):
        if value:
            # Below the slot, along a lane of its own, to the left edge of the entry.
            lane = 190 + 9 * (slots - 1 - slot)
            start = slot_x[slot] + 55
            edge = 4 + 11 * (slots - 1 - slot)
            drawing.arrow(f"M{start},178 V{lane} H{edge} V{top[value] + 22} H{LEFT}")
    for entry in entries:
        if entry["prev_position"]:
            drawing.arrow(
                f"M{right},{top[entry['position']] + 22} h26 "
                f"V{top[entry['prev_position']] + 22} H{right + 2}"
            )
    return drawing.svg()


FIGURES = {
    "layout": draw_layout,
    "header": draw_header,
    "slot": draw_slot,
    "entry": draw_entry,
    "chain": draw_chain,
}


def main(directory: Path) -> None:
    """Write the figures."""
    directory.mkdir(exist_ok=True)
    vector = json.loads(VECTOR.read_text(encoding="ascii"))
    for name, draw in FIGURES.items():
        (directory / f"{name}.svg").write_text(draw(vector), encoding="utf-8")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description="Write the figures.")
    parser.add_argument("directory", nargs="?", type=Path, default=SPEC / "figures")
    main(parser.parse_args().directory)
