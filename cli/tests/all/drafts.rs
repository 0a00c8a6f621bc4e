//! Drafting through the program: by draft heads, by the steering expert, and for several texts at a time.

use crate::sampled::sampled;
use crate::support::{Folder, KEY, TALE_SMALL};
use serde_json::Value;

const FEATURE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-draft");
const MEDUSA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-medusa");
const EXPERT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-expert");
const PUBLISHED: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden/published_heads");
const PREDICTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden/predictors");
const GEMMA4: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden/gguf_architectures/gemma4.gguf");
/// The same heads, and assistants, in files of llama.cpp.
const GGUF_HEADS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden/gguf_heads");

const ASSISTANT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden/assistants/gemma4");

/// The output of the program, as JSON.
fn written(folder: &Folder, arguments: &[&str]) -> Vec<Value> {
    folder.run(&[&["generate", "The captain", "--json"], arguments].concat()).succeeds().lines()
}

/// Marked, constrained or greedy, the text of a seed is the one without drafts, and some drafts are accepted.
#[test]
fn heads_draft_the_text_of_a_seed() {
    let folder = Folder::new();
    folder.write_private("key.json", KEY);
    for (arguments, must_stand) in [
        (&["--seed", "3", "--temperature", "0", "--max-tokens", "80"][..], true),
        (&["--seed", "3", "--key", "key.json", "--max-tokens", "60"], false),
        (&["--seed", "4", "--regex", "[A-Z][a-z ,]{40,60}\\.", "--temperature", "0"], false),
    ] {
        let plain = &written(&folder, arguments)[0];
        for head in [FEATURE, MEDUSA] {
            for tokens in [&["--draft-tokens", "3"][..], &[]] {
                let drafted = &written(&folder, &[arguments, &["--draft", head], tokens].concat())[0];
                if must_stand || tokens.is_empty() {
                    assert_eq!(drafted["tokens"], plain["tokens"], "{head}, {arguments:?}");
                }
                if must_stand && !tokens.is_empty() {
                    assert!(drafted["accepted"].as_u64() > Some(10), "{drafted}");
                }
            }
        }
    }
    // The constraint holds whatever is sampled.
    let drawn = &written(&folder, &["--regex", "[A-Z][a-z ,]{40,60}\\.", "--draft", FEATURE, "--draft-tokens", "4"])[0];
    assert!(drawn["text"].as_str().unwrap().ends_with('.'), "{drawn}");
}

#[test]
fn several_texts_are_drafted_side_by_side() {
    let folder = Folder::new();
    let arguments = ["--texts", "3", "--seed", "5", "--max-tokens", "40"];
    let texts = |more: &[&str]| -> Vec<Value> {
        let mut texts = written(&folder, &[&arguments, more].concat());
        texts.sort_by_key(|text| text["seed"].as_u64());
        texts.into_iter().map(|text| text["tokens"].clone()).collect()
    };
    let plain = texts(&[]);
    assert_eq!(plain.len(), 3);
    for drafts in [
        &["--lookup"][..],
        &["--draft", "tale-small"],
        &["--draft", FEATURE],
        &["--draft", MEDUSA],
        &["--draft", FEATURE, "--lookup"],
    ] {
        assert_eq!(texts(drafts), plain, "{drafts:?}");
    }
}

/// The output names the acceptance rule only if it changes the distribution.
#[test]
fn what_decides_is_chosen_and_said() {
    let folder = Folder::new();
    let drafts = ["--draft", FEATURE, "--seed", "3", "--max-tokens", "60", "--draft-tokens", "4"];
    let accepted = |rule: &str| {
        let text = &written(&folder, &[&drafts[..], &["--quiet", "--draft-rule", rule]].concat())[0];
        assert_eq!(text["lossy"], if rule == "typical" { rule.into() } else { Value::Null }, "{text}");
        text["accepted"].as_u64().unwrap()
    };
    let [each, block, typical] = ["each-token", "block", "typical"].map(accepted);
    assert!(block >= each && typical != each, "{each} {block} {typical}");
    let serve = ["serve", "--draft", FEATURE, "--draft-rule", "typical"];
    if cfg!(feature = "serve") {
        folder.run(&serve).fails("--draft-rule typical needs --draft-tokens or --draft-tree");
    }
    let said = folder.run(&[&["generate"], &drafts[..], &["--draft-rule", "typical"]].concat()).err;
    assert!(said.contains("typical acceptance, which changes the distribution of the text"), "{said}");
    let timed = ["generate", "--lookup", "--seed", "1", "--draft-rule", "typical"];
    folder.run(&timed).fails("--seed with --draft-rule typical needs --draft-tokens or --draft-tree");
}

