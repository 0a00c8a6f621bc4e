"""SGLang's sampler, which marks first."""

from typing import Any

from .. import Error


def make() -> Any:
    """A sampler of SGLang's that marks; an error where SGLang would write something without it."""
    from sglang.srt.layers.sampler import Sampler
    from sglang.srt.runtime_context import get_disagg, get_spec

    if get_spec().speculative_algorithm is not None:
        raise Error("SGLang drafts past its sampler: leave --speculative-algorithm or VERDIGRIS_KEYS out")
    if get_disagg().disaggregation_mode != "null":
        raise Error("the mark needs the prompt where SGLang writes: leave --disaggregation-mode or VERDIGRIS_KEYS out")

    class MarkingSampler(Sampler):
        """The mark acts after penalties and grammars, before temperature, top-k and top-p."""

        def forward(self, logits_output: Any, sampling_info: Any, *given: Any, **named: Any) -> Any:
            step = getattr(sampling_info, "verdigris", None)
            if step is None:
                raise Error("SGLang has not told verdigris whose rows a step has: use SGLang 0.5.23 and its plug-ins")
            step.mark(logits_output.next_token_logits)
            tokens = super().forward(logits_output, sampling_info, *given, **named)
            step.follow(tokens)
            return tokens

    return MarkingSampler()
