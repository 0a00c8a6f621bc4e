"""Marks in texts of vLLM, which finds this plug-in by itself (``vllm.logits_processors``): set ``VERDIGRIS_KEYS``.

``verdigris.serving`` lists the variables and the options of requests (``vllm_xargs``).
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


# A child of vLLM's own logger, so that lines go to the same output.
_log = logging.getLogger("vllm.verdigris")


class LogitsProcessor(_Interface):
    """Marks the logits of requests, each with its own key.

    vLLM has two runners with different interfaces for plug-ins, and loads the same plug-ins for both. The second runner
    refuses classes of the first interface, so this derives from the second if that exists; the first runner requires
    only the methods. The arguments of the constructor show which runner calls.
    """

    def __init__(self, vllm_config: Any, *given: Any) -> None:
        ours = policy()
        if _is_named_twice(vllm_config):
            raise Error("vLLM finds verdigris by itself, and would mark twice: remove it from --logits-processors")
        ours.check(vllm_config.model_config.get_vocab_size(), vllm_config.model_config.tokenizer)
        # Imported here, since the process that only validates does not need torch.
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
                raise Error("this version of vLLM creates plug-ins in a way that verdigris does not support: use 0.33")
        _log.info("verdigris: %s; %s model runner on %s", ours.describe(), runner, device)

    @classmethod
    def validate_params(cls, sampling_params: Any) -> None:
        """Refuses a request with invalid options. vLLM answers it with status 400."""
        ours = policy()
        ours.choose(sampling_params.extra_args)
        if ours.keys and _is_step_of_beam_search(sampling_params):
            raise Error(
                "beam search chooses from probabilities without the mark, so its texts would not be marked: leave "
                "use_beam_search out, or use a server without keys"
            )

    def apply(self, logits: "torch.Tensor", ctx: Any = None) -> "torch.Tensor":
        """Marks the rows of a step in place."""
        return self._requests.apply(logits, ctx)

    def add_request(self, req_idx: int, sampling_params: Any) -> bool:
        """Second interface: a request enters a slot. Returns whether it is marked."""
        return self._slots().add(req_idx, sampling_params)

    def apply_staged_writes(self) -> None:
        """Second interface: sends new entries to the device."""
        self._slots().send()

    def update_state(self, batch_update: Any) -> None:
        """First interface: rows are removed, added and moved."""
        from .batch import Batch

        assert isinstance(self._requests, Batch)
        self._requests.update(batch_update)

    def is_argmax_invariant(self) -> bool:
        """First interface: a mark can change the most probable token."""
        return False

    def _slots(self) -> "Slots":
        from .slots import Slots

        assert isinstance(self._requests, Slots)
        return self._requests


def _is_named_twice(vllm_config: Any) -> bool:
    named = vllm_config.model_config.logits_processors or ()
    return any(getattr(name, "__module__", str(name)).startswith("verdigris.") for name in named)


def _is_step_of_beam_search(params: Any) -> bool:
    """Whether this is an internal request of vLLM's beam search, which makes one for each token. It does not pass on
    the client's options, and takes tokens from the log-probabilities, which the mark does not change."""
    has_own_mark = getattr(params, "watermarking", False)
    return (
        params.max_tokens == 1
        and not params.detokenize
        and bool(params.logprobs)
        and not params.extra_args
        and not has_own_mark
    )
