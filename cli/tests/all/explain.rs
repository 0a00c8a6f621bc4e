//! `--explain`: the report on each token agrees with how the token was chosen.

use crate::support::{Folder, TALE_SMALL};
use serde_json::Value;

const COMMON: [&str; 8] = ["generate", "The captain", "--model", TALE_SMALL, "--seed", "3", "--json", "--quiet"];

/// The output of the program, as JSON.
#[track_caller]
fn written(folder: &Folder, arguments: &[&str]) -> Value {
    let length: &[&str] = if arguments.contains(&"--max-tokens") { &[] } else { &["--max-tokens", "30"] };
    folder.run(&[&COMMON, arguments, length].concat()).succeeds().json()
}

#[track_caller]
fn explained(arguments: &[&str]) -> (Value, Vec<Value>) {
    explained_in(&Folder::new(), arguments)
}

#[track_caller]
fn explained_in(folder: &Folder, arguments: &[&str]) -> (Value, Vec<Value>) {
    let text = written(folder, &[arguments, &["--explain"]].concat());
    let tokens = text["explained"].as_array().unwrap().clone();
    let ids: Vec<&Value> = tokens.iter().map(|of| &of["token"]).collect();
    assert_eq!(ids, text["tokens"].as_array().unwrap().iter().collect::<Vec<_>>(), "{arguments:?}");
    (text, tokens)
}

fn step<'s>(of: &'s Value, name: &str) -> Option<&'s Value> {
    of["steps"].as_array().unwrap().iter().find(|step| step["name"] == name)
}

fn number(of: &Value) -> f64 {
    of.as_f64().unwrap_or(f64::NEG_INFINITY)
}

/// The probabilities before and after all steps are those of `--logprobs`, and `--explain` does not change the text.
#[test]
fn probabilities_are_those_of_the_distributions() {
    let folder = Folder::with_key();
    let more = ["--top-k", "40", "--repetition-penalty", "1.2", "--min-p", "0.01", "--logprobs", "0"];
    let (text, tokens) = explained(&more);
    assert_eq!(text["tokens"], written(&folder, &more)["tokens"]);
    assert!(written(&folder, &more).get("explained").is_none(), "not requested");
    let processed = written(&folder, &[&more[..], &["--logprobs-mode", "processed"]].concat());
    for (i, of) in tokens.iter().enumerate() {
        let is = |told: &Value, distribution: &Value| {
            let (told, distribution) = (number(told), number(&distribution["logprobs"][i]["logprob"]));
            assert!((told - distribution).abs() < 1e-9, "{told} instead of {distribution} at position {i}");
        };
        is(&of["model_logprob"], &text);
        is(&of["logprob"], &processed);
        let last = of["steps"].as_array().unwrap().last().unwrap();
        assert_eq!(last["logprob"], of["logprob"]);
        assert_eq!(of["origin"], "computed");
    }
}

/// Every option that changes logits is named as in `--help`, and its reported effect is the documented one.
#[test]
fn each_step_has_the_name_of_its_option() {
    let help = Folder::new().run(&["generate", "--help"]).out;
    /// A property that each reported step must have.
    type Holds = fn(&Value) -> bool;
    let cuts: Holds = |step| step["forbidden"].as_u64() > Some(0) && step["shift"] == 0.0;
    let moves: Holds = |step| step["forbidden"] == 0;
    let options: [(&[&str], Holds); 19] = [
        (&["--temperature", "0.7"], moves),
        (&["--dynatemp-range", "0.5"], moves),
        (&["--top-k", "5"], |step| step["allowed"] == 5 && step["forbidden"] == 4091),
        (&["--top-p", "0.5"], cuts),
        (&["--min-p", "0.1"], cuts),
        (&["--typical-p", "0.5"], cuts),
        (&["--epsilon-cutoff", "0.01"], cuts),
        (&["--eta-cutoff", "0.01"], cuts),
        (&["--top-a", "0.5"], cuts),
        (&["--xtc-probability", "1"], cuts),
        (&["--repetition-penalty", "1.5"], moves),
        (&["--presence-penalty", "1"], |step| step["shift"] == 0.0 || step["shift"] == -1.0),
        (&["--frequency-penalty", "1"], |step| number(&step["shift"]) <= 0.0),
        (&["--logit-bias", "13=-1.5"], |step| step["shift"] == 0.0 || step["shift"] == -1.5),
        (&["--sequence-bias", "the=2"], |step| step["shift"] == 0.0 || step["shift"] == 2.0),
        (&["--bad-words", "the"], cuts),
        (&["--suppress-tokens", "13,14"], |step| step["forbidden"] == 2),
        (&["--min-tokens", "20"], |step| step["forbidden"] == 1),
        (&["--no-repeat-ngram-size", "1"], cuts),
    ];
    for (option, holds) in options {
        let name = option[0].trim_start_matches("--");
        assert!(help.contains(&format!("--{name} ")), "{name}");
        let (_, tokens) = explained(option);
        let told: Vec<&Value> = tokens.iter().filter_map(|of| step(of, name)).collect();
        assert!(!told.is_empty(), "{name} changes no logits");
        for step in told {
            assert!(holds(step), "{name}: {step}");
        }
    }
    let dry = ["--dry-multiplier", "3", "--temperature", "0", "--max-tokens", "120"];
    let (_, tokens) = explained(&dry);
    assert!(tokens.iter().any(|of| step(of, "dry-multiplier").is_some()));
}

