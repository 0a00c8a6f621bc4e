"""Constraints on texts of transformers."""

import copy

import numpy
import torch
from transformers import LogitsProcessor

from verdigris import BadConstraint, Constraint, Error, Matcher

from ..bits import expand


class ConstraintProcessor(LogitsProcessor):
    """Forbids all tokens that a constraint does not allow. Make one for each call of `generate`.

    Beams may fork, since texts are identified by their tokens. The texts of a batch end independently, and are padded
    after their ends. Continuous batching does not show the texts, so there it raises `Error`.
    """

    supports_continuous_batching = True

    def __init__(self, constraint: Constraint) -> None:
        self.constraint = constraint
        # The state of each text at the last step.
        self._at: dict[tuple[int, ...], Matcher] = {}

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.dim() == 1:
            raise Error("continuous batching does not show texts, so they cannot be constrained: call generate")
        texts = [tuple(tokens) for tokens in input_ids.tolist()]
        bitmask = numpy.zeros((len(texts), self.constraint.bitmask_words), numpy.int32)
        at = {}
        for row, text in enumerate(texts):
            at[text] = matcher = self._follow(text)
            matcher.fill_bitmask(bitmask, row)
        self._at = at
        allowed = expand(torch.from_numpy(bitmask).to(scores.device), scores.shape[1])
        return scores.masked_fill(~allowed, -torch.inf)

    def _follow(self, text: tuple[int, ...]) -> Matcher:
        *before, last = text
        matcher = copy.copy(self._at.get(tuple(before)))
        if matcher is None:
            # The text is only the prompt.
            return self.constraint.matcher(text)
        if not matcher.accept(last) and not matcher.is_finished():
            raise BadConstraint(f"token {last} was written, which is not allowed there: {matcher.explain(last)}")
        return matcher
