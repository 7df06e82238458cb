"""Charts as text: lines with bands, stacked areas, stacked bars. Colours come from the page's style sheet.

Every chart is an `<svg>` with a title and a description, scales to its container, and prints the same text for the same
data. Points that are not finite leave a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from rollwise.report.tables import escape
from rollwise.report.wording import brief, share

COLOURS = 8
DASHES = ("", "7 3", "2 3", "9 3 2 3")
WIDTH, HEIGHT = 620, 300
LEFT, RIGHT, TOP, BOTTOM = 54, 22, 12, 46
TINY = 1e-200  # what is smaller is drawn as 0, and not at all on a logarithmic axis
Point = tuple[float, float]
Band = tuple[float, float, float]  # x, low, high


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """A curve; `style` picks colour and dashes, and is the same for one method in every chart."""

    label: str
    points: Sequence[Point]
    style: int = 0
    band: Sequence[Band] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    label: str
    low: float | None = None  # None: from the data
    high: float | None = None
    log: bool = False


def _fits(value: float) -> bool:
    """Whether a value can be drawn: a number, and not so large that arithmetic on it overflows."""
    return abs(value) < 1e300


def ticks(low: float, high: float, wanted: int = 5) -> list[float]:
    """Round values from at or below `low` to at or above `high`."""
    if not (_fits(low) and _fits(high)):
        return [0.0, 1.0]
    if high - low <= 1e-12 * max(abs(low), abs(high), 1e-200):
        pad = abs(low) * 0.1 or 1.0
        low, high = low - pad, high + pad
    raw = (high - low) / wanted
    if raw == 0 or not math.isfinite(raw):
        return [low, high]
    size = 10.0 ** math.floor(math.log10(raw))
    step = next(m * size for m in (1, 2, 2.5, 5, 10) if m * size >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def log_ticks(low: float, high: float, most: int = 7) -> list[float]:
    """Round values around positive data: 1, 2, 5 in each power of ten, or powers of ten alone where those are many."""
    first, last = math.floor(math.log10(low)) - 1, math.ceil(math.log10(high)) + 1
    marks: list[float] = []
    for steps in ((1, 2, 5), (1,)):
        every = [float(f"{m}e{e}") for e in range(first, last + 1) for m in steps]
        start = max(i for i, mark in enumerate(every) if mark <= low * (1 + 1e-9))
        end = min(i for i, mark in enumerate(every) if mark >= high * (1 - 1e-9) and i > start)
        marks = every[start : end + 1]
        if len(marks) <= most:
            return marks
    stride = math.ceil((len(marks) - 1) / most)
    return [*marks[:-1:stride], marks[-1]]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Scale:
    """Data to places on the page."""

    low: float
    high: float
    marks: list[float]
    start: float
    length: float
    log: bool = False

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.log:
            value, low, high = (math.log10(max(v, TINY)) for v in (value, low, high))
        return self.start + self.length * min(max((value - low) / (high - low), 0.0), 1.0)


def _across(values: Sequence[float]) -> _Scale:
    """The horizontal scale: exactly the span of the data, so that no room is left empty."""
    low, high = min(values), max(values)
    if high <= low:
        low, high = low - 1, high + 1
    marks = [mark for mark in ticks(low, high, 6) if low <= mark <= high]
    return _Scale(low=low, high=high, marks=marks, start=LEFT, length=WIDTH - LEFT - RIGHT)


def _up(values: Sequence[float], axis: Axis) -> _Scale:
    """The vertical scale: from one round value to another."""
    good = [v for v in values if _fits(v) and (v > TINY or not axis.log)]
    low = axis.low if axis.low is not None else min(good, default=0.0)
    high = axis.high if axis.high is not None else max(good, default=1.0)
    marks = log_ticks(low, max(low, high)) if axis.log else ticks(low, max(low, high))
    start, length = HEIGHT - BOTTOM, TOP + BOTTOM - HEIGHT
    return _Scale(low=marks[0], high=marks[-1], marks=marks, start=start, length=length, log=axis.log)


def line_chart(ident: str, title: str, lines: Sequence[Line], x: Axis, y: Axis) -> str:
    """Curves over one pair of axes; empty text where there is not one finite point."""
    xs = [p[0] for line in lines for p in line.points if _fits(p[1])]
    ys = [p[1] for line in lines for p in line.points]
    ys += [v for line in lines for b in line.band for v in b[1:]]
    if not xs or not any(_fits(v) and (v > TINY or not y.log) for v in ys):
        return ""
    across = _across(xs)
    up = _up(ys, y)
    parts = [_frame(across, up, x, y)]
    for line in lines:
        colour = line.style % COLOURS
        band = [b for b in line.band if all(_fits(v) for v in b)]
        if len(band) > 1:
            edge = [(b[0], b[2]) for b in band] + [(b[0], b[1]) for b in reversed(band)]
            parts.append(f'<polygon class="b c{colour}" points="{_points(edge, across, up)}"/>')
    for line in lines:
        parts += [_curve(run, line, across, up, y.log) for run in _unbroken(line.points, y.log)]
    last = "; ".join(_last(line) for line in lines)
    return _svg(ident, title, f"{y.label} against {x.label}. Last values: {last}.", "".join(parts), HEIGHT)


def area_chart(ident: str, title: str, layers: Sequence[Line], x: Axis, y: Axis) -> str:
    """Layers stacked on each other; a point is left out where any layer lacks it."""
    tables = [dict(layer.points) for layer in layers]
    xs = sorted({p[0] for layer in layers for p in layer.points})
    xs = [v for v in xs if all(_fits(t.get(v, math.nan)) for t in tables)]
    if not xs:
        return ""
    across = _across(xs)
    up = _up([0.0, 1.0], y)
    floor, parts = dict.fromkeys(xs, 0.0), []
    for layer, table in zip(layers, tables, strict=True):
        roof = {v: floor[v] + table[v] for v in xs}
        span = xs if len(xs) > 1 else [xs[0], across.high]
        edge = [(v, roof.get(v, roof[xs[0]])) for v in span]
        edge += [(v, floor.get(v, floor[xs[0]])) for v in reversed(span)]
        parts.append(f'<polygon class="a c{layer.style % COLOURS}" points="{_points(edge, across, up)}"/>')
        floor = roof
    last = "; ".join(_last(layer) for layer in layers)
    body = "".join(parts) + _frame(across, up, x, y)
    return _svg(ident, title, f"{y.label} against {x.label}, stacked. Last values: {last}.", body, HEIGHT)


def bar_chart(
    ident: str, title: str, bars: Sequence[tuple[str, Sequence[float]]], parts_of: Sequence[tuple[str, int]]
) -> str:
    """One horizontal bar a row, all drawn to one scale, cut into parts of the given names and styles."""
    longest = max((sum(values) for _, values in bars), default=0.0)
    if longest <= 0:
        return ""
    room, row, label = WIDTH - 70, 24, 150
    parts: list[str] = []
    for i, (name, values) in enumerate(bars):
        y, at, total = 6 + i * row, float(label), sum(values)
        short = name if len(name) <= 22 else name[:10] + "..." + name[-9:]
        parts.append(f'<text x="{label - 8}" y="{y + 13}" text-anchor="end">{escape(short)}</text>')
        for (part, style), value in zip(parts_of, values, strict=True):
            if value > 0:
                width = (room - label) * value / longest
                tip = f"{name}: {part}, {brief(value)} ({share(value / total)})"
                place = f'x="{at:.1f}" y="{y}" width="{width:.1f}" height="{row - 7}"'
                parts.append(f'<rect class="a c{style % COLOURS}" {place}><title>{escape(tip)}</title></rect>')
                at += width
        parts.append(f'<text x="{at + 6:.1f}" y="{y + 13}">{brief(total)}</text>')
    told = f"{len(bars)} bars, the longest {brief(longest)}. The table below holds the numbers."
    return _svg(ident, title, told, "".join(parts), 12 + row * len(bars))


def swatch(style: int, filled: bool = False) -> str:
    """The sample of a curve or layer for a legend."""
    colour = style % COLOURS
    if filled:
        shape = f'<rect class="a c{colour}" width="26" height="10"/>'
    else:
        shape = f'<line class="l c{colour}"{_dash(style)} x1="0" y1="5" x2="26" y2="5"/>'
    return f'<svg class="sw" viewBox="0 0 26 10" aria-hidden="true">{shape}</svg>'


def _svg(ident: str, title: str, told: str, body: str, height: int) -> str:
    return (
        f'<svg viewBox="0 0 {WIDTH} {height}" role="img" aria-labelledby="{ident}-t {ident}-d">'
        f'<title id="{ident}-t">{escape(title)}</title><desc id="{ident}-d">{escape(told)}</desc>{body}</svg>'
    )


def _frame(across: _Scale, up: _Scale, x: Axis, y: Axis) -> str:
    right, bottom = WIDTH - RIGHT, HEIGHT - BOTTOM
    parts: list[str] = []
    for mark in up.marks:
        at = up(mark)
        parts.append(f'<line class="g" x1="{LEFT}" x2="{right}" y1="{at:.1f}" y2="{at:.1f}"/>')
        parts.append(f'<text x="{LEFT - 7}" y="{at + 4:.1f}" text-anchor="end">{brief(mark)}</text>')
    for mark in across.marks:
        at = across(mark)
        parts.append(f'<line class="g" x1="{at:.1f}" x2="{at:.1f}" y1="{bottom}" y2="{bottom + 4}"/>')
        parts.append(f'<text x="{at:.1f}" y="{bottom + 17}" text-anchor="middle">{brief(mark)}</text>')
    middle = (TOP + bottom) / 2
    parts.append(f'<line class="x" x1="{LEFT}" x2="{right}" y1="{bottom}" y2="{bottom}"/>')
    centre = (LEFT + right) / 2
    for label, at_x, at_y, turn in (
        (x.label, centre, HEIGHT - 8, ""),
        (y.label, 12, middle, f' transform="rotate(-90 12 {middle:.0f})"'),
    ):
        parts.append(f'<text class="t" x="{at_x:.0f}" y="{at_y:.0f}" text-anchor="middle"{turn}>{escape(label)}</text>')
    return "".join(parts)


def _unbroken(points: Sequence[Point], log: bool) -> list[list[Point]]:
    runs: list[list[Point]] = [[]]
    for point in points:
        if _fits(point[1]) and (point[1] > TINY or not log):
            runs[-1].append(point)
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _curve(run: Sequence[Point], line: Line, across: _Scale, up: _Scale, log: bool) -> str:
    colour = line.style % COLOURS
    if len(run) == 1:
        return f'<circle class="p c{colour}" cx="{across(run[0][0]):.1f}" cy="{up(run[0][1]):.1f}" r="3"/>'
    return f'<polyline class="l c{colour}"{_dash(line.style)} points="{_points(run, across, up)}"/>'


def _dash(style: int) -> str:
    dash = DASHES[style % len(DASHES)]
    return f' stroke-dasharray="{dash}"' if dash else ""


def _points(points: Sequence[Point], across: _Scale, up: _Scale) -> str:
    return " ".join(f"{across(x):.1f},{up(y):.1f}" for x, y in points)


def _last(line: Line) -> str:
    value = next((p[1] for p in reversed(line.points) if _fits(p[1])), math.nan)
    return f"{line.label} {value:.3g}" if _fits(value) else f"{line.label} none"
