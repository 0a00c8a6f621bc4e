//! The library gives the same tokens and the same ranges.

use proptest::prelude::*;
use serde_json::{Value, json};

use crate::encoder::Encoder;
use crate::sampled::sampled;
use crate::vocabulary::Vocabulary;

const TALE: &[u8] = include_bytes!("../../../../fixtures/models/tale/tokenizer.json");

/// The expressions of families of models: GPT-2, Qwen 2, Llama 3, o200k, Tekken and DeepSeek-V3.
const EXPRESSIONS: [&[&str]; 6] = [
    &[r"'(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"],
    &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    &[
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    &[
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    &[
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ],
    &[
        r"\p{N}{1,3}",
        "[一-龥぀-ゟ゠-ヿ]+",
        "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~][A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+",
    ],
];

fn tale() -> Value {
    serde_json::from_slice(TALE).unwrap()
}

fn split(expression: &str) -> Value {
    json!({"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": false})
}

fn byte_level(use_regex: bool) -> Value {
    json!({"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": use_regex})
}

fn sequence(steps: impl IntoIterator<Item = Value>) -> Value {
    json!({"type": "Sequence", "pretokenizers": steps.into_iter().collect::<Vec<_>>()})
}

fn added(content: &str, id: usize, special: bool, normalized: bool) -> Value {
    json!({"id": id, "content": content, "single_word": false, "lstrip": false, "rstrip": false,
        "normalized": normalized, "special": special})
}

/// A file with some parts replaced.
fn with(mut file: Value, parts: &[(&str, Value)]) -> Value {
    for (pointer, value) in parts {
        *file.pointer_mut(pointer).unwrap() = value.clone();
    }
    file
}

/// A tokenizer like Llama 2's, or like Gemma's without `lead`.
fn pieces(lead: bool) -> Value {
    let letters = ('a'..='z').chain("春夏ßéñ.,\n▁".chars()).map(String::from);
    let bytes = (0..=255u8).map(|byte| format!("<0x{byte:02X}>"));
    let merges = ["▁ t", "h e", "▁t he", "i n", "▁ ▁", "▁▁ ▁▁", "s h", "sh i", "春 夏", "▁ 春", "é s", "\n \n", ". \n"];
    let joined = merges.iter().map(|pair| pair.replace(' ', ""));
    let tokens = ["<unk>".to_owned()].into_iter().chain(bytes).chain(letters).chain(joined);
    let vocabulary: serde_json::Map<String, Value> = tokens.enumerate().map(|(id, token)| (token, id.into())).collect();
    let count = vocabulary.len();
    let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": "▁"});
    let first = lead.then(|| json!({"type": "Prepend", "prepend": "▁"}));
    let normalizers: Vec<Value> = first.into_iter().chain([spaces]).collect();
    json!({
        "version": "1.0", "truncation": null, "padding": null,
        "added_tokens": [added("<unk>", 0, true, false), added("<h1>", count, false, false)],
        "normalizer": {"type": "Sequence", "normalizers": normalizers}, "pre_tokenizer": null,
        "post_processor": null, "decoder": null,
        "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab": vocabulary,
            "merges": merges},
    })
}

/// The same with a pre-tokenizer instead of normalizers, like Mistral 0.3's.
fn metaspace(scheme: &str, splits: bool) -> Value {
    let step = json!({"type": "Metaspace", "replacement": "▁", "prepend_scheme": scheme, "split": splits});
    with(pieces(false), &[("/normalizer", Value::Null), ("/pre_tokenizer", step)])
}

/// Files that our encoder reads.
fn files() -> Vec<Value> {
    let mut files: Vec<Value> =
        EXPRESSIONS
            .iter()
            .map(|steps| sequence(steps.iter().map(|step| split(step)).chain([byte_level(false)])))
            .chain([true, false].map(|one_by_one| {
                sequence([json!({"type": "Digits", "individual_digits": one_by_one}), byte_level(true)])
            }))
            .map(|steps| with(tale(), &[("/pre_tokenizer", steps)]))
            .collect();
    let begin = json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "B", "type_id": 0}},
        {"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "E", "type_id": 0}}], "pair": [],
        "special_tokens": {"B": {"id": "B", "ids": [3], "tokens": ["B"]}, "E": {"id": "E", "ids": [7, 8], "tokens": ["E", "F"]}}});
    let trims =
        |first: bool| json!({"type": "ByteLevel", "add_prefix_space": first, "trim_offsets": true, "use_regex": true});
    let tokens = [
        added("<|endoftext|>", 0, true, false),
        added("the sea", 4096, false, false),
        added("sea <", 4097, true, false),
        added("\n \n", 4098, false, true),
        added("a <b", 4099, false, true),
    ];
    // A byte without a token, for which nothing is read.
    let mut lacking = tale();
    let byte = lacking["model"]["vocab"].as_object_mut().unwrap().remove("\u{f0}").unwrap();
    lacking["model"]["vocab"]["unused"] = byte;
    lacking["model"]["merges"].as_array_mut().unwrap().retain(|pair| !pair.to_string().contains('\u{f0}'));
    files.extend([
        tale(),
        lacking,
        with(tale(), &[("/model/ignore_merges", true.into())]),
        with(tale(), &[("/normalizer", json!({"type": "NFC"})), ("/post_processor", trims(false))]),
        with(
            tale(),
            &[
                ("/normalizer", json!({"type": "Sequence", "normalizers": [{"type": "NFC"}]})),
                ("/added_tokens", json!(tokens)),
            ],
        ),
        with(tale(), &[("/added_tokens", json!(tokens)), ("/post_processor", trims(true))]),
        with(tale(), &[("/post_processor", json!({"type": "Sequence", "processors": [trims(true), begin]}))]),
        pieces(false),
        with(pieces(true), &[("/post_processor", begin)]),
        with(
            pieces(true),
            &[(
                "/pre_tokenizer",
                json!({"type": "Split", "pattern": {"String": " "}, "behavior": "MergedWithPrevious", "invert": false}),
            )],
        ),
    ]);
    let mut whole = pieces(true);
    whole["model"]["ignore_merges"] = true.into();
    files.push(whole);
    for (scheme, splits) in ["never", "always", "first"].iter().flat_map(|scheme| [(scheme, false), (scheme, true)]) {
        files.push(metaspace(scheme, splits));
        let mut whole = metaspace(scheme, splits);
        whole["model"]["ignore_merges"] = true.into();
        files.push(with(whole, &[("/added_tokens/1/normalized", true.into())]));
    }
    files
}

