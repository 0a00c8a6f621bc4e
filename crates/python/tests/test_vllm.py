"""The calls of vLLM, in its order, over `tale`: each request has its own mark, which is equal to Rust's."""

import json
import types

import numpy
import pytest
import verdigris
from conftest import PROMPTS, TALE

torch = pytest.importorskip("torch", reason="SKIPPED: torch is not installed, so vLLM is not tested")
pytest.importorskip("transformers", reason="SKIPPED: transformers is not installed")

import engines  # noqa: E402
from verdigris import serving, startup  # noqa: E402

vllm = engines.vllm()
# Imported after `engines.vllm()`, since its base class depends on vLLM.
from verdigris.vllm import LogitsProcessor  # noqa: E402

torch.set_num_threads(1)
# The width of a padded model.
COLUMNS = 4160
SLOTS = 8


@pytest.fixture(scope="module")
def ring(tmp_path_factory):
    """A folder of keys `a`, `b` and `hard`, which differ in all parameters."""
    folder = tmp_path_factory.mktemp("ring")
    for name, options in {"a": {}, "b": {"context": "all", "width": 2, "gamma": 0.5, "delta": 3.0},
                          "hard": {"context": "all", "width": 1, "delta": None}}.items():
        verdigris.Key.lists(id=name, **options).save(folder / f"{name}.key")
    return folder


@pytest.fixture
def served(ring, monkeypatch):
    """A server with the ring, whose default key is `a`."""
    monkeypatch.setenv("VERDIGRIS_KEYS", str(ring))
    monkeypatch.setenv("VERDIGRIS_DEFAULT_KEY", "a")
    serving.policy.cache_clear()
    yield
    serving.policy.cache_clear()


def config(vocabulary=COLUMNS, is_ahead=False, named=None, tokenizer=str(TALE)):
    """The part of vLLM's configuration that a plug-in reads."""
    size = lambda: vocabulary  # noqa: E731
    model_config = types.SimpleNamespace(logits_processors=named, tokenizer=tokenizer, get_vocab_size=size)
    scheduler = types.SimpleNamespace(async_scheduling=is_ahead, max_num_seqs=SLOTS)
    return types.SimpleNamespace(model_config=model_config, scheduler_config=scheduler, speculative_config=None)


def asks(**options):
    return vllm.Parameters(extra_args=options or None)


class Text:
    """A request: its tokens so far, and its options."""

    def __init__(self, prompt, key_id):
        self.tokens, self.prompt, self.slot = list(prompt), len(prompt), None
        self.key_id = key_id
        self.asked = asks(verdigris_watermark=0) if key_id is None else asks(verdigris_key_id=key_id)

    @property
    def written(self):
        return self.tokens[self.prompt :]


def logits_after(model, tokens, places):
    """The model's logits after each of the last `places` positions, padded to the width of a padded model."""
    with torch.inference_mode():
        logits = model(torch.tensor([tokens])).logits[0, -places:].float()
    return torch.nn.functional.pad(logits, (0, COLUMNS - logits.shape[1]), value=-30.0)


def marked_by_rust(keys, text, rows, contexts):
    """The rows marked by `Mark`."""
    if text.key_id is None:
        return rows
    mark = verdigris.Mark(keys[text.key_id])
    made = rows.numpy().copy()
    for row, context in enumerate(contexts):
        mark.apply(numpy.array([context[-8:]]), made[row : row + 1])
    return torch.from_numpy(made)


