#!/usr/bin/env python3
"""Compares models in GGUF files with the systems that such files come from:
tests/scripts/gguf-peers.py MODEL.gguf... [--tokenizers FOLDER...]

For each model it compares the answers of `target/release/answers` (cargo build --release -p verdigris-tests --bin
answers):
- the tokens of 5,000 lines, half of them from the held-out text in ../shared/corpus (otherwise from docs/), half made
  of unusual characters: with llama.cpp, and with sentencepiece if the file has such a tokenizer, rebuilt from the
  file's own pieces and scores;
- logits with those of transformers, which computes in f32 with weights decoded by the gguf package, and with peft for
  adapters;
- the prompts of its chat template with transformers' rendering;
- its greedy texts with those of llama.cpp.
Each of --tokenizers is a folder with a `tokenizer.json`, a sentencepiece model, or a file of Mistral's tekken (the
package mistral_common includes some of both): the gguf package makes llama.cpp's files of them, which are read back;
the reference is the tokenizers library, sentencepiece, or mistral_common.

Needs: pip install torch transformers gguf sentencepiece protobuf tokenizers mistral_common numpy zstandard accelerate
xllamacpp peft. Without the last two llama.cpp and adapters are SKIPPED, with a message.
Status 1: tokens differ where they must not, logits differ by more than rounding, or a prompt differs.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import urllib.request

here = os.path.dirname(os.path.abspath(__file__))
root = os.path.join(here, "..", "..")
program = os.path.join(os.environ.get("CARGO_TARGET_DIR", os.path.join(root, "target")), "release", "answers")
LINES = 5000
faults = []


def answers(model, questions):
    asked = "".join(json.dumps(question) + "\n" for question in questions)
    run = subprocess.run([program, model], input=asked.encode(), stdout=subprocess.PIPE, check=True)
    return [json.loads(line) for line in run.stdout.splitlines()]


def usual_lines(count):
    path = os.path.join(root, "..", "shared", "corpus", "heldout.txt.zst")
    if os.path.exists(path):
        import zstandard
        text = zstandard.ZstdDecompressor().stream_reader(open(path, "rb")).read().decode()
    else:
        print("SKIPPED: the held-out text, which is not here; docs/ are taken in its place")
        folder = os.path.join(root, "docs")
        text = "".join(open(os.path.join(folder, name)).read() for name in sorted(os.listdir(folder)) if name.endswith(".md"))
    lines = [line for line in text.replace("<|endoftext|>", "").splitlines() if line.strip()]
    step = max(1, len(lines) // count)
    return (lines[::step] * (count // max(1, len(lines[::step])) + 1))[:count]


def unusual_lines(count):
    source = random.Random(7)
    ranges = [(0x20, 0x7E), (0x20, 0x7E), (0x30, 0x39), (0xA0, 0x24F), (0x370, 0x3FF), (0x400, 0x4FF), (0x5D0, 0x5EA), (0x620, 0x64A),
              (0x900, 0x97F), (0xE01, 0xE3A), (0x1100, 0x11FF), (0x2000, 0x206F), (0x2200, 0x22FF), (0x3040, 0x30FF), (0x4E00, 0x9FFF),
              (0xAC00, 0xD7A3), (0xFF01, 0xFF5E), (0x1F300, 0x1F6FF)]
    words = ["don't", "I'LL", "it's", "'tis", "1851", "3.14159", "  ", "   ", "\t", " \t ", "...", "--", "e\u0301", "ſ", "İ", "ﬁ", "http://x.y/z?a=1&b=2",
             "\u00a0", "\u200b", "👩‍👩‍👧", "🇩🇪", "()=>{}", "x+=1;", "_a_b_", "CamelCase", "ΑΒΓ", "ß", "naïve", "1,000,000", "½", "①", "᠎", "\u3000"]
    lines = []
    while len(lines) < count:
        line = ""
        for _ in range(source.randint(1, 12)):
            if source.random() < 0.35:
                line += source.choice(words)
            else:
                low, high = source.choice(ranges)
                line += "".join(chr(source.randint(low, high)) for _ in range(source.randint(1, 6)))
            if source.random() < 0.5:
                line += " "
        lines.append(line)
    return lines


def compare(what, reference, lines, ours, theirs, must):
    different = [i for i in range(len(lines)) if ours[i] != theirs[i]]
    print(f"| {what} | {reference} | {len(lines)} | {len(different)} |")
    for i in different[:3]:
        at = next((j for j, (a, b) in enumerate(zip(ours[i], theirs[i])) if a != b), min(len(ours[i]), len(theirs[i])))
        print(f"    {lines[i]!r}: {ours[i][at:at + 6]} here, {theirs[i][at:at + 6]} there")
    if must and different:
        faults.append(f"{what}: {len(different)} lines differ from {reference}")


class Llama:
    """llama.cpp as a server in this process."""

    def __init__(self, path):
        import xllamacpp
        parameters = xllamacpp.CommonParams()
        parameters.model.path, parameters.n_ctx, parameters.n_parallel, parameters.warmup = path, 1024, 1, False
        parameters.cpuparams.n_threads = os.cpu_count()
        parameters.verbosity = -1
        self.server = xllamacpp.Server(parameters)

    def ask(self, place, question):
        request = urllib.request.Request(self.server.listening_address + place, json.dumps(question).encode(),
                                         {"Content-Type": "application/json"})
        return json.loads(urllib.request.urlopen(request).read())

    def tokens(self, text):
        return self.ask("/tokenize", {"content": text, "add_special": True, "parse_special": False})["tokens"]

    def write(self, ids, tokens):
        asked = {"prompt": ids, "n_predict": tokens, "temperature": 0, "top_k": 1, "return_tokens": True, "cache_prompt": False}
        return self.ask("/completion", asked)["tokens"]


def fields_of(path):
    import gguf
    reader = gguf.GGUFReader(path)
    return {name: field for name, field in reader.fields.items()}


def content(field):
    return field.contents() if field is not None else None


def sentencepiece_of(path):
    """A sentencepiece model of a file's pieces, scores and kinds; None if the file has no such tokenizer."""
    from sentencepiece import SentencePieceProcessor
    from sentencepiece import sentencepiece_model_pb2 as pb
    fields = fields_of(path)
    of = lambda name: content(fields.get(f"tokenizer.ggml.{name}"))
    if of("model") != "llama":
        return None
    model = pb.ModelProto()
    model.trainer_spec.model_type = pb.TrainerSpec.BPE
    model.trainer_spec.byte_fallback = True
    model.trainer_spec.unk_id = of("unknown_token_id") or 0
    model.trainer_spec.bos_id, model.trainer_spec.eos_id, model.trainer_spec.pad_id = -1, -1, -1
    model.normalizer_spec.name = "identity"
    prefix = of("add_space_prefix")
    model.normalizer_spec.add_dummy_prefix = True if prefix is None else bool(prefix)
    model.normalizer_spec.remove_extra_whitespaces = False
    model.normalizer_spec.escape_whitespaces = True
    for i, (piece, score, kind) in enumerate(zip(of("tokens"), of("scores"), of("token_type"))):
        # A second unknown piece would be refused.
        if kind == 2 and i != model.trainer_spec.unk_id:
            kind = 3
        # Gemma's files store runs of spaces as user-defined pieces, with plain spaces.
        model.pieces.add(piece=piece.replace(" ", "\u2581"), score=score, type=kind)
    processor = SentencePieceProcessor()
    processor.LoadFromSerializedProto(model.SerializeToString())
    begin = [of("bos_token_id")] if of("add_bos_token") or of("add_bos_token") is None else []
    return lambda text: begin + processor.encode(text)


