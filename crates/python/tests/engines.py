"""vLLM and SGLang for tests: their own classes if these can be imported, or else recorded interfaces.

Neither runs a model without a GPU, so the tests call plug-ins as the engines do. If a package is not installed, the
names and arguments of vLLM 0.33.0 and SGLang 0.5.23 are those recorded here; then a test covers only what was recorded,
and the summary of `pytest` shows which was used.
"""

import enum
import importlib
import sys
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

#: The source of the classes for each engine, for the summary.
USED: dict[str, str] = {}


def vllm() -> types.SimpleNamespace:
    """Interfaces, contexts, updates and parameters of vLLM."""
    try:
        second = importlib.import_module("vllm.v1.worker.gpu.sample.logits_processor")
        first = importlib.import_module("vllm.v1.sample.logits_processor")
        parameters = importlib.import_module("vllm").SamplingParams
        USED["vLLM"] = f"its own classes, {importlib.import_module('vllm').__version__}"
    except ImportError as error:
        second, first = _record_vllm()
        parameters = _Parameters
        USED["vLLM"] = f"a record of 0.33.0, for {error}"
    return types.SimpleNamespace(
        Interface=second.LogitsProcessor, State=second.LogitsProcRequestState, Context=second.LogitsContext,
        Update=first.BatchUpdate, Direction=first.MoveDirectionality, Parameters=parameters,
        build_second=getattr(second, "build_custom_logits_processors", None),
        build_validator=getattr(second, "build_custom_logits_processors_params_validator", None),
        build_first=getattr(first, "build_logitsprocs", None),
    )  # fmt: skip


@dataclass
class _Parameters:
    extra_args: dict[str, Any] | None = None
    max_tokens: int | None = 16
    logprobs: int | None = None
    detokenize: bool = True
    watermarking: bool | None = None


def _record_vllm():
    class Interface(ABC):
        def __init__(self, vllm_config, req_states): ...

        @classmethod
        def validate_params(cls, sampling_params): ...

        def add_request(self, req_idx, sampling_params):
            return True

        def apply_staged_writes(self): ...

        @abstractmethod
        def apply(self, logits, ctx): ...

    @dataclass(frozen=True)
    class State:
        device: Any
        max_num_reqs: int
        vocab_size: int
        all_token_ids: Any
        prompt_len: Any
        prefill_len: Any
        total_len: Any

    @dataclass(frozen=True)
    class Context:
        expanded_idx_mapping: Any
        idx_mapping: Any
        idx_mapping_np: Any
        expanded_local_pos: Any
        input_ids: Any
        pos: Any
        seq_lens_upper_bound_np: Any

    class Direction(enum.Enum):
        UNIDIRECTIONAL = enum.auto()
        SWAP = enum.auto()

    @dataclass(frozen=True)
    class Update:
        batch_size: int
        removed: list
        added: list
        moved: list

    second = _module("vllm.v1.worker.gpu.sample.logits_processor", LogitsProcessor=Interface,
                     LogitsProcRequestState=State, LogitsContext=Context)
    return second, types.SimpleNamespace(BatchUpdate=Update, MoveDirectionality=Direction)


def sglang() -> types.SimpleNamespace:
    """The sampler, its registry, the hooks and their targets, of SGLang."""
    try:
        sampler = importlib.import_module("sglang.srt.layers.sampler")
        hooks = importlib.import_module("sglang.srt.plugins.hook_registry")
        parameters = importlib.import_module("sglang.srt.sampling.sampling_params")
        forward = importlib.import_module("sglang.srt.model_executor.forward_batch_info")
        context = importlib.import_module("sglang.srt.runtime_context")
        USED["SGLang"] = f"its own classes, {importlib.import_module('sglang').__version__}"
    except Exception as error:
        # If one of its dependencies is missing, it raises errors of many kinds.
        sampler, hooks, parameters, forward, context = _record_sglang()
        USED["SGLang"] = f"a record of 0.5.23, for {error}"
    return types.SimpleNamespace(sampler=sampler, hooks=hooks.HookRegistry, Parameters=parameters.SamplingParams,
                                 ForwardBatch=forward.ForwardBatch, ForwardMode=forward.ForwardMode, context=context)


