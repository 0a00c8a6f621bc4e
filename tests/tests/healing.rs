//! Token healing: the distribution of texts that begin with the end of their prompt, by enumeration, and the texts of
//! `tale`.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use serde_json::json;
use verdigris::logits::TokenId;
use verdigris::models::{Batch, Rows, Wanted};
use verdigris::watermark::dialects::native;
use verdigris::watermark::{Context, ContextFunction};
use verdigris::{
    Conversation, Device, Dialect, Engine, Gamma, Key, LogprobsMode, Marking, Message, PromptCache, ReasoningFormat,
    ReasoningSyntax, Request, Strength, Tokenizer, Turn,
};
use verdigris_tests::harness::{TALE_SMALL, engine, path};
use verdigris_tests::random_model::{RandomModel, Shape};

const TOKENS: [&str; 7] = ["a", "b", "ab", "<end>", "ba", "aba", "abab"];
const END: TokenId = 3;

/// The tokens b, ab, a. `aba` is the longest end that a longer token begins with.
const PROMPT: [TokenId; 3] = [1, 2, 0];
const REMOVED: &str = "aba";

/// The most tokens of a text.
const MOST: usize = 4;

static TINY: LazyLock<Engine> = LazyLock::new(|| {
    let vocabulary: BTreeMap<&str, usize> = TOKENS.into_iter().zip(0..).collect();
    let tokenizer = json!({
        "version": "1.0", "normalizer": null, "pre_tokenizer": null, "post_processor": null, "decoder": null,
        "added_tokens": [{"id": END, "content": "<end>", "special": true, "single_word": false, "lstrip": false,
            "rstrip": false, "normalized": false}],
        "model": {"type": "BPE", "vocab": vocabulary,
            "merges": [["a", "b"], ["b", "a"], ["ab", "a"], ["ab", "ab"]]},
    });
    let shape = Shape { vocabulary: TOKENS.len(), ..Shape::TINY };
    let model = RandomModel::write_with(shape, 2.8, 1).unwrap();
    let tokenizer = Tokenizer::from_json(tokenizer.to_string().as_bytes()).unwrap();
    Engine::new(model.folder().model(&Device::Cpu).unwrap(), tokenizer, vec![END])
});

/// The methods of restricting and marking a text that are enumerated.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Free,
    Regex,
    Marked,
    MarkedRegex,
}

const PATTERN: &str = "b?(aba)*b";

impl Way {
    fn is_marked(self) -> bool {
        matches!(self, Self::Marked | Self::MarkedRegex)
    }

    fn is_constrained(self) -> bool {
        matches!(self, Self::Regex | Self::MarkedRegex)
    }

    fn request(self, key: &Key) -> Request<'_> {
        let request =
            TINY.request("").prompt(PROMPT.to_vec()).heal().max_tokens(MOST).temperature(1.0).top_p(1.0).seed(1);
        let request = if self.is_constrained() { request.regex(PATTERN) } else { request };
        if self.is_marked() { request.watermark(key) } else { request }
    }
}

fn key() -> Key {
    let context = Context::new(ContextFunction::All, 1).unwrap();
    let lists = native::Parameters { gamma: Gamma::new(0.5).unwrap(), context, payload_bits: None };
    let strength = Some(Strength::soft(2.5).unwrap());
    Key::new(vec![7; 32], "healing", Dialect::Native(lists), strength, TINY.reader().vocabulary()).unwrap()
}

/// All texts that match the pattern, without the end of the prompt, in at most `most` tokens after `begun`.
fn matching(begun: &[TokenId]) -> Vec<Vec<TokenId>> {
    let whole = regex::Regex::new(&format!("^{REMOVED}(?:{PATTERN})$")).unwrap();
    let (mut all, mut open) = (Vec::new(), vec![begun.to_vec()]);
    while let Some(text) = open.pop() {
        if whole.is_match(&spelled(&text)) {
            all.push(text.clone());
        }
        if text.len() < MOST {
            open.extend((0..TOKENS.len() as TokenId).filter(|&t| t != END).map(|t| [&text[..], &[t]].concat()));
        }
    }
    all
}

fn spelled(tokens: &[TokenId]) -> String {
    tokens.iter().map(|&token| TOKENS[token as usize]).collect()
}

