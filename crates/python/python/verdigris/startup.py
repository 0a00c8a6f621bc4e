"""Refuses configurations of vLLM under which texts would silently be returned without their mark.

vLLM drops plug-ins for logits, with only a line in its log, when its first model runner speculates, and never calls
them for diffusion models. A dropped plug-in is not even created, so this check is registered as a general plug-in
(``vllm.general_plugins``), which vLLM calls in every process before it reads its configuration. It is a separate module
because it must not import the interfaces that ``verdigris.vllm`` uses: vLLM is not ready for that yet.
"""

import os
from functools import wraps
from typing import Any

from . import Error
from .serving import policy


def register() -> None:
    """Makes vLLM check every configuration once it is complete."""
    from vllm.config import VllmConfig

    complete = VllmConfig.__post_init__
    if getattr(complete, "checks_marks", False):
        return

    @wraps(complete)
    def completed(self: Any, *args: Any, **options: Any) -> None:
        complete(self, *args, **options)
        check(self)

    setattr(completed, "checks_marks", True)
    setattr(VllmConfig, "__post_init__", completed)


def check(vllm_config: Any) -> None:
    """Raises `Error` with a remedy if the configuration would drop marks and there are keys to mark with."""
    if not os.environ.get("VERDIGRIS_KEYS") or not policy().keys:
        return
    if getattr(vllm_config.model_config, "is_diffusion", False):
        raise Error(
            "vLLM does not call plug-ins for diffusion models, so nothing would be marked: serve another model, or "
            "unset VERDIGRIS_KEYS"
        )
    if vllm_config.speculative_config is not None and not vllm_config.use_v2_model_runner:
        raise Error(
            "vLLM's first model runner drops plug-ins when it speculates, so nothing would be marked: remove the "
            "speculative configuration, or use the second runner, which needs Triton "
            "(VLLM_USE_V2_MODEL_RUNNER=1)"
        )
