"""Each text of fixtures/verdicts has the same verdict here as everywhere, to the last digit."""

import json

import pytest
import verdigris
from conftest import ROOT

FOLDER = ROOT / "fixtures" / "verdicts"


@pytest.fixture(scope="module")
def keys(tmp_path_factory):
    folder = tmp_path_factory.mktemp("keys")
    for name, key in json.loads((FOLDER / "keys.json").read_text()).items():
        path = folder / f"{name}.key"
        path.write_text(json.dumps(key))
        path.chmod(0o600)
    return folder


def cases():
    for line in (FOLDER / "cases.jsonl").read_text(encoding="utf-8").split("\n"):
        # The wheel takes texts, not files.
        if line and "text" in (case := json.loads(line)):
            yield pytest.param(case, id=case["case"])


def arguments(case, folder):
    keys = [verdigris.Key.load(folder / f"{name}.key") for name in case["keys"]]
    return case["text"] * case.get("times", 1), keys


@pytest.mark.parametrize("case", list(cases()))
def test_each_text_has_its_verdict(case, keys):
    text, own = arguments(case, keys)
    tokenizer = verdigris.Tokenizer.tale()
    if case["verdict"]["verdict"] == "error":
        with pytest.raises(verdigris.BadText) as fault:
            verdigris.detect(text, own, tokenizer, **case["options"])
        assert str(fault.value) == case["verdict"]["error"]
        return
    found = verdigris.detect(text, own, tokenizer, **case["options"])
    # Pairs are tuples here.
    assert json.loads(json.dumps(found.to_dict())) == case["verdict"]
    many = verdigris.detect_many([text], own, tokenizer, **case["options"])
    assert many[0].to_dict() == found.to_dict()


def test_a_payload_is_read_after_repair(keys):
    case = next(case.values[0] for case in cases() if case.id == "a payload")
    text, [key] = arguments(case, keys)
    plain, hidden = verdigris.payload(text, key), verdigris.payload(text.replace("e", "e\u200b"), key)
    assert plain.payload == hidden.payload == 48879
    assert hidden.repairs and not plain.repairs
