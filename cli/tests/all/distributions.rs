//! Options that change the distribution of a text: warpers, biases, repetition, minimum lengths, forced tokens,
//! log-probabilities.

use crate::support::{Folder, TALE_SMALL};
use serde_json::Value;

/// The end token of this model.
const END: &str = "0";

/// The output of the program, as JSON.
#[track_caller]
fn written(arguments: &[&str]) -> Value {
    let common = ["generate", "The captain", "--model", TALE_SMALL, "--seed", "3", "--json"];
    Folder::new().run(&[&common, arguments].concat()).succeeds().json()
}

fn tokens(text: &Value) -> Vec<u64> {
    text["tokens"].as_array().unwrap().iter().map(|token| token.as_u64().unwrap()).collect()
}

/// The log-probability and the rank of each token, and the log-probabilities of the top tokens.
fn logprobs(text: &Value) -> Vec<(f64, u64, Vec<f64>)> {
    let number = |of: &Value| of["logprob"].as_f64().unwrap();
    let each = text["logprobs"].as_array().unwrap().iter();
    each.map(|of| {
        let top = of["top"].as_array().unwrap().iter().map(number).collect();
        (number(of), of["rank"].as_u64().unwrap(), top)
    })
    .collect()
}

/// At temperature 1 without other options, tokens are sampled from the model's distribution except for the cut.
#[test]
fn what_is_drawn_is_not_cut_away() {
    const ALL: [&str; 8] = ["--temperature", "1", "--top-p", "1", "--max-tokens", "24", "--logprobs", "4096"];
    let with = |cut: &[&str]| logprobs(&written(&[&ALL, cut].concat()));
    let entropy = |distribution: &[f64]| -distribution.iter().map(|l| l.exp() * l).sum::<f64>();
    /// Whether a token with this log-probability is kept, given the distribution and its entropy.
    type Keeps = fn(f64, &[f64], f64) -> bool;
    let cuts: [(&[&str], Keeps); 4] = [
        (&["--epsilon-cutoff", "0.05"], |own, _, _| own.exp() >= 0.05),
        (&["--eta-cutoff", "0.05"], |own, _, entropy| own.exp() >= 0.05f64.min(0.05f64.sqrt() * (-entropy).exp())),
        (&["--top-a", "0.5"], |own, distribution, _| own.exp() >= 0.5 * (2.0 * distribution[0]).exp()),
        (&["--typical-p", "0.3"], |own, distribution, entropy| {
            let far = (-own - entropy).abs();
            distribution.iter().filter(|&l| (-l - entropy).abs() < far - 1e-5).map(|l| l.exp()).sum::<f64>() < 0.3
        }),
    ];
    let free = with(&[]);
    for (cut, keeps) in cuts {
        let allows = |(own, rank, distribution): &(f64, u64, Vec<f64>)| {
            *rank == 1 || keeps(*own + 1e-6, distribution, entropy(distribution))
        };
        let text = with(cut);
        assert_eq!(text.len(), 24);
        assert!(text.iter().all(allows), "{cut:?}");
        assert!(!free.iter().all(allows), "{cut:?} would change nothing");
        // The distribution sampled from has only the tokens left by the cut.
        let processed = with(&[cut, &["--logprobs-mode", "processed"]].concat());
        for ((own, _, distribution), (raw, _, all)) in processed.iter().zip(&text) {
            assert!(distribution.len() < all.len() && *own >= *raw - 1e-6, "{cut:?}");
            assert!((distribution.iter().map(|l| l.exp()).sum::<f64>() - 1.0).abs() < 1e-6, "{cut:?}");
        }
        // Drafts do not change the text of a seed.
        let (plain, drafted) = (written(cut), written(&[cut, &["--lookup"]].concat()));
        assert_eq!(plain["tokens"], drafted["tokens"], "{cut:?}");
    }
    // At temperature 0 nothing is sampled, so nothing is cut.
    let greedy = ["--temperature", "0", "--max-tokens", "24"];
    assert_eq!(written(&greedy)["tokens"], written(&[&greedy[..], &["--typical-p", "0.1"]].concat())["tokens"]);
}

