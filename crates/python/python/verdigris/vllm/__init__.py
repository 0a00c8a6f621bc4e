"""The mark in what vLLM writes, which finds it by itself (``vllm.logits_processors``): set ``VERDIGRIS_KEYS``.

``verdigris.serving`` says which variables and which options of requests (``vllm_xargs``) there are.
"""

import logging
from typing import TYPE_CHECKING, Any

from .. import Error
from ..serving import policy

if TYPE_CHECKING:
    import torch

    from .batch import Batch
    from .slots import Slots

    _Interface: Any = object
else:
    try:
        from vllm.v1.worker.gpu.sample.logits_processor import LogitsProcessor as _Interface
    except ImportError:
        from vllm.v1.sample.logits_processor import LogitsProcessor as _Interface


# Below vLLM's own logger, so that it goes where vLLM's lines go.
_log = logging.getLogger("vllm.verdigris")


class LogitsProcessor(_Interface):
    """Marks the logits of requests, each under its own key.

    vLLM has two runners with two interfaces for plug-ins, and makes what it finds of either. The second refuses classes
    of the first, so this is one of the second where that is there; the first asks for no class, only for the methods.
    Which of them calls shows in what it is made with.
    """

    def __init__(self, vllm_config: Any, *given: Any) -> None:
        ours = policy()
        if _is_named_twice(vllm_config):
            raise Error("vLLM finds verdigris by itself, and would mark twice: leave it out of --logits-processors")
        ours.check(vllm_config.model_config.get_vocab_size(), vllm_config.model_config.tokenizer)
        # Here, for the process that only validates needs no torch of ours.
        from .batch import Batch
        from .slots import Slots

        self._requests: Slots | Batch
        match given:
            case (state,):
                runner, device = "second", state.device
                self._requests = Slots(ours, state)
            case (device, _is_pin_memory):
                runner = "first"
                self._requests = Batch(ours, device, vllm_config)
            case _:
                raise Error("this vLLM makes plug-ins in a way that verdigris does not know: use 0.33")
        _log.info("verdigris: %s; %s model runner on %s", ours.describe(), runner, device)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuses a request whose options cannot be followed; vLLM answers it with status 400."""
        ours = policy()
        ours.choose(sampling_params.extra_args)
        if ours.keys and _is_step_of_beam_search(sampling_params):
            raise Error(
                "beam search chooses from probabilities without the mark, so its texts would not be marked: leave "
                "use_beam_search out, or ask a server without keys"
            )

    def apply(self, logits: "torch.Tensor", ctx: Any = None) -> "torch.Tensor":
        """Marks a step's rows in place."""
        return self._requests.apply(logits, ctx)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Second interface: a request enters a slot. Whether it is marked."""
        return self._slots().add(req_idx, sampling_params)

    def apply_staged_writes(self) -> None:
        """Second interface: what entered is sent to the device."""
        self._slots().send()

    def update_state(self, batch_update: Any) -> None:
        """First interface: rows go, come and move."""
        from .batch import Batch

        assert isinstance(self._requests, Batch)
        self._requests.update(batch_update)

    def is_argmax_invariant(self) -> bool:
        """First interface: a mark changes which token is the most probable."""
        return False

    def _slots(self) -> "Slots":
        from .slots import Slots

        assert isinstance(self._requests, Slots)
        return self._requests


def _is_named_twice(vllm_config: Any) -> bool:
    named = vllm_config.model_config.logits_processors or ()
    return any(getattr(name, "__module__", str(name)).startswith("verdigris.") for name in named)


def _is_step_of_beam_search(params: Any) -> bool:
    """Whether a request is one of those that vLLM's beam search makes for itself, a token each: it passes on none of the
    options that the client gave, and takes the tokens from the log-probabilities, which the mark does not change."""
    has_own_mark = getattr(params, "watermarking", False)
    return (
        params.max_tokens == 1
        and not params.detokenize
        and bool(params.logprobs)
        and not params.extra_args
        and not has_own_mark
    )