/// The encoders of a file: ours and the library's.
fn encoders(file: &Value) -> [(Encoder, Vocabulary); 2] {
    let json = file.to_string().into_bytes();
    let own = Encoder::read(&json).unwrap();
    let parts = ["normalizer", "pre_tokenizer", "post_processor", "added_tokens"].map(|part| &file[part]);
    assert!(own.0.is_own(), "{parts:?}");
    [own, Encoder::of_library(&json).unwrap()]
}

#[track_caller]
fn agree(encoders: &[(Encoder, Vocabulary); 2], text: &str) {
    let [own, library] = encoders.each_ref().map(|(encoder, vocabulary)| {
        let all = [true, false].map(|is_first| {
            let ranges = encoder.offsets(text, is_first, vocabulary).unwrap().into_iter();
            // The library gives some tokens that are outside of a text's beginning an end before their start.
            let ranges = ranges.map(|(id, range)| (id, range.start, range.end.max(range.start)));
            (encoder.ids(text, is_first, vocabulary).unwrap(), ranges.collect::<Vec<_>>())
        });
        (all, encoder.prompt(text).unwrap())
    });
    assert_eq!(own, library, "{text:?}");
}

/// Texts of parts that tokenizers split or merge, and of any characters.
fn texts() -> impl Strategy<Value = String> {
    const PARTS: &[&str] = &[
        "the sea",
        " the",
        "The",
        "ship's",
        "IT'LL",
        "'ſ",
        " ",
        "  ",
        "\n",
        "\r\n",
        "\t",
        "\u{a0}",
        "\u{2028}",
        "\u{3000}",
        "\u{85}",
        "12",
        "1234567",
        "½",
        "٣",
        "Ⅷ",
        "春夏秋冬",
        "カタカナ",
        "हिन्दी",
        "한국어",
        "\u{1100}\u{1161}",
        "é",
        "e\u{301}",
        "\u{301}",
        "a\u{316}\u{301}",
        "\u{1F600}\u{200D}",
        "ǅ",
        "ʰ",
        ".",
        "...",
        "/",
        "</h1>",
        "<h1>",
        "sea <",
        "sea <b",
        "<|endoftext|>",
        "\n \n",
        "▁",
        "▁the",
        "▁▁▁",
        "<0x41>",
        "ab_cd",
        "--",
        "\u{0}",
        "\u{10FFFF}",
        "harbour",
        "antidisestablishmentarianism",
    ];
    let part = prop_oneof![
        4 => proptest::sample::select(PARTS).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        1 => ("[a-z]{1,12}", 1..4usize).prop_map(|(word, times)| word.repeat(times)),
    ];
    proptest::collection::vec(part, 0..30).prop_map(|parts| parts.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]
    #[test]
    fn the_library_agrees(texts in proptest::collection::vec(texts(), 6)) {
        thread_local! {
            static ALL: Vec<[(Encoder, Vocabulary); 2]> = files().iter().map(encoders).collect();
        }
        ALL.with(|all| all.iter().for_each(|encoders| texts.iter().for_each(|text| agree(encoders, text))));
    }
}

