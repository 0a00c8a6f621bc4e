"""Green lists by one Triton launch, which reads contexts, computes seeds and lists, and changes the logits themselves.

A program handles one row, so the parameters of its key and its round keys are scalars, and rows of different keys are
in the same launch. It computes the seed of its row, then the list of a range of tokens, and uses it right away: no list
is stored, except for hard keys, whose rows are changed by a second launch, once it is known whether any green token is
allowed. Rows without a key or without a whole context end at once. Nothing waits for the device.

AES is by table look-ups, which hit the cache of the multiprocessor: 148 for a block, of which a list of 128,256 tokens
at a `gamma` of 1/4 takes 2,004. So 64 rows take 19 million look-ups, or 600,000 instructions of a warp, in about the
time that reading and writing their logits takes (66 MB as `float32`): 20 microseconds, if 132 multiprocessors need 8
cycles for such an instruction. A bit-sliced AES takes about the instructions that these look-ups take with their
addresses, and encrypts 32 blocks in each thread, of which a list has too few.
"""

# Triton compiles these functions; their types are not those of Python.
# pyright: basic, reportIndexIssue=false, reportArgumentType=false, reportAssignmentType=false, reportCallIssue=false
# pyright: reportGeneralTypeIssues=false, reportOperatorIssue=false

import torch
import triton
import triton.language as tl

# The types of logits that the kernel changes.
_TYPES = (torch.float32, torch.float16, torch.bfloat16)
# The number of blocks of a list that a program computes, one for each thread; a block has the bits of 128 tokens.
_BLOCKS = 128
_TOKENS = 128 * _BLOCKS
# The number of tokens of a self-salted list that a program computes, two for each thread at a time: more need more
# registers, so that fewer programs run at a time.
_SALTED_TOKENS = 1024
_SALTED_PIECE = 256
# The number of tokens for each program of the second launch.
_FORBIDDEN_TOKENS = 4096
_WARPS = _BLOCKS // 32


@triton.jit
def _column(tables, a, b, c, d):
    """A column after a round, before adding the key: row r comes from the column r positions later."""
    first = tl.load(tables + (a & 0xFF)) ^ tl.load(tables + (256 + ((b >> 8) & 0xFF)))
    return first ^ tl.load(tables + (512 + ((c >> 16) & 0xFF))) ^ tl.load(tables + (768 + ((d >> 24) & 0xFF)))


@triton.jit
def _round(tables, keys, a, b, c, d):
    e = _column(tables, a, b, c, d) ^ tl.load(keys)
    f = _column(tables, b, c, d, a) ^ tl.load(keys + 1)
    g = _column(tables, c, d, a, b) ^ tl.load(keys + 2)
    h = _column(tables, d, a, b, c) ^ tl.load(keys + 3)
    return e, f, g, h


@triton.jit
def _encrypt(tables, rounds, a, b, c, d):
    """Encrypts blocks with one key. Columns that all blocks share can be scalars, which makes the first round cheap."""
    a = tl.load(rounds) ^ a
    b = tl.load(rounds + 1) ^ b
    c = tl.load(rounds + 2) ^ c
    d = tl.load(rounds + 3) ^ d
    a, b, c, d = _round(tables, rounds + 4, a, b, c, d)
    for at in range(2, 10):
        a, b, c, d = _round(tables, rounds + 4 * at, a, b, c, d)
    # The tables of the last round, which does not mix, follow the others.
    return _round(tables + 1024, rounds + 40, a, b, c, d)


@triton.jit
def _unsigned(word):
    """Words whose order as signed numbers is that of the given words as unsigned ones."""
    return word ^ -0x80000000


@triton.jit
def _least(word, candidates):
    """The least word of the candidates, and the candidates that have it."""
    ordered = tl.where(candidates, _unsigned(word), 0x7FFFFFFF)
    least = tl.min(ordered)
    return _unsigned(least), candidates & (ordered == least)


