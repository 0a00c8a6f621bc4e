#!/usr/bin/env python3
"""Records a conversation with `verdigris chat` in docs/measurements/chat.txt.

    tests/scripts/chat-session.py MODEL [PROGRAM]

MODEL is SmolLM2-135M-Instruct, as a GGUF file or its name on the hub. The program runs on a terminal of its own without
colours. What it prints, and the lines that are typed, are recorded; longer lines are wrapped. The key is a new one, so
the texts differ from run to run.
"""

import datetime
import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import textwrap
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "measurements" / "chat.txt"

LINES = [
    "Write a letter to a friend about a walk in the mountains.",
    "/regenerate",
    "/save letter.json",
    "/mark off",
    "Thank you! Which mountains were these?",
    "/exit",
]
CHAT = ["chat", "-m", "smollm2.gguf", "-k", "my.key", "--seed", "1", "-n", "250"]


def environment(folder):
    kept = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "HF_HOME")}
    return kept | {"TERM": "dumb", "COLUMNS": "100", "LANG": "C.UTF-8", "PWD": folder}


def session(program, folder):
    """The output of a chat on a terminal, to which the next line is typed after each prompt."""
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(folder)
        os.execve(program, [program, *CHAT], environment(folder))
    lines, shown, seen = list(LINES), b"", 0
    while True:
        ready, _, _ = select.select([terminal], [], [], 300)
        if not ready:
            raise SystemExit(f"no output for five minutes after {shown!r}")
        try:
            part = os.read(terminal, 4096)
        except OSError:
            break
        if not part:
            break
        shown += part
        if lines and re.search(rb"(^|\n)> $", shown[seen:]):
            seen = len(shown)
            os.write(terminal, lines.pop(0).encode() + b"\n")
    _, status = os.waitpid(child, 0)
    if status != 0:
        raise SystemExit(f"the chat ended with status {status}: {shown!r}")
    return shown.decode().replace("\r\n", "\n")


def run(program, folder, *arguments):
    """A command with its output, as a terminal shows it."""
    done = subprocess.run([program, *arguments], cwd=folder, env=environment(folder), capture_output=True, text=True)
    return f"$ verdigris {' '.join(arguments)}\n{done.stdout}{done.stderr}"


def wrapped(text):
    """The same with lines of at most 100 columns, as a narrow terminal shows them."""
    lines = (textwrap.wrap(line, 100, drop_whitespace=True) or [""] for line in text.splitlines())
    return "\n".join(line for some in lines for line in some) + "\n"


def main():
    model = os.path.abspath(sys.argv[1]) if os.path.exists(sys.argv[1]) else sys.argv[1]
    program = os.path.abspath(sys.argv[2] if len(sys.argv) > 2 else ROOT / "target/release/verdigris")
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(model, Path(folder) / "smollm2.gguf")
        key = run(program, folder, "key", "new", "my.key", "--model", "smollm2.gguf")
        chat = f"$ verdigris {' '.join(CHAT)}\n{session(program, folder)}"
        found = run(program, folder, "detect", "letter.json", "-k", "my.key", "-m", "smollm2.gguf", "--column", "content")
    head = f"tests/scripts/chat-session.py smollm2.gguf, {datetime.date.today()}\n"
    PAGE.write_text(wrapped("\n".join([head, key, chat, found])), encoding="utf-8")


main()