def write_by_slots(model, processor, state, texts, length, chance):
    """Steps of the second runner: drafts in separate rows, requests in any order, reused slots.

    Returns the number of rows after a draft.
    """
    waiting, running, free, drafted_rows = list(texts), [], list(range(SLOTS)), 0
    keys = {key.id: key for key in serving.policy().keys}
    while waiting or running:
        # Few at a time, so that later ones reuse slots.
        while waiting and len(running) < 3:
            text = waiting.pop(0)
            text.slot = free.pop(int(chance.integers(len(free))))
            assert processor.add_request(text.slot, text.asked) == (text.key_id is not None)
            running.append(text)
        processor.apply_staged_writes()
        chance.shuffle(running)
        batch = []
        for text in running:
            known = len(text.tokens)
            state.all_token_ids.gpu[text.slot, :known] = torch.tensor(text.tokens, dtype=torch.int32)
            # After the end are tokens of earlier requests, or rejected drafts.
            state.all_token_ids.gpu[text.slot, known:] = int(chance.integers(4096))
            drafts = []
            for _ in range(int(chance.integers(3)) if len(text.tokens) > text.prompt else 0):
                guess = logits_after(model, text.tokens + drafts, 1)[0].argmax()
                drafts.append(int(guess) if chance.random() < 0.7 else int(chance.integers(4096)))
            batch.append((text, drafts, logits_after(model, text.tokens + drafts, len(drafts) + 1)))
        slots = [text.slot for text, *_ in batch]
        fed = [[text.tokens[-1], *drafts] for text, drafts, _ in batch]
        rows = [(text, at) for text, drafts, _ in batch for at in range(len(drafts) + 1)]
        context = vllm.Context(
            expanded_idx_mapping=torch.tensor([text.slot for text, _ in rows], dtype=torch.int32),
            idx_mapping=torch.tensor(slots, dtype=torch.int32), idx_mapping_np=numpy.array(slots),
            expanded_local_pos=torch.tensor([at for _, at in rows], dtype=torch.int32),
            input_ids=torch.tensor([token for tokens in fed for token in tokens], dtype=torch.int32),
            pos=torch.tensor([len(text.tokens) - 1 + at for text, at in rows]),
            seq_lens_upper_bound_np=numpy.array([len(text.tokens) + len(drafts) for text, drafts, _ in batch]),
        )  # fmt: skip
        whole = torch.cat([logits for *_, logits in batch])
        marked = processor.apply(whole.clone(), context)
        want = [marked_by_rust(keys, text, logits, [text.tokens + drafts[:at] for at in range(len(drafts) + 1)])
                for text, drafts, logits in batch]
        assert torch.equal(marked, torch.cat(want))
        drafted_rows += len(rows) - len(batch)
        at = 0
        for text, drafts, _ in batch:
            # A draft is accepted if it equals the token sampled from the row before it.
            for row in range(len(drafts) + 1):
                token = int(torch.multinomial(marked[at + row, :4096].softmax(-1), 1))
                text.tokens.append(token)
                if row == len(drafts) or token != drafts[row]:
                    break
            at += len(drafts) + 1
        for text in [text for text in running if len(text.written) >= length]:
            running.remove(text)
            free.append(text.slot)
    return drafted_rows


def of_slots(processor_class, max_len=400):
    """A processor created as by the second runner, and the state that it reads."""
    staged = types.SimpleNamespace(gpu=torch.full((SLOTS, max_len), 7, dtype=torch.int32))
    state = vllm.State(device=torch.device("cpu"), max_num_reqs=SLOTS, vocab_size=COLUMNS, all_token_ids=staged,
                       prompt_len=None, prefill_len=None, total_len=None)
    return processor_class(config(), state), state


def test_texts_of_the_second_runner_are_found_by_their_own_key_alone(served, ring, model, program):
    torch.manual_seed(1)
    tale, chance = verdigris.Tokenizer.tale(), numpy.random.default_rng(1)
    owners = ["a", "b", None, "hard", "b", "a"]
    texts = [Text(tale.encode(PROMPTS[at % len(PROMPTS)]), owner) for at, owner in enumerate(owners)]
    # A prompt that is shorter than a context, so that the first tokens are not marked.
    texts.append(Text(tale.encode("The")[:1], "a"))
    processor, state = of_slots(LogitsProcessor)
    assert isinstance(processor, vllm.Interface)
    drafted = write_by_slots(model, processor, state, texts, 120, chance)
    assert drafted > 200
    for text in texts:
        for name in ("a", "b", "hard"):
            key, written = ring / f"{name}.key", tale.decode(text.written)
            found = json.loads(program("detect", "--json", "--key", key, text=written))
            assert (found["log10_p"] < -5) == (name == text.key_id), (name, text.key_id, found)


