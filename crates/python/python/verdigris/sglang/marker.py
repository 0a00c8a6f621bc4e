"""Marks on the rows of SGLang's steps, with the texts tracked on the device."""

from dataclasses import dataclass
from typing import Any

import torch

from ..green import GreenLists
from ..serving import Policy

_NO_KEY = -1


class Marker:
    """Green lists, and the last tokens of the request in each slot, since sampled tokens reach the host too late."""

    def __init__(self, policy: Policy, slots: int, device: torch.device | str) -> None:
        self._policy = policy
        self._lists = GreenLists(policy.keys, device, triton=policy.triton)
        self._tails = torch.full((slots, self._lists.width), -1, dtype=torch.int64, device=device)

    @classmethod
    def of(cls, policy: Policy, model_runner: Any) -> "Marker":
        """The marker of a model, created at its first step."""
        made = getattr(model_runner, "verdigris", None)
        if made is None:
            config = model_runner.model_config
            policy.check(config.vocab_size, config.model_path)
            slots = model_runner.req_to_token_pool.req_to_token.shape[0]
            made = model_runner.verdigris = cls(policy, slots, model_runner.device)
        return made

    def step(self, batch: Any, slots: torch.Tensor) -> "Step":
        """The rows of a step: one for each request, in their order, with their slots."""
        chosen = [self._policy.choose(request.sampling_params.custom_params) for request in batch.reqs]
        texts: list[Any] = []
        if batch.forward_mode.is_extend() and batch.decoding_reqs is None:
            # Requests whose prompts are read come before those that are being written.
            written = len(batch.mix_running_indices_cpu) if batch.forward_mode.is_mixed() else 0
            texts = [request.get_fill_ids() for request in batch.reqs[: len(chosen) - written]]
        keys = [_NO_KEY if key is None else key for key in chosen]
        return Step(self, keys, slots[: len(keys)], texts)

    def mark(self, logits: torch.Tensor, step: "Step") -> None:
        if step.texts:
            width = self._tails.shape[1]
            ends = [list(text[-width:]) for text in step.texts]
            sent = self._send([[-1] * (width - len(end)) + end for end in ends])
            self._tails[step.slots[: len(ends)].long()] = sent
        if any(key != _NO_KEY for key in step.keys):
            salted = any(map(self._lists.is_salted, step.keys))
            contexts = self._tails[step.slots.long()]
            self._lists.mark(logits[: len(step.keys)], self._send(step.keys), contexts, salted=salted)

    def follow(self, tokens: torch.Tensor, step: "Step") -> None:
        slots = step.slots.long()
        newest = tokens[: len(step.keys)].view(-1, 1).long()
        self._tails[slots] = torch.cat([self._tails[slots, 1:], newest], dim=1)

    def _send(self, numbers: list[Any]) -> torch.Tensor:
        """Copies numbers to the device without waiting."""
        made = torch.tensor(numbers)
        if self._tails.is_cuda:
            made = made.pin_memory()
        return made.to(self._tails.device, non_blocking=True)


@dataclass
class Step:
    """The rows of one step."""

    marker: Marker
    #: The index of each row's key; -1 for none.
    keys: list[int]
    #: The slot of each row's request, on the device.
    slots: torch.Tensor
    #: The tokens so far of requests whose prompts are read, which are the first rows; the slots of others have theirs.
    texts: list[Any]

    def mark(self, logits: torch.Tensor) -> None:
        """Marks the rows in place, before tokens are sampled."""
        self.marker.mark(logits, self)

    def follow(self, tokens: torch.Tensor) -> None:
        """Records the sampled tokens."""
        self.marker.follow(tokens, self)