/// Mirostat by its definition: a bound follows the surprisal of the text, and only tokens below it are left.
#[test]
fn mirostat_follows_what_was_written() {
    let (tau, eta) = (3.0, 0.4);
    let asked = ["--temperature", "1", "--max-tokens", "40", "--logprobs", "4096", "--mirostat-tau", "3"];
    let asked = [&asked[..], &["--mirostat-eta", "0.4"]].concat();
    let raw = written(&asked);
    let processed = logprobs(&written(&[&asked[..], &["--logprobs-mode", "processed"]].concat()));
    let bits = |logprob: f64| -logprob / std::f64::consts::LN_2;
    let (mut bound, mut cut) = (2.0 * tau, 0);
    for (at, ((_, _, distribution), (own, _, left))) in logprobs(&raw).iter().zip(&processed).enumerate() {
        let within = |slack: f64| distribution.iter().filter(|&&l| bits(l) <= bound + slack).count().max(1);
        assert!((within(-1e-3)..=within(1e-3)).contains(&left.len()), "position {at}: {} below {bound}", left.len());
        cut += usize::from(left.len() < 100);
        bound -= eta * (bits(*own) - tau);
    }
    assert!(processed.len() == 40 && cut > 4, "{cut}");
    // Neither drafts nor the request for log-probabilities change the text of a seed.
    let few = ["--temperature", "1", "--max-tokens", "40", "--mirostat-tau", "3", "--mirostat-eta", "0.4"];
    assert_eq!(raw["tokens"], written(&few)["tokens"]);
    assert_eq!(raw["tokens"], written(&[&few[..], &["--lookup"]].concat())["tokens"]);
    assert_ne!(raw["tokens"], written(&few[..few.len() - 4])["tokens"], "mirostat changes nothing");
    for (bad, why) in [
        (&["--mirostat-tau", "0"][..], "--mirostat-tau is 0, but must be above 0 and at most 100"),
        (&["--mirostat-tau", "3", "--mirostat-eta=-1"], "--mirostat-eta is -1, but must be from 0 to 100"),
        (
            &["--mirostat-tau", "3", "--beams", "2"],
            "mirostat cannot be combined with beams: it follows the surprise of the samples of one text",
        ),
        (&["--mirostat-tau", "3", "--penalty-alpha", "0.6", "--top-k", "4"], "cannot be combined with contrastive"),
    ] {
        let folder = Folder::new();
        folder.run(&[&["generate", "A", "--model", TALE_SMALL], bad].concat()).fails(why);
    }
    let folder = Folder::new();
    let new = ["key", "new", "noise.key", "--model", TALE_SMALL, "--dialect", "native-gumbel"];
    assert_eq!(folder.run(&new).status, 0);
    let noise = ["generate", "A", "--model", TALE_SMALL, "--mirostat-tau", "3", "--key", "noise.key"];
    folder.run(&noise).fails("mirostat cannot be combined with keys of noise");
}

#[test]
fn no_run_of_tokens_comes_twice() {
    let repeats = |arguments: &[&str]| {
        let greedy = ["--temperature", "0", "--max-tokens", "200"];
        let tokens = tokens(&written(&[&greedy, arguments].concat()));
        let mut pairs: Vec<&[u64]> = tokens.windows(2).collect();
        pairs.sort_unstable();
        pairs.windows(2).filter(|pair| pair[0] == pair[1]).count()
    };
    assert!(repeats(&[]) > 0);
    assert_eq!(repeats(&["--no-repeat-ngram-size", "2"]), 0);
    assert_eq!(repeats(&["--no-repeat-ngram-size", "2", "--lookup"]), 0);
}

