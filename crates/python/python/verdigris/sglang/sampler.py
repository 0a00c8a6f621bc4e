"""SGLang's sampler, with marking before it."""

from typing import Any

from .. import Error


def make() -> Any:
    """Makes an SGLang sampler that marks. Raises `Error` if SGLang would write some tokens without it."""
    from sglang.srt.layers.sampler import Sampler
    from sglang.srt.runtime_context import get_disagg, get_spec

    if get_spec().speculative_algorithm is not None:
        raise Error("SGLang's drafts bypass its sampler: leave --speculative-algorithm or VERDIGRIS_KEYS out")
    if get_disagg().disaggregation_mode != "null":
        raise Error("the mark needs the prompt where SGLang writes: leave --disaggregation-mode or VERDIGRIS_KEYS out")

    class MarkingSampler(Sampler):
        """The mark acts after penalties and grammars, before temperature, top-k and top-p."""

        def forward(self, logits_output: Any, sampling_info: Any, *given: Any, **named: Any) -> Any:
            step = getattr(sampling_info, "verdigris", None)
            if step is None:
                raise Error("SGLang did not pass the rows of a step to verdigris: use SGLang 0.5.23 and its plug-ins")
            step.mark(logits_output.next_token_logits)
            tokens = super().forward(logits_output, sampling_info, *given, **named)
            step.follow(tokens)
            return tokens

    return MarkingSampler()