#[test]
fn how_a_token_came_is_told() {
    let count = |tokens: &[Value], origin: &str| tokens.iter().filter(|of| of["origin"] == origin).count() as u64;
    let (plain, _) = explained(&[]);
    let drafters: [(&[&str], &[&str]); 5] = [
        (&["--draft", "tale-small"], &["draft"]),
        (&["--lookup", "--draft-tokens", "3", "--temperature", "0", "--max-tokens", "150"], &["lookup"]),
        (&["--draft", "tale-expert", "--draft-tokens", "3"], &["draft"]),
        (&["--draft", "tale-expert", "--draft-tree", "2,2"], &["draft"]),
        (&["--draft", "tale-expert", "--draft-tokens", "4", "--draft-rule", "block"], &["draft"]),
    ];
    for (arguments, by) in drafters {
        let (text, tokens) = explained(arguments);
        let (drafted, corrected) = (count(&tokens, "drafted"), count(&tokens, "corrected"));
        assert_eq!(text["accepted"], drafted, "{arguments:?}");
        // The last token of each call is the model's own.
        assert_eq!(text["calls"], corrected + count(&tokens, "computed"), "{arguments:?}");
        assert!(drafted > 0, "{arguments:?}");
        for of in tokens.iter().filter(|of| of["origin"] == "drafted") {
            assert!(by.iter().any(|by| of["by"] == *by), "{of}");
        }
    }
    // A rejected draft is distinguished from no draft.
    let (_, tokens) = explained(&["--draft", "tale-expert", "--draft-tokens", "1"]);
    assert!(count(&tokens, "corrected") > 0);
    // A text generated with others has the same explanation as alone.
    let several = ["--max-tokens", "30", "--texts", "2", "--explain"];
    let texts = Folder::new().run(&[&COMMON[..], &several].concat()).lines();
    let same = texts.iter().find(|text| text["seed"] == 3).unwrap();
    assert_eq!(same["explained"], plain["explained"]);
    // With lookup and a draft model, both are named as drafters.
    let copying =
        ["--lookup", "--draft", "tale-expert", "--draft-tokens", "4", "--temperature", "0", "--max-tokens", "200"];
    let (_, tokens) = explained(&copying);
    for by in ["lookup", "draft"] {
        assert!(tokens.iter().any(|of| of["by"] == by), "{by}");
    }
}

