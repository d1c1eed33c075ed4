"""chart: curves as an SVG picture, for benches."""

import math

COLOURS = ["#1b6ac9", "#c2410c", "#15803d", "#7e22ce", "#a16207", "#0e7490"]
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 900, 420, 70, 180, 40, 46


def text_of(value):
    for size, unit in ((1e6, "M"), (1e3, "k")):
        if value >= size:
            return f"{value / size:g}{unit}"
    return f"{value:g}"


def step_of(span):
    """1, 2 or 5 of some power of ten: at most six of them are the span."""
    power = 10 ** math.floor(math.log10(span / 6)) if span > 0 else 1
    return next(n * power for n in (1, 2, 5, 10) if 6 * n * power >= span)


def multiples(first, last):
    step = step_of(last - first)
    return [n * step for n in range(math.ceil(first / step), math.floor(last / step) + 1)]


def draw(path, title, curves, x_title, logarithmic=False, bands=(), marks=True):
    """Writes the picture. `curves`: {name: [(x, y), …]}. `bands`: [(from x, to x, text)], in grey. `logarithmic`: the
    x axis; an x of 0 is then drawn at 1."""
    def place(value):
        return math.log10(max(value, 1)) if logarithmic else value

    def x(value):
        return LEFT + (place(value) - first) * (WIDTH - LEFT - RIGHT) / ((last - first) or 1)

    def y(value):
        return TOP + (1 - value / most) * (HEIGHT - TOP - BOTTOM)

    points = [p for curve in curves.values() for p in curve]
    first, last = place(min(p[0] for p in points)), place(max(p[0] for p in points))
    most = max(p[1] for p in points) * 1.05 or 1
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif" '
           'font-size="12">', f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
           f'<text x="{LEFT}" y="20">{title}</text>']
    for begin, end, text in bands:
        out.append(f'<rect x="{x(begin):.0f}" y="{TOP}" width="{x(end) - x(begin):.0f}" height="{y(0) - TOP:.0f}" '
                   f'fill="#eee"/><text x="{x(begin) + 5:.0f}" y="{TOP + 14}" fill="#666">{text}</text>')
    for value in multiples(0, most):
        out.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y(value):.1f}" y2="{y(value):.1f}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{y(value) + 4:.1f}" text-anchor="end">{value:,g}</text>')
    for tick in sorted({p[0] for p in points}) if logarithmic else multiples(first, last):
        out.append(f'<text x="{x(tick):.0f}" y="{HEIGHT - 28}" text-anchor="middle">{text_of(tick)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{x_title}</text>')
    for i, (name, curve) in enumerate(curves.items()):
        colour = COLOURS[i % len(COLOURS)]
        line = " ".join(f"{x(a):.1f},{y(b):.1f}" for a, b in curve)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="2"/>'
                   f'<text x="{WIDTH - RIGHT + 12}" y="{TOP + 12 + 18 * i}" fill="{colour}">{name}</text>')
        if marks:
            out += [f'<circle cx="{x(a):.1f}" cy="{y(b):.1f}" r="3" fill="{colour}"/>' for a, b in curve]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join([*out, "</svg>", ""]))
