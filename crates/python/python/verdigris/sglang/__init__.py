"""Marks in texts of SGLang, which finds this plug-in by itself (``sglang.srt.plugins``): set ``VERDIGRIS_KEYS``.

``verdigris.serving`` lists the variables and the options of requests (``custom_params``). Requests contain no code, so
``--enable-custom-logit-processor`` stays off.
"""

from typing import Any

from ..serving import policy

_VERIFY = "sglang.srt.sampling.sampling_params.SamplingParams.verify"
_INIT_NEW = "sglang.srt.model_executor.forward_batch_info.ForwardBatch.init_new"


def register() -> None:
    """Called by SGLang in each of its processes: registers our sampler instead of its own, and two hooks.

    SGLang logs exceptions of plug-ins and continues, and so would write without a mark. It does not catch `SystemExit`.
    """
    try:
        if not policy().keys:
            return
        from sglang.srt.arg_groups.choices import BUILT_IN_SAMPLING_BACKENDS
        from sglang.srt.layers.sampler import register_sampler_backend
        from sglang.srt.plugins.hook_registry import HookRegistry, HookType

        from .sampler import make

        for backend in BUILT_IN_SAMPLING_BACKENDS:
            register_sampler_backend(backend, make)
        HookRegistry.register(_VERIFY, validate, HookType.AFTER)
        HookRegistry.register(_INIT_NEW, attach, HookType.AFTER)
    except Exception as error:
        raise SystemExit(f"verdigris.sglang: {error}") from error


def validate(_result: None, params: Any, *_: Any) -> None:
    """Called after SGLang has checked a request: refuses one with invalid options."""
    policy().choose(params.custom_params)


def attach(forward_batch: Any, _cls: type, batch: Any, model_runner: Any, **_: Any) -> None:
    """Called after SGLang has prepared a step: attaches the requests of its rows, which the sampler does not see."""
    from .marker import Marker

    if batch.sampling_info is not None:
        step = Marker.of(policy(), model_runner).step(batch, forward_batch.req_pool_indices)
        batch.sampling_info.verdigris = step
