"""Requests in slots, for vLLM's second runner, which keeps written tokens on the device."""

from typing import Any

import numpy
import torch

from ..green import GreenLists
from ..serving import Policy

_NO_KEY = -1


class Slots:
    """The key of each slot. A step may have several rows of a slot, one after each of its drafts."""

    def __init__(self, policy: Policy, state: Any) -> None:
        self._policy = policy
        self._state = state
        self._lists = GreenLists(policy.keys, state.device, triton=policy.triton)
        self._ages = torch.arange(self._lists.width - 1, -1, -1, device=state.device)
        # The keys of slots: on the host, to see whether there is anything to do, and on the device, for the rows.
        self._here = numpy.full(state.max_num_reqs, _NO_KEY)
        self._there = torch.full((state.max_num_reqs,), _NO_KEY, device=state.device)
        self._entered: set[int] = set()

    def add(self, slot: int, sampling_params: Any) -> bool:
        place = self._policy.choose(sampling_params.extra_args)
        self._here[slot] = _NO_KEY if place is None else place
        self._entered.add(slot)
        return place is not None

    def send(self) -> None:
        if self._entered:
            slots = numpy.array(sorted(self._entered))
            self._entered.clear()
            both = torch.from_numpy(numpy.stack([slots, self._here[slots]]))
            if self._there.is_cuda:
                # Pinned memory is copied while the host continues.
                both = both.pin_memory()
            places, keys = both.to(self._there.device, non_blocking=True)
            self._there[places] = keys

    def apply(self, logits: torch.Tensor, ctx: Any) -> torch.Tensor:
        keys = set(self._here[ctx.idx_mapping_np].tolist()) - {_NO_KEY}
        if not keys:
            return logits
        slots = ctx.expanded_idx_mapping.long()
        salted = any(map(self._lists.is_salted, keys))
        return self._lists.mark(logits, self._there[slots], self._contexts(slots, ctx), salted=salted)

    def _contexts(self, slots: torch.Tensor, ctx: Any) -> torch.Tensor:
        """The tokens before each row's next one, `[rows, width]`; -1 if there is none."""
        rows = torch.arange(len(slots), device=slots.device).unsqueeze(1) - self._ages
        positions = ctx.pos.unsqueeze(1) - self._ages
        committed = self._state.all_token_ids.gpu[slots.unsqueeze(1), positions.clamp(min=0)]
        # The rows of a request are consecutive: the first was fed its last token, and each other one a draft.
        is_of_step = self._ages <= ctx.expanded_local_pos.unsqueeze(1)
        tokens = torch.where(is_of_step, ctx.input_ids[rows.clamp(min=0)], committed)
        return torch.where(positions >= 0, tokens, -1)