def test_the_first_runner_follows_rows_that_go_come_and_move(served, ring, model):
    """The rows of each step are marked as in Rust, whatever happened to the rows before."""
    torch.manual_seed(2)
    tale, chance = verdigris.Tokenizer.tale(), numpy.random.default_rng(2)
    processor = LogitsProcessor(config(), torch.device("cpu"), False)
    assert not processor.is_argmax_invariant()
    keys, rows, outputs = {key.id: key for key in serving.policy().keys}, [], {}
    moves = 0
    for step in range(80):
        removed, added, moved = [], [], []
        gone = [at for at in range(len(rows)) if chance.random() < 0.1]
        removed.extend(gone)
        for at in gone:
            rows[at] = None
        free = [at for at, text in enumerate(rows) if text is None]
        for _ in range(int(chance.integers(1, 3)) if len(rows) - len(free) < 4 and chance.random() < 0.6 else 0):
            prompt = PROMPTS[int(chance.integers(len(PROMPTS)))]
            text = Text(tale.encode(prompt), str(chance.choice(["a", "b", "hard", ""])) or None)
            at = free.pop(0) if free else len(rows)
            rows.extend([None] * (at + 1 - len(rows)))
            rows[at], outputs[id(text)] = text, []
            added.append((at, text.asked, list(text.tokens), outputs[id(text)]))
        # Holes are filled from the end, as in vLLM, and two rows are swapped now and then.
        while free and free[0] < len(rows) and None in rows:
            hole, last = rows.index(None), max((at for at, text in enumerate(rows) if text is not None), default=-1)
            if last < hole:
                break
            rows[hole], rows[last] = rows[last], None
            moved.append((last, hole, vllm.Direction.UNIDIRECTIONAL))
        rows = [text for text in rows if text is not None]
        if len(rows) > 1 and chance.random() < 0.5:
            rows[0], rows[-1] = rows[-1], rows[0]
            moved.append((0, len(rows) - 1, vllm.Direction.SWAP))
        moves += len(moved)
        update = vllm.Update(batch_size=len(rows), removed=removed, added=added, moved=moved)
        processor.update_state(update if removed or added or moved else None)
        if not rows:
            continue
        logits = torch.randn(len(rows), COLUMNS)
        marked = processor.apply(logits.clone())
        want = [marked_by_rust(keys, text, logits[at : at + 1], [text.tokens]) for at, text in enumerate(rows)]
        assert torch.equal(marked, torch.cat(want)), step
        for at, text in enumerate(rows):
            token = int(chance.integers(4096))
            text.tokens.append(token)
            outputs[id(text)].append(token)
    assert moves > 20


def test_a_placeholder_is_no_token(served, caplog):
    processor = LogitsProcessor(config(), torch.device("cpu"), False)
    shown = [5, 6, 7, 8, -1]
    processor.update_state(vllm.Update(1, [], [(0, asks(), [1, 2, 3, 4], shown)], []))
    logits = torch.randn(1, COLUMNS)
    for _ in range(2):
        assert torch.equal(processor.apply(logits.clone()), logits)
    assert [record.message for record in caplog.records] == [
        "vLLM did not pass a sampled token: tokens that depend on it are not marked"
    ]
    shown[-1] = 9
    assert not torch.equal(processor.apply(logits.clone()), logits)


def test_a_prompt_that_is_no_tokens_marks_when_there_are_enough(served):
    processor = LogitsProcessor(config(), torch.device("cpu"), False)
    shown, logits = [5, 6, 7], torch.randn(1, COLUMNS)
    processor.update_state(vllm.Update(1, [], [(0, asks(), None, shown)], []))
    assert torch.equal(processor.apply(logits.clone()), logits)
    shown.append(8)
    assert not torch.equal(processor.apply(logits.clone()), logits)


def test_requests_are_refused_where_they_are_admitted(served, monkeypatch):
    LogitsProcessor.validate_params(asks())
    LogitsProcessor.validate_params(asks(verdigris_key_id="b", other=1))
    for options, says in (({"verdigris_key_id": "c"}, "no key 'c'"), ({"verdigris_watermark": 2}, "must be 1")):
        with pytest.raises(ValueError, match=says):
            LogitsProcessor.validate_params(asks(**options))
    monkeypatch.setenv("VERDIGRIS_MARK", "enforced")
    serving.policy.cache_clear()
    with pytest.raises(ValueError, match="this server marks everything"):
        LogitsProcessor.validate_params(asks(verdigris_watermark=0))


@pytest.mark.parametrize("name", ["Verdigris_key_id", "verdigris-key-id", "verdgris_key_id", "verdigris_keyid",
                                  "VERDIGRIS_WATERMARK", "verdigris_seed"])
def test_a_misspelt_option_is_refused(served, name):
    with pytest.raises(ValueError, match=f"there is no option '{name}'"):
        LogitsProcessor.validate_params(asks(**{name: "b"}))


