"""AES-128 (FIPS 197) on tensors of 32-bit words, many blocks at a time, by table look-ups.

A block is four little-endian words, the columns of the state. A round is sixteen look-ups: for each row of the state, a
table maps a byte to its contribution to its column after substitution and mixing.
"""

from functools import cache

import torch

ROUNDS = 10


def _times(a: int, b: int) -> int:
    """The product in GF(2^8) modulo x^8 + x^4 + x^3 + x + 1."""
    product = 0
    while b:
        product ^= a * (b & 1)
        a, b = (a << 1) ^ (0x11B * (a >> 7)), b >> 1
    return product


def _substitute(byte: int) -> int:
    """The S-box: the inverse in the field, which is the 254th power, and an affine map."""
    square, inverse = byte, 1
    for _ in range(7):
        square = _times(square, square)
        inverse = _times(inverse, square)
    twice = inverse * 0x101
    return 0x63 ^ (twice ^ twice >> 4 ^ twice >> 5 ^ twice >> 6 ^ twice >> 7) & 0xFF


def _signed(word: int) -> int:
    return word - (word >> 31 << 32)


@cache
def _words() -> tuple[torch.Tensor, torch.Tensor]:
    """The tables on the CPU: `[4, 256]` for a round, and the S-box for the last round, which does not mix."""
    boxes = [_substitute(byte) for byte in range(256)]
    mixed = [_times(s, 2) | s << 8 | s << 16 | _times(s, 3) << 24 for s in boxes]
    rotated = [[_signed((word << 8 * row | word >> (32 - 8 * row)) & 0xFFFFFFFF) for word in mixed] for row in range(4)]
    return torch.tensor(rotated, dtype=torch.int32), torch.tensor(boxes, dtype=torch.int32)


@cache
def tables(device: torch.device) -> tuple[torch.Tensor, torch.Tensor]:
    """The tables of a round and of the last round, one for each row of the state: `[4, 256]` words each."""
    mixed, boxes = _words()
    last = torch.stack([boxes << 8 * row for row in range(4)])
    return mixed.to(device), last.to(device)


def expand_keys(keys: torch.Tensor) -> torch.Tensor:
    """Expands keys (`[.., 4]`, int32) to the keys of all rounds (`[.., 11, 4]`, int32)."""
    _, boxes = _words()
    rounds, constant = [keys], 1
    for _ in range(ROUNDS):
        before, column = rounds[-1], rounds[-1][..., 3]
        # The last column, with its bytes rotated by one and substituted.
        first = before[..., 0] ^ constant
        for row in range(4):
            byte = (column >> 8 * ((row + 1) % 4)) & 0xFF
            first = first ^ (boxes[byte.long()] << 8 * row)
        columns = [first]
        for at in range(1, 4):
            columns.append(before[..., at] ^ columns[-1])
        rounds.append(torch.stack(columns, dim=-1))
        constant = _times(constant, 2)
    return torch.stack(rounds, dim=-2)


def encrypt(rounds: torch.Tensor, blocks: torch.Tensor) -> torch.Tensor:
    """Encrypts blocks (`[rows, blocks, 4]`, int32), each with the round keys of its row (`[rows, 11, 4]`, int32)."""
    mixed, last = tables(blocks.device)
    state = blocks ^ rounds[:, None, 0]
    for at in range(1, ROUNDS + 1):
        mixing = mixed if at < ROUNDS else last
        columns = rounds[:, None, at]
        for row in range(4):
            # Row r of column c comes from column c + r.
            bytes_ = (state.roll(-row, -1) >> 8 * row) & 0xFF
            columns = columns ^ mixing[row].index_select(0, bytes_.flatten()).view(bytes_.shape)
        state = columns
    return state