def in_f32(path, to):
    """Writes the same file with all its weights in f32, as decoded by the gguf package."""
    import gguf
    reader = gguf.GGUFReader(path)
    writer = gguf.GGUFWriter(to, reader.fields["general.architecture"].contents())
    for name, field in reader.fields.items():
        if name != "general.architecture" and not name.startswith("GGUF."):
            inner = field.types[-1] if field.types[0] == gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(name, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        numbers = gguf.dequantize(tensor.data, tensor.tensor_type).astype("float32")
        writer.add_tensor(tensor.name, numbers.reshape([int(n) for n in reversed(tensor.shape)]))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def check_tokens(path, name, lines):
    ours = [answer["ids"] for answer in answers(path, [{"text": line} for line in lines])]
    pieces = sentencepiece_of(path)
    if pieces:
        compare(name, "sentencepiece", lines, ours, [pieces(line) for line in lines], must=True)
    return ours


def differences(answers, rows):
    """The differences of the last rows, and the share of tokens after which the most likely token is the same."""
    import numpy as np
    square, spread, largest, same, tokens = 0.0, 0.0, 0.0, 0, 0
    for answer, rows in zip(answers, rows):
        # A constant added to all logits does not change the distribution.
        centred = lambda row: row - row.mean()
        last = np.array(answer["last"], dtype=np.float32)[: rows.shape[1]]
        difference = centred(last - rows[-1])
        square += float((difference ** 2).sum())
        spread += float((centred(rows[-1]) ** 2).sum())
        largest = max(largest, float(np.abs(difference).max()))
        same += sum(a == b for a, b in zip(answer["best"], rows.argmax(-1).tolist()))
        tokens += len(rows)
    return (square / spread) ** 0.5, largest, same / tokens


def check_adapters(name, model, base, folder, prompts):
    """Compares random adapters of all matrices, saved and computed by peft, on a file with weights in f32."""
    import torch
    try:
        import peft
    except ImportError:
        print("SKIPPED: adapters, for peft is not here")
        return
    for kind, more in [("LoRA", {}), ("rsLoRA", {"use_rslora": True}), ("DoRA", {"use_dora": True})]:
        torch.manual_seed(1)
        config = peft.LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", init_lora_weights=False, **more)
        tuned = peft.get_peft_model(model, config).eval()
        for part, parameter in tuned.named_parameters():
            # Strong enough to be noticed, but not to dominate.
            if "lora_B" in part:
                parameter.data.mul_(0.1)
        adapter = os.path.join(folder, kind)
        tuned.save_pretrained(adapter)
        described = os.path.join(adapter, "adapter_config.json")
        fields = json.load(open(described))
        fields["base_model_name_or_path"] = base
        json.dump(fields, open(described, "w"))
        with torch.no_grad():
            theirs = [tuned(torch.tensor([ids])).logits[0].numpy() for ids in prompts]
        model = tuned.unload()
        part, largest, same = differences(answers(adapter, [{"rows": ids} for ids in prompts]), theirs)
        print(f"| {kind} by peft, weights in f32 | {100 * part:.3g} % | {largest:.2g} | {100 * same:.1f} % |")
        if part > 1e-3 or same < 0.998:
            faults.append(f"{name}, {kind}: logits differ by {part}")


def check_model(path, lines):
    name = os.path.basename(path)
    print(f"\n## {name}\n\n| tokens of | beside | lines | different |\n|---|---|--:|--:|")
    ours = check_tokens(path, name, lines)
    try:
        llama = Llama(path)
    except ImportError:
        llama = None
        print("SKIPPED: llama.cpp (xllamacpp), which is not here")
    if llama:
        compare(name, "llama.cpp", lines, ours, [llama.tokens(line) for line in lines], must=False)

    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    folder, file = os.path.split(os.path.abspath(path))
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(folder, gguf_file=file, dtype=torch.float32)
    prompts = [ids[:64] for ids in ours[:16] if len(ids) > 4]
    with torch.no_grad():
        theirs = [model(torch.tensor([ids])).logits[0].numpy() for ids in prompts]
    asked = [{"rows": ids} for ids in prompts]
    print(f"\n| logits of {len(prompts)} texts beside transformers | difference beside their spread | largest | likeliest token the same |\n|---|--:|--:|--:|")
    with tempfile.TemporaryDirectory() as folder:
        whole = os.path.join(folder, name)
        in_f32(path, whole)
        for what, file, bound, agreeing in [("weights in f32", whole, 1e-3, 0.998), ("as it is, with rows in 8 bits", path, 0.05, 0.9)]:
            part, largest, same = differences(answers(file, asked), theirs)
            print(f"| {what} | {100 * part:.3g} % | {largest:.2g} | {100 * same:.1f} % |")
            if part > bound or same < agreeing:
                faults.append(f"{name}, {what}: logits differ by {part}")
        check_adapters(name, model, whole, folder, prompts)

    if tokenizer.chat_template:
        talks = [[{"role": "user", "content": "What is 2+2?"}],
                 [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello <|im_end|> there"},
                  {"role": "assistant", "content": " Good day. "}, {"role": "user", "content": "  Naïve\n\nquestion?"}]]
        texts = [answer["text"] for answer in answers(path, [{"chat": talk} for talk in talks])]
        theirs = [tokenizer.apply_chat_template(talk, tokenize=False, add_generation_prompt=True) for talk in talks]
        print(f"Prompts of its template: {sum(a == b for a, b in zip(texts, theirs))} of {len(talks)} are those of transformers.")
        if texts != theirs:
            faults.append(f"{name}: prompts differ: {texts} {theirs}")
    else:
        print("It has no chat template.")

    if llama:
        starts = [ids for ids in ours[:60] if 6 < len(ids) < 40][:6]
        written = answers(path, [{"write": ids, "tokens": 24} for ids in starts])
        equal = []
        for ids, answer in zip(starts, written):
            theirs = llama.write(ids, 24)
            equal.append(next((i for i, (a, b) in enumerate(zip(answer["ids"], theirs)) if a != b), min(len(answer["ids"]), len(theirs))))
        print(f"Greedy texts beside llama.cpp, of 24 tokens the first that are the same: {', '.join(map(str, equal))}.")


def file_of(source, to):
    """Writes a file with only a tokenizer; returns its reference."""
    import gguf
    writer = gguf.GGUFWriter(to, "llama")
    kinds = gguf.TokenType
    path = os.path.join(source, "tokenizer.json")
    if os.path.isdir(source) and os.path.exists(path):
        from tokenizers import Tokenizer
        tokenizer = json.load(open(path))
        vocabulary = sorted(tokenizer["model"]["vocab"].items(), key=lambda item: item[1])
        tokens = {i: token for token, i in vocabulary}
        special = {token["id"]: token for token in tokenizer.get("added_tokens", [])}
        tokens.update({i: token["content"] for i, token in special.items()})
        count = max(tokens) + 1
        kind_of = lambda i: kinds.UNUSED if i not in tokens else kinds.CONTROL if i in special else kinds.NORMAL
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre({"gpt2": "gpt-2", "qwen2": "qwen2", "o200k": "gpt-4o"}[os.path.basename(os.path.normpath(source))])
        writer.add_token_list([tokens.get(i, f"[unused {i}]") for i in range(count)])
        writer.add_token_types([kind_of(i) for i in range(count)])
        writer.add_token_merges([m if isinstance(m, str) else " ".join(m) for m in tokenizer["model"]["merges"]])
        reference = Tokenizer.from_file(path)
        encode = lambda text: reference.encode(text, add_special_tokens=False).ids
        name = "tokenizers"
    elif source.endswith(".json"):
        from mistral_common.tokens.tokenizers.tekken import Tekkenizer
        reference = Tekkenizer.from_file(source)
        first = reference.num_special_tokens
        ranks = {reference.id_to_byte_piece(i): i for i in range(first, reference.n_words)}
        written = letters_of_bytes()
        letters = lambda token: "".join(written[byte] for byte in token)
        merges = [" ".join(map(letters, parts(token, ranks))) for token in ranks if len(token) > 1]
        writer.add_tokenizer_model("gpt2")
        writer.add_tokenizer_pre("tekken")
        writer.add_token_list([f"<SPECIAL_{i}>" for i in range(first)] + [letters(token) for token in ranks])
        writer.add_token_types([kinds.CONTROL] * first + [kinds.NORMAL] * len(ranks))
        writer.add_token_merges(merges)
        writer.add_bos_token_id(reference.bos_id)
        encode = lambda text: reference.encode(text, bos=True, eos=False)
        name = "mistral_common"
    else:
        from sentencepiece import SentencePieceProcessor
        reference = SentencePieceProcessor(model_file=source)
        pieces = range(reference.vocab_size())
        kind_of = lambda i: (kinds.UNKNOWN if reference.is_unknown(i) else kinds.CONTROL if reference.is_control(i)
                             else kinds.BYTE if reference.is_byte(i) else kinds.UNUSED if reference.is_unused(i) else kinds.NORMAL)
        writer.add_tokenizer_model("llama")
        writer.add_token_list([reference.id_to_piece(i) for i in pieces])
        writer.add_token_scores([reference.get_score(i) for i in pieces])
        writer.add_token_types([kind_of(i) for i in pieces])
        writer.add_bos_token_id(reference.bos_id())
        encode = lambda text: [reference.bos_id()] + reference.encode(text)
        name = "sentencepiece"
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return name, encode


def letters_of_bytes():
    """GPT-2's character for each byte: the byte's own if printable, otherwise one above 255."""
    seen = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in seen]
    return {**{byte: chr(byte) for byte in seen}, **{byte: chr(256 + i) for i, byte in enumerate(others)}}


