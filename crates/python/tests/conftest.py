"""Fixtures shared by the tests: the program to compare with, and texts that it has written."""

import json
import os
import pathlib
import subprocess
import sys

import pytest
import verdigris

ROOT = pathlib.Path(os.environ.get("VERDIGRIS_ROOT") or pathlib.Path(__file__).resolve().parents[3])
TALE = ROOT / "fixtures" / "models" / "tale"
# The prompts for engines, whose texts are marked in different ways.
PROMPTS = ["The captain and the doctor were seen near the harbour", "A letter came to the widow in the winter, and",
           "The soldier stood at the window while the storm", "In the morning the road to the river was"]


@pytest.fixture(scope="session")
def program():
    """Runs `verdigris` with arguments and standard input, and returns its output. Its status may be 'not marked'."""
    path = os.environ.get("VERDIGRIS_PROGRAM")
    if not path:
        pytest.skip("VERDIGRIS_PROGRAM does not name the program `verdigris`, which this test compares with")

    def run(*arguments, text=""):
        command = [path, *map(str, arguments)]
        done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", timeout=300)
        assert done.returncode in (0, 1) or done.stdout, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def model():
    """`tale` in transformers, for tests that have checked that torch is installed."""
    import torch
    import transformers

    return transformers.AutoModelForCausalLM.from_pretrained(TALE, dtype=torch.float32).eval()


def known_key(path, **options):
    """Writes and loads a key whose secret is the same in every run, so that texts are too."""
    verdigris.Key.lists(**{"id": "a", **options}).save(path)
    fields = json.loads(path.read_text())
    fields["secret"] = "5a" * 32
    # The check value is for the original secret.
    fields.pop("check", None)
    path.write_text(json.dumps(fields))
    return verdigris.Key.load(path)


@pytest.fixture(scope="session")
def key(tmp_path_factory):
    """The path of a key."""
    path = tmp_path_factory.mktemp("keys") / "my.key"
    known_key(path)
    return path


@pytest.fixture(scope="session")
def texts(program, key):
    """Texts that the program has marked, followed by unmarked ones."""
    lines = program("generate", "The captain", "--key", key, "--texts", 6, "--max-tokens", 150, "--seed", 1, "--json")
    marked = [json.loads(line)["text"] for line in lines.splitlines()]
    plain = program("generate", "The captain", "--texts", 3, "--max-tokens", 150, "--seed", 2, "--json")
    return marked + [json.loads(line)["text"] for line in plain.splitlines()]


def pytest_terminal_summary(terminalreporter):
    """Prints what plug-ins were tested against."""
    engines = sys.modules.get("engines")
    for name, what in sorted(engines.USED.items() if engines else ()):
        terminalreporter.write_line(f"{name}: {what}")
