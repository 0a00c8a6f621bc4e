//! A model that is steered by small ones.

use crate::support::{Folder, TALE_SMALL};
use serde_json::Value;

/// At the default strength the output is valid text: the difference of small models says little about tokens that are
/// very rare, such as bytes that are not characters.
#[test]
fn steered_texts_are_text() {
    let folder = Folder::new();
    let steer = |arguments: &[&str]| {
        let all = ["--expert", EXPERT, "--anti", TALE_SMALL, "--max-tokens", "60"];
        written(&folder, &[&all, arguments].concat())
    };
    let texts = steer(&["--seed", "16", "--texts", "16"]);
    for (seed, text) in (16..).zip(&texts) {
        let text = text["text"].as_str().unwrap();
        // The last token may end in the middle of a character.
        assert!(!text.trim_end_matches('\u{fffd}').contains('\u{fffd}'), "seed {seed}: {text}");
    }
    assert_eq!(texts.len(), 16);
    // `--alpha` has an effect, and 0.75 is its default.
    let [default, same, other] = [&[][..], &["--alpha", "0.75"], &["--alpha", "1"]]
        .map(|alpha| steer(&[&["--seed", "16"], alpha].concat()).remove(0)["tokens"].clone());
    assert!(default == same && default != other);
}

const EXPERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-expert");

/// The lines of `generate --json`, one per text.
fn written(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    let length: &[&str] = if arguments.contains(&"--max-tokens") { &[] } else { &["--max-tokens", "24"] };
    folder.run(&[&["generate", "--json"], length, arguments].concat()).succeeds().lines()
}

fn tokens(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    written(folder, arguments).iter().map(|text| text["tokens"].clone()).collect()
}

/// Greedy texts under classifier-free guidance are those of `transformers` in `fixtures/golden/guidance.json`, which
/// `guidance.py` writes.
#[test]
fn guided_texts_are_those_of_transformers() {
    let golden: Value = serde_json::from_str(include_str!("../../../fixtures/golden/guidance.json")).unwrap();
    let folder = Folder::new();
    let cases = golden["cases"].as_array().unwrap();
    for case in cases {
        let scale = format!("--guidance-scale={}", case["scale"]);
        let mut asked = vec![case["prompt"].as_str().unwrap(), &*scale, "--temperature", "0"];
        if let Some(negative) = case["negative"].as_str() {
            asked.extend(["--negative-prompt", negative]);
        }
        for drafts in [&[][..], &["--lookup", "--draft-tokens", "3"], &["--draft", TALE_SMALL, "--draft-tree", "2,1"]] {
            assert_eq!(tokens(&folder, &[&asked, drafts].concat()), [case["tokens"].clone()], "{case} {drafts:?}");
        }
    }
    assert!(cases.len() > 7);
}

/// A steered text is the same alone, with others, in a batch, and with drafts.
#[test]
fn a_steered_text_is_the_same_however_it_is_written() {
    let folder = Folder::new();
    let pair: &[&str] = &["--expert", EXPERT, "--anti", TALE_SMALL];
    let (expert_prompt, anti_prompt) = (["--expert-prompt", "ROMEO:"], ["--anti-prompt", "Once upon a time"]);
    let ways: [&[&[&str]]; 6] = [
        &[&["--guidance-scale", "2", "--negative-prompt", "It was a dark night."]],
        &[pair, &["--alpha", "1..0:10", "--steer-budget", "0.3"], &expert_prompt, &anti_prompt],
        &[pair, &["--base-top-p", "0.9", "--alpha", "1.5:8"]],
        &[pair, &["--guidance-scale", "1.5", "--alpha", "0.5", "--base-top-k", "50", "--steer-budget", "inf"]],
        &[&["--anti", TALE_SMALL, "--base-min-p", "0.1"]],
        &[&["--expert", TALE_SMALL, "--anti", TALE_SMALL], &expert_prompt, &anti_prompt],
    ];
    let mut all = Vec::new();
    for way in ways {
        let steer = way.concat();
        let write = |rest: &[&str]| tokens(&folder, &[&["The king"], &steer[..], rest].concat());
        let alone: Vec<Value> = (7..10).flat_map(|seed| write(&["--seed", &seed.to_string()])).collect();
        assert_eq!(write(&["--seed", "7", "--texts", "3"]), alone, "{way:?}");
        assert_eq!(write(&["--seed", "8", "--lookup", "--draft-tokens", "3"]), alone[1..2], "{way:?}");
        let line = "{\"prompt\": \"The king\"}\n";
        folder.write("in.jsonl", &line.repeat(3));
        let batch = ["batch", "in.jsonl", "out.jsonl", "--force", "--seed", "7", "--max-tokens", "24", "-q"];
        folder.run(&[&batch, &steer[..]].concat()).succeeds();
        let answers = folder.read("out.jsonl");
        let mut answers: Vec<Value> = answers.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        answers.sort_by_key(|answer| answer["seed"].as_u64());
        assert_eq!(answers.iter().map(|answer| answer["tokens"].clone()).collect::<Vec<_>>(), alone, "{way:?}");
        all.push(alone);
    }
    all.push(tokens(&folder, &["The king", "--seed", "7", "--texts", "3"]));
    (1..all.len()).for_each(|i| (0..i).for_each(|j| assert_ne!(all[i], all[j], "ways {i} and {j}")));
}

