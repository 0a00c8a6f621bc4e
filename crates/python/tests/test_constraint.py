"""Constraints: masks in xgrammar's layout, and texts under them."""

import array
import copy
import json
import random
import re

import pytest
import verdigris

numpy = pytest.importorskip("numpy", reason="SKIPPED: numpy is not installed, so masks are not tested")

TALE = verdigris.Tokenizer.tale()
EXPRESSIONS = ["[0-9]{4}", "(yes|no|perhaps)", r"\w{1,20}( \w+)*\.", "[a-z]+", r"She was born in (18|19)[0-9]{2}\."]
SCHEMA = {"type": "object", "required": ["name", "age"], "additionalProperties": False, "properties": {
    "name": {"type": "string", "pattern": "^[A-Z][a-z]{2,9}$"},
    "age": {"type": "integer", "minimum": 16, "maximum": 99}}}


def bits(row, size):
    """The tokens in a row of xgrammar's layout, by its definition: token i is bit i % 32 of word i / 32."""
    return [i for i in range(size) if int(row[i // 32]) >> (i % 32) & 1]


def write(constraint, chance, most=400):
    """A random text under a constraint."""
    matcher, tokens = constraint.matcher(), []
    row = numpy.zeros(constraint.bitmask_words, numpy.int32)
    while not matcher.is_finished() and len(tokens) < most:
        matcher.fill_bitmask(row)
        token = chance.choice(bits(row, constraint.vocabulary_size))
        assert matcher.accept(token)
        tokens.append(token)
    if tokens and tokens[-1] in constraint.end:
        tokens.pop()
    return TALE.decode(tokens)


@pytest.mark.parametrize("pattern", EXPRESSIONS)
def test_the_first_mask_is_that_of_pythons_expressions(pattern):
    """A token that is a whole text is allowed if Python's `re` matches it."""
    constraint = verdigris.Constraint.regex(pattern)
    matcher = constraint.matcher()
    row = numpy.full(constraint.bitmask_words, -1, numpy.int32)
    matcher.fill_bitmask(row)
    allowed = bits(row, constraint.vocabulary_size)
    assert allowed == matcher.allowed_tokens() and 0 < len(allowed) < 4096
    for token in range(1, 4096):
        text = TALE.decode([token])
        if re.fullmatch(pattern, text, re.ASCII) and text.encode().decode() == text:
            assert token in allowed, (token, text)
        matcher = constraint.matcher()
        assert matcher.accept(token) == (token in allowed), text
        if token in allowed:
            assert matcher.is_accepting() == bool(re.fullmatch(pattern, text)), text


def test_texts_by_chance_obey():
    chance = random.Random(1)
    for pattern in ("[0-9]{4}", "(yes|no|perhaps)", r"[a-z]{1,30}"):
        constraint = verdigris.Constraint.regex(pattern)
        for _ in range(20):
            assert re.fullmatch(pattern, write(constraint, chance))
    assert write(verdigris.Constraint.choice(["left", "right"]), chance) in ("left", "right")
    for schema in (SCHEMA, json.dumps(SCHEMA)):
        constraint = verdigris.Constraint.json_schema(schema)
        for _ in range(20):
            person = json.loads(write(constraint, chance))
            assert set(person) == {"name", "age"} and 16 <= person["age"] <= 99
            assert re.fullmatch("[A-Z][a-z]{2,9}", person["name"])


def test_a_model_of_pydantic_is_a_schema():
    pydantic = pytest.importorskip("pydantic", reason="SKIPPED: pydantic is not installed")

    class Person(pydantic.BaseModel):
        name: str = pydantic.Field(pattern="^[A-Z][a-z]+$", max_length=12)
        age: int = pydantic.Field(ge=16, le=99)

    constraint = verdigris.Constraint.json_schema(Person, closed=True)
    chance = random.Random(2)
    for _ in range(10):
        Person.model_validate_json(write(constraint, chance))


def test_tokens_are_taken_back():
    constraint = verdigris.Constraint.regex("(abc|abd)[0-9]+")
    matcher = constraint.matcher()
    states = []
    for token in TALE.encode("abd12"):
        states.append(matcher.allowed_tokens())
        assert matcher.accept(token)
    assert matcher.is_accepting() and not matcher.is_finished()
    fork = copy.copy(matcher)
    assert fork.accept(0) and fork.is_finished() and fork.allowed_tokens() == [0]
    fork.rollback()
    assert not fork.is_finished() and fork.allowed_tokens() == matcher.allowed_tokens()
    all_at_once = copy.copy(matcher)
    all_at_once.rollback(len(states))
    assert all_at_once.allowed_tokens() == states[0] and len(all_at_once) == 0
    all_at_once.rollback(0)
    while states:
        matcher.rollback(1)
        assert matcher.allowed_tokens() == states.pop()
    assert len(matcher) == 0 and len(fork) > 0
    with pytest.raises(verdigris.Error, match="cannot be taken back: there are 0"):
        matcher.rollback()


def test_what_may_not_come_changes_nothing():
    matcher = verdigris.Constraint.regex("[0-9]{4}").matcher()
    before = matcher.allowed_tokens()
    for token in (TALE.encode("a")[0], 0, 4096, 2**32 - 1):
        assert not matcher.accept(token)
    assert matcher.allowed_tokens() == before and len(matcher) == 0
    assert "digit" in matcher.explain(TALE.encode("a")[0]) or "0" in matcher.explain(TALE.encode("a")[0])


def test_rows_of_a_callers_memory():
    constraint = verdigris.Constraint.regex("[0-9]{4}")
    alone = numpy.zeros(constraint.bitmask_words, numpy.int32)
    matcher = constraint.matcher()
    matcher.fill_bitmask(alone)
    wide = numpy.full((3, constraint.bitmask_words + 2), 7, numpy.int32)
    matcher.fill_bitmask(wide, 1)
    assert (wide[[0, 2]] == 7).all() and (wide[1, :-2] == alone).all() and (wide[1, -2:] == 0).all()
    transposed = numpy.full((constraint.bitmask_words, 2), 7, numpy.int32).T
    matcher.fill_bitmask(transposed, 1)
    assert (transposed[0] == 7).all() and (transposed[1] == alone).all()
    plain = array.array("i", [0] * constraint.bitmask_words)
    matcher.fill_bitmask(plain)
    assert plain.tolist() == alone.tolist()
    with pytest.raises(verdigris.Error, match="no row 3 in a bitmask of 3"):
        matcher.fill_bitmask(wide, 3)
    with pytest.raises(verdigris.Error, match="4096 tokens need 128"):
        matcher.fill_bitmask(numpy.zeros(127, numpy.int32))
    with pytest.raises(verdigris.WrongType, match="an array of int32, such as numpy's, not ndarray of int64"):
        matcher.fill_bitmask(numpy.zeros(128, numpy.int64))
    with pytest.raises(verdigris.WrongType, match="an array of int32"):
        matcher.fill_bitmask(numpy.zeros(128, numpy.dtype(numpy.int32).newbyteorder("S")))
    for token in (-1, 4096, 2**40):
        assert matcher.accept(token) is False
        with pytest.raises(verdigris.Error, match="no such token among 4096"):
            matcher.explain(token)
    with pytest.raises(verdigris.WrongType, match="a token is a whole number, not str"):
        matcher.accept("a")
    read_only = numpy.zeros(128, numpy.int32)
    read_only.flags.writeable = False
    with pytest.raises(verdigris.Error, match="the array is read-only"):
        matcher.fill_bitmask(read_only)


def test_the_layout_is_xgrammars():
    xgrammar = pytest.importorskip("xgrammar", reason="SKIPPED: xgrammar is not installed")
    torch = pytest.importorskip("torch")
    constraint = verdigris.Constraint.regex("[0-9]{4}")
    mask = xgrammar.allocate_token_bitmask(2, 4096)
    matcher = constraint.matcher()
    matcher.fill_bitmask(mask.numpy(), 1)
    logits = torch.zeros(2, 4096)
    xgrammar.apply_token_bitmask_inplace(logits, mask)
    assert torch.isfinite(logits[1]).nonzero().flatten().tolist() == matcher.allowed_tokens()


def test_texts_end_where_there_is_room_for_so_many_tokens():
    chance = random.Random(3)
    constraint = verdigris.Constraint.regex("([a-z]+ )*end")
    for _ in range(20):
        matcher, tokens = constraint.within(12).matcher(), []
        while not matcher.is_finished() and len(tokens) < 12:
            tokens.append(chance.choice(matcher.allowed_tokens()))
            assert matcher.accept(tokens[-1])
        assert matcher.is_accepting()
        assert TALE.decode([token for token in tokens if token]).endswith("end")
    # A thought before the answer, and canonical tokens, leave the limit as it is.
    for same in (constraint.within(6).canonical(), constraint.within(6).with_thought("think")):
        matcher = same.matcher()
        while not matcher.is_finished():
            token = chance.choice(matcher.allowed_tokens())
            for other in range(0, 4096, 7):
                is_allowed = other in matcher.allowed_tokens()
                assert is_allowed == copy.copy(matcher).accept(other), other
            assert matcher.accept(token) and len(matcher) <= 7
    with pytest.raises(verdigris.BadConstraint, match="fits into 2 tokens"):
        verdigris.Constraint.regex("[0-9]{40}").within(2)


def test_what_is_not_understood_is_said():
    for make in (lambda: verdigris.Constraint.regex("("), lambda: verdigris.Constraint.choice([]),
                 lambda: verdigris.Constraint.json_schema("{"),
                 lambda: verdigris.Constraint.json_schema({"type": "nothing"})):
        with pytest.raises(verdigris.BadConstraint) as fault:
            make()
        assert "\n" not in str(fault.value).strip()
    with pytest.raises(verdigris.Error, match="whitespace is"):
        verdigris.Constraint.json_schema({}, whitespace="lots")
    with pytest.raises(verdigris.Error, match="there are 4096 tokens"):
        verdigris.Constraint.regex("a", end=[4096])
