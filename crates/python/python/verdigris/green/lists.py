"""Green lists of native keys, computed from the tokens before a position on their device: any device of torch.

All arithmetic is on integers, so the lists are identical to the program's on every device (docs/watermark.md, "The
native scheme"). Rows with different keys go through the same operations.
"""

import importlib.util
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

import torch

from verdigris import BadKey, Error, Key, Mark

from ..bits import expand
from ..serving import why_not
from . import aes

if TYPE_CHECKING:
    from .kernel import Kernel

# The functions of contexts, by their numbers in the parameters of keys.
_FUNCTIONS = ("all", "min", "self-salted")
# The number of tokens of a self-salted list processed at a time, each with its own blocks.
_PIECE = 1 << 14
_PACKED = 4
_MOST = 8


class GreenLists:
    """The green lists of some native keys on one device. Each row of a batch may have a different key.

    A Triton kernel makes them and marks logits with them in one launch, without waiting for the device, so that it can
    be part of a CUDA graph; hard keys need two launches more. `triton` is whether to use it: by default, on a GPU
    where Triton is installed. Without it there are some hundred operations of torch, and rows of self-salted keys wait
    for the device. Triton compiles the kernel when it is first called, which a graph must not capture, and needs a C
    compiler for that.

    The device holds the AES round keys, 352 bytes for each key, as long as this object exists. Without Triton it also
    holds a copy for each row while it is marked, which torch does not overwrite afterwards. Anyone who can read that
    memory can write and read the marks of the keys, as with the memory of the process itself. The round keys are never
    shown, and cannot be pickled.
    """

    def __init__(self, keys: Sequence[Key], device: torch.device | str = "cpu", *, triton: bool | None = None) -> None:
        self.device: torch.device = torch.device(device)
        triton = _is_with_triton(self.device, triton)
        self.ids: tuple[str, ...] = tuple(key.id for key in keys)
        for key in keys:
            if (why := why_not(key)) is not None:
                raise BadKey(why)
        marks = [Mark(key) for key in keys]
        # On a CPU the program's own lists are about fifty times as fast as torch operations.
        self._marks = marks if self.device.type == "cpu" and not triton else None
        contexts = [key.context or ("all", 1) for key in keys]
        self.width: int = max((width for _, width in contexts), default=1)
        self.vocabulary_size: int = max((mark.vocabulary_size for mark in marks), default=0)
        ratios = [(key.gamma or 0.0).as_integer_ratio() for key in keys]
        self._planes = max((below.bit_length() - 1 for _, below in ratios), default=0)
        self._functions = frozenset(name for name, _ in contexts)
        self._salted_width = max((width for name, width in contexts if name == "self-salted"), default=0)
        self._salted_places = frozenset(at for at, (name, _) in enumerate(contexts) if name == "self-salted")
        self._widths_here = [width for _, width in contexts]
        self._hard = any(mark.delta is None for mark in marks)
        self._rounds = self._round_keys(keys)
        # For each key: `gamma = m / 2^k` as m and k, and the other parameters of its rows.
        parameters = [
            (m, below.bit_length() - 1, width, _FUNCTIONS.index(name), mark.vocabulary_size, int(mark.delta is None))
            for (m, below), (name, width), mark in zip(ratios, contexts, marks)
        ]
        self._parameters = torch.tensor(parameters or [(0,) * 6], dtype=torch.int32).to(self.device)
        self._m, self._k, self._widths, functions, self._sizes, is_hard = self._parameters.unbind(1)
        self._is_min, self._is_salted = (functions == _FUNCTIONS.index(name) for name in ("min", "self-salted"))
        self._is_hard = is_hard.bool()
        self._deltas = torch.tensor([mark.delta or 0.0 for mark in marks] or [0.0]).to(self.device)
        self._kernel = self._compiled() if triton and keys else None

    def green(
        self, which: torch.Tensor, contexts: torch.Tensor, columns: int | None = None, *, salted: bool = True
    ) -> torch.Tensor:
        """Whether each token is green after each context: `[rows, columns]`, by default a column for each token.

        `which` (`[rows]`) is the index of a row's key in the given list, or -1 for none. `contexts` (`[rows, at least
        width]`) are the tokens before the position, the newest last, with -1 for missing or unknown ones. If a token
        that a key reads is missing, nothing is green, as at the beginning of a text. Columns past the vocabulary of
        the key are never green.

        Lists of self-salted keys cost much more than others, and are made only for the rows of such keys. Without
        Triton, finding these rows requires waiting for the device. `salted=False` avoids that, if the caller knows that
        there are none.
        """
        columns = self.vocabulary_size if columns is None else columns
        if self._kernel is not None:
            return self._kernel.green(which.to(self.device), contexts.to(self.device), columns)
        which = which.to(self.device, torch.int64)
        keys = which.clamp(min=0)
        widths = self._widths[keys].unsqueeze(1)
        # From the oldest to the newest token. Entries after the newest are copies of it until they are cleared.
        positions = torch.arange(_MOST, device=self.device)
        taken = positions < widths
        given = contexts.shape[1]
        tokens = contexts.to(self.device).gather(1, (given - widths + positions).clamp(0, given - 1))
        whole = (which >= 0) & (tokens >= 0).all(dim=1) & (widths[:, 0] <= given)
        tokens = torch.where(taken, tokens, 0).to(torch.int32)
        rounds = self._rounds[keys]
        if self._functions == {"self-salted"}:
            green = self._salted(rounds, keys, tokens, taken, columns)
        else:
            green = expand(self._expanded(rounds[:, 1], keys, self._seeds(rounds[:, 0], keys, tokens, taken)), columns)
            if salted and "self-salted" in self._functions:
                own = self._is_salted[keys].nonzero().squeeze(1)
                green[own] = self._salted(rounds[own], keys[own], tokens[own], taken[own], columns)
        within = torch.arange(columns, device=self.device) < self._sizes[keys].unsqueeze(1)
        return green & within & whole.unsqueeze(1)

    def is_salted(self, place: int) -> bool:
        """Whether the key with this index in the given list is self-salted."""
        return place in self._salted_places

    def mark(
        self, logits: torch.Tensor, which: torch.Tensor, contexts: torch.Tensor, *, salted: bool = True
    ) -> torch.Tensor:
        """Marks rows of logits (`[rows, columns]`) in place like `Mark.apply`, and returns them.

        On a CPU, rows of `float32` are marked by `Mark.apply` itself. `salted` is as in `green`.
        """
        if self._marks is not None and logits.dtype == torch.float32:
            return self._mark_here(self._marks, logits, which, contexts)
        if self._kernel is not None and self._kernel.can_mark(logits):
            self._kernel.mark(logits, which.to(self.device), contexts.to(self.device))
            return logits
        green = self.green(which, contexts, logits.shape[1], salted=salted)
        keys = which.to(self.device, torch.int64).clamp(min=0)
        deltas = self._deltas[keys].unsqueeze(1).to(logits.dtype)
        marked = torch.where(green, logits + deltas, logits)
        if self._hard:
            # If no green token is allowed, the row is unchanged.
            some = (green & (logits > -torch.inf)).any(dim=1, keepdim=True)
            forbidden = self._is_hard[keys].unsqueeze(1) & some & ~green
            marked = marked.masked_fill(forbidden, -torch.inf)
        return logits.copy_(marked)

    def _mark_here(
        self, marks: list[Mark], logits: torch.Tensor, which: torch.Tensor, contexts: torch.Tensor
    ) -> torch.Tensor:
        """Marks rows on the CPU, with one call for each key."""
        tokens, places = contexts.to("cpu", torch.int64), which.to("cpu").tolist()
        rows_of: dict[int, list[int]] = {}
        for row, place in enumerate(places):
            # With a missing token the context is too short, and nothing is green.
            width = self._widths_here[place] if place >= 0 else 0
            if width and width <= tokens.shape[1] and bool((tokens[row, -width:] >= 0).all()):
                rows_of.setdefault(place, []).append(row)
        for place, rows in rows_of.items():
            width = self._widths_here[place]
            made = logits[rows].contiguous()
            marks[place].apply(tokens[rows, -width:].contiguous().numpy(), made.numpy())
            logits[rows] = made
        return logits

    def _seeds(
        self, rounds: torch.Tensor, keys: torch.Tensor, tokens: torch.Tensor, taken: torch.Tensor
    ) -> torch.Tensor:
        """The blocks that are the seeds of contexts: `[rows, 4]`."""
        seeds = tokens.new_zeros((len(tokens), 4))
        if "all" in self._functions:
            for start in range(0, self.width, _PACKED):
                part = tokens[:, start : start + _PACKED]
                chained = aes.encrypt(rounds, (seeds ^ part).unsqueeze(1)).squeeze(1)
                seeds = torch.where(taken[:, start, None], chained, seeds)
        if "min" in self._functions:
            blocks = torch.nn.functional.pad(tokens[:, : self.width, None], (0, 3))
            smallest = _smallest(aes.encrypt(rounds, blocks), taken)
            seeds = torch.where(self._is_min[keys].unsqueeze(1), smallest, seeds)
        return seeds

    def _expanded(self, rounds: torch.Tensor, keys: torch.Tensor, seeds: torch.Tensor) -> torch.Tensor:
        """The words of a list from its seed: `[rows, words]`.

        Compares numbers of k bits with m, starting from the lowest bit: where m has a 1, numbers with a 0 are below it;
        where m has a 0, numbers with a 1 are not.
        """
        count = -(-self.vocabulary_size // 128)
        blocks = torch.arange(count, device=self.device, dtype=torch.int32)
        m, k = self._m[keys, None, None], self._k[keys, None, None]
        below = seeds.new_zeros((len(seeds), len(blocks), 4))
        for plane in range(self._planes):
            counters = torch.stack([blocks, torch.full_like(blocks, plane), *[torch.zeros_like(blocks)] * 2], dim=1)
            zeros = ~aes.encrypt(rounds, seeds.unsqueeze(1) ^ counters)
            compared = torch.where((m >> plane & 1).bool(), zeros | below, zeros & below)
            below = torch.where(plane < k, compared, below)
        return below.flatten(1)

    def _salted(
        self, rounds: torch.Tensor, keys: torch.Tensor, tokens: torch.Tensor, taken: torch.Tensor, columns: int
    ) -> torch.Tensor:
        """Self-salted lists: a token's number is the smallest of its blocks with the tokens before it and itself."""
        m, k = self._m[keys].unsqueeze(1), self._k[keys].unsqueeze(1)
        always = taken.new_ones((len(taken), 1))
        pieces = []
        for piece in torch.arange(columns, device=self.device, dtype=torch.int32).split(_PIECE):
            candidates = piece.expand(len(tokens), -1)
            smallest = None
            for at in [*range(self._salted_width), None]:
                other = candidates if at is None else tokens[:, at, None].expand_as(candidates)
                words = [other, candidates, torch.full_like(candidates, -1), torch.zeros_like(candidates)]
                block = aes.encrypt(rounds[:, 0], torch.stack(words, dim=-1))
                use = always if at is None else taken[:, at, None]
                # The first token of a context always exists.
                smallest = block if smallest is None else torch.where(
                    (use & _is_below(block, smallest)).unsqueeze(-1), block, smallest
                )
            assert smallest is not None
            pieces.append((smallest[..., 0] & ((1 << k) - 1)) < m)
        return torch.cat(pieces, dim=1)

    def _round_keys(self, keys: Sequence[Key]) -> torch.Tensor:
        """The round keys for contexts and for lists, `[keys, 2, 11, 4]`, which are secret."""
        given = torch.zeros((max(len(keys), 1), 2, 4), dtype=torch.int32)
        for key, into in zip(keys, given):
            key.write_sub_keys(into.numpy())
        expanded = aes.expand_keys(given)
        made = expanded.to(self.device, copy=True)
        given.zero_()
        expanded.zero_()
        return made

    def _compiled(self) -> "Kernel":
        from .kernel import Kernel

        return Kernel(
            self._rounds, self._parameters, self._deltas, torch.cat(aes.tables(self.device)), size=self.vocabulary_size,
            is_any_hard=self._hard, is_any_salted=bool(self._salted_places),
        )  # fmt: skip

    def __repr__(self) -> str:
        return f"GreenLists({len(self.ids)} keys on {self.device})"

    def __reduce__(self) -> NoReturn:
        raise BadKey("green lists hold secrets of keys, and are not pickled: make them where they are used")


def _is_with_triton(device: torch.device, asked: bool | None) -> bool:
    """Whether to use Triton. Raises `Error` if that is asked for and impossible."""
    is_installed = importlib.util.find_spec("triton") is not None
    if asked is None:
        return device.type == "cuda" and is_installed
    if asked and not is_installed:
        raise Error("Triton, which was asked for, is not installed: install it, or leave triton=True out")
    # Triton's interpreter, which is for tests, runs kernels on a CPU.
    if asked and device.type == "cpu" and os.environ.get("TRITON_INTERPRET") != "1":
        raise Error("Triton, which was asked for, does not run on a CPU: leave triton=True out")
    return asked


def _is_below(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Whether blocks are smaller as unsigned 128-bit numbers, whose last word is the most significant."""
    (low_a, high_a), (low_b, high_b) = _halves(a), _halves(b)
    return (high_a < high_b) | ((high_a == high_b) & (low_a < low_b))


def _halves(block: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Both halves of a block, shifted so that signed comparison gives the result of unsigned comparison."""
    words = block.to(torch.int64)
    low, high = (
        ((words[..., at + 1] << 32) | (words[..., at] & 0xFFFFFFFF)) ^ torch.iinfo(torch.int64).min for at in (0, 2)
    )
    return low, high


def _smallest(blocks: torch.Tensor, taken: torch.Tensor) -> torch.Tensor:
    """The smallest of the taken blocks, `[rows, 4]` of `[rows, blocks, 4]`. The first block is always taken."""
    smallest = blocks[:, 0]
    for at in range(1, blocks.shape[1]):
        use = taken[:, at] & _is_below(blocks[:, at], smallest)
        smallest = torch.where(use.unsqueeze(1), blocks[:, at], smallest)
    return smallest
