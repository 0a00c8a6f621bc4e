//! Beam search, stochastic beam search and contrastive search, from the user's side.

use std::collections::HashSet;

use crate::support::{Folder, TALE_SMALL};
use serde_json::Value;

/// The output of the program, as JSON.
#[track_caller]
fn written(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    let mut all = vec!["generate", "The captain", "-m", TALE_SMALL, "--json"];
    for [option, value] in [["-n", "16"], ["--seed", "5"]] {
        if !arguments.contains(&option) {
            all.extend([option, value]);
        }
    }
    all.extend(arguments);
    folder.run(&all).succeeds().lines()
}

fn number(text: &Value, field: &str) -> f64 {
    text[field].as_f64().unwrap_or_else(|| panic!("{field} in {text}"))
}

fn is_near(a: f64, b: f64) -> bool {
    (a - b).abs() < 2e-4
}

/// The log-probability of the tokens of a text, without its end token.
fn of_tokens(text: &Value) -> f64 {
    text["logprobs"].as_array().unwrap().iter().map(|token| number(token, "logprob")).sum()
}

#[test]
fn beams_find_more_probable_texts() {
    let folder = Folder::new();
    let all = written(&folder, &["--beams", "4", "--texts", "4", "--length-penalty", "0", "--logprobs", "0"]);
    assert_eq!(all.len(), 4);
    assert!(all.windows(2).all(|pair| number(&pair[0], "score") >= number(&pair[1], "score")));
    assert!(all.iter().enumerate().all(|(i, text)| text["index"] == i));
    let different: HashSet<String> = all.iter().map(|text| text["tokens"].to_string()).collect();
    assert_eq!(different.len(), 4);
    for text in &all {
        assert!(is_near(number(text, "score"), number(text, "logprob")), "{text}");
        if text["stop"] == "length" {
            assert!(is_near(number(text, "logprob"), of_tokens(text)), "{text}");
        }
        assert!(text.get("inclusion").is_none() && text.get("sampling_logprob").is_none());
    }
    let greedy = written(&folder, &["--temperature", "0", "--logprobs", "0"]);
    assert!(number(&all[0], "logprob") > of_tokens(&greedy[0]) + 0.1, "the search finds what greedy decoding misses");
    // The score is divided by a power of the length.
    let by_length = |penalty: &str| written(&folder, &["--beams", "4", "--length-penalty", penalty]).remove(0);
    for (penalty, power) in [("1", 1.0), ("-0.5", -0.5)] {
        let text = by_length(penalty);
        let tokens = text["tokens"].as_array().unwrap().len() + usize::from(text["stop"] == "end");
        assert!(is_near(number(&text, "score"), number(&text, "logprob") / (tokens as f64).powf(power)), "{text}");
    }
    // As text: the best alone, or several one after the other.
    let best = all[0]["text"].as_str().unwrap();
    let common = ["generate", "The captain", "-m", TALE_SMALL, "-n", "16", "--beams", "4", "--length-penalty", "0"];
    assert_eq!(folder.run(&common).out, format!("{best}\n"));
    let two = folder.run(&[&common[..], &["--texts", "2"]].concat()).out;
    assert_eq!(two, format!("{best}\n\n{}\n\n", all[1]["text"].as_str().unwrap()));
}

/// Each hypothesis obeys the constraint and is marked, since it has its own state of both.
#[test]
fn what_is_found_keeps_its_form_and_its_mark() {
    let folder = Folder::with_key();
    let pattern = "( [a-z]{2,9}){4,6}\\.";
    for choice in ["best", "sampled", "stochastic"] {
        let asked = ["--beams", "3", "--texts", "3", "--regex", pattern, "-n", "40", "--beam-choice", choice];
        let texts = written(&folder, &asked);
        assert_eq!(texts.len(), 3);
        for text in &texts {
            assert_eq!(text["complete"], true, "{text}");
            let words = text["text"].as_str().unwrap().strip_suffix('.').unwrap().split(' ').skip(1).count();
            assert!((4..=6).contains(&words), "{text}");
        }
    }
    let z = |arguments: &[&str]| {
        let common = ["generate", "The captain", "-m", TALE_SMALL, "-n", "120", "-o", "text.txt", "--force"];
        // Beams repeat themselves, and repetitions are scored only once.
        let beams = ["--beams", "3", "--no-repeat-ngram-size", "3"];
        folder.run(&[&common[..], &beams, arguments].concat()).succeeds();
        number(&folder.run(&["detect", "text.txt", "--key", "my.key", "--json"]).json(), "z")
    };
    let (plain, marked) = (z(&[]), z(&["--key", "my.key"]));
    assert!(marked > 6.0 && plain < 3.0, "{marked} {plain}");
}