#[test]
fn tokens_are_favoured_and_forbidden() {
    let common = ["--max-tokens", "40", "--logprobs", "0"];
    let texts = |arguments: &[&str]| -> Vec<(u64, String)> {
        let written = written(&[&common, arguments].concat());
        let each = written["logprobs"].as_array().unwrap().iter();
        each.map(|of| (of["token"].as_u64().unwrap(), of["text"].as_str().unwrap().to_owned())).collect()
    };
    let free = texts(&[]);
    let (the, _) = free.iter().find(|(_, text)| text == " the").expect("an article in the text");
    let the = the.to_string();
    let is_without = |text: Vec<(u64, String)>| text.len() == 40 && text.iter().all(|(_, text)| text != " the");
    assert!(is_without(texts(&["--bad-words", "the"])));
    assert!(is_without(texts(&["--suppress-tokens", &the])));
    assert!(is_without(texts(&["--suppress-tokens", &format!("5,{the},7")])));
    assert!(is_without(texts(&["--logit-bias", &format!("{the}=-100")])));
    assert!(is_without(texts(&["--sequence-bias", "the=-100"])));
    let often = texts(&["--logit-bias", &format!("{the}=100")]);
    assert!(often.len() == 40 && often.iter().all(|(_, text)| text == " the"), "{often:?}");
    // The first token of a two-token phrase is allowed, the second is not.
    let is_word = |(_, text): &(u64, String)| text.len() > 1 && text.starts_with(' ');
    let at = (5..39).find(|&at| free[at..at + 2].iter().all(is_word)).expect("two words");
    let words = format!("{}{}", free[at].1, free[at + 1].1);
    for option in [["--bad-words", &words], ["--sequence-bias", &format!("{words}=-100")]] {
        let rewritten = texts(&option);
        assert_eq!(rewritten[..=at], free[..=at], "{option:?}");
        assert_ne!(rewritten[at + 1], free[at + 1], "{option:?}");
    }
}

#[test]
fn a_text_ends_and_begins_where_it_is_told_to() {
    let end = format!("{END}=100");
    let ending = ["--logit-bias", &end, "--max-tokens", "20"];
    let text = written(&ending);
    assert_eq!((tokens(&text).len(), &text["stop"]), (0, &"end".into()));
    for drafts in [&[][..], &["--lookup"]] {
        let text = written(&[&ending[..], &["--min-tokens", "7"], drafts].concat());
        assert_eq!((tokens(&text).len(), &text["stop"]), (7, &"end".into()));
        let text = written(&[&["--max-tokens", "9", "--forced-eos-token-id", END][..], drafts].concat());
        assert_eq!((tokens(&text).len(), &text["stop"]), (8, &"end".into()));
        let text = written(&[&["--max-tokens", "9", "--forced-bos-token-id", "777"][..], drafts].concat());
        assert_eq!((tokens(&text).len(), tokens(&text)[0]), (9, 777));
    }
}

/// XTC keeps only the least probable of the tokens above its threshold.
#[test]
fn the_top_choices_are_left_out() {
    let common = ["--temperature", "1", "--top-p", "1", "--max-tokens", "200", "--logprobs", "9"];
    let with = |more: &[&str]| logprobs(&written(&[&common, more].concat()));
    let is_excluded = |(own, _, top): &(f64, u64, Vec<f64>)| {
        own.exp() >= 0.1 && top.iter().any(|other| other < own && other.exp() >= 0.1)
    };
    assert!(with(&[]).iter().any(is_excluded));
    assert!(with(&["--xtc-probability", "0.5"]).iter().any(is_excluded), "half of the time");
    assert!(!with(&["--xtc-probability", "1"]).iter().any(is_excluded));
    assert!(with(&["--xtc-probability", "1", "--xtc-threshold", "0.4"]).iter().any(is_excluded));
    let xtc = ["--xtc-probability", "0.5", "--max-tokens", "40"];
    assert_eq!(written(&xtc)["tokens"], written(&[&xtc[..], &["--lookup"]].concat())["tokens"]);
}

#[test]
fn long_runs_are_repeated_less() {
    let longest_repeat = |arguments: &[&str]| {
        let greedy = ["--temperature", "0", "--max-tokens", "200"];
        let tokens = tokens(&written(&[&greedy, arguments].concat()));
        let is_repeated = |length: usize| {
            let mut runs: Vec<&[u64]> = tokens.windows(length).collect();
            runs.sort_unstable();
            runs.windows(2).any(|pair| pair[0] == pair[1])
        };
        (1..200).take_while(|&length| is_repeated(length)).last().unwrap_or(0)
    };
    let free = longest_repeat(&[]);
    let dry = ["--dry-multiplier", "2", "--dry-base", "4"];
    let held = longest_repeat(&dry);
    assert!(held < free, "{held} after {free}");
    assert_eq!(longest_repeat(&[&dry[..], &["--lookup"]].concat()), held);
    let unbroken = longest_repeat(&[&dry[..], &["--dry-sequence-breaker", "e"]].concat());
    assert!(unbroken > held, "most runs are broken: {unbroken}");
}

