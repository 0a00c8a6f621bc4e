"""Detection gives the results of the program, to the last digit."""

import copy
import json
import math
import pickle

import pytest
import verdigris
from conftest import TALE

SCHEMA = {"type": "object", "properties": {"says": {"type": "string", "minLength": 80, "maxLength": 200}},
          "required": ["says"], "additionalProperties": False}


def of_program(program, text, *options):
    found = json.loads(program("detect", "--json", *options, text=text))
    for ours in ("format", "name", "hint"):
        found.pop(ours, None)
    return found


def as_json(found):
    return json.loads(json.dumps(found.to_dict()))


@pytest.mark.parametrize("options, arguments", [
    ({}, []),
    ({"windows": True}, ["--windows"]),
    ({"offsets": 5, "repair": False}, ["--offsets", 5, "--no-repair"]),
    ({"repeats": "draw", "level": 1e-3}, ["--repeats", "draw", "--level", 1e-3]),
    ({"repeats": "nothing"}, ["--repeats", "nothing"]),
])
def test_a_text_is_what_the_program_says(program, key, texts, options, arguments):
    mine = verdigris.Key.load(key)
    more = ["", "Nobody has marked this.", texts[0].replace("e", "\u0435"), texts[1][7:], texts[0] + texts[-1] * 3]
    verdicts = set()
    for text in texts + more:
        found = verdigris.detect(text, mine, **options)
        assert as_json(found) == of_program(program, text, "--key", key, *arguments)
        verdicts.add(found.verdict)
        assert found.marked == found.verdict.startswith("marked")
        assert found.p == pytest.approx(10**found.log10_p) and found.green == found.score
    assert {"marked", "not marked"} <= verdicts


def test_several_keys_are_paid_for_and_those_of_others_are_skipped(program, key, texts, tmp_path):
    ring = tmp_path / "ring"
    ring.mkdir()
    mine = verdigris.Key.load(key)
    mine.save(ring / "a.key")
    verdigris.Key.lists(id="b").save(ring / "b.key")
    (ring / "stray.key").write_text("ssh-rsa AAAA")
    loaded = verdigris.Ring.load(ring)
    assert len(loaded) == 2 and loaded["a"].id == "a" and "stray.key" in loaded.skipped[0]
    with pytest.raises(verdigris.BadKey, match=f'no key with the id "c" in {ring}, which has "a", "b": add it'):
        loaded["c"]
    found = verdigris.detect(texts[0], loaded)
    assert as_json(found) == of_program(program, texts[0], "--ring", ring)
    assert found.looks == 2 and found.key_id == "a" and found.skipped_keys
    assert verdigris.detect(texts[0], [mine, mine]).looks == 1, "a key that is given twice is one"


def test_the_form_of_a_text_is_taken_into_account(program, key, tmp_path):
    schema = tmp_path / "schema.json"
    schema.write_text(json.dumps(SCHEMA))
    text = program("generate", "He said: ", "--key", key, "--json-schema", schema, "--max-tokens", 300, "--seed", 7)
    form = verdigris.Constraint.json_schema(SCHEMA)
    found = verdigris.detect(text, verdigris.Key.load(key), constraint=form)
    assert as_json(found) == of_program(program, text, "--key", key, "--json-schema", schema)
    assert found.forced > 0 and found.counted


def test_a_thought_may_precede_the_text_that_obeys(program, key):
    answer = program("generate", "He said: ", "--key", key, "--regex", "(yes|no|perhaps){20}", "--seed", 7)
    constraint = verdigris.Constraint.regex("(yes|no|perhaps){20}").with_thought("think")
    for text in (answer, f"<think>The captain may know.</think>\n\n{answer}"):
        found = verdigris.detect(text, verdigris.Key.load(key), constraint=constraint)
        assert as_json(found) == of_program(program, text, "--key", key, "--regex", "(yes|no|perhaps){20}",
                                            "--reasoning-format", "think")
        assert found.forced > 0
    for format, message in ("thoughts", "must be one of harmony, "), ("", "but must be one of"):
        with pytest.raises(verdigris.Error, match=message):
            constraint.with_thought(format)