/// The distribution of the token after `written`, by definition: that of the model after the kept prompt, over the
/// tokens that agree with the removed bytes and leave a text that matches. Tokens that begin after the removed bytes
/// are marked, with the token before them as their context.
fn distribution(way: Way, key: &Key, written: &[TokenId]) -> Vec<f64> {
    let read = [&PROMPT[..1], written].concat();
    let (mut rows, mut sequence) = (Rows::default(), TINY.model().clone().begin(read.len()).unwrap());
    sequence.forward(&Batch::chain(&read, Wanted::Last), &mut rows).unwrap();
    let mut row: Vec<f64> = rows.last().iter().map(|&z| f64::from(z)).collect();
    let (before, texts) = (spelled(written), matching(written));
    let is_healed = before.len() >= REMOVED.len();
    for token in 0..TOKENS.len() as TokenId {
        let after = [written, &[token]].concat();
        let agrees = match token {
            END => is_healed,
            _ => spelled(&after).starts_with(REMOVED) || REMOVED.starts_with(&spelled(&after)),
        };
        let leads_on = match token {
            END => texts.contains(&written.to_vec()),
            _ => texts.iter().any(|text| text.starts_with(&after)),
        };
        if !agrees || way.is_constrained() && !leads_on {
            row[token as usize] = f64::NEG_INFINITY;
        }
        if way.is_marked() && is_healed {
            let mut observed = Vec::new();
            key.scheme().unwrap().observe(&[*read.last().unwrap(), token], &mut observed);
            row[token as usize] += if observed[0].score == 1.0 { 2.5 } else { 0.0 };
        }
    }
    let sum: f64 = row.iter().map(|z| z.exp()).sum();
    row.iter().map(|z| z.exp() / sum).collect()
}

/// All texts with their probabilities, by definition.
fn texts(way: Way, key: &Key) -> BTreeMap<Vec<TokenId>, f64> {
    let (mut all, mut open) = (BTreeMap::new(), vec![(Vec::new(), 1.0)]);
    while let Some((text, p)) = open.pop() {
        if text.len() == MOST {
            all.insert(text, p);
            continue;
        }
        for (token, q) in (0..).zip(distribution(way, key, &text)).filter(|(_, q)| *q > 0.0) {
            match token {
                END => drop(all.insert(text.clone(), p * q)),
                _ => open.push(([&text[..], &[token]].concat(), p * q)),
            }
        }
    }
    all
}

/// Every text has the probability of the definition. Texts sampled without replacement are all texts if there are
/// enough of them, each with its probability.
#[test]
fn healed_texts_have_their_distribution() {
    let key = key();
    for way in [Way::Free, Way::Regex, Way::Marked, Way::MarkedRegex] {
        let expected = texts(way, &key);
        let found = way.request(&key).stochastic_beams(10_000).unwrap();
        assert!(expected.len() > 5 && found.len() == expected.len(), "{way:?}: {} of {}", found.len(), expected.len());
        for hypothesis in found {
            let (written, p) = (&hypothesis.written, hypothesis.sampling_logprob.unwrap().exp());
            let tokens: Vec<TokenId> = written.tokens.iter().copied().filter(|&token| token != END).collect();
            assert!((expected[&tokens] - p).abs() < 1e-5, "{way:?} {tokens:?}: {p} and not {}", expected[&tokens]);
            assert_eq!(written.text, spelled(&tokens).get(REMOVED.len()..).unwrap_or_default());
            assert_eq!(written.prompt_tokens, PROMPT.len());
        }
    }
}

/// The distribution at each token, of the loop that samples texts.
#[test]
fn healed_tokens_are_sampled_from_their_distribution() {
    let key = key();
    for way in [Way::Free, Way::Regex, Way::Marked, Way::MarkedRegex] {
        for seed in 0..6 {
            let request = || way.request(&key).seed(seed);
            let asked = request().logprobs(TOKENS.len()).logprobs_mode(LogprobsMode::Processed);
            let written = asked.text().unwrap();
            for (i, at) in written.logprobs.unwrap().into_iter().enumerate() {
                let expected = distribution(way, &key, &written.tokens[..i]);
                for other in at.top {
                    let p = expected[other.token as usize];
                    assert!((p - other.logprob.exp()).abs() < 1e-5, "{way:?} {:?}: {expected:?}", written.tokens);
                }
            }
            let same = [request().lookup().draft_tokens(3), request().draft(&TINY).draft_tokens(3).repeatable()];
            for drafted in same {
                assert_eq!(drafted.text().unwrap().tokens, written.tokens, "{way:?}");
            }
            let several = way.request(&key).seed(seed.saturating_sub(1)).texts(2).unwrap();
            assert_eq!(several[seed.min(1) as usize].tokens, written.tokens, "{way:?}");
        }
    }
}

/// The prompt and the text, and the kept tokens and those of the text, spell the same bytes.
fn is_healed(prompt: &str, request: Request<'_>) -> usize {
    let tokenizer = TALE_SMALL.reader().tokenizer();
    let written = request.prompt(prompt).text().unwrap();
    let (whole, bytes) = (tokenizer.encode_prompt(prompt).unwrap(), prompt.to_owned() + &written.text);
    let removed = (0..=Request::MOST_HEALED).find(|removed| {
        let kept = &whole[..whole.len().saturating_sub(*removed)];
        let tokens = tokenizer.decode(&[kept, &written.tokens].concat());
        // The tokens include those of a stop string.
        if written.stop_string.is_some() { tokens.starts_with(&bytes) } else { tokens == bytes }
    });
    removed.unwrap_or_else(|| panic!("{bytes:?} is not {:?}", tokenizer.decode(&written.tokens)))
}

