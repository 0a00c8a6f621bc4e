"""The picture of docs/speculation.md: tokens a second by drafter and temperature, from what the bench prints.

    verdigris bench speculation ... --json > bf16.json      # and so on, one file or several for each panel
    python3 docs/speculation_picture.py docs/speculation.svg "bf16=bf16.json" "q8_0=cold.json,warm.json"
"""

import json
import sys

out, *panels = sys.argv[1:]
WIDTH, HEIGHT, GAP, BAR = 430, 240, 80, 14
COLOURS = ["#8a8f98", "#c98a2b", "#7a5ea8", "#b9a6d8", "#2f7fb8", "#9cc7e6", "#2e8b6f", "#8fd0b5"]


def speeds(rows):
    """Tokens a second of plain decoding and of the fastest way of each drafter, for each temperature."""
    kinds = {row["kind"] for row in rows}
    rows = [row for row in rows if row["kind"] == ("all" if "all" in kinds else row["kind"])]
    found = {}
    for row in rows:
        if "repeatable" in row["drafts"]:
            continue
        drafter = row["drafts"].split(",")[0].replace("none", "plain")
        of = found.setdefault(row["temperature"], {})
        of[drafter] = max(of.get(drafter, 0), row["tokens_a_second"])
    return found


parts, drafters = [], []
for number, panel in enumerate(panels):
    name, files = panel.split("=", 1)
    found = speeds([row for file in files.split(",") for row in json.load(open(file, encoding="utf-8"))["rows"]])
    drafters = list(dict.fromkeys(drafters + [drafter for of in found.values() for drafter in of]))
    most = max(speed for of in found.values() for speed in of.values())
    step = next(step for step in (10, 20, 25, 50, 100, 200, 500) if most / step <= 6)
    y = lambda speed: HEIGHT - speed / most * (HEIGHT - 10)
    parts.append(f'<g transform="translate({60 + number * (WIDTH + GAP)},60)">')
    parts.append(f'<text x="0" y="-24" class="title">{name}</text>')
    parts.append('<text x="0" y="-8" class="small">tokens a second</text>')
    for speed in range(0, int(most) + 1, step):
        parts.append(f'<path class="grid" d="M0 {y(speed):.1f}H{WIDTH}"/>')
        parts.append(f'<text x="-8" y="{y(speed) + 4:.1f}" text-anchor="end">{speed}</text>')
    for group, (temperature, of) in enumerate(sorted(found.items())):
        middle = (group + 0.5) * WIDTH / len(found)
        left = middle - len(of) * (BAR + 3) / 2
        for bar, (drafter, speed) in enumerate(of.items()):
            x, colour = left + bar * (BAR + 3), COLOURS[drafters.index(drafter) % len(COLOURS)]
            top = y(speed)
            parts.append(f'<path fill="{colour}" d="M{x:.1f} {top:.1f}h{BAR}V{HEIGHT}h-{BAR}z"/>')
            if drafter != "plain":
                times = f"{speed / of['plain']:.2f}"
                parts.append(f'<text x="{x + BAR / 2:.1f}" y="{top - 4:.1f}" class="middle times">{times}</text>')
        label = f"temperature {temperature:g}"
        parts.append(f'<text x="{middle:.1f}" y="{HEIGHT + 18}" class="middle">{label}</text>')
    parts.append(f'<path class="axis" d="M0 0V{HEIGHT}H{WIDTH}"/></g>')
wide, high = 80 + len(panels) * (WIDTH + GAP) - GAP, HEIGHT + 130
for number, drafter in enumerate(drafters):
    x = 60 + number * (wide - 80) / len(drafters)
    parts.append(f'<rect x="{x:.1f}" y="{high - 34}" width="12" height="12" fill="{COLOURS[number % len(COLOURS)]}"/>')
    parts.append(f'<text x="{x + 18:.1f}" y="{high - 24}">{drafter}</text>')
style = """text{font:12px sans-serif;fill:#222}.title{font-size:15px;font-weight:600}.small{fill:#666}
.middle{text-anchor:middle}.times{font-size:9px}.axis{stroke:#444;fill:none}.grid{stroke:#ddd;fill:none}"""
svg = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {wide} {high}" role="img" '
svg += 'aria-label="tokens a second by drafter">'
svg += f'<style>{style}</style><rect width="{wide}" height="{high}" fill="#fff"/>' + "\n".join(parts) + "</svg>\n"
open(out, "w", encoding="utf-8").write(svg)