def parts(token, ranks):
    """The two tokens whose merge gives a token: the pieces of its bytes after all merges of lower rank."""
    pieces = [token[i:i + 1] for i in range(len(token))]
    while len(pieces) > 2:
        joins = [(ranks.get(a + b, len(ranks) * 2), i) for i, (a, b) in enumerate(zip(pieces, pieces[1:]))]
        rank, at = min((rank, i) for rank, i in joins)
        if rank >= ranks[token]:
            break
        pieces[at:at + 2] = [pieces[at] + pieces[at + 1]]
    return pieces[0], b"".join(pieces[1:])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("models", nargs="*")
    parser.add_argument("--tokenizers", nargs="*", default=[])
    options = parser.parse_args()
    lines = usual_lines(LINES // 2) + unusual_lines(LINES // 2)
    if options.tokenizers:
        print("| tokens of | beside | lines | different |\n|---|---|--:|--:|")
    for source in options.tokenizers:
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "tokenizer.gguf")
            reference, encode = file_of(source, path)
            ours = [answer["ids"] for answer in answers(path, [{"text": line} for line in lines])]
            compare(os.path.basename(os.path.normpath(source)), reference, lines, ours, [encode(line) for line in lines], must=True)
    for path in options.models:
        check_model(path, lines)
    for fault in faults:
        print(f"WRONG: {fault}")
    sys.exit(1 if faults else 0)


main()