#[test]
fn texts_are_drawn_without_replacement() {
    let folder = Folder::new();
    let asked = ["--beams", "6", "--beam-choice", "stochastic"];
    let all = written(&folder, &asked);
    let different: HashSet<String> = all.iter().map(|text| text["tokens"].to_string()).collect();
    assert_eq!((all.len(), different.len()), (6, 6));
    assert!(all.windows(2).all(|pair| number(&pair[0], "score") > number(&pair[1], "score")));
    for text in &all {
        let inclusion = number(text, "inclusion");
        // The distribution is sharper than the model's, since temperature and top-p are below 1.
        assert!(
            inclusion > 0.0 && inclusion <= 1.0 && number(text, "sampling_logprob") > number(text, "logprob"),
            "{text}"
        );
    }
    let tokens = |texts: &[Value]| texts.iter().map(|text| text["tokens"].to_string()).collect::<Vec<_>>();
    assert_eq!(tokens(&written(&folder, &asked)), tokens(&all), "a seed repeats them");
    assert_eq!(tokens(&written(&folder, &[&asked[..], &["--texts", "2"]].concat())), tokens(&all)[..2]);
    assert_ne!(tokens(&written(&folder, &[&asked[..], &["--seed", "6"]].concat())), tokens(&all));
    // A seed repeats beam sampling too.
    let sampled = |seed: &str| tokens(&written(&folder, &["--beams", "3", "--beam-choice", "sampled", "--seed", seed]));
    assert_eq!(sampled("7"), sampled("7"));
    assert_ne!(sampled("7"), sampled("8"));
}

#[test]
fn contrastive_search_does_not_repeat_itself() {
    let folder = Folder::new();
    let text = |arguments: &[&str]| {
        let run = written(&folder, &[&["-n", "150"], arguments].concat()).remove(0);
        run["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap()).collect::<Vec<_>>()
    };
    let repeats = |tokens: &[u64]| {
        let different: HashSet<&[u64]> = tokens.windows(3).collect();
        tokens.len() - 2 - different.len()
    };
    let (greedy, search) = (text(&["--temperature", "0"]), text(&["--penalty-alpha", "0.6", "--top-k", "4"]));
    assert_eq!(text(&["--penalty-alpha", "0", "--top-k", "4"]), greedy);
    assert!(repeats(&search) < repeats(&greedy), "{} {}", repeats(&search), repeats(&greedy));
    assert_eq!(text(&["--penalty-alpha", "0.6", "--top-k", "4", "--seed", "9"]), search, "nothing is sampled");
}

#[test]
fn what_has_no_meaning_together_is_refused() {
    let folder = Folder::with_key();
    folder.run(&["key", "new", "noise.key", "--dialect", "native-gumbel", "-m", TALE_SMALL]).done();
    let fails = |arguments: &[&str], said: &str| {
        let common = ["generate", "The captain", "-m", TALE_SMALL, "-n", "4"];
        folder.run(&[&common[..], arguments].concat()).fails(said);
    };
    let contrast = ["--penalty-alpha", "0.6", "--top-k", "4"];
    let with_contrast = |more: &[&'static str], said: &str| fails(&[&contrast[..], more].concat(), said);
    fails(&["--beams", "3", "--lookup"], "drafting cannot be combined with beams: drafts are guesses");
    fails(&["--beams", "3", "--key", "noise.key"], "by noise (native-gumbel), cannot be combined with beams");
    fails(&["--beams", "3", "--key", "noise.key", "--beam-choice", "stochastic"], "use a key of green lists");
    fails(
        &["--beams", "3", "--texts", "4"],
        "3 hypotheses find at most 3 texts, but --texts asks for 4: raise --beams",
    );
    fails(&["--beams", "2", "--best-of", "2", "--reward", "r"], "--beams does not go with --best-of");
    fails(&["--beams", "2", "--beam-choice", "stochastic", "--temperature", "0"], "only one text can be sampled");
    fails(&["--beams", "2", "--beam-choice", "sampled", "--temperature", "0"], "there is nothing to sample");
    fails(&["--lookup", "--draft-tokens", "65"], "--draft-tokens is 65, but must be at most 64 for each call");
    fails(&["--beams", "2", "--length-penalty", "NaN"], "the length penalty is NaN, but must be a number");
    let processed = ["--beams", "2", "--json", "--logprobs", "1", "--logprobs-mode", "processed"];
    fails(&processed, "ask for the model's own");
    fails(&["--beams", "3", "--explain"], "an explanation of each token cannot be combined with beams");
    with_contrast(&["--beams", "3"], "contrastive search cannot be combined with beams");
    with_contrast(&["--texts", "3"], "contrastive search cannot be combined with several texts");
    with_contrast(&["--lookup"], "drafting cannot be combined with contrastive search");
    with_contrast(&["--key", "noise.key"], "cannot be combined with contrastive search");
    fails(&["--penalty-alpha", "1.5", "--top-k", "4"], "penalty-alpha is 1.5, but must be at least 0 and at most 1");
    for (arguments, said) in [
        (["--penalty-alpha", "0.6"], "--top-k <K>"),
        (["--length-penalty", "2"], "--beams <N>"),
        (["--beams", "0"], "0 is not in 1..=65535"),
    ] {
        let run = folder.run(&[&["generate", "The captain"], &arguments[..]].concat());
        assert!(run.status == 2 && run.err.contains(said), "{run:?}");
    }
}
