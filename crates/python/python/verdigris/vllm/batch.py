"""Requests in rows, for vLLM's first runner, which reports rows that are removed, added and moved."""

import logging
from dataclasses import dataclass
from typing import Any

import torch

from .. import Error
from ..green import GreenLists
from ..serving import Policy

_log = logging.getLogger(__name__)


@dataclass
class _Request:
    key: int
    # The end of its prompt; empty if the prompt is not given as tokens.
    prompt: list[int]
    # A list that vLLM keeps appending to.
    output: list[int]

    def context(self, width: int) -> list[int]:
        tokens = self.output[-width:]
        missing = width - len(tokens)
        before = self.prompt[-missing:] if missing else []
        return [-1] * (missing - len(before)) + before + tokens


class Batch:
    """The request in each row."""

    def __init__(self, policy: Policy, device: torch.device, vllm_config: Any) -> None:
        # With asynchronous scheduling, unless a processor is named, this runner does not pass the last sampled token:
        # it is -1.
        is_ahead = vllm_config.scheduler_config.async_scheduling and not vllm_config.model_config.logits_processors
        if policy.keys and is_ahead:
            raise Error(
                "vLLM's first runner does not pass the last token to plug-ins when it schedules asynchronously: start "
                "it with --no-async-scheduling, or with VLLM_USE_V2_MODEL_RUNNER=1"
            )
        self._policy = policy
        self._lists = GreenLists(policy.keys, device, triton=policy.triton)
        self._requests: dict[int, _Request] = {}
        self._has_warned = False

    def update(self, update: Any) -> None:
        """Applies removals, additions and moves, in the order that vLLM requires."""
        if update is None:
            return
        for row in update.removed:
            self._requests.pop(row, None)
        for row, params, prompt, output in update.added:
            self._requests.pop(row, None)
            key = self._policy.choose(params.extra_args)
            if key is not None:
                self._requests[row] = _Request(key, list(prompt or [])[-self._lists.width :], output)
        for source, target, direction in update.moved:
            moved, displaced = self._requests.pop(source, None), self._requests.pop(target, None)
            if moved is not None:
                self._requests[target] = moved
            if displaced is not None and direction.name == "SWAP":
                self._requests[source] = displaced

    def apply(self, logits: torch.Tensor, _ctx: None = None) -> torch.Tensor:
        if not self._requests:
            return logits
        contexts = [request.context(self._lists.width) for request in self._requests.values()]
        if not self._has_warned and any(r.output and r.output[-1] < 0 for r in self._requests.values()):
            # Lists made from a placeholder instead of a token would never be detected.
            self._has_warned = True
            _log.warning("vLLM did not pass a sampled token: tokens that depend on it are not marked")
        # Rows without a request have no key, and no tokens.
        given = torch.full((len(logits), 1 + self._lists.width), -1)
        given[list(self._requests)] = torch.tensor(
            [[request.key, *context] for request, context in zip(self._requests.values(), contexts)]
        )
        if logits.is_cuda:
            given = given.pin_memory()
        given = given.to(logits.device, non_blocking=True)
        salted = any(self._lists.is_salted(request.key) for request in self._requests.values())
        return self._lists.mark(logits, given[:, 0], given[:, 1:], salted=salted)
