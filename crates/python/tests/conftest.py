"""What the tests share: the program that is the judge, and texts that it has written."""

import json
import os
import pathlib
import subprocess

import pytest
import verdigris

ROOT = pathlib.Path(__file__).resolve().parents[3]
TALE = ROOT / "fixtures" / "models" / "tale"


@pytest.fixture(scope="session")
def program():
    """Runs `verdigris` with arguments and standard input; gives what it prints. Its status may say 'not marked'."""
    path = os.environ.get("VERDIGRIS_PROGRAM")
    if not path:
        pytest.skip("VERDIGRIS_PROGRAM does not name the program `verdigris`, which is the judge here")

    def run(*arguments, text=""):
        command = [path, *map(str, arguments)]
        done = subprocess.run(command, input=text, capture_output=True, encoding="utf-8", timeout=300)
        assert done.returncode in (0, 1, 2), done.stderr
        assert done.stdout, done.stderr
        return done.stdout

    return run


@pytest.fixture(scope="session")
def key(tmp_path_factory):
    """The path of a new key, made by the wheel."""
    path = tmp_path_factory.mktemp("keys") / "my.key"
    verdigris.Key.generate(id="a").save(path)
    return path


@pytest.fixture(scope="session")
def texts(program, key):
    """Texts that the program has marked, and some that are not."""
    lines = program("generate", "The captain", "--key", key, "--texts", 6, "--max-tokens", 150, "--json")
    marked = [json.loads(line)["text"] for line in lines.splitlines()]
    plain = program("generate", "The captain", "--texts", 3, "--max-tokens", 150, "--json")
    return marked + [json.loads(line)["text"] for line in plain.splitlines()]
