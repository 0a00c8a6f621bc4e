"""With the processors transformers writes the same texts as the program, and each detects the other's mark."""

import copy
import json
import random
import re

import pytest
import verdigris
from conftest import TALE, known_key

torch = pytest.importorskip("torch", reason="SKIPPED: torch is not installed, so transformers is not tested")
transformers = pytest.importorskip("transformers", reason="SKIPPED: transformers is not installed")

from verdigris.hf import ConstraintProcessor, WatermarkConfig, WatermarkProcessor  # noqa: E402

WORDS = "captain ship storm harbour letter morning widow garden soldier lantern river window doctor winter road".split()
# The shortest has at least as many tokens as the widest context here.
PROMPTS = [f"The {a} and the {b} were seen near the {c}" for a in WORDS for b in WORDS for c in WORDS]
PROMPTS = random.Random(1).sample(PROMPTS, 200)
LENGTH = 24
ANSWER = r" (no|yes|perhaps)( indeed| not)?\."


@pytest.fixture(scope="module")
def model():
    # For a model this small, threads would spend more time waiting for each other than computing.
    torch.set_num_threads(1)
    loaded = transformers.AutoModelForCausalLM.from_pretrained(TALE, dtype=torch.float32).eval()
    loaded.generation_config.pad_token_id = 0
    return loaded


@pytest.fixture(scope="module")
def tokenizer():
    return transformers.PreTrainedTokenizerFast(tokenizer_file=str(TALE / "tokenizer.json"), padding_side="left",
                                                pad_token="<|endoftext|>", eos_token="<|endoftext|>")


def write(model, tokenizer, prompts, processors, length=LENGTH, **options):
    """Texts after prompts, in batches of prompts of equal length."""
    ids = [tokenizer(prompt).input_ids for prompt in prompts]
    written = [None] * len(prompts)
    for size in {len(prompt) for prompt in ids}:
        rows = [row for row, prompt in enumerate(ids) if len(prompt) == size]
        batch = torch.tensor([ids[row] for row in rows])
        with torch.inference_mode():
            made = model.generate(batch, attention_mask=torch.ones_like(batch), max_new_tokens=length,
                                  logits_processor=processors(), **{"do_sample": False, **options})
        for row, text in zip(rows, made):
            written[row] = text[size:].tolist()
    return written


def by_program(program, tmp_path, prompts, *options, length=LENGTH, temperature=0):
    """The program's greedy texts after prompts, in their order."""
    asked, answers = tmp_path / "prompts.jsonl", tmp_path / "answers.jsonl"
    asked.write_text("".join(json.dumps({"id": i, "prompt": prompt}) + "\n" for i, prompt in enumerate(prompts)))
    program("batch", asked, answers, "--model", TALE, "--temperature", temperature, "--max-tokens", length, "--force",
            "--quiet", *options)
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    return [line for _, line in sorted((line["id"], line) for line in lines)]


def is_close(model, tokenizer, prompt, ours, theirs, processor):
    """Whether two texts diverge at a position where both tokens are equally likely, up to rounding of sums."""
    place = next(i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b)
    ids = torch.tensor([tokenizer(prompt).input_ids + ours[:place]])
    with torch.inference_mode():
        scores = processor(ids, model(ids).logits[:, -1].float())[0]
    return abs(float(scores[ours[place]] - scores[theirs[place]])) < 1e-4


KEYS = {
    "native": {},
    "last token": {"context": "all", "width": 1},
    "self-salted": {"context": "self-salted", "width": 2},
    "hard": {"delta": None, "gamma": 0.5},
}
DIALECTS = {
    "hugging-face": ["--dialect", "hugging-face", "--seeding", "lefthash"],
    "self-hash": ["--dialect", "hugging-face", "--seeding", "selfhash", "--width", "4"],
    "kgw": ["--dialect", "kgw"],
}


@pytest.fixture
def made(request, program, tmp_path):
    """A key of the named kind."""
    path = tmp_path / "made.key"
    if request.param in KEYS:
        known_key(path, **KEYS[request.param])
    else:
        secret = tmp_path / "secret.txt"
        secret.write_text("15485863")
        program("key", "new", path, *DIALECTS[request.param], "--import", secret)
    return path


@pytest.mark.parametrize("made, texts", [("native", 200), ("last token", 20), ("self-salted", 20), ("hard", 20),
                                         ("hugging-face", 10), ("self-hash", 6), ("kgw", 10)], indirect=["made"])