@triton.jit
def _seed(tables, rounds, tokens, context, stride, width, function):
    """The seed of a context: the tokens, and where they are in memory."""
    # Zeros that are not constants.
    a = width * 0
    b, c, d = a, a, a
    if function == 1:
        # The smallest of the tokens' blocks, whose last word is the most significant.
        e, f, g, h = _encrypt(tables, rounds, tokens, 0, 0, 0)
        candidates = tl.arange(0, 8) < width
        d, candidates = _least(h, candidates)
        c, candidates = _least(g, candidates)
        b, candidates = _least(f, candidates)
        a, candidates = _least(e, candidates)
    else:
        # Blocks of four tokens, each xored with the result before it.
        start = a
        while start < width:
            a ^= tl.load(context + start * stride).to(tl.int32)
            b ^= tl.load(context + (start + 1) * stride, mask=start + 1 < width, other=0).to(tl.int32)
            c ^= tl.load(context + (start + 2) * stride, mask=start + 2 < width, other=0).to(tl.int32)
            d ^= tl.load(context + (start + 3) * stride, mask=start + 3 < width, other=0).to(tl.int32)
            a, b, c, d = _encrypt(tables, rounds, a, b, c, d)
            start += 4
    return a, b, c, d


@triton.jit
def _words(tables, rounds, a, b, c, d, m, k, blocks):
    """The four words of each of these blocks of a seed's list.

    Compares numbers of k bits with m, starting from the lowest bit: where m has a 1, numbers with a 0 are below it;
    where m has a 0, numbers with a 1 are not.
    """
    w0 = blocks * 0
    w1, w2, w3 = w0, w0, w0
    plane = k * 0
    while plane < k:
        e, f, g, h = _encrypt(tables, rounds, a ^ blocks, b ^ plane, c, d)
        is_one = -((m >> plane) & 1)
        w0 = (~e & w0) | ((~e | w0) & is_one)
        w1 = (~f & w1) | ((~f | w1) & is_one)
        w2 = (~g & w2) | ((~g | w2) & is_one)
        w3 = (~h & w3) | ((~h | w3) & is_one)
        plane += 1
    return w0, w1, w2, w3


@triton.jit
def _salted(tables, rounds, context, stride, width, m, k, candidates):
    """Whether tokens are in the self-salted list: whether the lowest bits of the smallest of their blocks are below m.

    Each has a block with itself, and one with each token of the context.
    """
    a, b, c, d = _encrypt(tables, rounds, candidates, candidates, -1, 0)
    at = width * 0
    while at < width:
        token = tl.load(context + at * stride).to(tl.int32)
        e, f, g, h = _encrypt(tables, rounds, token, candidates, -1, 0)
        is_below = (_unsigned(f) < _unsigned(b)) | ((f == b) & (_unsigned(e) < _unsigned(a)))
        is_below = (_unsigned(g) < _unsigned(c)) | ((g == c) & is_below)
        is_below = (_unsigned(h) < _unsigned(d)) | ((h == d) & is_below)
        a = tl.where(is_below, e, a)
        b = tl.where(is_below, f, b)
        c = tl.where(is_below, g, c)
        d = tl.where(is_below, h, d)
        at += 1
    return (a & ((1 << k) - 1)) < m


@triton.jit
def _add(logits, green, column, within, delta):
    old = tl.load(logits + column, mask=within, other=0.0)
    # The sum is rounded once, like torch's.
    new = tl.where(green, old.to(tl.float32) + delta, old.to(tl.float32))
    tl.store(logits + column, new.to(old.dtype), mask=within)