def test_a_longer_text_than_the_program_holds_is_judged_alike(program, key, texts, tmp_path):
    text = (texts[0] + " " + texts[-1] + " ") * (17 * 2**20 // (len(texts[0]) + len(texts[-1])))
    assert len(text) > 16 * 2**20
    assert as_json(verdigris.detect(text, verdigris.Key.load(key))) == of_program(program, text, "--key", key)
    with pytest.raises(verdigris.BadText, match="longer than 16 MiB"):
        verdigris.detect(text, verdigris.Key.load(key), windows=True)


def test_which_key_wrote_a_text(program, key, texts):
    other = verdigris.Key.lists(id="b")
    # The green lists of these keys do not depend on the size of the vocabulary, so no other size is tried.
    tried = {"gammas": [0.5], "vocabulary_sizes": [4000]}
    best, *others = verdigris.identify(texts[0], [other, verdigris.Key.load(key)], **tried)
    assert best.key_id == "a" and best.marked and len(others) == 3 and not others[-1].marked
    mine = json.loads(program("identify", "-", "--key", key, "--gammas", 0.5, "--json", text=texts[0]))
    best = verdigris.identify(texts[0], verdigris.Key.load(key), **tried)
    assert len(best) == mine["tried"] == 2
    for ours, theirs in zip(best, mine["best"]):
        assert {name: getattr(ours, name) for name in theirs} == theirs


def test_the_number_that_a_mark_carries(program, tmp_path):
    path = tmp_path / "numbered.key"
    numbered = verdigris.Key.lists(payload_bits=8)
    numbered.save(path)
    text = program("generate", "The captain", "--key", path, "--payload", 0x2A, "--max-tokens", 400, "--seed", 3,
                   "--min-tokens", 400)
    theirs = json.loads(program("payload", "-", "--key", path, "--json", text=text))
    found = verdigris.payload(text, numbered)
    assert found.payload == 0x2A and found.verdict == "marked"
    for name in ("verdict", "payload", "best", "scored", "green", "log10_p", "doubt"):
        assert getattr(found, name) == theirs[name]
    assert verdigris.detect(text, numbered).payload == 0x2A
    # As in the program, a manifest is not part of the text, and changed characters and white space are repaired.
    block = f"# -----BEGIN C2PA MANIFEST----- {'c' * 40_000} -----END C2PA MANIFEST-----\n"
    assert verdigris.payload(block + text, numbered).log10_p == found.log10_p
    for changed in (text.replace(" ", "\u00a0"), block + text.replace(" ", "  "), text.replace("t", "t\u200b")):
        theirs = json.loads(program("payload", "-", "--key", path, "--json", text=changed))
        found = verdigris.payload(changed, numbered)
        assert found.payload == 0x2A and found.repairs
        assert (found.log10_p, [list(pair) for pair in found.repairs]) == (theirs["log10_p"], theirs["repairs"])
    assert verdigris.payload("Too short.", numbered).verdict == "too short"
    with pytest.raises(verdigris.BadKey, match="carries no payload"):
        verdigris.payload(text, verdigris.Key.lists())


def test_a_key_shows_its_secret_to_nobody(key):
    mine = verdigris.Key.load(key)
    secret = json.loads(key.read_text())["secret"]
    assert len(secret) == 64
    shown = [repr(mine), str(mine), mine.description, repr(vars(type(mine))), repr(verdigris.Ring([mine]))]
    shown += [repr(getattr(mine, name)) for name in dir(mine)]
    assert not any(secret in text or secret.upper() in text for text in shown)
    with pytest.raises(TypeError):
        pickle.dumps(mine)
    assert copy.deepcopy(mine) is mine
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(verdigris.BadKey, match="cannot write"):
        mine.save(key)


def test_what_cannot_be_done_is_said_in_the_words_of_rust(key, tmp_path):
    mine = verdigris.Key.load(key)
    with pytest.raises(verdigris.BadKey, match="cannot read the key file .*none.key"):
        verdigris.Key.load(tmp_path / "none.key")
    exposed = tmp_path / "exposed.key"
    exposed.write_bytes(key.read_bytes())
    exposed.chmod(0o644)
    with pytest.raises(verdigris.BadKey, match="can be read by others"):
        verdigris.Key.load(exposed)
    theirs = json.dumps({"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel", "unk_token": "b",
                        "vocab": {"a": 0, "b": 1}}})
    with pytest.raises(verdigris.BadKey, match="was made for a vocabulary of 4096 tokens"):
        verdigris.detect("a b", mine, verdigris.Tokenizer.from_json(theirs))
    with pytest.raises(verdigris.BadTokenizer, match="not a `tokenizer.json`"):
        verdigris.Tokenizer.from_json("{}")
    with pytest.raises(verdigris.BadTokenizer, match="none"):
        verdigris.detect("a", mine, tmp_path / "none")
    for wrong in ({"level": 0.0}, {"level": 1.0}, {"level": math.nan}, {"offsets": 0}, {"repeats": "never"}):
        with pytest.raises(verdigris.Error, match="must be"):
            verdigris.detect("a", mine, **wrong)
    for wrong in ({"gamma": 0.0}, {"gamma": 1.0}, {"delta": -1.0}, {"width": 0}, {"payload_bits": 99}):
        with pytest.raises(verdigris.BadKey):
            verdigris.Key.lists(**wrong)
    for wrong in ("my.key", b"my.key", key, 7, ["my.key"]):
        with pytest.raises(verdigris.WrongType, match=r"a key is a Key or a Ring, not \w+: read a file with Key.load"):
            verdigris.detect("a", wrong)
    with pytest.raises(verdigris.WrongType, match="a text is a str, not bytes"):
        verdigris.detect(b"a", mine)
    with pytest.raises(verdigris.WrongType, match="a tokenizer is a Tokenizer or the path of one, not int"):
        verdigris.detect("a", mine, 7)
    tale = verdigris.Tokenizer.tale()
    for judge in (verdigris.detect, verdigris.identify, lambda text, _: tale.encode(text)):
        with pytest.raises(verdigris.BadText, match="half of a surrogate pair"):
            judge("\ud800", mine)
    assert issubclass(verdigris.WrongType, verdigris.Error) and issubclass(verdigris.WrongType, TypeError)
    assert issubclass(verdigris.BadKey, verdigris.Error) and issubclass(verdigris.Error, ValueError)


