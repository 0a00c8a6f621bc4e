//! Reward models: the best of several texts, and guidance of each token.

use std::path::{Path, PathBuf};

use crate::support::{Folder, Run, TALE_SMALL};
use serde_json::Value;

fn golden(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/golden/rewards").join(name)
}

fn generate(folder: &Folder, arguments: &[&str]) -> Run {
    folder.run(&[&["generate", "The captain", "-m", TALE_SMALL, "-n", "12", "--seed", "5"], arguments].concat())
}

fn reward() -> String {
    golden("tale-small").to_str().unwrap().to_owned()
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|number| number.as_f64().unwrap()).collect()
}

/// Without a reward model the text with the highest mean log-probability is the best, as with OpenAI's `best_of`.
#[test]
fn the_likeliest_of_several_texts_is_printed() {
    let folder = Folder::new();
    let mean = |text: &Value| {
        let tokens: Vec<f64> =
            text["logprobs"].as_array().unwrap().iter().map(|token| token["logprob"].as_f64().unwrap()).collect();
        tokens.iter().sum::<f64>() / tokens.len() as f64
    };
    let all = generate(&folder, &["--texts", "4", "--json", "--logprobs", "0"]).succeeds().lines();
    let likeliest = all.iter().max_by(|a, b| mean(a).total_cmp(&mean(b))).unwrap();
    let best = &generate(&folder, &["--best-of", "4", "--json"]).succeeds().lines()[0];
    assert_eq!((&best["text"], &best["seed"]), (&likeliest["text"], &likeliest["seed"]));
    assert!((best["reward"].as_f64().unwrap() - mean(likeliest)).abs() < 1e-5 && best.get("logprobs").is_none());
    let asked = &generate(&folder, &["--best-of", "4", "--json", "--logprobs", "1"]).succeeds().lines()[0];
    assert_eq!(asked["logprobs"].as_array().unwrap().len(), 12);
    let run = generate(&folder, &["--best-of", "4"]);
    assert!(run.err.contains(&format!("mean log-probability {:.3}", mean(likeliest))), "{run:?}");
}

#[test]
fn the_best_of_several_texts_is_printed() {
    let (folder, reward) = (Folder::new(), reward());
    let all = generate(&folder, &["--texts", "4", "--json"]).succeeds().lines();
    let best = &generate(&folder, &["--best-of", "4", "--reward", &reward, "--json"]).succeeds().lines()[0];
    let rewards = numbers(&best["rewards"]);
    let index = best["index"].as_u64().unwrap() as usize;
    assert_eq!(rewards.len(), 4);
    assert!(rewards.iter().all(|reward| *reward <= rewards[index]), "{rewards:?}");
    assert_eq!(best["reward"].as_f64(), Some(rewards[index]));
    assert!((best["kl_bound"].as_f64().unwrap() - (4f64.ln() - 0.75)).abs() < 1e-9);
    // The best text is the one that its seed gives.
    let same = all.iter().find(|text| text["seed"] == best["seed"]).unwrap();
    assert_eq!((&same["text"], &same["index"]), (&best["text"], &best["index"]));
    // As text, with a line about it on standard error.
    let run = generate(&folder, &["--best-of", "4", "--reward", &reward]);
    assert_eq!(run.out.trim_end_matches('\n'), best["text"].as_str().unwrap().trim_end_matches('\n'));
    let said =
        format!("text {} of 4, seed {}, reward {:.3}; at most 0.636 nats", index + 1, best["seed"], rewards[index]);
    assert!(run.status == 0 && run.err.contains(&said), "{run:?} should say {said:?}");
    assert_eq!(generate(&folder, &["--best-of", "4", "--reward", &reward, "--quiet"]).err, "");
}

#[test]
fn a_temperature_draws_among_the_texts() {
    let (folder, reward) = (Folder::new(), reward());
    let draw = |seed: &str, temperature: &str| {
        let best = ["--best-of", "4", "--reward", &reward, "--reward-temperature", temperature, "--json"];
        let common = ["generate", "The captain", "-m", TALE_SMALL, "-n", "12", "--seed", seed];
        folder.run(&[&common[..], &best].concat()).succeeds().lines()[0]["index"].as_u64().unwrap()
    };
    let seeds = ["0", "100", "200", "300", "400", "500"];
    let hot = seeds.map(|seed| draw(seed, "1e6"));
    assert_eq!(hot, seeds.map(|seed| draw(seed, "1e6")), "a seed repeats the choice");
    let best = seeds.map(|seed| draw(seed, "0"));
    assert_ne!(hot, best, "all are equally likely");
    assert_eq!(seeds.map(|seed| draw(seed, "1e-6")), best, "the best is almost always chosen");
}

#[test]
fn a_guide_has_its_say_beside_a_mark_and_a_form() {
    let (folder, reward) = (Folder::with_key(), reward());
    let tokens = |arguments: &[&str]| {
        generate(&folder, &[arguments, &["--json"]].concat()).succeeds().lines()[0]["tokens"].clone()
    };
    let plain = tokens(&[]);
    // With weight 0 and all tokens to try, a guide changes nothing.
    assert_eq!(tokens(&["--guide", &reward, "--guide-weight", "0", "--guide-top-k", "4096"]), plain);
    let guided = tokens(&["--guide", &reward, "--guide-weight", "2"]);
    assert_ne!(guided, plain);
    assert_ne!(tokens(&["--guide", &reward, "--guide-weight", "-2"]), guided);
    // The reward counts as the logit of a classifier, whose log-probability is added.
    assert_ne!(tokens(&["--guide", &reward, "--guide-weight", "2", "--guide-logit"]), guided);
    // If only one token is tried, it is the most probable one, whatever the reward.
    assert_eq!(tokens(&["--guide", &reward, "--guide-top-k", "1"]), tokens(&["--temperature", "0"]));
    // A draft model changes nothing if its guesses use the request's own random numbers.
    assert_eq!(tokens(&["--guide", &reward, "--guide-weight", "2", "--draft", "tale-small"]), guided);
    // The text is the same alone and with others.
    let beside =
        generate(&folder, &["--guide", &reward, "--guide-weight", "2", "--texts", "3", "--json"]).succeeds().lines();
    assert_eq!(beside.iter().find(|text| text["index"] == 0).unwrap()["tokens"], guided);
    let form = ["--key", "my.key", "--regex", "( [a-z]{1,9}){6}"];
    let run =
        folder.run(&[&["generate", "The captain", "-m", TALE_SMALL, "--guide", &reward], &form[..]].concat()).done();
    assert_eq!(run.out.split_whitespace().count(), 6, "{run:?}");
}

#[test]
fn bad_rewards_are_one_line() {
    let (folder, reward) = (Folder::new(), reward());
    let two = golden("two-labels");
    let of = |arguments: &[&str]| generate(&folder, arguments);
    of(&["--best-of", "4", "--reward", two.to_str().unwrap()]).fails("its head has 2 labels; a reward model has one");
    of(&["--best-of", "4", "--reward", TALE_SMALL]).fails("it gives no score (score.weight)");
    of(&["--guide", TALE_SMALL]).fails("it gives no score (score.weight)");
    of(&["--guide", "none"]).fails("there is nothing at that path");
    let writes = folder.run(&["generate", "--model", &reward]);
    writes.fails("it is a reward model, which writes no text");
    of(&["--best-of", "4", "--reward", &reward, "--reward-temperature", "-1"]).fails("must be a finite number");
    of(&["--guide", &reward, "--guide-weight", "inf"]).fails("must be a number");
    of(&["--guide", &reward, "--guide-top-k", "0"]).fails("must be 1 or more");
}
