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

    `drafts` must be true if `generate` has an `assistant_model` or `prompt_lookup_num_tokens`: then drafts are read
    too, which may break the constraint and are discarded.
    """

    supports_continuous_batching = True

    def __init__(self, constraint: Constraint, *, drafts: bool = False) -> None:
        self.constraint = constraint
        self.drafts = drafts
        # The number of tokens of the prompts.
        self._prompt: int | None = None
        # The state of each text at the last step; none if it breaks the constraint.
        self._at: dict[tuple[int, ...], Matcher | None] = {}

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        if input_ids.dim() == 1:
            raise Error("continuous batching does not show texts, so they cannot be constrained: call generate")
        texts = [tuple(tokens) for tokens in input_ids.tolist()]
        prompt = input_ids.shape[1] if self._prompt is None else self._prompt
        self._prompt = prompt
        bitmask = numpy.zeros((len(texts), self.constraint.bitmask_words), numpy.int32)
        at = {}
        for row, text in enumerate(texts):
            at[text] = matcher = self._state(text, prompt)
            if matcher is None:
                # Nothing that follows it is kept.
                bitmask[row] = -1
            else:
                matcher.fill_bitmask(bitmask, row)
        self._at = at
        allowed = expand(torch.from_numpy(bitmask).to(scores.device), scores.shape[1])
        return scores.masked_fill(~allowed, -torch.inf)

    def _state(self, text: tuple[int, ...], prompt: int) -> Matcher | None:
        if len(text) == prompt:
            return self.constraint.matcher(text)
        if text[:-1] in self._at:
            return self._advanced(copy.copy(self._at[text[:-1]]), text[-1:])
        if not self.drafts:
            raise Error(
                "this text does not continue one of the last step: make a new ConstraintProcessor for each call of "
                "generate, with drafts=True if it has an assistant_model or prompt_lookup_num_tokens"
            )
        return self._advanced(self.constraint.matcher(text[:prompt]), text[prompt:])

    def _advanced(self, matcher: Matcher | None, tokens: tuple[int, ...]) -> Matcher | None:
        for token in tokens:
            if matcher is None or matcher.accept(token) or matcher.is_finished():
                continue
            if not self.drafts:
                raise BadConstraint(
                    f"token {token} was written, which is not allowed there: {matcher.explain(token)}; if it was "
                    "drafted, make a ConstraintProcessor with drafts=True"
                )
            matcher = None
        return matcher
