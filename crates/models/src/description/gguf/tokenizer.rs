//! The tokenizer in a GGUF file, by way of a `tokenizer.json`.

use std::collections::HashMap;

use foldhash::fast::RandomState;
use serde::{Serialize, Serializer};
use serde_json::{Value as Json, json};
use verdigris_text::{ScoredToken, Tokenizer, shown};

use super::write::Put;
use super::{Gguf, Numbers, Value, split};

/// Token types, as ggml numbers them.
const NORMAL: i64 = 1;
const UNKNOWN: i64 = 2;
const CONTROL: i64 = 3;
const USER_DEFINED: i64 = 4;
const UNUSED: i64 = 5;
const BYTE: i64 = 6;

/// A `tokenizer.json`. The model is written as it is read, without a copy of each of its many tokens.
#[derive(Serialize)]
struct File<'a> {
    version: &'static str,
    added_tokens: Vec<Json>,
    normalizer: Json,
    pre_tokenizer: Json,
    post_processor: Option<Json>,
    decoder: Json,
    model: Model<'a>,
}

#[derive(Default, Serialize)]
struct Model<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    unk_token: Option<&'a str>,
    fuse_unk: bool,
    byte_fallback: bool,
    ignore_merges: bool,
    #[serde(serialize_with = "as_map")]
    vocab: Vec<(&'a str, usize)>,
    merges: Merges<'a>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum Merges<'a> {
    Texts(&'a [String]),
    Pairs(Vec<[&'a str; 2]>),
}

impl Default for Merges<'_> {
    fn default() -> Self {
        Self::Texts(&[])
    }
}

fn as_map<S: Serializer>(vocabulary: &[(&str, usize)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(vocabulary.iter().copied())
}

/// Whether a token is a control token and not text.
pub(crate) fn is_control(gguf: &Gguf, id: usize) -> bool {
    let kind = gguf.numbers("tokenizer.ggml.token_type").and_then(|kinds| kinds.at(id)?.integer());
    kind == Some(CONTROL)
}

/// The tokenizer. The error says what is not supported.
pub(crate) fn read(gguf: &Gguf) -> Result<Tokenizer, String> {
    let (mut file, scored) = file(gguf)?;
    let json = |file: &File<'_>| serde_json::to_vec(file).map_err(|error| error.to_string());
    if let Some(scored) = scored {
        let whole = std::mem::take(&mut file.model.vocab);
        if let Some(tokenizer) = Tokenizer::from_scores(&json(&file)?, &scored) {
            return Ok(tokenizer);
        }
        file.model = Model { vocab: whole, merges: Merges::Pairs(merges(&scored)), ..file.model };
    }
    Tokenizer::from_json(&json(&file)?).map_err(|error| error.to_string())
}

/// The `tokenizer.json`, and the tokens whose scores order merges where the file lists none.
fn file(gguf: &Gguf) -> Result<(File<'_>, Option<Vec<ScoredToken<'_>>>), String> {
    let named = |name: &str| format!("tokenizer.ggml.{name}");
    let tokens = gguf.texts(&named("tokens")).ok_or("it has no tokens")?;
    let tokens: Vec<&str> = tokens.iter().map(String::as_str).collect();
    // One number per token, or none at all.
    let list = |name: &str| {
        let list = gguf.numbers(&named(name));
        match list.map(Numbers::count).filter(|&count| count != tokens.len()) {
            Some(count) => Err(format!("its {name} are {count} numbers for {} tokens", tokens.len())),
            None => Ok(list),
        }
    };
    let types = list("token_type")?;
    if types.is_some_and(|types| types.at(0).is_some_and(|first| first.integer().is_none())) {
        return Err("its token_type are not whole numbers".into());
    }
    let kind = |id: usize| types.and_then(|types| types.at(id)?.integer()).unwrap_or(NORMAL);
    // Rows of the model without a token are left out.
    let used = tokens.iter().enumerate().filter(|(id, _)| kind(*id) != UNUSED);
    let vocab: Vec<(&str, usize)> = used.map(|(id, token)| (*token, id)).collect();
    // Files do not say which control tokens take the white space after them. llama.cpp knows it of Phi-3's.
    let name = gguf.text("general.name")?.unwrap_or_default().to_lowercase();
    let strips = ["phi-3", "phi3"].iter().any(|phi| name.contains(phi));
    let strips_after = |id: usize| strips && !["<unk>", "<s>", "<|endoftext|>"].contains(&tokens[id]);
    let added: Vec<Json> = (0..tokens.len())
        .filter(|&id| matches!(kind(id), CONTROL | UNKNOWN | USER_DEFINED))
        .map(|id| {
            json!({"id": id, "content": tokens[id], "single_word": false, "lstrip": false, "rstrip": strips_after(id),
                "normalized": false, "special": kind(id) != USER_DEFINED})
        })
        .collect();
    let model = gguf.text(&named("model"))?.unwrap_or_default();
    let pre = gguf.text(&named("pre"))?.unwrap_or_default();
    let begin = gguf.get(&named("bos_token_id")).and_then(Value::integer);
    let adds_begin =
        gguf.truth(&named("add_bos_token"))?.unwrap_or(matches!(model, "llama" | "gemma4") || split::is_of_llama3(pre));
    let begin = begin.filter(|_| adds_begin).and_then(|id| Some((id, *tokens.get(usize::try_from(id).ok()?)?)));
    let post = begin.map(|(id, token)| {
        json!({"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": token, "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
            "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
            "special_tokens": {token: {"id": token, "ids": [id], "tokens": [token]}}})
    });
    let unknown = (0..tokens.len()).find(|&id| kind(id) == UNKNOWN).map(|id| tokens[id]);
    let of_pieces = Model { kind: "BPE", unk_token: unknown, fuse_unk: true, byte_fallback: true, ..Model::default() };
    let spaces = json!({"type": "Replace", "pattern": {"String": " "}, "content": "\u{2581}"});
    let mut decoders = vec![
        json!({"type": "Replace", "pattern": {"String": "\u{2581}"}, "content": " "}),
        json!({"type": "ByteFallback"}),
        json!({"type": "Fuse"}),
    ];
    let mut scored = None;
    let (normalizer, pre_tokenizer, decoder, model) = match model {
        "gpt2" => {
            let merges = gguf.texts(&named("merges")).ok_or("it has no merges")?;
            let split = split::named(pre)
                .ok_or_else(|| format!("its way to split texts, {:?}, is not supported", shown(pre)))?;
            let decoder =
                json!({"type": "ByteLevel", "add_prefix_space": true, "trim_offsets": true, "use_regex": true});
            let (ignore_merges, merges) = (split::ignores_merges(pre), Merges::Texts(merges));
            let model = Model { kind: "BPE", ignore_merges, vocab, merges, ..Model::default() };
            (Json::Null, split.json(), decoder, model)
        }
        // Gemma 4 has Llama's way to write spaces and bytes, and a list of merges.
        "gemma4" => {
            let merges = gguf.texts(&named("merges")).ok_or("it has no merges")?;
            let merges = Merges::Pairs(pairs(merges)?);
            let decoder = json!({"type": "Sequence", "decoders": decoders});
            (spaces, Json::Null, decoder, Model { vocab, merges, ..of_pieces })
        }
        "llama" => {
            let scores = list("scores")?;
            let number = |scores: &Numbers, id: usize| scores.at(id)?.number().filter(|score| !score.is_nan());
            if let Some(scores) = scores
                && let Some(id) = (0..tokens.len()).find(|&id| number(scores, id).is_none())
            {
                return Err(format!("the score of its token {id} is not a number"));
            }
            let score = |id: usize| scores.and_then(|scores| scores.at(id)?.number()).unwrap_or(0.0);
            let merges = |id: usize| !matches!(kind(id), CONTROL | UNKNOWN | BYTE);
            let token = |&(name, id)| ScoredToken { id: id as u32, name, score: score(id), merges: merges(id) };
            scored = Some(vocab.iter().map(token).collect());
            // Whether a space is added at the beginning of a text (not for Gemma).
            let normalizers = if gguf.truth(&named("add_space_prefix"))?.unwrap_or(true) {
                decoders.push(json!({"type": "Strip", "content": " ", "start": 1, "stop": 0}));
                vec![json!({"type": "Prepend", "prepend": "\u{2581}"}), spaces]
            } else {
                vec![spaces]
            };
            let normalizer = json!({"type": "Sequence", "normalizers": normalizers});
            let decoder = json!({"type": "Sequence", "decoders": decoders});
            (normalizer, Json::Null, decoder, Model { vocab, ..of_pieces })
        }
        other => return Err(format!("its kind, {:?}, is not supported; gpt2, llama and gemma4 are", shown(other))),
    };
    let file =
        File { version: "1.0", added_tokens: added, normalizer, pre_tokenizer, post_processor: post, decoder, model };
    Ok((file, scored))
}

/// The two tokens of each merge: those before and after the first space that does not begin it.
fn pairs(merges: &[String]) -> Result<Vec<[&str; 2]>, String> {
    let mut pairs = Vec::with_capacity(merges.len());
    for merge in merges {
        let space = merge.char_indices().skip(1).find(|(_, sign)| *sign == ' ');
        let (at, _) = space.ok_or_else(|| format!("its merge {:?} is not two tokens", shown(merge)))?;
        pairs.push([&merge[..at], &merge[at + 1..]]);
    }
    Ok(pairs)
}

/// The pairs of tokens that are merged, best first: by the score of the merged token, then by the ids of the pair.
fn merges<'t>(tokens: &[ScoredToken<'t>]) -> Vec<[&'t str; 2]> {
    let text = || tokens.iter().filter(|token| token.merges);
    let by_name: HashMap<&str, &ScoredToken<'t>, RandomState> = text().map(|token| (token.name, token)).collect();
    let mut merges = Vec::new();
    for token in text() {
        for (at, _) in token.name.char_indices().skip(1) {
            let (first, second) = token.name.split_at(at);
            if let (Some(first), Some(second)) = (by_name.get(first), by_name.get(second)) {
                merges.push((token.score, *first, *second));
            }
        }
    }
    merges.sort_unstable_by(|x, y| y.0.total_cmp(&x.0).then((x.1.id, x.2.id).cmp(&(y.1.id, y.2.id))));
    merges.into_iter().map(|(_, first, second)| [first.name, second.name]).collect()
}

/// The values that describe a `tokenizer.json` in a file, for a model with `rows` rows. The error says why it cannot be
/// written.
pub(crate) fn values(json: &[u8], rows: usize) -> Result<Vec<(String, Put)>, String> {
    let json: Json = serde_json::from_slice(json).map_err(|error| error.to_string())?;
    let model = &json["model"];
    let only = "only tokenizers of bytes and merges (GPT-2's kind) can be written";
    let vocabulary = model["vocab"].as_object().filter(|_| model["type"] == "BPE" && model["byte_fallback"] != true);
    let vocabulary = vocabulary.ok_or(only)?;
    let normalizer = json["normalizer"]["type"].as_str();
    if normalizer.is_some_and(|kind| kind != "NFC") {
        return Err(format!("its normalizer, {}, cannot be said in a GGUF file", normalizer.unwrap_or_default()));
    }
    let pre = split::name_of(&json["pre_tokenizer"]).ok_or("its way to split texts has no name in GGUF files")?;
    let mut tokens: Vec<String> = (0..rows).map(|id| format!("[unused {id}]")).collect();
    let mut kinds = vec![UNUSED as i32; rows];
    let mut set = |id: Option<u64>, token: &str, kind: i64| {
        let id = id.and_then(|id| usize::try_from(id).ok()).filter(|&id| id < rows);
        let id = id.ok_or_else(|| format!("the token {token:?} has no row in the model"))?;
        (tokens[id], kinds[id]) = (token.to_owned(), kind as i32);
        Ok::<_, String>(())
    };
    for (token, id) in vocabulary {
        set(id.as_u64(), token, NORMAL)?;
    }
    for added in json["added_tokens"].as_array().into_iter().flatten() {
        let kind = if added["special"] == true { CONTROL } else { USER_DEFINED };
        set(added["id"].as_u64(), added["content"].as_str().unwrap_or_default(), kind)?;
    }
    let merges = model["merges"].as_array().ok_or(only)?.iter().map(|merge| match merge {
        Json::String(both) => Some(both.clone()),
        both => Some(format!("{} {}", both[0].as_str()?, both[1].as_str()?)),
    });
    let merges: Option<Vec<String>> = merges.collect();
    let named = |name: &str, value: Put| (format!("tokenizer.ggml.{name}"), value);
    Ok(vec![
        named("model", Put::Text("gpt2".into())),
        named("pre", Put::Text(pre.into())),
        named("tokens", Put::Texts(tokens)),
        named("token_type", Put::Integers(kinds)),
        named("merges", Put::Texts(merges.ok_or(only)?)),
        named("add_bos_token", Put::Truth(adds_begin(&json["post_processor"]))),
    ])
}

/// Whether a template puts a token before a text.
fn adds_begin(post_processor: &Json) -> bool {
    let one = std::slice::from_ref(post_processor);
    let steps = post_processor["processors"].as_array().map_or(one, |steps| steps);
    steps.iter().any(|step| step["type"] == "TemplateProcessing" && step["single"][0]["SpecialToken"].is_object())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::gguf::write::head;
    use std::sync::Arc;
    use verdigris_kernels::Bytes;
    use verdigris_logits::random::philox4x32;

    fn tokenizer(adds_space: Option<bool>) -> Tokenizer {
        let tokens = ["<unk>", "<s>", "\u{2581}", "a", "b", "\u{2581}a", "ab", "\u{2581}ab"];
        let kinds = [UNKNOWN, CONTROL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL];
        let named = |name: &str, value: Put| (format!("tokenizer.ggml.{name}"), value);
        let mut values = vec![
            named("model", Put::Text("llama".into())),
            named("tokens", Put::Texts(tokens.map(str::to_owned).into())),
            named("token_type", Put::Integers(kinds.map(|kind| kind as i32).into())),
        ];
        values.extend(adds_space.map(|adds| named("add_space_prefix", Put::Truth(adds))));
        let file = Gguf::parse(&Bytes::new(Arc::new(head(&values, &[])))).unwrap();
        read(&file).unwrap()
    }

    /// A text begins with an added space, unless the file says otherwise. (The tokens alone do not show whether it was
    /// written.)
    #[test]
    fn a_space_comes_before_a_text_where_the_file_says_so() {
        for (adds_space, first) in [(None, 7), (Some(true), 7), (Some(false), 6)] {
            let tokenizer = tokenizer(adds_space);
            assert_eq!(tokenizer.encode("ab").unwrap(), [first], "{adds_space:?}");
            for text in ["ab", " ab", "ab ab", "ab ", "  a"] {
                let back = tokenizer.decode(&tokenizer.encode(text).unwrap());
                let space = if adds_space == Some(false) { "" } else { " " };
                assert_eq!(back, format!("{space}{text}"), "{adds_space:?}");
            }
        }
        assert_eq!(tokenizer(Some(false)).encode(" ab").unwrap(), [7]);
    }

    /// Random vocabularies with scores, some of them equal, and texts of their characters: as a list of merges has it.
    /// Without all tokens of bytes our own encoder leaves the file to the library, which gets the same list.
    #[test]
    fn merges_by_scores_are_those_of_the_list() {
        let letters = ["a", "b", "c", "\u{2581}", "\u{e9}"];
        let mut random = (0..).map(|i| philox4x32([i, 0, 0, 0], [6, 3])[0] as usize);
        let mut next = move |below: usize| random.next().unwrap() % below;
        let mut merged = 0;
        for round in 0..200 {
            let bytes = if round % 4 == 0 { 0 } else { 256 };
            let mut tokens: Vec<String> = vec!["<unk>".into(), "<s>".into()];
            tokens.extend((0..bytes).map(|byte| format!("<0x{byte:02X}>")));
            let first = tokens.len();
            tokens.extend(letters[..4].iter().map(|&letter| letter.to_owned()));
            for _ in 0..next(40) {
                let pair =
                    [next(tokens.len() - first), next(tokens.len() - first)].map(|i| &*tokens[first + i]).concat();
                if pair.len() < 12 && !tokens.contains(&pair) {
                    tokens.push(pair);
                }
            }
            let kind = |id: usize| match id {
                0 => UNKNOWN,
                1 => CONTROL,
                _ if id < first => BYTE,
                _ => [NORMAL, NORMAL, NORMAL, USER_DEFINED][id % 4],
            };
            let scores: Vec<u8> = (0..tokens.len()).flat_map(|_| (next(9) as f32 - 4.0).to_le_bytes()).collect();
            let head_of_scores =
                [&9u32.to_le_bytes()[..], &6u32.to_le_bytes(), &(tokens.len() as u64).to_le_bytes()].concat();
            let named = |name: &str, value: Put| (format!("tokenizer.ggml.{name}"), value);
            let values = vec![
                named("model", Put::Text("llama".into())),
                named("token_type", Put::Integers((0..tokens.len()).map(|id| kind(id) as i32).collect())),
                named("tokens", Put::Texts(tokens)),
                named("scores", Put::Stored(Bytes::new(Arc::new([head_of_scores, scores].concat())))),
                named("add_space_prefix", Put::Truth(round % 2 == 0)),
            ];
            let gguf = Gguf::parse(&Bytes::new(Arc::new(head(&values, &[])))).unwrap();
            let (mut listed, scored) = file(&gguf).unwrap();
            let list = merges(&scored.unwrap());
            merged += list.len();
            listed.model.merges = Merges::Pairs(list);
            let listed = Tokenizer::from_json(&serde_json::to_vec(&listed).unwrap()).unwrap();
            let (mut bare, tokens) = file(&gguf).unwrap();
            bare.model.vocab = Vec::new();
            let bare = serde_json::to_vec(&bare).unwrap();
            assert_eq!(Tokenizer::from_scores(&bare, &tokens.unwrap()).is_some(), bytes > 0);
            let scored = read(&gguf).unwrap();
            for length in [0, 1, 3, 10, 30, 60, 200] {
                let signs = (0..length).map(|_| ["a", "b", "c", " ", "\u{e9}"][next(5)]);
                let text = signs.collect::<String>();
                assert_eq!(scored.encode(&text).unwrap(), listed.encode(&text).unwrap(), "{text:?}");
                assert_eq!(scored.encode_with_offsets(&text).unwrap(), listed.encode_with_offsets(&text).unwrap());
            }
        }
        assert!(merged > 2000, "{merged}");
    }

    /// The same merges for all: a split shows by which of them are used.
    #[test]
    fn texts_are_split_as_the_file_says() {
        let merges = ["a \u{cc}", "a\u{cc} \u{123}", "1 2", "12 3", "123 4", "! \u{10a}", "\u{120} a"];
        let signs = ["a", "\u{cc}", "\u{123}", "1", "2", "3", "4", "!", "\u{10a}", "\u{120}"].map(str::to_owned);
        let tokens: Vec<String> = signs.into_iter().chain(merges.map(|merge| merge.replace(' ', ""))).collect();
        let named = |name: &str, value: Put| (format!("tokenizer.ggml.{name}"), value);
        let tokenizer = |pre: &str| {
            let values = [
                named("model", Put::Text("gpt2".into())),
                named("pre", Put::Text(pre.into())),
                named("tokens", Put::Texts(tokens.clone())),
                named("merges", Put::Texts(merges.map(str::to_owned).into())),
            ];
            let file = Gguf::parse(&Bytes::new(Arc::new(head(&values, &[])))).unwrap();
            read(&file).unwrap()
        };
        // The tokens of a letter with a mark, of 1234, of a sign before the end of a line, and of a letter after a
        // space.
        for (pre, tokens) in [
            ("gpt-2", [3, 1, 2, 1]),
            ("refact", [3, 4, 2, 1]),
            ("qwen2", [3, 4, 1, 1]),
            ("qwen35", [1, 4, 1, 1]),
            ("lfm2", [3, 2, 1, 1]),
            ("glm4", [3, 2, 1, 1]),
            ("gpt-4o", [1, 2, 1, 1]),
            ("tekken", [1, 4, 1, 1]),
            ("seed-coder", [3, 4, 2, 1]),
            ("deepseek-v3", [1, 2, 1, 1]),
            ("hunyuan-dense", [1, 2, 1, 1]),
        ] {
            let tokenizer = tokenizer(pre);
            let count = |text: &str| tokenizer.encode(text).unwrap().len();
            assert_eq!(["a\u{301}", "1234", "!\n", " a"].map(count), tokens, "{pre}");
        }
        for pre in split::names() {
            assert_eq!(tokenizer(pre).encode(" a").unwrap().len(), 1, "{pre}");
        }
    }

    /// Spaces are written as in Llama's tokenizers, bytes too, and merges are those of the list.
    #[test]
    fn a_tokenizer_of_gemma_4_has_a_list_of_merges() {
        let tokens = ["<bos>", "<0xC3>", "<0x84>", "\u{2581}", "a", "b", "\u{2581}a", "ab", "\n", "\n\n"];
        let kinds = [CONTROL, BYTE, BYTE, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL, NORMAL];
        let named = |name: &str, value: Put| (format!("tokenizer.ggml.{name}"), value);
        let of = |merges: &[&str]| {
            let values = [
                named("model", Put::Text("gemma4".into())),
                named("tokens", Put::Texts(tokens.map(str::to_owned).into())),
                named("token_type", Put::Integers(kinds.map(|kind| kind as i32).into())),
                named("merges", Put::Texts(merges.iter().map(|merge| (*merge).to_owned()).collect())),
                named("bos_token_id", Put::U32(0)),
            ];
            read(&Gguf::parse(&Bytes::new(Arc::new(head(&values, &[])))).unwrap())
        };
        let tokenizer = of(&["\u{2581} a", "a b", "\n \n"]).unwrap();
        for (text, ids) in [("ab", &[7][..]), (" ab", &[6, 5]), ("b\n\nab", &[5, 9, 7]), ("\u{c4}", &[1, 2])] {
            assert_eq!(tokenizer.encode(text).unwrap(), ids, "{text:?}");
            assert_eq!(tokenizer.decode(ids), text);
        }
        assert_eq!(tokenizer.encode_prompt("ab").unwrap(), [0, 7]);
        assert_eq!(of(&["ab"]).unwrap_err(), "its merge \"ab\" is not two tokens");
    }

    #[test]
    fn lists_that_do_not_fit_the_tokens_are_errors() {
        let of = |lists: &[(&str, Put)]| {
            let named = |name: &str, value: Put| (format!("tokenizer.ggml.{name}"), value);
            let tokens = Put::Texts(["<s>", "a", "b", "ab"].map(str::to_owned).into());
            let mut values = vec![named("model", Put::Text("llama".into())), named("tokens", tokens)];
            values.extend(lists.iter().map(|(name, list)| named(name, list.clone())));
            read(&Gguf::parse(&Bytes::new(Arc::new(head(&values, &[])))).unwrap())
        };
        let (three, four) = (Put::Integers(vec![1; 3]), Put::Integers(vec![1; 4]));
        // A list (type 9) of four f32 numbers (type 6).
        let floats = |last: f32| {
            let numbers = [1.0, 1.0, 1.0, last].map(f32::to_le_bytes).concat();
            let head = [&9u32.to_le_bytes()[..], &6u32.to_le_bytes(), &4u64.to_le_bytes()].concat();
            Put::Stored(Bytes::new(Arc::new([head, numbers].concat())))
        };
        assert!(of(&[]).is_ok() && of(&[("token_type", four), ("scores", floats(f32::NEG_INFINITY))]).is_ok());
        for (name, list, said) in [
            ("token_type", three.clone(), "its token_type are 3 numbers for 4 tokens"),
            ("token_type", floats(1.0), "its token_type are not whole numbers"),
            ("scores", three, "its scores are 3 numbers for 4 tokens"),
            ("scores", floats(f32::NAN), "the score of its token 3 is not a number"),
        ] {
            assert_eq!(of(&[(name, list)]).unwrap_err(), said);
        }
    }

    #[test]
    fn prompts_begin_with_a_token_where_the_kind_of_file_has_one() {
        let named = |name: &str, value: Put| (format!("tokenizer.ggml.{name}"), value);
        let first = |model: &str, pre: &str, adds: Option<bool>| {
            let mut values = vec![
                named("model", Put::Text(model.into())),
                named("pre", Put::Text(pre.into())),
                named("tokens", Put::Texts(["<s>", "a", "b", "ab"].map(str::to_owned).into())),
                named("token_type", Put::Integers([CONTROL, NORMAL, NORMAL, NORMAL].map(|kind| kind as i32).into())),
                named("merges", Put::Texts(vec!["a b".into()])),
                named("add_space_prefix", Put::Truth(false)),
                named("bos_token_id", Put::U32(0)),
            ];
            values.extend(adds.map(|adds| named("add_bos_token", Put::Truth(adds))));
            let file = Gguf::parse(&Bytes::new(Arc::new(head(&values, &[])))).unwrap();
            read(&file).unwrap().encode_prompt("ab").unwrap()[0]
        };
        for (model, pre, adds) in
            [("llama", "", true), ("gpt2", "llama-bpe", true), ("gpt2", "tekken", true), ("gpt2", "gpt-2", false)]
        {
            assert_eq!(first(model, pre, None) == 0, adds, "{model} {pre}");
            assert_eq!(first(model, pre, Some(!adds)) == 0, !adds, "{model} {pre}, as the file says");
        }
    }
}
