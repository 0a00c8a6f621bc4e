"""Generation from Python."""

import dataclasses
import json
import os
import signal
import threading
import time
from typing import Annotated, Literal

import pytest
import verdigris
from conftest import TALE

pydantic = pytest.importorskip("pydantic", reason="SKIPPED: pydantic is not installed, so typed values are not tested")


@pytest.fixture(scope="module")
def engine():
    return verdigris.Engine.load(TALE)


class Person(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=12)
    age: int = pydantic.Field(ge=0, le=120)
    rank: Literal["captain", "mate", "cook"]
    ships: list[Annotated[str, pydantic.Field(max_length=8)]] = pydantic.Field(max_length=2)


@dataclasses.dataclass
class Place:
    name: Annotated[str, pydantic.Field(max_length=6)]
    north: bool


def test_a_text_is_the_programs_and_its_mark_is_found(engine, program, key):
    options = {"max_tokens": 120, "seed": 7, "temperature": 0.9, "top_k": 50, "repetition_penalty": 1.1}
    arguments = ["--max-tokens", 120, "--seed", 7, "--temperature", 0.9, "--top-k", 50, "--repetition-penalty", 1.1]
    theirs = json.loads(program("generate", "The captain", "--key", key, *arguments, "--json"))
    secret = verdigris.Key.load(key)
    ours = engine.request("The captain", watermark=secret, **options).text()
    assert (ours.tokens, ours.text, ours.stop) == (theirs["tokens"], theirs["text"], theirs["stop"])
    assert str(ours) == ours.text and ours.seed == 7 and ours.complete is None and ours.prompt_tokens == 2
    assert verdigris.detect(ours.text, secret, engine.tokenizer).marked
    mark = theirs["mark"]
    found = (ours.mark.status, ours.mark.reason, ours.mark.scored, ours.mark.log10_p)
    assert found == (mark["status"], mark.get("reason"), mark["scored"], mark["log10_p"])
    assert ours.mark.status == "watermarked"
    stream = engine.request("The captain", watermark=secret, max_tokens=8, seed=7).stream()
    list(stream)
    assert stream.written.mark.status == "too_weak" and stream.written.mark.reason
    texts = engine.request("The captain", watermark=secret, choice=["a sail"], seed=7).texts(2)
    assert [text.mark.status for text in texts] == ["skipped", "skipped"]
    plain = engine.request("The captain", **options).text()
    assert plain.mark is None
    assert not verdigris.detect(plain.text, secret, engine.tokenizer).marked


def test_several_texts_are_those_of_their_seeds(engine):
    asked = engine.request("The storm", max_tokens=30, seed=3)
    texts = asked.texts(3)
    assert [text.seed for text in texts] == [3, 4, 5]
    assert texts[0].text == asked.text().text and texts[1].text != texts[0].text
    after = asked.prompts(["The storm", engine.tokenizer.encode("The cook")])
    assert after[0].text == texts[0].text
    assert after[1].text == engine.request("The cook", max_tokens=30, seed=4).text().text


def test_pieces_are_the_text(engine):
    stream = engine.request("The captain", max_tokens=40, seed=1, lookup=True).stream()
    assert stream.written is None
    pieces = list(stream)
    assert "".join(pieces) == stream.written.text and len(pieces) > 10 and all(pieces)
    assert stream.written.calls > 0 and list(stream) == []
    one = engine.request("The captain", max_tokens=100_000, seed=1).stream()
    assert next(one)
    # Dropping it ends the thread that writes it.
    del one


def test_prompts_are_healed(engine):
    prompt = "It was a dark night, a"
    text = engine.request(prompt, token_healing=True, temperature=0, max_tokens=8).text().text
    whole = engine.request(prompt + "nd", temperature=0, max_tokens=8).text().text
    assert (prompt + "nd" + whole).startswith(prompt + text)
    assert text != engine.request(prompt, temperature=0, max_tokens=8).text().text


def test_values_of_types(engine):
    person = engine.request("The person: ", seed=5, max_tokens=150).json(Person)
    assert isinstance(person, Person) and 0 <= person.age <= 120 and len(person.ships) <= 2
    numbers = engine.request("Numbers: ", seed=5).json(Annotated[list[int], pydantic.Field(min_length=2, max_length=3)])
    assert 2 <= len(numbers) <= 3 and all(isinstance(number, int) for number in numbers)
    place = engine.request("The place: ", seed=5).json(Place)
    assert isinstance(place, Place) and isinstance(place.north, bool)
    key = verdigris.Key.generate(engine.tokenizer)
    assert (key.dialect, key.variants) == ("native-gumbel", 8)
    assert isinstance(engine.request("The person: ", watermark=key).json(Person), Person)
    with pytest.raises(verdigris.BadConstraint, match="token"):
        engine.request("The person: ", max_tokens=3).json(Person)
    with pytest.raises(verdigris.Error, match="the type is the constraint"):
        engine.request("The person: ", regex="a").json(Person)


