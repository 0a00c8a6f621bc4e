"""The calls of SGLang, in its order, over `tale`: each request has its own mark, which is equal to Rust's."""

import inspect
import json
import types

import numpy
import pytest
import verdigris
from conftest import PROMPTS, TALE

torch = pytest.importorskip("torch", reason="SKIPPED: torch is not installed, so SGLang is not tested")
pytest.importorskip("transformers", reason="SKIPPED: transformers is not installed")

import engines  # noqa: E402
import verdigris.sglang as plugin  # noqa: E402
from verdigris import serving  # noqa: E402

sglang = engines.sglang()

torch.set_num_threads(1)
COLUMNS = 4160
SLOTS = 6


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    folder = tmp_path_factory.mktemp("ring")
    for name, options in {"a": {}, "b": {"context": "all", "width": 2, "gamma": 0.5, "delta": 3.0}}.items():
        verdigris.Key.lists(id=name, **options).save(folder / f"{name}.key")
    return folder


@pytest.fixture
def served(ring, monkeypatch):
    """A server with the ring, and SGLang's state about its own options and other GPUs."""
    monkeypatch.setenv("VERDIGRIS_KEYS", str(ring))
    monkeypatch.setenv("VERDIGRIS_DEFAULT_KEY", "a")
    serving.policy.cache_clear()
    sglang.hooks.reset()
    leaf = types.SimpleNamespace
    execution = leaf(
        deterministic=leaf(rl_on_policy_target=None, enable_deterministic_inference=False),
        kernel=leaf(sampling_backend="pytorch"), features=leaf(sampling_mask_max_tokens=0),
    )  # fmt: skip
    alone = leaf(tp_group=leaf(device_group=None))
    for name, value in (("get_exec", execution), ("get_parallel", alone), ("get_server_args", leaf()),
                        ("is_dp_attention_enabled", False)):
        if hasattr(sglang.sampler, name):
            monkeypatch.setattr(sglang.sampler, name, lambda value=value: value)
    options = leaf(speculative_algorithm=None, disaggregation_mode="null")
    for name in ("get_spec", "get_disagg"):
        monkeypatch.setattr(sglang.context, name, lambda: options)
    yield options
    serving.policy.cache_clear()


class Text:
    """A request in the scheduler."""

    def __init__(self, prompt, key_id, slot, length):
        self.tokens, self.slot, self.key_id = list(prompt), slot, key_id
        self.prompt, self.end = len(prompt), len(prompt) + length
        # The number of tokens that the scheduler knows: it receives tokens late.
        self.heard = len(prompt)
        options = {"verdigris_watermark": 0} if key_id is None else {"verdigris_key_id": key_id}
        self.sampling_params = sglang.Parameters(custom_params=options)

    def get_fill_ids(self):
        return self.tokens[: self.heard]

    @property
    def written(self):
        return self.tokens[self.prompt :]


def marked_by_rust(keys, text, row):
    if text.key_id is None:
        return row
    made = row.numpy().copy().reshape(1, -1)
    verdigris.Mark(keys[text.key_id]).apply(numpy.array([text.tokens[-8:]]), made)
    return torch.from_numpy(made[0])


