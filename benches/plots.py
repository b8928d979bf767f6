#!/usr/bin/env python3
"""Plots of `rpcrdma bench --json`, as SVG for light and dark backgrounds, with Python's standard library alone.

    benches/plots.py measure [COMMAND] > docs/plots/results.jsonl
    benches/plots.py draw          writes docs/plots/*.svg from docs/plots/results.jsonl
    benches/plots.py draw --check  fails if they differ from what it would write
"""

import json
import math
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PLOTS = ROOT / "docs" / "plots"
DEPTHS = [1, 2, 4, 8, 16, 32, 64]
SIZES = [1 << shift for shift in range(10, 21, 2)]
DURATION = "500ms"

# Okabe and Ito's colours, which people with any colour vision tell apart, on both backgrounds.
COLOURS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]
STYLE = """
  text { font: 12px sans-serif; fill: #24292f; }
  .title { font-size: 15px; }
  .grid { stroke: #d0d7de; }
  .axis { stroke: #57606a; }
  .back { fill: #ffffff; }
  @media (prefers-color-scheme: dark) {
    text { fill: #e6edf3; }
    .grid { stroke: #30363d; }
    .axis { stroke: #8b949e; }
    .back { fill: #0d1117; }
  }
"""
WIDTH, HEIGHT = 640, 400
LEFT, RIGHT, TOP, BOTTOM = 80, 150, 48, 56


def jobs():
    """Yields the name of each figure's point, and the arguments of the command."""
    for depth in DEPTHS:
        for protocol in (1, 2):
            yield "depth", ["--protocol", str(protocol), "--depth", str(depth)]
    for size in SIZES:
        for protocol in (1, 2):
            yield "size", [
                "--device", "iwarp", "--apart", "--operation", "read", "--depth", "8",
                "--protocol", str(protocol), "--size", str(size),
            ]
    for depth in DEPTHS:
        for protocol in (1, 2):
            yield "tcp", ["--device", "iwarp", "--apart", "--protocol", str(protocol), "--depth", str(depth)]


def measure(command):
    for name, arguments in jobs():
        full = [command, "bench", "--json", "--duration", DURATION, *arguments]
        done = subprocess.run(full, check=True, stdout=subprocess.PIPE, text=True)
        result = json.loads(done.stdout)
        kept = {
            key: result[key]
            for key in ("operation", "size", "depth", "protocol", "ns_per_rpc", "bytes_per_second", "tcp_ns", "latency_us")
        }
        build = pathlib.Path(command).parent.name
        print(json.dumps({"plot": name, "build": build, **kept}), flush=True)