/// The temperature is measured by how much it changes the gap between the top two log-probabilities.
#[test]
fn the_temperature_follows_the_choice() {
    let common =
        ["--top-p", "1", "--max-tokens", "30", "--logprobs", "2", "--temperature", "1", "--dynatemp-range", "0.6"];
    let [raw, processed] =
        ["raw", "processed"].map(|mode| logprobs(&written(&[&common[..], &["--logprobs-mode", mode]].concat())));
    let gap = |of: &(f64, u64, Vec<f64>)| of.2[0] - of.2[1];
    let temperatures: Vec<f64> = raw.iter().zip(&processed).map(|(raw, held)| gap(raw) / gap(held)).collect();
    let (low, high) = temperatures.iter().fold((9.0f64, 0.0f64), |(low, high), &t| (low.min(t), high.max(t)));
    assert!(0.39 < low && low + 0.1 < high && high < 1.61, "{temperatures:?}");
}

/// The reported log-probabilities are the model's, however the text is generated.
#[test]
fn log_probabilities_are_those_of_the_tokens() {
    let common = ["--max-tokens", "30", "--logprobs", "3"];
    let plain = written(&common);
    let each = plain["logprobs"].as_array().unwrap();
    assert_eq!(each.len(), 30);
    for (of, token) in each.iter().zip(tokens(&plain)) {
        assert_eq!(of["token"].as_u64(), Some(token));
        let top = of["top"].as_array().unwrap();
        assert_eq!(top.len(), 3);
        assert!((0..3).all(|i| top[i]["rank"] == i as u64 + 1), "{of}");
        let of_top = |rank: u64| &top[rank as usize - 1];
        if let Some(rank) = of["rank"].as_u64().filter(|&rank| rank <= 3) {
            assert_eq!((&of_top(rank)["token"], &of_top(rank)["logprob"]), (&of["token"], &of["logprob"]));
        }
        assert!(of["logprob"].as_f64().unwrap() <= top[0]["logprob"].as_f64().unwrap());
    }
    let spelled: String = each.iter().map(|of| of["text"].as_str().unwrap()).collect();
    assert_eq!(spelled, plain["text"].as_str().unwrap());
    for drafts in [&["--lookup"][..], &["--draft", TALE_SMALL]] {
        let drafted = written(&[&common[..], drafts].concat());
        assert_eq!(drafted["logprobs"], plain["logprobs"], "{drafts:?}");
    }
    // A text generated with others has the log-probabilities of its seed.
    let folder = Folder::new();
    let several = ["generate", "The captain", "--model", TALE_SMALL, "--seed", "3", "--json", "--texts", "2"];
    let texts = folder.run(&[&several[..], &common].concat()).lines();
    assert_eq!(texts.len(), 2);
    assert!(texts.iter().all(|text| text["logprobs"].as_array().unwrap().len() == 30));
    let same = texts.iter().find(|text| text["seed"] == 3).unwrap();
    assert_eq!(same["logprobs"], plain["logprobs"]);
    // A forced token has probability 1 in the processed distribution, and less in the model's.
    let forced = ["--forced-bos-token-id", "777", "--max-tokens", "4"];
    let [raw, processed] = [&[][..], &["--logprobs-mode", "processed"]]
        .map(|mode| logprobs(&written(&[&forced[..], &["--logprobs", "3"], mode].concat())));
    assert!(raw[0].0 < 0.0 && raw[0].1 > 1 && raw[0].2.len() == 3);
    assert_eq!((processed[0].0, processed[0].1, processed[0].2.len()), (0.0, 1, 1));
    assert!(written(&["--max-tokens", "3"]).get("logprobs").is_none());
}
