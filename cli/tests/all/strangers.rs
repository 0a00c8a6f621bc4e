//! Untrusted tokenizers and chat templates: the program always answers soon and in bounded memory.

use std::fs;

use crate::support::{Folder, TALE_SMALL};
use serde_json::{Value, json};

/// A model whose tokenizer is changed.
fn with_tokenizer(change: impl FnOnce(&mut Value)) -> Folder {
    let folder = Folder::with_key();
    folder.copy_model(TALE_SMALL, "model");
    let path = folder.path("model/tokenizer.json");
    let mut tokenizer = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    change(&mut tokenizer);
    fs::write(&path, tokenizer.to_string()).unwrap();
    folder
}

#[test]
fn a_token_with_an_id_of_billions() {
    for id in [4_000_000_000u32, 1 << 31, u32::MAX] {
        let folder = with_tokenizer(|tokenizer| tokenizer["model"]["vocab"]["zzz"] = id.into());
        folder.write("text.txt", "Some text.");
        let said = format!("\"zzz\" has the id {id}, beyond ");
        folder.run(&["generate", "The captain", "--model", "model"]).fails(&said);
        folder.run(&["detect", "text.txt", "--key", "my.key", "--model", "model"]).fails(&said);
    }
}

#[test]
fn a_tokenizer_without_tokens() {
    let folder = with_tokenizer(|tokenizer| {
        tokenizer["model"]["vocab"] = json!({});
        tokenizer["model"]["merges"] = json!([]);
        tokenizer["added_tokens"] = json!([]);
    });
    folder.run(&["generate", "The captain", "--model", "model"]).fails("it has no tokens");
}

#[test]
fn a_tokenizer_that_does_not_know_a_word() {
    let folder = with_tokenizer(|tokenizer| {
        let words: serde_json::Map<String, Value> = (0..4096).map(|id| (format!("word{id}"), id.into())).collect();
        tokenizer["model"] = json!({"type": "WordLevel", "vocab": words, "unk_token": "<unk>"});
        tokenizer["pre_tokenizer"] = json!({"type": "Whitespace"});
        tokenizer["decoder"] = Value::Null;
        tokenizer["added_tokens"] = json!([]);
    });
    folder.run(&["key", "new", "words.key", "--model", "model"]);
    folder.write("text.txt", &"word1 word2 unheard ".repeat(2000));
    let said = "the model's tokenizer cannot read this text";
    let run = folder.run(&["detect", "text.txt", "--key", "words.key", "--model", "model"]);
    assert!(run.status == 2 && run.err.contains(said), "{run:?}");
    folder.run(&["generate", "word1 unheard", "--model", "model"]).fails(said);
}

/// Long names from a file are cut, so that a message stays one readable line.
#[test]
fn names_of_files_are_cut_in_messages() {
    let long = "x".repeat(100_000);
    let folder = Folder::new();
    let fails = |model: &str, said: &str| {
        let run = folder.run(&["generate", "A", "--model", model]);
        run.fails(said);
        assert!(run.err.len() < 800, "{} bytes: {:?}", run.err.len(), &run.err[..800]);
    };
    folder.copy_model(TALE_SMALL, "model");
    let path = folder.path("model/config.json");
    let whole: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let shown = format!("\"{}...\"", "x".repeat(200));
    for (field, value, said) in [
        ("model_type", json!(long), format!("model_type {shown} is not supported")),
        ("hidden_act", json!(long), format!("the activation {shown} is not supported")),
        ("hidden_size", json!(long), format!("hidden_size is \"{}..., which is not a number", "x".repeat(199))),
        ("quantization_config", json!({"quant_method": long}), format!("fewer bits by {}...", "x".repeat(200))),
        ("rope_parameters", json!({"rope_type": long}), format!("rotary positions of type {shown}")),
        ("eos_token_id", json!(long), "which is not one of 4096 tokens".to_owned()),
        ("text_config", json!({"model_type": long}), "is not supported".to_owned()),
    ] {
        let mut config = whole.clone();
        config[field] = value;
        fs::write(&path, config.to_string()).unwrap();
        fails("model", &said);
    }
    fs::write(&path, whole.to_string()).unwrap();
    // A tensor of 100,000 dimensions.
    let header = json!({"model.norm.weight": {"dtype": "F32", "shape": vec![1; 100_000], "data_offsets": [0, 4]},
        "model.embed_tokens.weight": {"dtype": "F32", "shape": vec![1; 100_000], "data_offsets": [4, 8]}});
    let header = header.to_string();
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &[0; 8]].concat();
    fs::write(folder.path("model/model.safetensors"), bytes).unwrap();
    fails("model", "has shape [1, 1, 1,");
    let header = format!("{{\"model.norm.weight\": \"{long}\"}}");
    let bytes = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    fs::write(folder.path("model/model.safetensors"), bytes).unwrap();
    fails("model", "is truncated or damaged");
    // A GGUF file with a tensor of a long name and too many dimensions.
    let mut gguf = [&b"GGUF"[..], &3u32.to_le_bytes(), &1u64.to_le_bytes(), &0u64.to_le_bytes()].concat();
    gguf.extend([&(long.len() as u64).to_le_bytes(), long.as_bytes(), &99u32.to_le_bytes(), &[0; 64]].concat());
    fs::write(folder.path("long.gguf"), gguf).unwrap();
    fails("long.gguf", "has 99 dimensions");
    let folder = with_tokenizer(|tokenizer| tokenizer["model"]["vocab"][&long] = 4_000_000_000u32.into());
    let run = folder.run(&["generate", "A", "--model", "model"]);
    run.fails(&format!("{shown} has the id 4000000000"));
    assert!(run.err.len() < 800, "{} bytes", run.err.len());
}

