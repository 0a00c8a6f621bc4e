"""The choice of the key that marks a request of a server, and refused requests."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import verdigris
from conftest import TALE
from verdigris.serving import Policy


@pytest.fixture(scope="module")
def keys():
    return [verdigris.Key.lists(id=name) for name in ("a", "b")]


def test_requests_choose_within_what_the_server_says(keys):
    default, requested = Policy(keys, "b"), Policy(keys, "b", "requested")
    assert default.choose(None) == 1 == default.choose({}) == default.choose({"other": 1})
    assert default.choose({"verdigris_watermark": 0}) is None
    assert default.choose({"verdigris_key_id": "a"}) == 0
    assert requested.choose({}) is None
    assert requested.choose({"verdigris_watermark": 1}) == 1
    assert requested.choose({"verdigris_key_id": "a", "verdigris_watermark": 1}) == 0
    enforced = Policy(keys, "a", "enforced")
    assert enforced.choose({}) == 0 and enforced.choose({"verdigris_key_id": "b"}) == 1
    assert Policy([]).choose({}) is None and Policy(keys[:1]).choose({}) == 0


@pytest.mark.parametrize("options, says", [
    ({"verdigris_key_id": "c"}, "no key 'c': name one that it has in verdigris_key_id, or put its file into"),
    ({"verdigris_key_id": 3}, "must be the id of a key"),
    ({"verdigris_watermark": "no"}, "must be 1, to mark, or 0"),
    ({"verdigris_watermark": 0}, "this server marks everything"),
    ({"verdigris_watermark": 0, "verdigris_key_id": "a"}, "leave one of them out"),
    ({"verdigris_watermrk": 1}, "no option 'verdigris_watermrk'"),
])
def test_what_cannot_be_followed_is_refused(keys, options, says):
    with pytest.raises(verdigris.Error, match=says):
        Policy(keys, "a", "enforced").choose(options)


def test_a_server_without_keys_refuses_requests_for_a_mark():
    for options in ({"verdigris_watermark": 1}, {"verdigris_key_id": "a"}):
        with pytest.raises(verdigris.BadKey, match="set VERDIGRIS_KEYS to a key file"):
            Policy([]).choose(options)


def test_the_environment(keys, tmp_path):
    for key in keys:
        key.save(tmp_path / f"{key.id}.key")
    one, ring = str(tmp_path / "a.key"), str(tmp_path)
    assert Policy.from_environment({"VERDIGRIS_KEYS": one}).choose({}) == 0
    several = Policy.from_environment({"VERDIGRIS_KEYS": ring, "VERDIGRIS_DEFAULT_KEY": "b"})
    assert several.keys[several.choose({})].id == "b" and several.triton is None
    asked = Policy.from_environment({"VERDIGRIS_KEYS": ring, "VERDIGRIS_MARK": "requested", "VERDIGRIS_TRITON": "1"})
    assert asked.choose({}) is None and asked.triton and repr(asked) == "Policy(2 keys, requested)"
    assert Policy.from_environment({"VERDIGRIS_KEYS": one, "VERDIGRIS_TRITON": "0"}).triton is False
    with pytest.raises(verdigris.BadKey, match="the request names no key, and this server has no default"):
        asked.choose({"verdigris_watermark": 1})
    assert Policy.from_environment({}).choose({}) is None
    for environment, says in [
        ({"VERDIGRIS_KEYS": ring}, "set VERDIGRIS_DEFAULT_KEY to an id, or VERDIGRIS_MARK=requested"),
        ({"VERDIGRIS_KEYS": ring, "VERDIGRIS_DEFAULT_KEY": "c"}, "no key 'c'"),
        ({"VERDIGRIS_KEYS": one, "VERDIGRIS_MARK": "always"}, "must be default, requested or enforced"),
        ({"VERDIGRIS_KEYS": one, "VERDIGRIS_TRITON": "no"}, "must be 0, not to use Triton, or 1"),
        ({"VERDIGRIS_MARK": "enforced"}, "there is no key"),
        ({"VERDIGRIS_KEYS": str(tmp_path / "none.key")}, "none.key"),
    ]:
        with pytest.raises(verdigris.Error, match=says):
            Policy.from_environment(environment)


def test_keys_that_cannot_mark_on_a_device_say_so_when_they_are_named(keys):
    numbered = verdigris.Key.lists(id="numbered", payload_bits=8)
    policy = Policy([numbered, *keys], "a")
    assert [key.id for key in policy.keys] == ["a", "b"]
    with pytest.raises(verdigris.BadKey, match="numbered carries payloads.*: use a native key"):
        policy.choose({"verdigris_key_id": "numbered"})
    with pytest.raises(verdigris.BadKey, match="carries payloads"):
        Policy([numbered])
    with pytest.raises(verdigris.BadKey, match="the same id"):
        Policy([keys[0], verdigris.Key.lists(id="a")], "a")


def test_keys_of_another_model_are_refused(keys, tmp_path):
    policy, text = Policy(keys, "a"), (TALE / "tokenizer.json").read_text()
    policy.check(4160, str(TALE))
    # A name on the hub that is not cached.
    policy.check(4160, "someone/tale")
    with pytest.raises(verdigris.BadKey, match="for 4096 tokens, but the model has 4000"):
        policy.check(4000)
    other = json.loads(text)
    vocabulary = other["model"]["vocab"]
    first, second = list(vocabulary)[300:302]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    (tmp_path / "tokenizer.json").write_text(json.dumps(other))
    with pytest.raises(verdigris.BadKey, match="a different tokenizer than the model's"):
        policy.check(4160, str(tmp_path))


def test_the_package_is_typed():
    pytest.importorskip("mypy", reason="SKIPPED: mypy is not installed, so types are not checked")
    options = ["--ignore-missing-imports", "--follow-imports=silent", "--cache-dir", os.devnull]
    command = [sys.executable, "-m", "mypy", *options, "-p", "verdigris"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_the_package_is_typed_for_pyright_too():
    pytest.importorskip("pyright", reason="SKIPPED: pyright is not installed, so types are not checked")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(Path(verdigris.__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True)
    # Engines need not be installed.
    faults = [line for line in done.stdout.splitlines() if " - error: " in line and "reportMissingImports" not in line]
    assert not faults and " errors, " in done.stdout, done.stdout + done.stderr