def _record_sglang():
    for name in [name for name in sys.modules if name.split(".")[0] == "sglang"]:
        del sys.modules[name]

    class Sampler:
        def forward(self, logits_output, sampling_info, return_logprob, top_logprobs_nums, token_ids_logprobs,
                    positions, *, logprob_logits=None):
            return logits_output.next_token_logits.argmax(-1)

        def __call__(self, *given, **named):
            return self.forward(*given, **named)

    factories: dict[str, Any] = {}

    def create_sampler(backend=None):
        return factories[backend]()

    class HookType(enum.Enum):
        AFTER = "after"

    class HookRegistry:
        registered: list[tuple[str, Any]] = []

        @classmethod
        def register(cls, target, hook, hook_type=HookType.AFTER):
            cls.registered.append((target, hook))

        @classmethod
        def reset(cls):
            cls.registered.clear()

        @classmethod
        def apply_hooks(cls):
            for target, hook in cls.registered:
                module, name, method = target.rsplit(".", 2)
                owner = getattr(sys.modules[module], name)
                raw = vars(owner)[method]
                original = getattr(raw, "__func__", raw)

                def wrapped(*given, original=original, hook=hook, **named):
                    result = original(*given, **named)
                    changed = hook(result, *given, **named)
                    return result if changed is None else changed

                wrapped.__wrapped__ = original
                setattr(owner, method, type(raw)(wrapped) if isinstance(raw, classmethod) else wrapped)

    @dataclass
    class SamplingParams:
        custom_params: dict[str, Any] | None = None
        max_new_tokens: int = 128
        temperature: float = 1.0

        def verify(self, vocab_size): ...

    class ForwardMode(enum.Enum):
        EXTEND = enum.auto()
        MIXED = enum.auto()
        DECODE = enum.auto()

        def is_extend(self):
            return self is not ForwardMode.DECODE

        def is_mixed(self):
            return self is ForwardMode.MIXED

    @dataclass
    class ForwardBatch:
        req_pool_indices: Any = field(default=None)

        @classmethod
        def init_new(cls, batch, model_runner, **named):
            return cls(batch.req_pool_indices)

    bags = types.SimpleNamespace(speculative_algorithm=None, disaggregation_mode="null")
    for name in ("sglang", "sglang.srt", "sglang.srt.arg_groups", "sglang.srt.layers", "sglang.srt.plugins",
                 "sglang.srt.sampling", "sglang.srt.model_executor"):
        _module(name)
    _module("sglang.srt.arg_groups.choices", BUILT_IN_SAMPLING_BACKENDS=frozenset({"flashinfer", "pytorch"}))
    return (
        _module("sglang.srt.layers.sampler", Sampler=Sampler, create_sampler=create_sampler,
                register_sampler_backend=factories.__setitem__),
        _module("sglang.srt.plugins.hook_registry", HookRegistry=HookRegistry, HookType=HookType),
        _module("sglang.srt.sampling.sampling_params", SamplingParams=SamplingParams),
        _module("sglang.srt.model_executor.forward_batch_info", ForwardBatch=ForwardBatch, ForwardMode=ForwardMode),
        _module("sglang.srt.runtime_context", get_spec=lambda: bags, get_disagg=lambda: bags),
    )  # fmt: skip


def _module(name: str, **members: Any) -> types.ModuleType:
    """Registers a module with this name and these members, and its parent packages, for `import`."""
    parts = name.split(".")
    for end in range(1, len(parts) + 1):
        part = ".".join(parts[:end])
        if part not in sys.modules or end == len(parts):
            made = types.ModuleType(part)
            made.__path__ = []
            sys.modules[part] = made
            if end > 1:
                setattr(sys.modules[".".join(parts[: end - 1])], parts[end - 1], made)
    module = sys.modules[name]
    vars(module).update(members)
    return module