def read():
    lines = (PLOTS / "results.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def series(results, plot, x, y, protocol):
    """Returns the points of a line."""
    found = [one for one in results if one["plot"] == plot and one["protocol"] == protocol]
    points = [(one[x], y(one)) for one in found]
    return sorted((x, y) for x, y in points if y is not None)


def plots(results):
    """Yields the name, the title, the names of the axes, and the lines of each plot."""
    for protocol, name in ((1, "One"), (2, "Two")):
        yield (
            f"latency-v{protocol}",
            f"Latency of a 64-byte echo, Version {name}, software fabric",
            ("calls in flight", "microseconds"),
            {
                label: series(results, "depth", "depth", lambda one, key=key: one["latency_us"][key], protocol)
                for label, key in (("median", "p50"), ("90 %", "p90"), ("99 %", "p99"), ("99.9 %", "p999"))
            },
        )
    yield (
        "throughput",
        "Throughput of reads, 8 in flight, iWARP over loopback",
        ("bytes", "MB/s"),
        {
            f"Version {name}": series(results, "size", "size", lambda one: one["bytes_per_second"] / 1e6, protocol)
            for protocol, name in ((1, "One"), (2, "Two"))
        },
    )
    tcp = {}
    for one in results:
        if one["plot"] == "tcp" and one["tcp_ns"]:
            tcp.setdefault(one["depth"], []).append(one["tcp_ns"] / 1e3)
    lines = {
        f"Version {name}": series(results, "tcp", "depth", lambda one: one["ns_per_rpc"] / 1e3, protocol)
        for protocol, name in ((1, "One"), (2, "Two"))
    }
    lines["plain TCP"] = sorted((depth, sum(times) / len(times)) for depth, times in tcp.items())
    yield (
        "transports",
        "Time per 64-byte echo, iWARP and plain TCP over loopback",
        ("calls in flight", "microseconds"),
        lines,
    )


def short(number):
    """Returns a number of an axis: 4096 as 4K if it is a power of two, else in decimal."""
    if number >= 1024 and number == int(number) and int(number) & (int(number) - 1) == 0:
        for unit, size in (("M", 1 << 20), ("K", 1 << 10)):
            if number >= size:
                return f"{int(number) // size}{unit}"
    return f"{number:g}"


class Scale:
    """Places values on a logarithmic axis."""

    def __init__(self, values, start, end, base):
        self.least = math.floor(math.log(min(values), base) + 1e-9)
        self.most = max(math.ceil(math.log(max(values), base) - 1e-9), self.least + 1)
        self.start, self.end, self.base = start, end, base

    def at(self, value):
        part = (math.log(value, self.base) - self.least) / (self.most - self.least)
        return self.start + part * (self.end - self.start)

    def ticks(self):
        return [self.base**power for power in range(self.least, self.most + 1)]


def svg(title, axes, lines):
    points = [point for line in lines.values() for point in line]
    across = Scale([x for x, _ in points], LEFT, WIDTH - RIGHT, 2)
    up = Scale([y for _, y in points], HEIGHT - BOTTOM, TOP, 10)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{title}">',
        f"<style>{STYLE}</style>",
        f'<rect class="back" width="{WIDTH}" height="{HEIGHT}"/>',
        f'<text class="title" x="{LEFT}" y="28">{title}</text>',
    ]
    for tick in across.ticks():
        x = across.at(tick)
        out.append(f'<line class="grid" x1="{x:.1f}" y1="{TOP}" x2="{x:.1f}" y2="{HEIGHT - BOTTOM}"/>')
        out.append(f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="middle">{short(tick)}</text>')
    for tick in up.ticks():
        y = up.at(tick)
        out.append(f'<line class="grid" x1="{LEFT}" y1="{y:.1f}" x2="{WIDTH - RIGHT}" y2="{y:.1f}"/>')
        out.append(f'<text x="{LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{tick:g}</text>')
    out.append(f'<path class="axis" fill="none" d="M{LEFT} {TOP}V{HEIGHT - BOTTOM}H{WIDTH - RIGHT}"/>')
    middle = (LEFT + WIDTH - RIGHT) / 2
    out.append(f'<text x="{middle:.1f}" y="{HEIGHT - 14}" text-anchor="middle">{axes[0]}</text>')
    middle = (TOP + HEIGHT - BOTTOM) / 2
    out.append(f'<text transform="rotate(-90 20 {middle:.1f})" x="20" y="{middle:.1f}" text-anchor="middle">{axes[1]}</text>')
    for number, (label, line) in enumerate(lines.items()):
        colour = COLOURS[number]
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in line)
        out.append(f'<polyline fill="none" stroke="{colour}" stroke-width="2" points="{path}"/>')
        out += [f'<circle fill="{colour}" cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="3"/>' for x, y in line]
        x, y = WIDTH - RIGHT + 16, TOP + 12 + 20 * number
        out.append(f'<line stroke="{colour}" stroke-width="3" x1="{x}" y1="{y - 4}" x2="{x + 20}" y2="{y - 4}"/>')
        out.append(f'<text x="{x + 26}" y="{y}">{label}</text>')
    return "\n".join([*out, "</svg>", ""])


def draw(check):
    wrong = []
    results = read()
    # Without optimization everything takes many times as long.
    suffix = " (not optimized)" if any(one["build"] == "debug" for one in results) else ""
    for name, title, axes, lines in plots(results):
        path, text = PLOTS / f"{name}.svg", svg(title + suffix, axes, lines)
        if not check:
            path.write_text(text)
        elif not path.exists() or path.read_text() != text:
            wrong.append(path.name)
    if wrong:
        sys.exit(f"{', '.join(wrong)}: not drawn from results.jsonl; run benches/plots.py draw")


def main(arguments):
    match arguments:
        case ["measure"]:
            measure("rpcrdma")
        case ["measure", command]:
            measure(command)
        case ["draw"]:
            draw(check=False)
        case ["draw", "--check"]:
            draw(check=True)
        case _:
            print(__doc__, file=sys.stderr)
            sys.exit(2)


if __name__ == "__main__":
    main(sys.argv[1:])
