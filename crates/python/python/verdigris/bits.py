"""Sets of tokens as torch tensors."""

import torch


def expand(bitmask: torch.Tensor, columns: int) -> torch.Tensor:
    """Expands a bitmask with 32 tokens per word (`[rows, words]`, int32) to booleans for the first `columns` tokens."""
    shifts = torch.arange(32, device=bitmask.device, dtype=torch.int32)
    bits = ((bitmask.unsqueeze(-1) >> shifts) & 1).to(torch.bool).flatten(1)
    if bits.shape[1] >= columns:
        return bits[:, :columns]
    # Columns past the vocabulary are padding, which is not in any set.
    padding = bits.new_zeros((bits.shape[0], columns - bits.shape[1]))
    return torch.cat([bits, padding], dim=1)
