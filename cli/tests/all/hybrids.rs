//! Mixtures of experts, and models with layers whose states have a fixed size: neither drafts nor other texts change a
//! text of theirs.

use serde_json::Value;

use crate::sampled::sampled;
use crate::support::Folder;
use crate::support::checkpoint::{OF_JSON, add_checkpoint};

const MODELS: [&str; 9] = [
    "granitemoehybrid",
    "granitemoehybrid-experts",
    "lfm2",
    "lfm2_moe",
    "nemotron_h-latent",
    "olmoe",
    "qwen3_5_text",
    "qwen3_moe",
    "qwen3_next",
];

const SCHEMA: &str = r#"{"type": "object", "additionalProperties": false, "required": ["a", "b"], "properties":
    {"a": {"type": "string", "pattern": "^[a-z]{2,8}$"}, "b": {"type": "integer", "minimum": 0, "maximum": 999}}}"#;

/// A folder with such a model, another one with its tokenizer as `small`, keys, and a schema.
fn folder(name: &str) -> Folder {
    let folder = Folder::new();
    add_checkpoint(&folder, "model", &format!("architectures/{name}"), OF_JSON);
    let small = if name == "qwen3_5_text" { "lfm2" } else { "qwen3_5_text" };
    add_checkpoint(&folder, "small", &format!("architectures/{small}"), OF_JSON);
    folder.write("schema.json", SCHEMA);
    for (key, more) in [("soft.key", &["--dialect", "native"][..]), ("noise.key", &[])] {
        folder.run(&[&["key", "new", key, "--model", "model"], more].concat()).done();
    }
    folder
}

#[track_caller]
fn written(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    // `--quiet` suppresses the warning that forty letters do not prove a mark.
    let common = ["generate", "--json", "--quiet", "--model", "model", "--max-tokens", "40", "AB1A"];
    let lines = folder.run(&[&common, arguments].concat()).succeeds().lines();
    lines.into_iter().map(|line| line["text"].clone()).collect()
}

/// With a mark, and a regular expression or a schema: alone, by lookup, after a small model in a chain and a tree, and
/// several texts at a time.
#[test]
fn drafts_change_no_text_of_mixtures_and_hybrids() {
    let constraints = [["--regex", "[a-z]{30}"], ["--json-schema", "schema.json"]];
    for name in sampled(MODELS, 3) {
        let folder = folder(name);
        for (key, constraint) in
            [("soft.key", constraints[0]), ("soft.key", constraints[1]), ("noise.key", constraints[1])]
        {
            let write = |more: &[&str]| written(&folder, &[&["--key", key], &constraint[..], more].concat());
            let seeded = ["--seed", "3"];
            let plain = write(&seeded);
            let text = plain[0].as_str().unwrap();
            match constraint[0] {
                "--regex" => {
                    assert!(text.len() == 30 && text.chars().all(|c| c.is_ascii_lowercase()), "{name}: {text}")
                }
                _ => {
                    let judge = jsonschema::draft202012::new(&serde_json::from_str(SCHEMA).unwrap()).unwrap();
                    assert!(judge.is_valid(&serde_json::from_str(text).unwrap()), "{name}: {text}");
                }
            }
            for drafts in
                [&["--draft", "small"][..], &["--lookup", "--draft-tokens", "3"], &["--lookup", "--draft", "small"]]
            {
                assert_eq!(write(&[&seeded, drafts].concat()), plain, "{name}, {key}, {constraint:?}: {drafts:?}");
            }
            // A key of noise has variants, of which the seed chooses one.
            let best = write(&[&seeded[..], &["--temperature", "0"]].concat());
            for drafts in [["--draft-tokens", "3"], ["--draft-tree", "3,2"]] {
                let drafted = write(&[&seeded[..], &["--temperature", "0", "--draft", "small"], &drafts[..]].concat());
                assert_eq!(drafted, best, "{name}, {key}, {constraint:?}: {drafts:?}");
            }
            let three = write(&[&seeded[..], &["--texts", "3"]].concat());
            let each = |seed: usize| write(&["--seed", &seed.to_string()]);
            let mut alone: Vec<String> = (3..6).flat_map(each).map(|text| text.to_string()).collect();
            let mut three: Vec<String> = three.iter().map(Value::to_string).collect();
            [&mut alone, &mut three].into_iter().for_each(|texts| texts.sort());
            assert_eq!(three, alone, "{name}, {key}, {constraint:?}: three texts at a time");
        }
    }
}

#[cfg(feature = "serve")]
mod served {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use serde_json::json;

    use super::*;
    use crate::support::server::Server;

    const TEXTS: usize = 48;

    /// A request, and the arguments by which the program writes the same text alone.
    fn request(number: usize) -> (Value, Vec<String>) {
        // Three pages in common, half a page, or nothing.
        let common: String = OF_JSON.chars().cycle().skip(7).take(130).collect();
        let prompt = match number % 3 {
            0 => format!("{common}{number}"),
            1 => format!("{}{number}", &common[..100]),
            _ => format!("{number}{}", &common[..40]),
        };
        let tokens = 20 + number % 40;
        let mut body = json!({"prompt": prompt, "seed": number, "max_tokens": tokens});
        let mut alone =
            ["generate", "--json", "--quiet", "--model", "model", "--key", "soft.key"].map(String::from).to_vec();
        alone.extend(["--seed".into(), number.to_string(), "--max-tokens".into(), tokens.to_string(), prompt]);
        if number.is_multiple_of(4) {
            body["structured_outputs"] = json!({"regex": "([a-z]{3}[0-9]){4,9}"});
            alone.extend(["--regex".into(), "([a-z]{3}[0-9]){4,9}".into()]);
        }
        (body, alone)
    }

    /// Many requests to a hybrid, whose memory is short: each gets the text that the program writes alone, though it
    /// begins from the pages of others, may give way to others, and reads its drafts with theirs.
    #[test]
    fn the_company_changes_no_text_of_a_hybrid() {
        let folder = folder("qwen3_5_text");
        let requests: Vec<_> = (0..TEXTS).map(request).collect();
        let alone: Vec<Value> = requests
            .iter()
            .map(|(_, arguments)| {
                let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
                folder.run(&arguments).succeeds().lines()[0]["text"].clone()
            })
            .collect();
        let common = ["--model", "model", "--key", "soft.key", "--kv-cache-tokens", "768", "--max-num-seqs", "6"];
        for drafts in [&[][..], &["--draft", "small", "--lookup"]] {
            let server = Server::start(&folder, &[&common[..], drafts].concat());
            let next = AtomicUsize::new(0);
            std::thread::scope(|scope| {
                for _ in 0..16 {
                    scope.spawn(|| {
                        loop {
                            let at = next.fetch_add(1, Ordering::Relaxed);
                            let Some((body, _)) = requests.get(at) else { return };
                            let answer = server.post("/v1/completions", body).json();
                            assert_eq!(answer["choices"][0]["text"], alone[at], "{body}: {answer}");
                        }
                    });
                }
            });
            // Whether a text gives way depends on when the others arrive, so that is not asserted here.
            let metrics = server.get("/metrics").text;
            let hits = metrics.lines().find_map(|line| line.strip_prefix("verdigris_prefix_cache_hits_total "));
            assert!(hits.unwrap().parse::<f64>().unwrap() > 0.0, "{metrics}");
        }
    }
}