def test_texts_are_those_of_the_program_token_for_token(program, model, tokenizer, made, texts, tmp_path):
    key, prompts = verdigris.Key.load(made), PROMPTS[:texts]
    ours = write(model, tokenizer, prompts, lambda: [WatermarkProcessor(key)])
    theirs = by_program(program, tmp_path, prompts, "--key", made)
    assert [len(tokenizer(prompt).input_ids) for prompt in prompts] == [line["prompt_tokens"] for line in theirs]
    same = 0
    for prompt, mine, line in zip(prompts, ours, theirs):
        mine = mine[: mine.index(0)] if 0 in mine else mine
        if mine == line["tokens"]:
            same += 1
        else:
            assert is_close(model, tokenizer, prompt, mine, line["tokens"], WatermarkProcessor(key)), prompt
    print(f"{same} of {texts} texts are the same, token for token")
    assert same >= 0.97 * texts
    # The mark has an effect: without it the texts differ.
    plain = write(model, tokenizer, prompts[:6], list)
    assert plain != ours[:6]


def test_each_finds_the_others_mark(program, model, tokenizer, tmp_path):
    path = tmp_path / "my.key"
    key = known_key(path)
    prompts = PROMPTS[:8]
    torch.manual_seed(1)
    options = {"do_sample": True, "top_k": 0, "length": 200, "min_new_tokens": 200}
    for processors, extra in ((lambda: [WatermarkProcessor(key)], {}),
                              (list, {"watermarking_config": WatermarkConfig(key)})):
        for tokens in write(model, tokenizer, prompts, processors, **options, **extra):
            text = tokenizer.decode(tokens)
            found = json.loads(program("detect", "--json", "--key", path, text=text))
            assert found["log10_p"] < -5, found
            assert verdigris.detect(text, key).p == found["p"]
    for tokens in write(model, tokenizer, prompts, list, **options):
        assert verdigris.detect(tokenizer.decode(tokens), key).p > 1e-4
    for line in by_program(program, tmp_path, prompts, "--key", path, "--min-tokens", 200, "--seed", 1, length=200,
                           temperature=1):
        assert verdigris.detect(line["text"], key, tokenizer).marked


def test_a_batch_is_what_its_texts_are_alone(model, tokenizer):
    key = verdigris.Key.lists()
    prompts = [PROMPTS[0], PROMPTS[1] + " on a grey and windy day of the winter", PROMPTS[2] + " again"]
    alone = write(model, tokenizer, prompts, lambda: [WatermarkProcessor(key)])
    batch = tokenizer(prompts, padding=True, return_tensors="pt")
    assert (batch.attention_mask == 0).any()
    with torch.inference_mode():
        made = model.generate(batch.input_ids, attention_mask=batch.attention_mask, max_new_tokens=LENGTH,
                              do_sample=False, watermarking_config=WatermarkConfig(key))
    assert made[:, batch.input_ids.shape[1] :].tolist() == alone


def test_lists_are_the_same_by_bits_and_by_logits():
    """The code for GPUs, which uses bits, has the same result as Rust's on logits."""
    torch.manual_seed(2)
    for options in KEYS.values():
        processor = WatermarkProcessor(verdigris.Key.lists(**options))
        ids, scores = torch.randint(0, 4096, (5, 9)), torch.randn(5, 4100)
        scores[1, :4096] = -torch.inf
        want = scores.clone()
        processor.mark.apply(ids.numpy(), want.numpy())
        assert torch.equal(processor(ids, scores), want)
        assert processor(ids, scores.double()).dtype == torch.float64


def continuously(tokenizer, prompts, **options):
    """The greedy texts of continuous batching after prompts."""
    model = transformers.AutoModelForCausalLM.from_pretrained(TALE, dtype=torch.float32).eval()
    config = transformers.GenerationConfig(max_new_tokens=12, do_sample=False, eos_token_id=-1, pad_token_id=0,
                                           **options)
    batching = transformers.ContinuousBatchingConfig(use_async_batching=False, max_memory_percent=0.02)
    ids = [tokenizer(prompt).input_ids for prompt in prompts]
    made = model.generate_batch(ids, generation_config=config, continuous_batching_config=batching)
    texts = {tuple(text.prompt_ids): text.generated_tokens for text in made.values()}
    return [texts.get(tuple(prompt)) for prompt in ids]


def test_continuous_batching_marks_alike_or_refuses(model, tokenizer):
    pytest.importorskip("psutil", reason="SKIPPED: psutil is not installed, which continuous batching on a CPU needs")
    prompts = [PROMPTS[0], PROMPTS[1] + " on a grey and windy day", PROMPTS[2]]
    key = verdigris.Key.lists(context="all", width=1)
    alone = write(model, tokenizer, prompts, lambda: [WatermarkProcessor(key)], length=12)
    assert continuously(tokenizer, prompts, watermarking_config=WatermarkConfig(key)) == alone
    assert continuously(tokenizer, prompts) != alone
    wide, last = WatermarkProcessor(verdigris.Key.lists()), torch.tensor([1, 2])
    with pytest.raises(verdigris.Error, match="reads 4 tokens"):
        wide(last, torch.zeros(2, 4096))
    with pytest.raises(verdigris.Error, match="continuous batching"):
        ConstraintProcessor(verdigris.Constraint.regex("a"))(last, torch.zeros(2, 4096))