def test_beam_search_is_refused_where_there_are_keys(served, monkeypatch):
    """Its internal requests do not have the client's options, and choose tokens without the mark."""
    step = vllm.Parameters(max_tokens=1, logprobs=4, detokenize=False)
    own = asks()
    with pytest.raises(ValueError, match="leave use_beam_search out"):
        LogitsProcessor.validate_params(step)
    for other in (own, vllm.Parameters(max_tokens=1, logprobs=4), vllm.Parameters(max_tokens=1, detokenize=False)):
        LogitsProcessor.validate_params(other)
    monkeypatch.delenv("VERDIGRIS_KEYS")
    monkeypatch.delenv("VERDIGRIS_DEFAULT_KEY")
    serving.policy.cache_clear()
    LogitsProcessor.validate_params(step)


@pytest.mark.parametrize(("speculates", "second", "diffusion", "says"), [
    (True, False, False, "drops plug-ins when it speculates"), (True, True, False, None),
    (False, False, False, None), (False, True, True, "diffusion models"),
])  # fmt: skip
def test_a_configuration_that_drops_marks_does_not_start(served, monkeypatch, speculates, second, diffusion, says):
    made = config()
    made.speculative_config = object() if speculates else None
    made.use_v2_model_runner, made.model_config.is_diffusion = second, diffusion
    if says is None:
        startup.check(made)
        return
    with pytest.raises(verdigris.Error, match=says):
        startup.check(made)
    # Without keys there are no marks to drop.
    monkeypatch.delenv("VERDIGRIS_KEYS")
    monkeypatch.delenv("VERDIGRIS_DEFAULT_KEY")
    serving.policy.cache_clear()
    startup.check(made)


def test_a_start_says_keys_mode_and_runner(served, caplog):
    with caplog.at_level("INFO", logger="vllm.verdigris"):
        LogitsProcessor(config(), torch.device("cpu"), False)
        of_slots(LogitsProcessor)
    first, second = (record.message for record in caplog.records)
    assert "mode default, default key a, keys a (" in first and first.endswith("; first model runner on cpu")
    assert "b (" in first and second.endswith("; second model runner on cpu")


def test_what_would_go_without_a_mark_does_not_start(served):
    cpu = torch.device("cpu")
    for wrong, says in ((config(is_ahead=True), "start it with --no-async-scheduling"),
                        (config(named=["verdigris.vllm:LogitsProcessor"]), "would mark twice"),
                        (config(named=[LogitsProcessor]), "would mark twice"),
                        (config(vocabulary=4000), "for 4096 tokens, but the model has 4000")):
        with pytest.raises(verdigris.Error, match=says):
            LogitsProcessor(wrong, cpu, False)
    # If another processor is named, vLLM fills in the tokens.
    LogitsProcessor(config(is_ahead=True, named=["other:Processor"]), cpu, False)
    with pytest.raises(verdigris.Error, match="use 0.33"):
        LogitsProcessor(config())


def test_without_keys_it_does_nothing(monkeypatch):
    for name in ("VERDIGRIS_KEYS", "VERDIGRIS_DEFAULT_KEY", "VERDIGRIS_MARK"):
        monkeypatch.delenv(name, raising=False)
    serving.policy.cache_clear()
    processor, _ = of_slots(LogitsProcessor)
    assert processor.add_request(0, asks()) is False
    processor.apply_staged_writes()
    LogitsProcessor(config(is_ahead=True), torch.device("cpu"), False)
    with pytest.raises(ValueError, match="set VERDIGRIS_KEYS"):
        LogitsProcessor.validate_params(asks(verdigris_watermark=1))
    serving.policy.cache_clear()


@pytest.mark.skipif(vllm.build_second is None, reason="SKIPPED: vLLM is not installed")
def test_vllm_finds_and_makes_it_for_both_runners(served, monkeypatch):
    """By the entry point of the installed wheel."""
    # vLLM's own processors pin memory, which requires a driver.
    monkeypatch.setattr("vllm.utils.torch_utils.PIN_MEMORY", False)
    staged = types.SimpleNamespace(gpu=torch.zeros((SLOTS, 16), dtype=torch.int32))
    state = types.SimpleNamespace(device=torch.device("cpu"), max_num_reqs=SLOTS, vocab_size=COLUMNS,
                                  all_token_ids=staged, prompt_len=None, prefill_len=None, total_len=None)
    (made,) = vllm.build_second(config(), state, False)
    assert type(made) is LogitsProcessor and made.add_request(1, asks())
    of_first = vllm.build_first(config(), torch.device("cpu"), False, False).all
    assert [type(made) for made in of_first].count(LogitsProcessor) == 1
    validate = vllm.build_validator(())
    validate(asks())
    with pytest.raises(Exception, match="no key 'c'") as refused:
        validate(asks(verdigris_key_id="c"))
    assert type(refused.value).__name__ == "VLLMValidationError"
