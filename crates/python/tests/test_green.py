"""Green lists on a device are identical to those of the program."""

import copy
import os
import pickle

import numpy
import pytest
import verdigris

torch = pytest.importorskip("torch", reason="SKIPPED: torch is not installed, so lists on devices are not tested")

from verdigris.bits import expand  # noqa: E402
from verdigris.green import GreenLists, aes  # noqa: E402

# For lists this small, threads would spend more time waiting for each other than computing.
torch.set_num_threads(1)

CASES = [
    {"context": "min", "width": 4},
    {"context": "all", "width": 1, "gamma": 0.5, "delta": None},
    {"context": "all", "width": 4, "gamma": 0.5, "delta": 0.7},
    {"context": "all", "width": 5, "gamma": 1 / 256},
    {"context": "all", "width": 8, "gamma": 0.375, "delta": 1.3},
    {"context": "min", "width": 1, "gamma": 0.75},
    {"context": "min", "width": 8, "gamma": 255 / 256, "delta": None},
    {"context": "self-salted", "width": 1, "gamma": 0.625},
    {"context": "self-salted", "width": 4, "delta": 3.0},
]
EDGES = [0, 1, 127, 128, 255, 4095, 4096, 65535, 2**24, 2**31 - 1]


@pytest.fixture(scope="module")
def keys():
    return [verdigris.Key.lists(id=f"k{at}", **case) for at, case in enumerate(CASES)]


def contexts(rows, width=8, seed=1):
    """Ends of texts, in which one in four tokens is an edge case."""
    chance = numpy.random.default_rng(seed)
    tokens = chance.integers(0, 4096, (rows, width))
    at_edges = chance.random((rows, width)) < 0.25
    return torch.from_numpy(numpy.where(at_edges, chance.choice(EDGES, (rows, width)), tokens))


def of_the_program(key, tokens):
    mark = verdigris.Mark(key)
    mask = numpy.zeros((len(tokens), mark.bitmask_words), numpy.int32)
    mark.fill_bitmask(tokens.numpy(), mask)
    return expand(torch.from_numpy(mask), mark.vocabulary_size)


def test_blocks_are_those_of_the_standard():
    """FIPS 197, appendices A.1 and C.1."""
    words = lambda text: torch.from_numpy(numpy.frombuffer(bytes.fromhex(text), "<i4").copy())  # noqa: E731
    expanded = aes.expand_keys(words("2b7e151628aed2a6abf7158809cf4f3c"))
    assert expanded[10].numpy().tobytes().hex() == "d014f9a8c9ee2589e13f0cc8b6630ca6"
    rounds = aes.expand_keys(words("000102030405060708090a0b0c0d0e0f")).unsqueeze(0)
    block = aes.encrypt(rounds, words("00112233445566778899aabbccddeeff").view(1, 1, 4))
    assert block.numpy().tobytes().hex() == "69c4e0d86a7b0430d8cdb78070b4c55a"


def test_a_million_answers_are_those_of_the_program(keys):
    """Rows of all keys in one batch have the same lists as each key alone in the program."""
    rows = 280
    tokens, which = contexts(rows), torch.arange(rows) % len(keys)
    green = GreenLists(keys).green(which, tokens)
    assert green.numel() == rows * 4096 > 1_000_000
    for place, key in enumerate(keys):
        mine = which == place
        want = of_the_program(key, tokens[mine])
        assert torch.equal(green[mine], want), key
        assert abs(float(want.float().mean()) - key.gamma) < 0.02


def test_an_answer_does_not_depend_on_its_batch(keys):
    tokens = contexts(len(keys), seed=2)
    together = GreenLists(keys).green(torch.arange(len(keys)), tokens)
    for place, key in enumerate(keys):
        alone = GreenLists([key])
        green = alone.green(torch.tensor([0]), tokens[place : place + 1, -alone.width :])
        assert torch.equal(green[0], together[place])