/// Steering ends with its schedule, and an expert prompt equal to the text's own prompt changes nothing.
#[test]
fn schedules_and_prompts_do_what_they_say() {
    let folder = Folder::new();
    let steer = |rest: &[&str]| {
        let pair = ["The king", "--seed", "5", "--expert", EXPERT, "--anti", TALE_SMALL];
        tokens(&folder, &[&pair, rest].concat()).remove(0)
    };
    let plain = tokens(&folder, &["The king", "--seed", "5"]).remove(0);
    let steered = steer(&[]);
    assert_ne!(steered, plain);
    assert_eq!(steer(&["--alpha", "0.75:0"]), plain);
    assert_eq!(steer(&["--alpha", "0.75:1000"]), steered);
    assert_eq!(steer(&["--alpha", "0.75..0.75:9"]), steered);
    let some = steer(&["--alpha", "0.75:6"]);
    assert!(some.as_array().unwrap()[..6] == steered.as_array().unwrap()[..6] && some != steered);
    assert_eq!(steer(&["--expert-prompt", "The king", "--anti-prompt", "The king"]), steered);
    assert_ne!(steer(&["--expert-prompt", "ROMEO:"]), steered);
    assert_eq!(steer(&["--steer-budget", "0"]), plain);
    assert_eq!(steer(&["--steer-budget", "inf"]), steered);
}

/// A separate weight for some tokens changes nothing if it equals the general weight, and turns steering off if it is 0
/// for all tokens.
#[test]
fn tokens_of_a_class_have_a_weight_of_their_own() {
    let folder = Folder::new();
    let steer = |rest: &[&str]| {
        let pair = ["The king", "--seed", "5", "--expert", EXPERT, "--anti", TALE_SMALL];
        tokens(&folder, &[&pair, rest].concat()).remove(0)
    };
    let plain = tokens(&folder, &["The king", "--seed", "5"]).remove(0);
    let steered = steer(&[]);
    assert_eq!(steer(&["--alpha-of", "words=0.75", "--alpha-of", "digits=0.75:1000"]), steered);
    assert_eq!(steer(&["--alpha-of", "/(?s).*/=0", "--alpha", "2"]), plain);
    // The first class that has the token counts, and alpha may be 0 for all tokens but words.
    assert_eq!(steer(&["--alpha-of", "/(?s).*/=0", "--alpha-of", "words=2", "--alpha", "2"]), plain);
    let words = steer(&["--alpha", "0", "--alpha-of", "words=1.5"]);
    assert!(words != plain && words != steer(&["--alpha", "1.5"]));
    // If the expert does not steer tokens in capitals, there are fewer names of speakers, which plays print in
    // capitals.
    let names = |rest: &[&str]| {
        let pair = ["The king", "--seed", "5", "--texts", "16", "--max-tokens", "60", "--alpha", "1"];
        let texts = written(&folder, &[&pair, &["--expert", EXPERT, "--anti", TALE_SMALL][..], rest].concat());
        let is_name = |word: &&str| word.len() > 2 && word.bytes().all(|b| b.is_ascii_uppercase());
        let count = |text: &str| text.split(|c: char| !c.is_alphabetic()).filter(is_name).count();
        texts.iter().map(|text| count(text["text"].as_str().unwrap())).sum::<usize>()
    };
    let (all, own) = (names(&[]), names(&["--alpha-of", "/\\s*[A-Z]+/=0"]));
    assert!(all > 6 + 2 * own, "{own} of {all}");
}

/// The divergence spent is reported, and never exceeds the budget.
#[test]
fn a_budget_is_kept_and_told() {
    let folder = Folder::new();
    let spent = |rest: &[&str]| {
        let pair = ["The king", "--seed", "5", "--expert", EXPERT, "--anti", TALE_SMALL];
        written(&folder, &[&pair, rest].concat()).remove(0)["steering_kl"].clone()
    };
    assert_eq!(spent(&[]), Value::Null);
    assert_eq!(spent(&["--steer-budget", "0"]), 0.0);
    let spent = |budget| spent(&["--steer-budget", budget]).as_f64().unwrap();
    let [little, more, all] = ["0.05", "0.3", "inf"].map(spent);
    assert!(0.02 < little && little <= 0.05 && little < more && more <= 0.3 && more < all, "{little}, {more}, {all}");
}

