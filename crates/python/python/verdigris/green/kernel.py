"""The words of green lists by a Triton kernel: one launch instead of hundreds of torch operations."""

import torch
import triton
import triton.language as tl

from . import aes

# The number of blocks of a row that a Triton program computes.
_BLOCKS = 128


@triton.jit
def _look_up(tables, row: tl.constexpr, word):
    return tl.load(tables + 256 * row + ((word >> 8 * row) & 0xFF))


@triton.jit
def _column(tables, a, b, c, d):
    """A column after a round, before adding the key: row r comes from the column r positions later."""
    return _look_up(tables, 0, a) ^ _look_up(tables, 1, b) ^ _look_up(tables, 2, c) ^ _look_up(tables, 3, d)


@triton.jit
def _expand(words, seeds, rounds, m_of, k_of, mixed, last, blocks, BLOCKS: tl.constexpr, PLANES: tl.constexpr):
    """Writes `words[row, 4 * block ..]`: the list of a row's seed, 128 tokens per block, as in `GreenLists`."""
    row = tl.program_id(0)
    block = tl.program_id(1) * BLOCKS + tl.arange(0, BLOCKS)
    rounds += row * 44
    m = tl.load(m_of + row)
    k = tl.load(k_of + row)
    zero = tl.zeros([BLOCKS], tl.int32)
    w0, w1, w2, w3 = zero, zero, zero, zero
    for plane in tl.static_range(PLANES):
        a = tl.load(seeds + row * 4) ^ block ^ tl.load(rounds)
        b = zero ^ tl.load(seeds + row * 4 + 1) ^ plane ^ tl.load(rounds + 1)
        c = zero ^ tl.load(seeds + row * 4 + 2) ^ tl.load(rounds + 2)
        d = zero ^ tl.load(seeds + row * 4 + 3) ^ tl.load(rounds + 3)
        for at in range(1, 10):
            key = rounds + 4 * at
            e = _column(mixed, a, b, c, d) ^ tl.load(key)
            f = _column(mixed, b, c, d, a) ^ tl.load(key + 1)
            g = _column(mixed, c, d, a, b) ^ tl.load(key + 2)
            h = _column(mixed, d, a, b, c) ^ tl.load(key + 3)
            a, b, c, d = e, f, g, h
        z0 = ~(_column(last, a, b, c, d) ^ tl.load(rounds + 40))
        z1 = ~(_column(last, b, c, d, a) ^ tl.load(rounds + 41))
        z2 = ~(_column(last, c, d, a, b) ^ tl.load(rounds + 42))
        z3 = ~(_column(last, d, a, b, c) ^ tl.load(rounds + 43))
        if plane < k:
            if (m >> plane) & 1 == 1:
                w0, w1, w2, w3 = z0 | w0, z1 | w1, z2 | w2, z3 | w3
            else:
                w0, w1, w2, w3 = z0 & w0, z1 & w1, z2 & w2, z3 & w3
    into = words + (row * blocks + block) * 4
    within = block < blocks
    tl.store(into, w0, within)
    tl.store(into + 1, w1, within)
    tl.store(into + 2, w2, within)
    tl.store(into + 3, w3, within)


def expand(
    rounds: torch.Tensor, seeds: torch.Tensor, m: torch.Tensor, k: torch.Tensor, blocks: int, planes: int
) -> torch.Tensor:
    """The words of each row's list (`[rows, 4 * blocks]`, int32), from its seed (`[rows, 4]`) and its round keys
    (`[rows, 11, 4]`), with `gamma = m / 2^k` (`[rows]`, int64) and all k at most `planes`."""
    mixed, last = aes.tables(seeds.device)
    words = seeds.new_empty((len(seeds), 4 * blocks))
    if len(seeds):
        grid = (len(seeds), triton.cdiv(blocks, _BLOCKS))
        given = seeds.contiguous(), rounds.contiguous(), m, k, mixed.contiguous(), last.contiguous()
        _expand[grid](words, *given, blocks, BLOCKS=_BLOCKS, PLANES=planes)
    return words