def test_the_beginning_of_a_text_stays(keys):
    """Nothing is green if a token that the key reads is missing, or if a row has no key."""
    lists, which = GreenLists(keys), torch.arange(len(keys))
    widths = torch.tensor([key.context[1] for key in keys])
    for missing in range(8):
        tokens = contexts(len(keys), seed=missing)
        tokens[:, :missing] = -1
        assert torch.equal(lists.green(which, tokens).any(dim=1), widths <= 8 - missing)
        assert torch.equal(lists.green(which, tokens[:, missing:]).any(dim=1), widths <= 8 - missing)
    assert not lists.green(torch.full_like(which, -1), contexts(len(keys))).any()


@pytest.mark.parametrize("by_torch", [False, True])
def test_logits_are_those_of_the_program(keys, by_torch):
    """Soft and hard keys, rows without allowed green tokens, and columns that pad the vocabulary."""
    rows = 4 * len(keys)
    tokens, which = contexts(rows, seed=3), torch.arange(rows) % len(keys)
    logits = torch.randn(rows, 4160)
    logits[:, 4096:] = -1.0
    for row in range(rows // 2):
        logits[row, torch.randperm(4160)[:4000]] = -torch.inf
    logits[: len(keys), :4096] = -torch.inf
    want = logits.numpy().copy()
    for row in range(rows):
        verdigris.Mark(keys[int(which[row])]).apply(tokens[row : row + 1].numpy(), want[row : row + 1])
    lists = GreenLists(keys)
    if by_torch:
        # As on any device other than a CPU.
        lists._marks = None
    got = lists.mark(logits, which, tokens)
    assert got is logits and numpy.array_equal(got.numpy(), want)


def test_rows_without_a_context_or_a_key_keep_their_logits(keys):
    lists, width = GreenLists(keys), 8
    tokens = contexts(3, width)
    tokens[0, -1] = -1
    tokens[1, :-1] = -1
    logits = torch.randn(3, 4096)
    kept = lists.mark(logits.clone(), torch.tensor([0, 4, -1]), tokens)
    assert torch.equal(kept, logits)


def test_one_self_salted_key_costs_its_own_rows_alone(keys, monkeypatch):
    """Self-salted lists are made only for the rows of self-salted keys."""
    lists, which = GreenLists(keys), torch.arange(24) % len(keys)
    rows = []
    made = lists._salted
    monkeypatch.setattr(lists, "_salted", lambda *given: rows.append(len(given[1])) or made(*given))
    lists.green(which, contexts(24))
    assert rows == [sum(CASES[place]["context"] == "self-salted" for place in which.tolist())]
    others = which[[lists.is_salted(place) is False for place in which.tolist()]]
    lists.green(others, contexts(len(others)), salted=False)
    assert len(rows) == 1


def test_triton_is_not_used_where_it_cannot_run(keys, monkeypatch):
    """On a CPU it is not used by default, and asking for it is an error that names the cure."""
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert GreenLists(keys)._kernel is None
    with pytest.raises(verdigris.Error, match="leave triton=True out"):
        GreenLists(keys, triton=True)


def test_lists_tell_nothing(keys):
    lists = GreenLists(keys)
    assert repr(lists) == f"GreenLists({len(keys)} keys on cpu)"
    for store in (pickle.dumps, copy.deepcopy, lambda it: torch.save(it, os.devnull)):
        with pytest.raises(verdigris.BadKey, match="not pickled"):
            store(lists)


def test_other_keys_are_refused(program, tmp_path):
    path, secret = tmp_path / "theirs.key", tmp_path / "secret.txt"
    secret.write_text("15485863")
    program("key", "new", path, "--dialect", "kgw", "--import", secret)
    theirs = verdigris.Key.load(path)
    for key in (theirs, verdigris.Key.lists(payload_bits=8)):
        with pytest.raises(verdigris.BadKey, match="use a native key without a payload"):
            GreenLists([key])
    assert theirs.context is None
    with pytest.raises(verdigris.BadKey, match="kgw"):
        theirs.write_sub_keys(numpy.zeros((2, 4), numpy.int32))
    mine = verdigris.Key.lists()
    for wrong in (numpy.zeros(8, numpy.int32), numpy.zeros((4, 2), numpy.int32)):
        with pytest.raises(verdigris.Error, match="two rows of four words"):
            mine.write_sub_keys(wrong)
    with pytest.raises(verdigris.WrongType, match="sub-keys are an array of int32"):
        mine.write_sub_keys(numpy.zeros((2, 4), numpy.int64))