def test_the_core_imports_neither_torch_nor_numpy():
    import subprocess
    import sys
    code = "import sys, verdigris; verdigris.detect('a', verdigris.Key.lists()); " \
           "print({'torch', 'numpy', 'transformers', 'pyarrow'} & set(sys.modules))"
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == "set()"


def test_stubs_name_what_is_there():
    import ast
    import pathlib
    stubs = pathlib.Path(verdigris.__file__).with_name("_verdigris.pyi")
    classes = {node.name: node for node in ast.parse(stubs.read_text()).body
               if isinstance(node, (ast.ClassDef, ast.FunctionDef)) and not node.name.startswith("_")}
    assert set(classes) | {"__version__"} == set(verdigris.__all__)
    # The attributes of these are the fields of JSON, which docs/json.md describes.
    key, numbered = verdigris.Key.lists(), verdigris.Key.lists(payload_bits=16)
    text = verdigris.Engine.load(TALE).request("The captain", watermark=key, max_tokens=200, seed=1).text().text
    found = verdigris.detect(text, key, windows=True)
    made = [found, found.passages[0], verdigris.identify(text, key)[0], verdigris.payload(text, numbered)]
    made = {type(one).__name__: one for one in made}
    for name, node in classes.items():
        real = getattr(verdigris, name)
        assert real.__doc__, f"{name} has no documentation"
        if isinstance(node, ast.ClassDef) and not issubclass(real, Exception):
            told = {item.name if isinstance(item, ast.FunctionDef) else item.target.id for item in node.body
                    if not isinstance(item, ast.Expr)}
            there = {member for member in dir(made.get(name, real)) if not member.startswith("_")}
            assert {member for member in told if not member.startswith("_")} == there, name
            documented = {member for member in vars(real) if not member.startswith("_")}
            assert documented == there or name in made, name
            assert all(getattr(real, member).__doc__ for member in documented), name


def test_stubs_are_what_is_there():
    pytest.importorskip("mypy", reason="SKIPPED: mypy is not installed, so types are not checked")
    import subprocess
    import sys
    done = subprocess.run([sys.executable, "-m", "mypy.stubtest", "verdigris._verdigris"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout
