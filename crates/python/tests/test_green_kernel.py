"""The Triton kernel marks like the program. Triton's interpreter runs it on the CPU.

The interpreter is chosen by an environment variable when the kernel is defined, so these tests run in a second process.
"""

import os
import subprocess
import sys

import numpy
import pytest
import verdigris

torch = pytest.importorskip("torch", reason="SKIPPED: torch is not installed, so the kernel is not tested")
pytest.importorskip("triton", reason="SKIPPED: triton is not installed, so the kernel is not tested")

from verdigris.bits import expand  # noqa: E402
from verdigris.green import GreenLists  # noqa: E402

CASES = [
    {"context": "min", "width": 4},
    {"context": "min", "width": 1, "gamma": 0.75, "delta": 0.1},
    {"context": "min", "width": 8, "gamma": 255 / 256, "delta": None},
    {"context": "all", "width": 1, "gamma": 0.5, "delta": None},
    {"context": "all", "width": 2, "gamma": 0.125},
    {"context": "all", "width": 3, "gamma": 0.5, "delta": 0.7},
    {"context": "all", "width": 5, "gamma": 1 / 256, "delta": 5.0},
    {"context": "all", "width": 8, "gamma": 0.375, "delta": 1.3},
    {"context": "self-salted", "width": 1, "gamma": 0.625},
    {"context": "self-salted", "width": 3, "delta": None},
]
VOCABULARY = 4096
EDGES = [0, 1, 127, 128, 255, 4095, 65535, 2**24, 2**31 - 1]


def batch(rows, width=8, seed=1):
    """Ends of texts, in which one in four tokens is an edge case."""
    chance = numpy.random.default_rng(seed)
    tokens = chance.integers(0, VOCABULARY, (rows, width))
    at_edges = chance.random((rows, width)) < 0.25
    return torch.from_numpy(numpy.where(at_edges, chance.choice(EDGES, (rows, width)), tokens))


def by_the_program(keys, logits, which, contexts):
    """Each row by `Mark.apply`, which knows nothing of rows without a key or without a whole context."""
    want = logits.clone()
    for row, key in enumerate(which.tolist()):
        tokens = contexts[row, -keys[key].context[1] :].numpy()
        if key >= 0 and len(tokens) == keys[key].context[1] and (tokens >= 0).all():
            verdigris.Mark(keys[key]).apply(tokens[None].copy(), want[row : row + 1].numpy())
    return want


if os.environ.get("TRITON_INTERPRET") == "1":
    torch.set_num_threads(1)

    @pytest.fixture(scope="module")
    def keys():
        return [verdigris.Key.lists(id=f"k{at}", **case) for at, case in enumerate(CASES)]

    @pytest.fixture(autouse=True)
    def fast(request, monkeypatch):
        """Larger pieces, since the interpreter's time depends on the number of operations. One test has the original."""
        if request.function is not test_few_columns_and_rows_that_are_not_adjacent:
            monkeypatch.setattr("verdigris.green.kernel._SALTED_PIECE", 1024)

    def test_lists_are_those_of_the_program(keys):
        """Also with columns past the vocabulary, and with fewer columns than tokens."""
        contexts, which = batch(len(keys)), torch.arange(len(keys))
        lists = GreenLists(keys, triton=True)
        green = lists.green(which, contexts)
        for row, key in enumerate(keys):
            mask = numpy.zeros((1, VOCABULARY // 32), numpy.int32)
            verdigris.Mark(key).fill_bitmask(contexts[row : row + 1].numpy(), mask)
            assert torch.equal(green[row], expand(torch.from_numpy(mask), VOCABULARY)[0]), key
        few = torch.tensor([0, 8])
        for columns in (VOCABULARY + 64, 1000):
            made = lists.green(few, contexts[few], columns)
            assert made.shape == (2, columns) and made.dtype == torch.bool
            assert torch.equal(made[:, :VOCABULARY], green[few, :columns])
            assert not made[:, VOCABULARY:].any()

    def test_logits_are_those_of_the_program(keys, monkeypatch):
        """Rows of all keys in one launch, soft and hard; the second half allow few tokens, and the last none."""
        # Memory that is not initialized must not matter.
        monkeypatch.setattr(torch.Tensor, "new_empty", torch.Tensor.new_ones)
        rows, columns = 2 * len(keys), VOCABULARY + 64
        contexts, which = batch(rows, seed=2), torch.arange(rows) % len(keys)
        logits = torch.randn(rows, columns)
        for row in range(len(keys), rows):
            logits[row, torch.randperm(VOCABULARY)[: VOCABULARY - 2]] = -torch.inf
        logits[-1, :VOCABULARY] = -torch.inf
        want = by_the_program(keys, logits, which, contexts)
        hard = [row for row in range(rows) if CASES[int(which[row])].get("delta", 2.0) is None]
        some = [row for row in hard if not torch.equal(want[row], logits[row])]
        assert 0 < len(some) < len(hard), "rows of hard keys both change and stay"
        got = GreenLists(keys, triton=True).mark(logits, which, contexts)
        assert got is logits and torch.equal(got, want)

    def test_few_columns_and_rows_that_are_not_adjacent(keys):
        """Fewer columns than tokens of the vocabulary, in an odd number, of rows within a larger tensor."""
        contexts, which = batch(4, seed=3), torch.tensor([2, 0, 9, 7])
        around = torch.randn(4, 2, 1100)
        logits = around[:, 1, 3:1002]
        padded = torch.nn.functional.pad(logits, (0, VOCABULARY - logits.shape[1]), value=-torch.inf)
        want, before = by_the_program(keys, padded, which, contexts)[:, : logits.shape[1]], around.clone()
        GreenLists(keys, triton=True).mark(logits, which.to(torch.int32), contexts.to(torch.int32))
        assert torch.equal(logits, want)
        before[:, 1, 3:1002] = want
        assert torch.equal(around, before), "nothing around the rows changes"
        # A layout that the kernel does not support.
        across = padded.t().contiguous().t()
        GreenLists(keys, triton=True).mark(across, which, contexts)
        assert torch.equal(across[:, : logits.shape[1]], want)

    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64])
    def test_other_types_are_rounded_like_torchs(keys, dtype):
        contexts, which = batch(4, seed=4), torch.tensor([0, 3, 5, 7])
        logits = (4 * torch.randn(4, VOCABULARY)).to(dtype)
        if dtype == torch.bfloat16:
            # The interpreter truncates to this type, where devices round: sums that need neither.
            which, logits = torch.tensor([0, 3, 4, 6]), logits.round()
        want = GreenLists(keys, triton=False)
        want._marks = None
        want = want.mark(logits.clone(), which, contexts)
        got = GreenLists(keys, triton=True).mark(logits.clone(), which, contexts)
        assert torch.equal(got, want) and not torch.equal(got, logits)

    @pytest.mark.parametrize("missing", [1, 4, 7])
    def test_the_beginning_of_a_text_and_rows_without_a_key_stay(keys, missing):
        """Whether tokens are missing because they are -1 or because there are too few columns."""
        contexts = batch(len(keys) + 1, seed=5)
        which = torch.tensor([*range(len(keys)), -1])
        logits = torch.randn(len(which), 1024)
        widths = [key.context[1] for key in keys] + [9]
        contexts[:, :missing] = -1
        for given in (contexts, contexts[:, missing:]):
            got = GreenLists(keys, triton=True).mark(logits.clone(), which, given)
            changed = (got != logits).any(dim=1).tolist()
            assert changed == [width <= 8 - missing for width in widths]

    def test_rows_without_a_key_take_nothing_from_its_neighbours_in_memory(keys):
        contexts, logits = batch(3, seed=7), torch.randn(3, 512)
        made = GreenLists(keys[3:6], triton=True)
        *of_keys, tables = made._kernel._keys
        made._kernel._keys = *(each[1:2] for each in of_keys), tables
        made._kernel._parameters = made._kernel._parameters[1:2]
        padded = torch.nn.functional.pad(logits, (0, VOCABULARY - 512))
        want = by_the_program(keys, padded, torch.tensor([-1, 4, -1]), contexts)
        assert torch.equal(made.mark(logits, torch.tensor([-1, 0, 1]), contexts), want[:, :512])

    def test_keys_without_hard_or_self_salted_ones_take_one_launch(keys, monkeypatch):
        """And so do all keys but hard ones, which take two."""
        from verdigris.green import kernel

        launched = []

        class Counted:
            def __init__(self, name):
                self.name, self.made = name, getattr(kernel, name)

            def __getitem__(self, grid):
                launched.append(self.name)
                return self.made[grid]

        for name in ("_mark", "_forbid"):
            monkeypatch.setattr(kernel, name, Counted(name))
        contexts = batch(3, seed=6)
        for chosen, want in (([0, 1, 4], ["_mark"]), ([0, 8, 5], ["_mark"]), ([3, 1, 9], ["_mark", "_forbid"])):
            GreenLists([keys[at] for at in chosen], triton=True).mark(torch.randn(3, 512), torch.arange(3), contexts)
            assert launched == want
            launched.clear()

    def test_nothing_is_done_without_rows_or_keys(keys):
        empty = GreenLists(keys, triton=True)
        assert empty.mark(torch.randn(0, 64), torch.zeros(0, dtype=torch.int64), batch(0)).shape == (0, 64)
        assert empty.green(torch.zeros(0, dtype=torch.int64), batch(0)).shape == (0, VOCABULARY)
        logits = torch.randn(2, 64)
        kept = GreenLists([], triton=True).mark(logits.clone(), torch.tensor([-1, -1]), batch(2))
        assert torch.equal(kept, logits)

else:

    def test_in_the_interpreter():
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", __file__],
            env={**os.environ, "TRITON_INTERPRET": "1"},
            capture_output=True,
            text=True,
            timeout=1200,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        assert " passed" in done.stdout and "skipped" not in done.stdout, done.stdout