/// Lookup drafts where a text repeats itself, and the other drafter elsewhere: together they save more calls than
/// either alone.
#[test]
fn lookup_goes_before_another_drafter() {
    let folder = Folder::new();
    let prompt = "The captain had been there before. \"The captain had been there before,\" said he. The captain had";
    let calls = |drafts: &[&str]| {
        let arguments =
            ["generate", prompt, "--temperature", "0", "--max-tokens", "120", "--draft-tokens", "4", "--json"];
        let text = folder.run(&[&arguments[..], drafts].concat()).json();
        (text["calls"].as_u64().unwrap(), text["tokens"].clone())
    };
    let (lookup, text) = calls(&["--lookup"]);
    let (head, same) = calls(&["--draft", FEATURE]);
    let (both, again) = calls(&["--draft", FEATURE, "--lookup"]);
    assert!(text == same && text == again && both < lookup && both < head, "{lookup} {head} {both}");
}

/// At temperature 0 a tree of drafts does not change the text, and needs fewer calls than a chain.
#[test]
fn trees_are_drafted() {
    let folder = Folder::new();
    let greedy = ["--temperature", "0", "--max-tokens", "80"];
    let plain = &written(&folder, &greedy)[0];
    let calls = [["--draft-tree", "1,1"], ["--draft-tree", "3,2"]].map(|tree| {
        let text = &written(&folder, &[&greedy[..], &["--draft", FEATURE], &tree].concat())[0];
        assert_eq!(text["tokens"], plain["tokens"]);
        text["calls"].as_u64().unwrap()
    });
    assert!(calls[1] < calls[0], "{calls:?}");
}

#[test]
fn the_expert_that_steers_drafts() {
    let folder = Folder::new();
    let steer = ["--expert", EXPERT, "--anti", TALE_SMALL, "--seed", "7", "--max-tokens", "60"];
    for temperature in ["0", "0.8"] {
        let with =
            |more: &[&str]| written(&folder, &[&steer[..], &["--temperature", temperature], more].concat())[0].clone();
        let (plain, drafted) = (with(&[]), with(&["--draft-by-expert"]));
        assert_eq!(drafted["tokens"], plain["tokens"]);
        let fixed = with(&["--draft-by-expert", "--draft-tokens", "3"]);
        assert!(fixed["accepted"].as_u64() > Some(8), "{fixed}");
    }
    let run = folder.run(&["generate", "x", "--draft-by-expert"]);
    assert!(run.status == 2 && run.err.contains("--expert"), "{run:?}");
}

/// Heads in the formats in which they are published, with random weights: their drafts are seldom right, and the text
/// is the one without drafts. Chains and trees are drafted, alone and for several texts.
#[test]
fn published_heads_leave_the_text_unchanged() {
    let folder = Folder::new();
    let greedy = ["--model", "tale-small", "--temperature", "0", "--max-tokens", "60"];
    let seeded = ["--model", "tale-small", "--seed", "3", "--max-tokens", "40"];
    let plain = [&greedy, &seeded].map(|arguments| written(&folder, arguments)[0]["tokens"].clone());
    let folders = ["medusa", "eagle3", "speculators", "dflash", "dspark"].map(|name| format!("{PUBLISHED}/{name}"));
    let files = ["eagle3", "dspark"].map(|name| format!("{GGUF_HEADS}/{name}.gguf"));
    for head in sampled(folders.iter().chain(&files), 2) {
        for shape in [["--draft-tokens", "3"], ["--draft-tree", "3,2,1"]] {
            let text = &written(&folder, &[&greedy[..], &["--draft", head], &shape].concat())[0];
            assert_eq!(text["tokens"], plain[0], "{head}, {shape:?}");
            assert!(text["drafted"].as_u64() > Some(60), "{text}");
        }
        for more in [&["--draft", head][..], &["--draft", head, "--lookup"]] {
            assert_eq!(written(&folder, &[&seeded[..], more].concat())[0]["tokens"], plain[1], "{head}, {more:?}");
        }
        folder.run(&["generate", "x", "--draft", head]).fails("take the model that it was trained for");
    }
    let several = |more: &[&str]| -> Vec<Value> {
        let mut texts = written(&folder, &[&seeded[..], &["--texts", "2"], more].concat());
        texts.sort_by_key(|text| text["seed"].as_u64());
        texts.into_iter().map(|text| text["tokens"].clone()).collect()
    };
    for name in ["eagle3", "dspark"] {
        assert_eq!(several(&["--draft", &format!("{PUBLISHED}/{name}")]), several(&[]), "{name}");
    }
}