/// With every kind of option, the text is the continuation of the prompt.
#[test]
fn texts_continue_their_prompts() {
    let key = Key::from_secret([3; 32], "test", Marking::lists(), TALE_SMALL.reader().vocabulary()).unwrap();
    let thinks = ReasoningFormat::Syntax(ReasoningSyntax::named("think").unwrap());
    let request = || TALE_SMALL.request("").heal().max_tokens(12).seed(5);
    let mut removed = 0;
    for prompt in ["The capt", "The captain ", "It was a dar", "She said: \"", "caf\u{e9} na\u{ef}", "I th", "w", ""] {
        removed += is_healed(prompt, request());
        is_healed(prompt, request().reasoning_format(thinks).thinking_token_budget(3));
        is_healed(prompt, request().watermark(&key).lookup());
        is_healed(prompt, request().regex("[a-z]{0,8} [a-z]{1,8}\\."));
        is_healed(prompt, request().stop("e"));
        is_healed(prompt, request().temperature(0.0).explain());
    }
    assert!(removed >= 5, "{removed}");
    // With one token there is nothing to keep, and without healing nothing is removed.
    assert_eq!(is_healed("w", request()), 0);
    assert_eq!(is_healed("The capt", TALE_SMALL.request("").max_tokens(5)), 0);
}

/// A prompt that is cut in the middle of a word is continued as if it were not.
#[test]
fn a_cut_word_is_completed() {
    let next = |prompt: &str, heals: bool| {
        let request = TALE_SMALL.request(prompt).temperature(0.0).max_tokens(8);
        (if heals { request.heal() } else { request }).text().unwrap().text
    };
    let whole = "It was a dark night, and".to_owned() + &next("It was a dark night, and", false);
    let cut = "It was a dark night, a".to_owned() + &next("It was a dark night, a", true);
    // The healed token is one of the eight.
    assert!(whole.starts_with(&cut) && cut.len() > 30, "{cut:?} and {whole:?}");
    assert!(!whole.starts_with(&("It was a dark night, a".to_owned() + &next("It was a dark night, a", false))));
}

/// Marks are found in the prompt and the text, and begin after the prompt.
#[test]
fn healed_texts_are_marked() {
    let engine = engine("tale-small");
    for marking in [Marking::lists(), Marking::default()] {
        let key = Key::from_secret([3; 32], "test", marking, engine.reader().vocabulary()).unwrap();
        let prompt = "It was a dark night, a";
        let request = || engine.request(prompt).heal().watermark(&key).temperature(1.0).max_tokens(150).seed(3);
        let written = request().explain().text().unwrap();
        let whole = prompt.to_owned() + &written.text;
        for text in [&whole, &written.text] {
            let p = engine.reader().detect(&key, text.as_bytes()).unwrap().p();
            assert!(p < 1e-6, "{p}");
        }
        let explained = written.explained.as_ref().unwrap();
        assert!(explained[0].mark.is_none() && explained[0].steps.iter().all(|step| step.name != "watermark"));
        assert!(explained[0].steps.iter().any(|step| step.name == "heal"));
        assert!(explained.iter().skip(1).all(|token| token.steps.iter().all(|step| step.name != "heal")));
        if marking == Marking::lists() {
            assert!(request().expected_mark(&written).unwrap().unwrap().z > 3.0);
        }
    }
}

/// A cached prompt is the kept one, and changes nothing.
#[test]
fn healed_prompts_are_cached() {
    let folder = tempfile::tempdir().unwrap();
    let request = || TALE_SMALL.request("It was a dark night, a").heal().max_tokens(9).seed(2);
    let expected = request().text().unwrap();
    for _ in 0..2 {
        let cache = PromptCache::open(&TALE_SMALL, folder.path().join("cache")).unwrap();
        assert_eq!(request().prompt_cache(&cache).text().unwrap().tokens, expected.tokens);
        assert!(cache.finish().is_empty());
    }
}

/// Conversations are healed where their last message is continued.
#[test]
fn templates_are_not_healed() {
    let folder = tempfile::tempdir().unwrap();
    for file in ["config.json", "tokenizer.json", "model.safetensors"] {
        std::fs::copy(path("fixtures/models/tale-small").join(file), folder.path().join(file)).unwrap();
    }
    let template =
        "{% for message in messages %}{{ message.content }}\n{% endfor %}{{ 'He sai' if add_generation_prompt }}";
    std::fs::write(folder.path().join("chat_template.jinja"), template).unwrap();
    let engine = Engine::load(folder.path()).unwrap();
    let tokens = |turn: Turn, heals: bool| {
        let messages = vec![Message::user("Hi"), Message::new("assistant", "It was a dark night, a")];
        let conversation = Conversation { turn, ..Conversation::from(messages) };
        let request = engine.request("").prompt(conversation).temperature(0.0).max_tokens(6);
        (if heals { request.heal() } else { request }).text().unwrap().tokens
    };
    assert_eq!(tokens(Turn::Next, true), tokens(Turn::Next, false));
    assert_ne!(tokens(Turn::Within, true), tokens(Turn::Within, false));
}