/// With `--expert-chat` an expert reads the prompt as a message in its own chat template.
#[test]
fn experts_have_chat_templates_of_their_own() {
    let folder = Folder::new();
    folder.copy_model(EXPERT, "talker");
    folder.write("talker/chat_template.jinja", "{% for m in messages %}{{ m.role }}, {{ m.content }}: {% endfor %}");
    let steer = |rest: &[&str]| {
        let pair = ["The king", "--seed", "5", "--expert", "talker", "--anti", TALE_SMALL];
        tokens(&folder, &[&pair, rest].concat()).remove(0)
    };
    let by_template = steer(&["--expert-chat"]);
    assert_eq!(by_template, steer(&["--expert-prompt", "user, The king: "]));
    assert_ne!(by_template, steer(&[]));
    assert_eq!(steer(&["--expert-chat", "--expert-prompt", "Hark"]), steer(&["--expert-prompt", "user, Hark: "]));
    let run = folder.run(&["generate", "--expert", EXPERT, "--anti", TALE_SMALL, "--expert-chat"]);
    run.fails("this model has no chat template");
    // The negative side of a conversation has another system message, another user message, or both.
    let chat = ["generate", "--model", "talker", "--chat", "The king", "--guidance-scale", "2", "--temperature", "0"];
    let text =
        |rest: &[&str]| folder.run(&[&chat[..], &["--system", "Be good", "--max-tokens", "9"], rest].concat()).out;
    let away = text(&["--negative-system", "Be bad"]);
    assert_ne!(away, text(&["--negative-prompt", "The queen"]));
    assert_eq!(away, text(&["--negative-system", "Be bad", "--negative-prompt", "The king"]));
}

#[test]
fn what_cannot_steer_is_told() {
    let folder = Folder::new();
    let pair = ["--expert", EXPERT, "--anti", TALE_SMALL];
    let with = |rest: &[&str]| folder.run(&[&["generate"], &pair[..], rest].concat());
    with(&["--steer-budget", "-1"]).fails("the budget of steering is -1 nats a token");
    with(&["--steer-budget", "nan"]).fails("the budget of steering is NaN nats a token");
    with(&["--base-top-p", "0"]).fails("top-p is 0");
    with(&["--guidance-scale", "inf"]).fails("the guidance scale is inf");
    with(&["--alpha", "1..2"]).fails("alpha is \"1..2\", but must be a number such as 0.75");
    with(&["--expert-prompt", "a", "--expert-prompt", "b"]).fails("2 prompts for 1 experts");
    with(&["--guidance-scale", "1", "--negative-prompt", "a"]).fails("a guidance scale other than 1");
    folder.run(&["generate", "--base-top-p", "0.9"]).fails("--base-top-p needs something that steers");
    folder.run(&["generate", "--alpha-of", "digits=1"]).fails("--alpha-of is a weight of experts");
    folder.run(&["generate", "--guidance-scale", "2", "--alpha-of", "digits=1"]).fails("--alpha-of is a weight");
    with(&["--alpha-of", "digits"]).fails("--alpha-of \"digits\" has no = before the weight");
    with(&["--alpha-of", "digit=1"]).fails("\"digit\" is not a class of tokens: it must be digits, words, punctuation");
    with(&["--alpha-of", "digits=much"]).fails("alpha is \"much\"");
    with(&["--alpha-of", "/(/=1"]).fails("the regular expression is wrong at character 1");
    with(&["--alpha-of", "/q{9}/=1"]).fails("no token of this model is in the class /q{9}/");
    with(&["--alpha-of", "5,4096=1"]).fails("4096 is not a token of the model, whose ids are below 4096");
    folder.run(&["generate", "--steer-budget", "1"]).fails("--steer-budget needs something that steers");
    folder.copy_model(TALE_SMALL, "talker");
    folder.write("talker/chat_template.jinja", "{% for m in messages %}{{ m.content }}: {% endfor %}");
    folder.write("in.jsonl", "{\"prompt\": \"a\"}\n");
    let batch = ["batch", "in.jsonl", "out.jsonl", "--model", "talker", "--chat", "--guidance-scale", "2"];
    let run = folder.run(&[&batch[..], &["--negative-system", "b"]].concat());
    run.fails("--negative-system needs --negative-prompt for a batch");
    let long = "word ".repeat(3000);
    with(&["--expert-prompt", &long]).fails("tokens long, but the model's context is 2048: shorten it to");
}