/// This takes hours if the rest is searched for each of 256 names after each match.
#[test]
fn a_chat_of_four_megabytes() {
    let folder = with_tokenizer(|tokenizer| {
        let vocabulary = tokenizer["model"]["vocab"].as_object().unwrap().clone();
        let names = vocabulary.iter().filter(|(name, _)| name.starts_with("Ġ") && name.len() > 5).take(256);
        for (name, id) in names {
            let token = json!({"id": id, "content": name, "single_word": false, "lstrip": false, "rstrip": false,
                "normalized": false, "special": true});
            tokenizer["added_tokens"].as_array_mut().unwrap().push(token);
        }
    });
    let name = folder.read("model/tokenizer.json");
    let tokenizer: Value = serde_json::from_str(&name).unwrap();
    let name = tokenizer["added_tokens"][256]["content"].as_str().unwrap();
    folder.write(
        "model/chat_template.jinja",
        &format!("{{% for i in range(2000) %}}{name}{{{{ messages[0].content }}}}{{% endfor %}}"),
    );
    let message = "It was a dark and stormy night. ".repeat(64);
    folder.run(&["generate", "--chat", &message, "--model", "model"]).fails("the prompt is ");
}

/// Without limits, each of these would take all memory, or hours.
#[cfg(target_os = "linux")]
#[test]
fn templates_that_grow() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "model");
    for template in [
        "{% set ns = namespace(x='aaaaaaaaaaaaaaaa') %}{% for i in range(40) %}{% set ns.x = ns.x ~ ns.x %}{% endfor \
         %}",
        "{% set ns = namespace(x=[1]) %}{% for i in range(40) %}{% set ns.x = ns.x + ns.x %}{% endfor %}{{ ns.x }}",
        "{% set ns = namespace(x='a') %}{% for i in range(40) %}{% set ns.x %}{{ ns.x }}{{ ns.x }}{% endset %}{% \
         endfor %}",
        "{% for i in range(99999) %}{% for j in range(99999) %}{{ messages[0].content * 9999 }}{% endfor %}{% endfor \
         %}",
        "{{ 'x\n'|indent(9999999999) }}",
        "{{ \"%1000000000s\"|format(\"x\") }}",
        "{{ 'x' * 99999999 }}",
        "{{ range(99999)|join('x' * 99999) }}",
        "{{ ('x' * 99999)|replace('x', 'x' * 99999) }}",
        "{{ '{:>1000000000}'.format('x') }}",
        "{{ [1]|batch(1000000000, 0)|list }}",
    ] {
        folder.write("model/chat_template.jinja", template);
        let mut limited = std::process::Command::new("sh");
        limited.args(["-c", "ulimit -v 4000000; exec \"$0\" generate --chat Hi --model model"]);
        let output = limited.arg(env!("CARGO_BIN_EXE_verdigris")).current_dir(folder.path("")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{template}: {said}");
        assert!(said.starts_with("error: the model's chat template: "), "{template}: {said}");
        assert!(said.contains("too much"), "{template}: {said}");
    }
}

/// The normalizer turns a word of five letters into gigabytes.
#[test]
fn a_normalizer_that_grows() {
    let replace = |from: &str, times: usize| json!({"type": "Replace", "pattern": {"String": from}, "content": from.repeat(times)});
    for steps in [vec![replace("a", 1000); 3], vec![replace("e", 80); 12]] {
        let folder = with_tokenizer(|tokenizer| {
            tokenizer["normalizer"] = json!({"type": "Sequence", "normalizers": steps});
        });
        folder.write("text.txt", "a banana peel e");
        let said = "model/tokenizer.json: its normalizer and pre_tokenizer can make a text ";
        folder.run(&["generate", "a banana peel e", "--model", "model"]).fails(said);
        folder.run(&["detect", "text.txt", "--key", "my.key", "--model", "model"]).fails(said);
    }
}

/// The library panics on these, when loading or in the middle of a text.
#[test]
fn damage_in_the_small_parts_of_a_tokenizer() {
    let folder_of = |part: &str, value: Value| with_tokenizer(|tokenizer| tokenizer[part] = value);
    for table in ["!!!", "/////wAAAAA="] {
        let folder = folder_of("normalizer", json!({"type": "Precompiled", "precompiled_charsmap": table}));
        folder
            .run(&["generate", "A", "--model", "model"])
            .fails("the precompiled_charsmap of its normalizer is damaged");
    }
    let template = json!({
        "type": "TemplateProcessing", "pair": [], "special_tokens": {},
        "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    });
    let folder = folder_of("post_processor", template);
    folder.run(&["generate", "A", "--model", "model"]).fails("it names \"[CLS]\", which its special_tokens lack");
}
