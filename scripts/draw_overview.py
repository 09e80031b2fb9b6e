#!/usr/bin/env python3
"""Writes docs/overview.svg: the stages of the compiler and the floor plan of the 1,472 tiles."""
import pathlib

INK, MUTED, PAPER, LINE, BOX, CHECK = "#1b1f24", "#57606a", "#ffffff", "#8c959f", "#eaf2fb", "#fdf3e1"
RAMP = ["#00224e", "#1f386e", "#434e6c", "#61656f", "#7d7c78", "#9b9477", "#bcae6c", "#dfca59", "#fee838"]  # cividis
STAGES = [  # (name, folder, what it decides)
    ("Graph", "model, graph", "shapes, parameters, Repeat"),
    ("Plan", "plan", "precision, layout, owners, algorithm, order"),
    ("Tile program", "tile", "shards, kernel calls, transfers"),
    ("Placement", "place", "an address for every buffer"),
    ("Exchange rows", "exchange", "the cycle of every send and receive"),
    ("Package", "emit, package", "every byte of every tile"),
    ("Simulated device", "sim", "decodes the words, runs the kernels"),
]
X, Y, W, H, STEP = 24, 64, 286, 48, 68
MAP_X, MAP_Y, CELL = 582, 64, 9


def latency(p):
    """Cycles from a send event on physical tile 0 to the store on physical tile p (src/target/topology.h)."""
    row, c, h, e = p >> 6, (p >> 2) & 15, (p >> 1) & 1, p & 1
    half, fold = c >> 3, c if c < 8 else 15 - c
    k = (2 if half == e else 4) if h else (1 if half == e else 5)
    return -c - 4 * fold + (1 if half == 0 else 16) + abs(6 * fold + k) + 22


def text(x, y, s, size=13, fill=INK, anchor="start", weight="normal"):
    return f'<text x="{x}" y="{y}" font-size="{size}" fill="{fill}" text-anchor="{anchor}" font-weight="{weight}">{s}</text>'


def box(x, y, w, h, fill):
    return f'<rect x="{x}" y="{y}" width="{w}" height="{h}" rx="6" fill="{fill}" stroke="{LINE}"/>'


def arrow(points):
    return f'<polyline points="{points}" fill="none" stroke="{MUTED}" stroke-width="1.5" marker-end="url(#head)"/>'


def flow():
    out = [text(X, 40, "From graph to simulated device", 16, weight="bold")]
    for i, (name, folder, what) in enumerate(STAGES):
        y = Y + STEP * i
        out += [box(X, y, W, H, BOX), text(X + 12, y + 20, name, 14, weight="bold"),
                text(X + W - 12, y + 20, folder, 12, MUTED, "end"), text(X + 12, y + 38, what, 12.5)]
        if i:
            out.append(arrow(f"{X + W // 2},{y - STEP + H} {X + W // 2},{y - 3}"))
    right, side = X + W, X + W + 26
    rows, placed = Y + 4 * STEP + 24, Y + 3 * STEP + 24
    out += [arrow(f"{right},{rows} {side},{rows} {side},{placed} {right + 3},{placed}"),
            text(side + 8, rows - 42, "row table larger", 12, MUTED), text(side + 8, rows - 26, "than reserved", 12, MUTED)]
    for i, (name, folder, verdict, rail) in enumerate([("FP32 reference", "ref", "cosine", 506), ("Exact interpreter", "plan", "bit for bit", 478)]):
        y, sim = Y + STEP * i, Y + STEP * 6 + 24
        out += [box(372, y, 160, H, CHECK), text(384, y + 20, name, 14, weight="bold"), text(384, y + 38, folder, 12, MUTED),
                arrow(f"{right},{y + 24} 369,{y + 24}")]
        start = y + H if i else y + 24
        path = f"{rail},{start} " if i else f"532,{start} 548,{start} 548,{sim + 10} "
        out.append(arrow(path + (f"{rail},{sim - 10} {right + 3},{sim - 10}" if i else f"{right + 3},{sim + 10}")))
        out.append(text(rail - 6 if i else 540, sim - 16 if i else sim + 26, verdict, 12, MUTED, "end"))
    return out


def floor_plan():
    values = [latency(p) for p in range(1472)]
    low, high = min(values), max(values)
    shape = {}
    for p, v in enumerate(values):
        row, c, h, e = p >> 6, (p >> 2) & 15, (p >> 1) & 1, p & 1
        x = MAP_X + c * (2 * CELL + 2) + e * CELL + (12 if c > 7 else 0)
        y = MAP_Y + row * (2 * CELL + 1) + h * CELL
        shape.setdefault((v - low) * len(RAMP) // (high - low + 1), []).append(f"M{x} {y}h8v8h-8z")
    out = [text(MAP_X, 40, "Floor plan: 1,472 tiles, 624 KiB each", 16, weight="bold")]
    out += [f'<path fill="{RAMP[level]}" d="{"".join(paths)}"/>' for level, paths in sorted(shape.items())]
    out.append(f'<rect x="{MAP_X - 2}" y="{MAP_Y - 2}" width="12" height="12" fill="none" stroke="#d55e00" stroke-width="2.5"/>')
    y = MAP_Y + 23 * (2 * CELL + 1) + 14
    for level, colour in enumerate(RAMP):
        out.append(f'<rect x="{MAP_X + 20 * level}" y="{y}" width="20" height="10" fill="{colour}"/>')
    out += [text(MAP_X, y + 26, f"{low}", 12, MUTED), text(MAP_X + 20 * len(RAMP), y + 26, f"{high} cycles", 12, MUTED, "end"),
            text(MAP_X + 20 * len(RAMP) + 12, y + 10, "from a send on tile 0", 12), text(MAP_X + 20 * len(RAMP) + 12, y + 26, "(framed) to the store", 12)]
    return out


def main():
    style = 'font-family="system-ui, Segoe UI, Helvetica, Arial, sans-serif"'
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 930 556" role="img" {style}>',
             "<title>Stages of Tilewright and the floor plan of the device</title>",
             f'<defs><marker id="head" viewBox="0 0 8 8" refX="6" refY="4" markerWidth="7" markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{MUTED}"/></marker></defs>',
             f'<rect x="1" y="1" width="928" height="554" rx="10" fill="{PAPER}" stroke="{LINE}"/>', *flow(), *floor_plan(), "</svg>"]
    pathlib.Path(__file__).resolve().parent.parent.joinpath("docs/overview.svg").write_text("\n".join(parts) + "\n")


if __name__ == "__main__":
    main()
