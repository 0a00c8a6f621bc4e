"""Sets of tokens as torch has them."""

import torch


def expand(bitmask: torch.Tensor, columns: int) -> torch.Tensor:
    """Whether each of so many tokens is in the set of each row, out of 32 to a word (`[rows, words]`, int32)."""
    shifts = torch.arange(32, device=bitmask.device, dtype=torch.int32)
    bits = ((bitmask.unsqueeze(-1) >> shifts) & 1).to(torch.bool).flatten(1)
    if bits.shape[1] >= columns:
        return bits[:, :columns]
    # Columns past the vocabulary are padding, and in no set.
    padding = bits.new_zeros((bits.shape[0], columns - bits.shape[1]))
    return torch.cat([bits, padding], dim=1)