def test_texts_are_found_by_their_own_key_alone(served, ring, model, program, monkeypatch):
    """SGLang's sampler, greedily, in steps that read, write, and do both, with reused slots."""
    plugin.register()
    sampler = sglang.sampler.create_sampler("pytorch")
    assert isinstance(sampler, sglang.sampler.Sampler) and type(sampler) is not sglang.sampler.Sampler
    chance, tale = numpy.random.default_rng(1), verdigris.Tokenizer.tale()
    runner = types.SimpleNamespace(
        device="cpu", model_config=types.SimpleNamespace(vocab_size=COLUMNS, model_path=str(TALE)),
        req_to_token_pool=types.SimpleNamespace(req_to_token=torch.zeros(SLOTS, 4)),
    )  # fmt: skip
    owners = ["a", None, "b", "a", "b", None, "a"]
    waiting = [(tale.encode(PROMPTS[at % len(PROMPTS)]), owner) for at, owner in enumerate(owners)]
    # Its beginning is not marked by a key that reads four tokens.
    waiting.append((tale.encode("The")[:1], "a"))
    texts, running, keys, mixed = [], [], {key.id: key for key in serving.policy().keys}, 0
    free = list(range(SLOTS))
    while waiting or running:
        begun = []
        while waiting and len(running) + len(begun) < 4:
            slot, length = free.pop(int(chance.integers(len(free)))), int(chance.integers(90, 120))
            begun.append(Text(*waiting.pop(0), slot, length))
        texts.extend(begun)
        mode = sglang.ForwardMode.DECODE if not begun else \
            sglang.ForwardMode.MIXED if running else sglang.ForwardMode.EXTEND
        mixed += mode is sglang.ForwardMode.MIXED
        step = begun + running
        info = types.SimpleNamespace(is_all_greedy=True, has_custom_logit_processor=False, grammars=None,
                                     sampling_mask_batch_indices=None, vocab_size=COLUMNS,
                                     sampling_support_logprobs_capture_indices=None)
        batch = types.SimpleNamespace(reqs=step, forward_mode=mode, decoding_reqs=None, sampling_info=info,
                                      mix_running_indices_cpu=[text.slot for text in running])
        slots = types.SimpleNamespace(req_pool_indices=torch.tensor([text.slot for text in step]))
        plugin.attach(slots, sglang.ForwardBatch, batch, runner, return_hidden_states_before_norm=False)
        with torch.inference_mode():
            rows = [model(torch.tensor([text.tokens])).logits[0, -1].float() for text in step]
        # Greedy texts run in loops, which repeat contexts, so random numbers are added to the model's logits.
        rows = [torch.nn.functional.pad(row, (0, COLUMNS - len(row)), value=-30.0) for row in rows]
        rows = [row - torch.from_numpy(numpy.log(chance.exponential(size=COLUMNS))).float() for row in rows]
        want = torch.stack([marked_by_rust(keys, text, row) for text, row in zip(step, rows)])
        output = types.SimpleNamespace(next_token_logits=torch.stack(rows))
        tokens = sampler(output, info, False, [], [], torch.tensor([len(text.tokens) - 1 for text in step]))
        assert torch.equal(output.next_token_logits, want)
        assert tokens.tolist() == want.argmax(-1).tolist()
        for text, token in zip(step, tokens.tolist()):
            text.tokens.append(token)
        running = [text for text in step if len(text.tokens) < text.end]
        free.extend(text.slot for text in step if len(text.tokens) >= text.end)
    assert mixed and len(texts) == 8
    for text in texts:
        for name in ("a", "b"):
            key, written = ring / f"{name}.key", tale.decode(text.written)
            found = json.loads(program("detect", "--json", "--key", key, text=written))
            assert (found["log10_p"] < -5) == (name == text.key_id), (name, text.key_id, found)


def test_hooks_stand_where_sglang_calls(served, monkeypatch):
    verify, init_new = sglang.Parameters.verify, vars(sglang.ForwardBatch)["init_new"]
    # `attach` relies on these positions of the batch and the model.
    assert list(inspect.signature(init_new.__func__).parameters)[1:3] == ["batch", "model_runner"]
    plugin.register()
    try:
        sglang.hooks.apply_hooks()
        assert vars(sglang.ForwardBatch)["init_new"].__func__.__wrapped__ is init_new.__func__
        for options in (None, {"verdigris_key_id": "b"}, {"other": 1}):
            sglang.Parameters(custom_params=options, max_new_tokens=8).verify(COLUMNS)
        with pytest.raises(ValueError, match="no key 'c'"):
            sglang.Parameters(custom_params={"verdigris_key_id": "c"}, max_new_tokens=8).verify(COLUMNS)
        monkeypatch.setenv("VERDIGRIS_MARK", "enforced")
        serving.policy.cache_clear()
        with pytest.raises(ValueError, match="this server marks everything"):
            sglang.Parameters(custom_params={"verdigris_watermark": 0}, max_new_tokens=8).verify(COLUMNS)
    finally:
        sglang.hooks.reset()
        sglang.Parameters.verify, sglang.ForwardBatch.init_new = verify, init_new


def test_what_would_go_without_a_mark_does_not_start(served, monkeypatch, tmp_path):
    plugin.register()
    sampler = sglang.sampler.create_sampler("pytorch")
    with pytest.raises(verdigris.Error, match="did not pass the rows of a step"):
        output, info = types.SimpleNamespace(next_token_logits=torch.zeros(1, 9)), types.SimpleNamespace()
        sampler(output, info, False, [], [], None)
    served.speculative_algorithm = "EAGLE"
    with pytest.raises(verdigris.Error, match="leave --speculative-algorithm or VERDIGRIS_KEYS out"):
        sglang.sampler.create_sampler("pytorch")
    served.speculative_algorithm, served.disaggregation_mode = None, "decode"
    with pytest.raises(verdigris.Error, match="leave --disaggregation-mode or VERDIGRIS_KEYS out"):
        sglang.sampler.create_sampler("flashinfer")
    # SGLang continues after any other exception of a plug-in.
    monkeypatch.setenv("VERDIGRIS_KEYS", str(tmp_path / "none.key"))
    serving.policy.cache_clear()
    with pytest.raises(SystemExit, match="none.key"):
        plugin.register()


def test_without_keys_it_does_nothing(monkeypatch):
    for name in ("VERDIGRIS_KEYS", "VERDIGRIS_DEFAULT_KEY", "VERDIGRIS_MARK"):
        monkeypatch.delenv(name, raising=False)
    serving.policy.cache_clear()
    monkeypatch.setattr(sglang.sampler, "register_sampler_backend", None)
    plugin.register()
    serving.policy.cache_clear()