/// A hybrid, dense and with experts, and a mixture, which predict later tokens by a layer of their own.
#[test]
fn models_draft_with_their_own_layer() {
    let folder = Folder::new();
    for (name, drafts) in [("qwen3_5", 20), ("qwen3_5_moe", 20), ("glm4_moe", 5)] {
        let model = &format!("{PREDICTORS}/{name}/model.gguf");
        let text = |more: &[&str]| {
            let arguments = ["generate", "Th", "--json", "--model", model, "--max-tokens", "40"];
            folder.run(&[&arguments, more].concat()).succeeds().lines().remove(0)
        };
        let plain = text(&["--temperature", "0"]);
        for shape in [["--draft-tokens", "3"], ["--draft-tree", "2,1"]] {
            let drafted = text(&[&["--temperature", "0", "--draft", "mtp"], &shape[..]].concat());
            assert_eq!(drafted["tokens"], plain["tokens"], "{name}, {shape:?}");
            assert!(drafted["drafted"].as_u64() > Some(drafts), "{drafted}");
        }
        let all = &["--seed", "7", "--lookup", "--regex", "[A-Za-z]{10,20}!"][..];
        assert_eq!(text(&[all, &["--draft", "mtp"]].concat())["tokens"], text(all)["tokens"], "{name}");
    }
    // In fewer bits, the file still has the layer.
    let model = format!("{PREDICTORS}/glm4_moe/model.gguf");
    folder.run(&["convert", &model, "--out", "q8.gguf", "--format", "q8_0"]).done();
    let drafted = ["--model", "q8.gguf", "--draft", "mtp", "--draft-tokens", "2", "--json"];
    let drafted = folder.run(&[&["generate", "Th", "--temperature", "0", "--max-tokens", "12"], &drafted[..]].concat());
    assert!(drafted.done().json()["drafted"].as_u64() > Some(1));
    folder.run(&["generate", "x", "--draft", "mtp"]).fails("this model has no layer that predicts later tokens");
}

/// Gemma 4 with an assistant that has random weights.
#[test]
fn assistants_leave_the_text_unchanged() {
    let folder = Folder::new();
    let text = |more: &[&str]| {
        let arguments = ["generate", "Th", "--json", "--model", GEMMA4, "--max-tokens", "40"];
        folder.run(&[&arguments, more].concat()).succeeds().lines().remove(0)
    };
    let plain = text(&["--temperature", "0"]);
    for shape in [["--draft-tokens", "3"], ["--draft-tree", "3,2,1"]] {
        let drafted = text(&[&["--temperature", "0", "--draft", ASSISTANT], &shape[..]].concat());
        assert_eq!(drafted["tokens"], plain["tokens"], "{shape:?}");
        assert!(drafted["drafted"].as_u64() > Some(20), "{drafted}");
    }
    let all = &["--seed", "7", "--lookup", "--regex", "[A-Za-z]{10,20}!"][..];
    assert_eq!(text(&[all, &["--draft", ASSISTANT]].concat())["tokens"], text(all)["tokens"]);
    let in_gguf = &format!("{GGUF_HEADS}/gemma4.gguf");
    assert_eq!(text(&[all, &["--draft", in_gguf]].concat())["tokens"], text(all)["tokens"]);
    folder.run(&["generate", "x", "--model", in_gguf]).fails("it is a draft head (gemma4-assistant)");
    folder.run(&["generate", "x", "--draft", ASSISTANT]).fails("it was trained for a model with hidden_size 32");
    let other = format!("{ASSISTANT}_unified");
    folder
        .run(&["generate", "x", "--model", GEMMA4, "--draft", &other])
        .fails("take the model that it was trained for");
}

#[test]
fn a_head_of_another_model_is_refused() {
    let folder = Folder::new();
    for head in [FEATURE, MEDUSA] {
        folder.run(&["generate", "x", "--model", "tale-small", "--draft", head]).fails("it was trained for tale");
    }
    folder.run(&["generate", "x", "--model", FEATURE]).fails("is not a model");
}

/// A mark, a schema and drafts at once, as measured by `bench speculation`. The length of automatic drafts depends on
/// timing, so each run gives other texts. They are long enough for the mark to be found in any of them.
#[test]
fn marked_forms_with_drafts_are_whole_and_found() {
    let text = r#"{"type": "string", "minLength": 700, "maxLength": 900}"#;
    let schema = format!(r#"{{"type": "object", "required": ["text"], "properties": {{"text": {text}}}}}"#);
    let arguments = ["--draft", FEATURE, "--mark", "--json-schema", &schema, "--closed", "--temperature", "1"];
    let bench = ["bench", "speculation", "--draft-tokens", "2", "--samples", "1", "--tokens", "450", "--json"];
    let run = Folder::new().run(&[&bench[..], &arguments].concat()).succeeds();
    let report: Value = serde_json::from_str(&run.out).unwrap();
    let rows = report["rows"].as_array().unwrap();
    let names: Vec<&str> = rows.iter().map(|row| row["drafts"].as_str().unwrap()).collect();
    let heads = ["tale-draft, 2", "tale-draft, automatic", "tale-draft and lookup, automatic"];
    assert_eq!(names, [&["none", "lookup, automatic"][..], &heads].concat());
    assert!(rows.iter().all(|row| row["whole"] == 1.0 && row["found"] == 1.0), "{rows:?}");
}
