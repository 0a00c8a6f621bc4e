"""README's picture: what `verdigris demo` prints, as an SVG.

    pip install rich
    CLICOLOR_FORCE=1 cargo run --release -- demo | python3 docs/demo_picture.py docs/demo.svg
"""

import re
import sys

from rich.console import Console
from rich.text import Text

console = Console(record=True, width=100, file=open("/dev/null", "w"))
console.print(Text.from_ansi(sys.stdin.read()))
svg = console.export_svg(title="verdigris demo", font_aspect_ratio=0.61)
# No fonts from elsewhere: whoever looks at the picture has one of their own.
svg = re.sub(r"@font-face\s*\{.*?\}", "", svg, flags=re.S).replace("Fira Code", "ui-monospace, Menlo, Consolas")
svg = re.sub(r"<!--.*?-->", "", svg, flags=re.S)
with open(sys.argv[1], "w") as f:
    f.write(svg)
