"""Draw ``spec/figures/layout.svg`` from the bytes of the worked example.

``python spec/tools/make_figures.py [FILE]`` writes the same file every time.
"""

from __future__ import annotations

import json
import sys
from html import escape
from pathlib import Path

SPEC = Path(__file__).resolve().parents[1]
VECTOR = SPEC / "vectors" / "accept" / "worked_example.json"

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
.paper { fill: #ffffff; stroke: none; }
"""


ARROW_HEAD = (
    '<defs><marker id="head" markerWidth="9" markerHeight="9" refX="8" refY="4.5" '
    'orient="auto"><path class="arrow" d="M0,0 L9,4.5 L0,9 z"/></marker></defs>'
)
OPENING = (
    f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" '
    'role="img" aria-label="Layout of an IndexFile">'
)


class Drawing:
    """A list of SVG elements."""

    def __init__(self) -> None:
        """Begin with an arrow head and a white background."""
        self.parts = [
            ARROW_HEAD,
            f'<rect class="paper" width="{WIDTH}" height="{HEIGHT}"/>',
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

    def svg(self) -> str:
        """Return the whole picture."""
        return "\n".join(
            [
                OPENING,
                f"<style>{STYLE}</style>",
                *self.parts,
                "</svg>\n",
            ]
        )


def draw(vector: dict) -> str:
    """Return the figure for a vector."""
    drawing = Drawing()
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


def main(path: Path) -> None:
    """Write the figure."""
    path.parent.mkdir(exist_ok=True)
    path.write_text(draw(json.loads(VECTOR.read_text(encoding="ascii"))), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else SPEC / "figures" / "layout.svg")
