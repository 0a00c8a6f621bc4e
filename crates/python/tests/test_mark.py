"""Marks on rows of logits."""

import pytest
import verdigris

numpy = pytest.importorskip("numpy", reason="SKIPPED: numpy is not installed, so marks are not tested")

KEYS = [{}, {"context": "all", "width": 1}, {"context": "self-salted", "width": 2}, {"delta": None}, {"delta": 0.5}]


def bits(mask, columns):
    return ((mask[:, numpy.arange(columns) // 32] >> (numpy.arange(columns) % 32)) & 1).astype(bool)


@pytest.mark.parametrize("options", KEYS)
def test_lists_and_logits_say_the_same(options):
    mark = verdigris.Mark(verdigris.Key.lists(**options))
    assert not mark.reads_logits and mark.vocabulary_size == 4096
    chance = numpy.random.default_rng(1)
    tokens = chance.integers(0, 4096, (7, 9))
    # The width of a padded model.
    logits = chance.normal(size=(7, 4100)).astype(numpy.float32)
    logits[2, 100:2000] = -numpy.inf
    mask = numpy.full((7, mark.bitmask_words), -1, numpy.int32)
    mark.fill_bitmask(tokens, mask)
    green = numpy.pad(bits(mask, 4096), ((0, 0), (0, 4)))
    assert ((green.mean(axis=1) > 0.2) & (green.mean(axis=1) < 0.3)).all()
    marked = logits.copy()
    mark.apply(tokens, marked)
    want = numpy.where(green, logits, -numpy.inf) if mark.delta is None else \
        numpy.where(green, logits + numpy.float32(mark.delta), logits)
    assert (marked == want).all()


def test_a_row_that_is_too_short_stays():
    mark = verdigris.Mark(verdigris.Key.lists())
    logits, mask = numpy.zeros((2, 4096), numpy.float32), numpy.full((2, 128), -1, numpy.int32)
    short = numpy.ones((2, 3), numpy.int64)
    mark.apply(short, logits)
    mark.fill_bitmask(short, mask)
    assert (logits == 0).all() and (mask == 0).all()


def test_detection_finds_what_is_marked():
    """In a text of green tokens, detection counts them as green."""
    key = verdigris.Key.lists(context="all", width=1)
    mark, tale = verdigris.Mark(key), verdigris.Tokenizer.tale()
    words = [token for token in range(300, 4096) if tale.encode(tale.decode([token])) == [token]
             and tale.decode([token]).startswith(" ") and tale.decode([token])[1:].isalpha()]
    text, chance = [words[0]], numpy.random.default_rng(1)
    for _ in range(60):
        logits = numpy.full((1, 4096), -numpy.inf, numpy.float32)
        logits[0, words] = chance.normal(size=len(words))
        mark.apply(numpy.array([text]), logits)
        text.append(int(logits.argmax()))
    found = verdigris.detect(tale.decode(text), key)
    assert found.tokens == 61 and found.marked and found.green > 0.6 * found.scored


def test_a_number_has_lists_of_its_own():
    numbered = verdigris.Key.lists(payload_bits=8)
    with pytest.raises(verdigris.BadKey, match="say which one to write"):
        verdigris.Mark(numbered)
    with pytest.raises(verdigris.BadKey, match="carries no payload"):
        verdigris.Mark(verdigris.Key.lists(), 3)
    tokens = numpy.random.default_rng(1).integers(0, 4096, (40, 8))
    masks = []
    for payload in (1, 2):
        masks.append(numpy.zeros((40, 128), numpy.int32))
        verdigris.Mark(numbered, payload).fill_bitmask(tokens, masks[-1])
    assert (masks[0] != masks[1]).any()


def test_what_does_not_fit_is_refused():
    mark = verdigris.Mark(verdigris.Key.lists())
    tokens, mask = numpy.zeros((2, 8), numpy.int64), numpy.zeros((2, 128), numpy.int32)
    for wrong in ((tokens[0], mask), (tokens[:1], mask), (tokens, mask[:, :3]), (tokens - 1, mask)):
        with pytest.raises(verdigris.Error):
            mark.fill_bitmask(*wrong)
    for wrong in ((tokens, numpy.zeros((2, 4096))), (tokens.astype(numpy.int32), mask)):
        with pytest.raises(verdigris.WrongType):
            mark.apply(*wrong)
    with pytest.raises(verdigris.Error, match="a row has 10 logits, but the key .* is for 4096 tokens: give whole rows"):
        mark.apply(tokens, numpy.zeros((2, 10), numpy.float32))
    with pytest.raises(verdigris.Error):
        mark.apply(tokens, numpy.zeros((1, 4096), numpy.float32))