def test_a_constraint_is_obeyed_beside_a_mark(program, model, tokenizer, tmp_path):
    schema = {"type": "object", "required": ["says"], "additionalProperties": False,
              "properties": {"says": {"type": "string", "minLength": 90, "maxLength": 120, "pattern": "^[a-z ,]*$"}}}
    key = known_key(tmp_path / "my.key")
    constraint = verdigris.Constraint.json_schema(schema, tokenizer, end=[0])

    def processors():
        return [ConstraintProcessor(constraint), WatermarkProcessor(key)]

    prompts = [prompt + ": " for prompt in PROMPTS[:6]]
    texts = [text[: text.index(0)] for text in write(model, tokenizer, prompts, processors, length=140)]
    for tokens in texts:
        says = json.loads(tokenizer.decode(tokens))["says"]
        assert 90 <= len(says) <= 120 and re.fullmatch("[a-z ,]*", says)
        found = verdigris.detect(tokenizer.decode(tokens), key, tokenizer, constraint=constraint)
        assert found.z > 1 and found.forced > 0
    file = tmp_path / "schema.json"
    file.write_text(json.dumps(schema))
    theirs = by_program(program, tmp_path, prompts, "--key", tmp_path / "my.key", "--json-schema", file, length=140)
    assert sum(mine == line["tokens"] for mine, line in zip(texts, theirs)) >= 5


def test_a_constraint_follows_beams_and_batches(model, tokenizer):
    constraint = verdigris.Constraint.regex(ANSWER, tokenizer, end=[0])
    batch = tokenizer(PROMPTS[:3], padding=True, return_tensors="pt")
    for options in ({"num_beams": 4}, {"do_sample": True}, {"do_sample": False}):
        with torch.inference_mode():
            made = model.generate(**batch, max_new_tokens=12, logits_processor=[ConstraintProcessor(constraint)],
                                  **options)
        for row in made[:, batch.input_ids.shape[1] :]:
            assert re.fullmatch(ANSWER, tokenizer.decode(row, skip_special_tokens=True))


def test_a_constraint_follows_drafts(model, tokenizer):
    constraint = verdigris.Constraint.regex("( the captain){3}\\.", tokenizer, end=[0])
    prompt = tokenizer("The captain and the captain and the", return_tensors="pt")

    def write(drafts, **options):
        processors = [ConstraintProcessor(constraint, drafts=drafts)]
        with torch.inference_mode():
            made = model.generate(**prompt, max_new_tokens=24, do_sample=False, logits_processor=processors, **options)
        return tokenizer.decode(made[0, prompt.input_ids.shape[1] :], skip_special_tokens=True)

    plain = write(False)
    assert plain == " the captain the captain the captain."
    assert write(True, prompt_lookup_num_tokens=3) == plain
    assert write(True, assistant_model=model) == plain
    with pytest.raises(verdigris.Error, match="drafts=True"):
        write(False, prompt_lookup_num_tokens=3)


def test_a_configuration_tells_nothing_of_the_secret(tmp_path):
    path = tmp_path / "my.key"
    key = verdigris.Key.lists(id="named")
    key.save(path)
    secret = json.loads(path.read_text())["secret"]
    config = WatermarkConfig(key)
    whole = transformers.GenerationConfig(watermarking_config=config)
    shown = [repr(config), config.to_json_string(), repr(dict(config)), repr(whole), whole.to_json_string()]
    assert all(secret not in text for text in shown) and "named" in shown[1]
    assert copy.deepcopy(whole).watermarking_config.key is key
    with pytest.raises(verdigris.BadKey, match="not saved"):
        WatermarkConfig.from_dict(config.to_dict())
    with pytest.raises(verdigris.BadKey, match="but the model has 100"):
        config.construct_processor(100)


def test_keys_that_need_the_sampler_are_refused(program, tmp_path):
    path, secret = tmp_path / "theirs.key", tmp_path / "secret.txt"
    secret.write_text("\n".join(str(number) for number in range(1, 31)))
    program("key", "new", path, "--dialect", "synthid", "--import", secret)
    with pytest.raises(verdigris.BadKey, match="synthid"):
        WatermarkProcessor(verdigris.Key.load(path))


def test_the_tokenizer_of_transformers_is_that_of_the_file(tokenizer):
    assert verdigris.Tokenizer.from_transformers(tokenizer).fingerprint == verdigris.Tokenizer.tale().fingerprint