def test_forms(engine):
    assert engine.request("In the year ", regex="1[0-9]{3}", seed=2).text().text[0] == "1"
    assert engine.request("He was ", choice=["glad", "sad"], seed=2).text().text in ("glad", "sad")
    asked = engine.request("The person: ", json_schema=Person, max_tokens=150, seed=2).text()
    assert asked.complete and Person.model_validate_json(asked.text)
    constraint = verdigris.Constraint.regex("[a-c]{5}", engine.tokenizer, end=engine.end)
    assert set(engine.request("", constraint=constraint).text().text) <= set("abc")
    stopped = engine.request("The captain", stop=["e", "o"], seed=1).text()
    assert stopped.stop_string in ("e", "o") and not set(stopped.text) & {"e", "o"}


def test_log_probabilities(engine):
    written = engine.request("The captain", max_tokens=5, temperature=0, logprobs=2).text()
    assert len(written.logprobs) == 5
    for one in written.logprobs:
        assert one.chosen.rank == 1 and one.top[0].token == one.chosen.token and one.chosen.logprob < 0


def test_a_smaller_model_drafts(engine):
    small = verdigris.Engine.load(TALE.parent / "tale-small")
    drafted = engine.request("The captain", temperature=0, max_tokens=60, draft=small, draft_tokens=3).text()
    assert drafted.text == engine.request("The captain", temperature=0, max_tokens=60).text().text
    assert drafted.accepted > 0 and drafted.calls < 60


@pytest.mark.parametrize("options, fault, words", [
    ({"max_token": 3}, TypeError, "max_token: there is no such option"),
    ({"top_k": "many"}, TypeError, "top_k"),
    ({"temperature": -1.0}, verdigris.Error, "temperature is -1"),
    ({"regex": "("}, verdigris.BadConstraint, "unclosed"),
    ({"regex": "a", "choice": ["b"]}, verdigris.Error, "use only one of regex"),
    ({"json_schema": "{"}, verdigris.BadConstraint, "invalid JSON"),
    ({"payload": 3}, verdigris.Error, "payload"),
    ({"logit_bias": {5000: 1.0}}, verdigris.Error, "5000"),
])
def test_what_cannot_be_asked_for(engine, options, fault, words):
    with pytest.raises(fault, match=words):
        engine.request("The captain", **options).text()


def test_what_cannot_be_loaded_or_read(engine, tmp_path):
    with pytest.raises(verdigris.BadModel, match="nowhere"):
        verdigris.Engine.load(tmp_path / "nowhere")
    (tmp_path / "bad.gguf").write_bytes(b"GGUF" + bytes(40))
    with pytest.raises(verdigris.BadModel):
        verdigris.Engine.load(tmp_path / "bad.gguf")
    with pytest.raises(TypeError, match="messages go to chat"):
        engine.request([{"role": "user", "content": "Hello"}])
    with pytest.raises(verdigris.Error, match="no chat template"):
        engine.chat("Hello").text()
    with pytest.raises(verdigris.Error, match="message 0 has no content"):
        engine.chat([{"role": "user"}])
    with pytest.raises(verdigris.Error, match="5000"):
        engine.request([5000]).text()
    fields = json.loads((TALE / "tokenizer.json").read_text())
    ids = fields["model"]["vocab"]
    ids["!"], ids["?"] = ids["?"], ids["!"]
    other = verdigris.Tokenizer.from_json(json.dumps(fields))
    with pytest.raises(verdigris.BadKey, match="tokenizer"):
        engine.request("The captain", watermark=verdigris.Key.lists(other)).text()


def test_ctrl_c_ends_a_text(engine):
    # Shells start programs in the background with this signal ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    before = time.monotonic()
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        # A constraint without a forced end keeps it writing.
        engine.request("The captain", regex="[a-z ]*", max_tokens=1_000_000, min_tokens=1_000).texts(500)
    assert time.monotonic() - before < 30


def test_threads_go_on(engine):
    counted, done = 0, threading.Event()

    def write():
        engine.request("The captain", max_tokens=200, min_tokens=200, seed=1).texts(4)
        done.set()

    threading.Thread(target=write).start()
    while not done.is_set():
        counted += 1
        time.sleep(0.001)
    assert counted > 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="SKIPPED: this platform has no fork")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_process_is_told(engine):
    stream = engine.request("The captain", max_tokens=300).stream()
    next(stream)
    for write in (lambda: engine.request("The captain", max_tokens=3).text(), lambda: list(stream)):
        reader, writer = os.pipe()
        child = os.fork()
        if child == 0:
            try:
                write()
                words = "written"
            except verdigris.Error as fault:
                words = str(fault)
            os.write(writer, words.encode())
            os._exit(0)
        os.waitpid(child, 0)
        assert "spawn" in os.read(reader, 1000).decode()


def test_a_constraint_over_other_tokens_is_refused(engine):
    words = {"model": {"type": "BPE", "vocab": {"a": 0, "1": 1, "\u0120": 2}, "merges": []},
             "pre_tokenizer": (step := {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}),
             "decoder": step}
    other = verdigris.Constraint.regex("1{4}", verdigris.Tokenizer.from_json(json.dumps(words)), end=[0])
    with pytest.raises(verdigris.BadConstraint, match="another tokenizer"):
        engine.request("In the year", constraint=other).text()