/// Words that are long, and chunks of a long text.
#[test]
fn the_library_agrees_about_long_texts() {
    let long = "aefhinst".repeat(3000);
    let code = include_str!("mod.rs");
    let texts = ["", " ", "\n", &" ".repeat(5000), &" \n".repeat(3000), &long, &"春夏".repeat(4000), code];
    for file in sampled(files(), 3) {
        let encoders = encoders(&file);
        texts.iter().for_each(|text| agree(&encoders, text));
        let [own, library] = encoders.each_ref().map(|(encoder, vocabulary)| {
            let ids =
                ["<|endoftext|>", "the sea", "<h1>", "Ġthe", "▁the", "<0x41>", "none"].map(|name| encoder.id(name));
            (ids, encoder.adds_space(vocabulary), vocabulary.fingerprint().to_owned())
        });
        assert_eq!(own, library);
        let [own, library] = encoders.each_ref().map(|(encoder, _)| {
            let mut added = encoder.added();
            added.sort_by_key(|(id, _)| *id);
            added
        });
        assert_eq!(own, library);
    }
}

/// Everything that might be read in another way is left to the library.
#[test]
fn other_files_are_left_to_the_library() {
    let twice = json!([["Ġ", "t"], ["Ġ", "t"]]);
    let named = |token: Value| with(tale(), &[("/added_tokens", json!([token]))]);
    let by = |expression: &str| with(tale(), &[("/pre_tokenizer", sequence([split(expression), byte_level(false)]))]);
    let mut strips = added("the sea", 4096, false, false);
    strips["rstrip"] = true.into();
    for (file, is_read) in [
        (with(tale(), &[("/model/dropout", 0.1.into())]), true),
        (with(tale(), &[("/model/end_of_word_suffix", "</w>".into())]), true),
        (with(tale(), &[("/model/merges", twice)]), true),
        (with(tale(), &[("/model/merges", json!([["Ġ", "nothing"]]))]), false),
        (with(tale(), &[("/normalizer", json!({"type": "NFKC"}))]), true),
        (with(tale(), &[("/pre_tokenizer/add_prefix_space", true.into())]), true),
        (with(tale(), &[("/pre_tokenizer", json!({"type": "WhitespaceSplit"}))]), true),
        (with(tale(), &[("/pre_tokenizer", Value::Null)]), true),
        (with(tale(), &[("/version", "2.0".into())]), false),
        (with(tale(), &[("/added_tokens", Value::Null)]), false),
        (with(pieces(true), &[("/model/byte_fallback", false.into())]), true),
        (with(pieces(true), &[("/normalizer/normalizers/1/content", "_".into())]), true),
        (with(metaspace("first", false), &[("/pre_tokenizer/replacement", "_".into())]), true),
        (with(metaspace("first", false), &[("/model/byte_fallback", false.into())]), true),
        (with(metaspace("first", false), &[("/normalizer", json!({"type": "NFC"}))]), true),
        (named(strips), true),
        (named(added("the sea", 9000, false, false)), true),
        // Nothing is given back, something looks around, captures, or matches nothing.
        (by(r"\s++|\S+"), true),
        (by(r"\s+(?=\S)|\S+"), true),
        (by(r"(\s+)|\S+"), true),
        (by(r"\s*|\S+"), true),
        (by(r"\s+?|\S+"), true),
        (by(r"\w+\b|\W+"), true),
        (by(r"(?s:.+)"), true),
    ] {
        let json = file.to_string().into_bytes();
        match Encoder::read(&json) {
            Ok((encoder, _)) => assert!(is_read && !encoder.is_own(), "{}", file["pre_tokenizer"]),
            Err(_) => assert!(!is_read, "{}", file["pre_tokenizer"]),
        }
    }
    let (list, twice) = ("[\"1.0\"]", r#"{"version": "1.0", "version": "1.0"}"#);
    assert!([list, twice, "", "{}"].iter().all(|json| Encoder::read(json.as_bytes()).is_err()));
}