#[test]
fn what_a_form_decides_is_told() {
    let (text, tokens) = explained(&["--regex", " (yes|no), said the captain of the ship\\."]);
    let decided: Vec<&Value> = tokens.iter().filter(|of| of["origin"] == "decided").collect();
    assert!(decided.len() > 1, "{text}");
    for of in &decided {
        assert_eq!((&of["by"], &of["logprob"]), (&"regex".into(), &0.0.into()), "{of}");
        assert_eq!(step(of, "regex").unwrap()["allowed"], 1, "{of}");
        assert!(number(&of["model_logprob"]) < 0.0, "the model was not as sure: {of}");
    }
    let first = &tokens[0];
    assert!(first["origin"] == "computed" && step(first, "regex").unwrap()["allowed"].as_u64() > Some(1), "{first}");
    for (option, form) in
        [("--choice", r#"["yes"," perhaps","no"," perhaps not"]"#), ("--json-schema", "{\"const\": \"yes\"}")]
    {
        let (_, tokens) = explained(&[option, form]);
        assert!(tokens.iter().any(|of| of["by"] == option.trim_start_matches("--")), "{option}");
    }
    let (_, tokens) = explained(&["--forced-bos-token-id", "777"]);
    assert_eq!((&tokens[0]["origin"], &tokens[0]["by"]), (&"computed".into(), &Value::Null), "there is no row before");
    assert_eq!(step(&tokens[0], "forced-bos-token-id").unwrap()["allowed"], 1);
}

/// A soft mark adds its strength to the logits of green tokens only.
#[test]
fn what_a_token_says_for_the_mark_is_told() {
    let folder = Folder::with_key();
    let (_, tokens) = explained_in(&folder, &["--key", "my.key"]);
    for of in tokens.iter().filter(|of| of.get("mark").is_some()) {
        let shift = number(&step(of, "watermark").unwrap()["shift"]);
        let expected = if of["mark"]["green"] == true { 2.0 } else { 0.0 };
        assert!((shift - expected).abs() < 1e-5, "{of}");
        assert_eq!(of["mark"]["score"], expected / 2.0);
    }
    let greens = tokens.iter().filter(|of| of["mark"]["green"] == true).count();
    let marked = tokens.iter().filter(|of| of.get("mark").is_some()).count();
    assert!((26..=30).contains(&marked) && (10..marked).contains(&greens), "{greens} of {marked}");
    // Noise chooses the token itself, and its score is a number, not a colour.
    folder.run(&["key", "new", "quiet.key", "--dialect", "native-gumbel"]);
    let (_, tokens) = explained_in(&folder, &["--key", "quiet.key", "--temperature", "1", "--mark-after", "0"]);
    let of = tokens.iter().rfind(|of| of.get("mark").is_some()).unwrap();
    assert_eq!(step(of, "watermark").unwrap()["allowed"], 1, "{of}");
    assert!(number(&of["mark"]["score"]) > 0.0, "{of}");
}

/// Nothing is reported about the mark where the entropy is too low for one.
#[test]
fn a_token_that_is_not_marked_says_nothing_for_the_mark() {
    let folder = Folder::with_key();
    let of = |threshold| explained_in(&folder, &["--key", "my.key", "--entropy-threshold", threshold]).1;
    assert!(of("100").iter().all(|of| of.get("mark").is_none() && step(of, "watermark").is_none()));
    let tokens = of("3");
    for of in &tokens {
        let is_shifted = step(of, "watermark").is_some_and(|step| number(&step["shift"]) > 1.0);
        assert_eq!(is_shifted, of.get("mark").is_some_and(|mark| mark["green"] == true), "{of}");
    }
    let marked = tokens.iter().filter(|of| of.get("mark").is_some()).count();
    assert!((3..24).contains(&marked), "{marked} of {}", tokens.len());
}

/// Contrastive search is a step too: it takes one of the tokens that top-k leaves.
#[test]
fn what_contrastive_search_leaves_is_told() {
    let search = ["--penalty-alpha", "0.6", "--top-k", "4", "--repetition-penalty", "1.1"];
    let (text, tokens) = explained(&[&search[..], &["--logprobs", "2", "--logprobs-mode", "processed"]].concat());
    let mut likeliest = 0;
    for (of, distribution) in tokens.iter().zip(text["logprobs"].as_array().unwrap()) {
        let steps = of["steps"].as_array().unwrap();
        let [.., cut, choice] = &steps[..] else { panic!("{of}") };
        assert_eq!((&cut["name"], &cut["allowed"]), (&"top-k".into(), &4.into()), "{of}");
        assert_eq!((&choice["name"], &choice["allowed"]), (&"penalty-alpha".into(), &1.into()), "{of}");
        assert!(of["logprob"] == 0.0 && number(&distribution["logprob"]) < 0.0, "{of}");
        assert!(distribution["rank"].as_u64() <= Some(4), "{distribution}");
        likeliest += usize::from(distribution["rank"] == 1);
    }
    assert!((1..tokens.len()).contains(&likeliest), "{likeliest} of {}", tokens.len());
}

/// Without `--json` the explanation is one line per token on standard error, and standard output is unchanged.
#[test]
fn people_read_a_line_a_token() {
    let folder = Folder::with_key();
    let common = ["generate", "The captain", "--seed", "3", "--max-tokens", "12", "--key", "my.key", "--quiet"];
    let plain = folder.run(&common);
    let run = folder.run(&[&common[..], &["--explain"]].concat());
    assert_eq!((run.status, &run.out, plain.err.as_str()), (0, &plain.out, ""));
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(lines.len(), 13, "{}", run.err);
    assert!(!run.err.contains('\x1b'), "no colours in a pipe");
    assert!(lines[0].starts_with("index") || lines[0].trim_start().starts_with("index"), "{}", lines[0]);
    assert!(run.err.contains("watermark green +2.00") && run.err.contains("watermark red"), "{}", run.err);
    assert!(lines[1..].iter().all(|line| line.contains("top-p left ") && line.contains(" call ")), "{}", run.err);
    let spelled: String = lines[1..].iter().map(|line| line.split('"').nth(1).unwrap()).collect();
    assert_eq!(spelled, plain.out.trim_end().replace('\n', "\\n"));
}
