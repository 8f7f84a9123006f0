"""Draws the output of a terminal as an SVG that scrolls as the output was printed.

The file has no script and refers to no other file, so it can be shown as an image. Where animations
do not run, or are not wanted (`prefers-reduced-motion`), it shows the end of the output. It follows
`prefers-color-scheme`, and has a background of its own, so it is readable on any page.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

from rich.color import ColorType
from rich.style import Style
from rich.text import Text

CELL, LINE, FONT = 8.0, 18.0, 13.0
"""Width of a character, height of a line, size of the font."""
PADDING, BAR = 16.0, 30.0
"""Space around the text, and height of the title bar."""
HOLD_SECONDS = 15.0
"""For which the end is shown before the animation starts again."""
COLORS = {1: "red", 2: "green", 6: "cyan"}
"""ANSI colours in use, by number."""
STYLE = """
svg{--page:#0d1117;--bar:#21262d;--text:#d4dae0;--dim:#8b949e;--red:#ff7b72;--green:#56d364;--cyan:#76d9e6}
@media (prefers-color-scheme:light){svg{--page:#f6f8fa;--bar:#d8dee4;--text:#1f2328;--dim:#59636e;\
--red:#b91c1c;--green:#116329;--cyan:#0a5d7a}}
text{font:13px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;\
fill:var(--text);white-space:pre}
.bold{font-weight:700}.dim{fill:var(--dim)}.italic{font-style:italic}
.red{fill:var(--red)}.green{fill:var(--green)}.cyan{fill:var(--cyan)}
"""


@dataclass(frozen=True)
class Line:
    text: Text
    seconds: float
    """When the line appears."""


def draw(lines: Sequence[Line], *, title: str, columns: int, rows: int) -> str:
    width = columns * CELL + 2 * PADDING
    height = rows * LINE + 2 * PADDING + BAR
    top = BAR + PADDING
    texts = "\n".join(_text(line.text, index) for index, line in enumerate(lines))
    last = _offset(len(lines), rows)
    end = lines[-1].seconds + HOLD_SECONDS
    return f"""\
<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" \
width="{width:.0f}" height="{height:.0f}" role="img" aria-labelledby="title">
<title id="title">{escape(title)}</title>
<style>{STYLE}
#screen{{transform:translateY({last:.0f}px)}}
@media (prefers-reduced-motion:no-preference){{\
#screen{{animation:scroll {end:.1f}s step-end infinite}}}}
@keyframes scroll{{{_frames(lines, rows, end)}}}
</style>
<rect width="{width:.0f}" height="{height:.0f}" rx="8" style="fill:var(--page)"/>
<path d="M0 8a8 8 0 0 1 8-8h{width - 16:.0f}a8 8 0 0 1 8 8v{BAR - 8:.0f}h-{width:.0f}z" \
style="fill:var(--bar)"/>
<circle cx="18" cy="15" r="5" fill="#ff5f56"/><circle cx="36" cy="15" r="5" fill="#ffbd2e"/>\
<circle cx="54" cy="15" r="5" fill="#27c93f"/>
<svg x="{PADDING:.0f}" y="{top:.0f}" width="{columns * CELL:.0f}" height="{rows * LINE:.0f}">
<g id="screen">
{texts}
</g>
</svg>
</svg>
"""


def _offset(printed: int, rows: int) -> float:
    """Return the position of the text after so many lines. The lines appear at the bottom."""
    return (rows - printed) * LINE


def _frames(lines: Sequence[Line], rows: int, end: float) -> str:
    """A key frame for each time at which lines appear."""
    printed: dict[float, int] = {0.0: 0}
    for index, line in enumerate(lines, 1):
        printed[line.seconds] = index
    return "".join(
        f"{100 * seconds / end:.3f}%{{transform:translateY({_offset(number, rows):.0f}px)}}"
        for seconds, number in printed.items()
    )


def _text(text: Text, index: int) -> str:
    if not text.plain.strip():
        return ""
    pieces = "".join(
        f'<tspan class="{names}">{escape(piece)}</tspan>' if names else escape(piece)
        for piece, names in _pieces(text)
    )
    # The length keeps columns aligned whatever the width of the font.
    return (
        f'<text y="{index * LINE + FONT:.0f}" textLength="{text.cell_len * CELL:.0f}" '
        f'lengthAdjust="spacingAndGlyphs" xml:space="preserve">{pieces}</text>'
    )


def _pieces(text: Text) -> Iterator[tuple[str, str]]:
    """Parts of a line with the names of their classes."""
    borders = sorted({0, len(text), *(at for span in text.spans for at in (span.start, span.end))})
    for begin, end in pairwise(borders):
        styles = [span.style for span in text.spans if span.start <= begin and end <= span.end]
        style = Style.null()
        for each in styles:
            style += Style.parse(each) if isinstance(each, str) else each
        yield text.plain[begin:end], _classes(style)


def _classes(style: Style) -> str:
    names = [name for name in ("bold", "dim", "italic") if getattr(style, name)]
    color = style.color
    if color is not None and color.type is ColorType.STANDARD and color.number in COLORS:
        names.append(COLORS[color.number])
    return " ".join(names)