@triton.jit
def _use(logits, lists, some, green, column, size, columns, delta, is_hard, MARKS: tl.constexpr, HARD: tl.constexpr):
    """Adds delta to the logits of green tokens, or stores which tokens are green."""
    green &= column < size
    within = column < columns
    if MARKS:
        if HARD:
            if is_hard:
                tl.store(lists + column, green.to(tl.int8), mask=within)
                old = tl.load(logits + column, mask=within, other=float("-inf"))
                if old.dtype.is_bf16():
                    # Which the interpreter does not compare.
                    old = old.to(tl.float32)
                is_allowed = (green & (old > float("-inf"))).to(tl.int32)
                tl.store(some, 1, mask=tl.max(is_allowed) != 0)
            else:
                _add(logits, green, column, within, delta)
        else:
            _add(logits, green, column, within, delta)
    else:
        tl.store(lists + column, green.to(tl.int8), mask=within)


@triton.jit
def _mark(
    logits, lists, some, which, contexts, rounds, parameters, deltas, tables,
    keys, columns, given, logits_stride, lists_stride, which_stride, context_stride, token_stride,
    MARKS: tl.constexpr, HARD: tl.constexpr, SALTED: tl.constexpr,
    BLOCKS: tl.constexpr, SALTED_TOKENS: tl.constexpr, SALTED_PIECE: tl.constexpr,
):  # fmt: skip
    """Marks `logits`, and stores the lists of hard keys; without `MARKS` it only stores the lists of all."""
    # The number of programs for a self-salted list to one for another.
    ratio: tl.constexpr = 128 * BLOCKS // SALTED_TOKENS if SALTED else 1
    row = tl.program_id(0).to(tl.int64)
    part = tl.program_id(1)
    key = tl.load(which + row * which_stride).to(tl.int32)
    if (key >= 0) & (key < keys):
        parameters += 6 * key
        function = tl.load(parameters + 3)
        if (function == 2) | (part % ratio == 0):
            width = tl.load(parameters + 2)
            # From the oldest to the newest token that the key reads.
            contexts += row * context_stride + (given - width) * token_stride
            at = tl.arange(0, 8)
            # None of a text that is shorter.
            read = tl.where(width <= given, width, 0)
            tokens = tl.load(contexts + at * token_stride, mask=at < read, other=-1)
            if tl.min(tl.where(at < width, tokens, 0)) >= 0:
                m = tl.load(parameters)
                k = tl.load(parameters + 1)
                size = tl.load(parameters + 4)
                is_hard = tl.load(parameters + 5) != 0
                delta = tl.load(deltas + key).to(logits.dtype.element_ty).to(tl.float32)
                rounds += 88 * key
                logits += row * logits_stride
                lists += row * lists_stride
                some += row
                if SALTED:
                    if function == 2:
                        for piece in range(SALTED_TOKENS // SALTED_PIECE):
                            column = part * SALTED_TOKENS + piece * SALTED_PIECE + tl.arange(0, SALTED_PIECE)
                            green = _salted(tables, rounds, contexts, token_stride, width, m, k, column)
                            _use(logits, lists, some, green, column, size, columns, delta, is_hard, MARKS, HARD)
                if function != 2:
                    a, b, c, d = _seed(tables, rounds, tokens.to(tl.int32), contexts, token_stride, width, function)
                    block = (part // ratio) * BLOCKS + tl.arange(0, BLOCKS)
                    words = _words(tables, rounds + 44, a, b, c, d, m, k, block)
                    bit = tl.arange(0, 32)[None, :]
                    for word in tl.static_range(4):
                        column = 128 * block[:, None] + (32 * word + bit)
                        green = ((words[word][:, None] >> bit) & 1) != 0
                        _use(logits, lists, some, green, column, size, columns, delta, is_hard, MARKS, HARD)


@triton.jit
def _forbid(logits, lists, some, which, parameters, columns, logits_stride, lists_stride, which_stride,
            TOKENS: tl.constexpr):  # fmt: skip
    """Forbids all but the tokens of the stored list, in the rows of hard keys where some green token is allowed."""
    row = tl.program_id(0).to(tl.int64)
    if tl.load(some + row) != 0:
        key = tl.load(which + row * which_stride).to(tl.int32)
        size = tl.load(parameters + 6 * key + 4)
        column = tl.program_id(1) * TOKENS + tl.arange(0, TOKENS)
        green = tl.load(lists + row * lists_stride + column, mask=column < tl.minimum(size, columns), other=0)
        forbidden = (green == 0) & (column < columns)
        tl.store(logits + row * logits_stride + column, float("-inf"), mask=forbidden)


class Kernel:
    """The keys of green lists on a device, for these launches.

    `rounds` are round keys, `[keys, 2, 11, 4]`; `parameters` are int32, `[keys, 6]`: `m` and `k` of `gamma = m / 2^k`,
    width, function (0 for `all`, 1 for `min`, 2 for `self-salted`), vocabulary size, and whether the key is hard;
    `deltas` are `[keys]`; `tables` are those of the cipher. All are on the device and contiguous. `size` is the largest
    vocabulary size.
    """

    def __init__(
        self, rounds: torch.Tensor, parameters: torch.Tensor, deltas: torch.Tensor, tables: torch.Tensor,
        *, size: int, is_any_hard: bool, is_any_salted: bool,
    ) -> None:  # fmt: skip
        self._keys = rounds, parameters, deltas, tables
        self._parameters = parameters
        self._size = size
        self._hard, self._salted = is_any_hard, is_any_salted

    def can_mark(self, logits: torch.Tensor) -> bool:
        """Whether the kernel supports the type and the layout of logits."""
        return logits.dtype in _TYPES and logits.stride(1) == 1

    def mark(self, logits: torch.Tensor, which: torch.Tensor, contexts: torch.Tensor) -> None:
        """Marks rows of logits, which it changes."""
        rows, columns = logits.shape
        if not rows:
            return
        if not self._hard:
            self._launch(logits, None, None, which, contexts)
            return
        lists = logits.new_empty((rows, columns), dtype=torch.int8)
        some = logits.new_zeros(rows, dtype=torch.int32)
        self._launch(logits, lists, some, which, contexts)
        grid = (rows, triton.cdiv(columns, _FORBIDDEN_TOKENS))
        with torch.cuda.device_of(which):
            _forbid[grid](
                logits, lists, some, which, self._parameters, columns,
                logits.stride(0), lists.stride(0), which.stride(0), TOKENS=_FORBIDDEN_TOKENS,
            )  # fmt: skip

    def green(self, which: torch.Tensor, contexts: torch.Tensor, columns: int) -> torch.Tensor:
        """Whether each token is green: `[rows, columns]`."""
        lists = torch.zeros((len(which), columns), dtype=torch.int8, device=which.device)
        if lists.numel():
            self._launch(None, lists, None, which, contexts)
        return lists.view(torch.bool)

    def _launch(
        self, logits: torch.Tensor | None, lists: torch.Tensor | None, some: torch.Tensor | None,
        which: torch.Tensor, contexts: torch.Tensor,
    ) -> None:  # fmt: skip
        # Pointers that are not used must have some type.
        logits_, lists_ = logits if logits is not None else self._keys[2], lists if lists is not None else self._keys[1]
        columns = logits_.shape[1] if logits is not None else lists_.shape[1]
        tokens = _SALTED_TOKENS if self._salted else _TOKENS
        grid = (len(which), triton.cdiv(min(self._size, columns), tokens))
        with torch.cuda.device_of(which):
            _mark[grid](
                logits_, lists_, some if some is not None else self._keys[1], which, contexts, *self._keys,
                len(self._parameters), columns, contexts.shape[1],
                logits_.stride(0), lists_.stride(0), which.stride(0), *contexts.stride(),
                MARKS=logits is not None, HARD=self._hard, SALTED=self._salted,
                BLOCKS=_BLOCKS, SALTED_TOKENS=_SALTED_TOKENS, SALTED_PIECE=_SALTED_PIECE, num_warps=_WARPS,
            )  # fmt: skip
