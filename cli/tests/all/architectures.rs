//! Every architecture of our own decoders, through the built program: tiny random checkpoints saved by `transformers`.

use crate::sampled::sampled;
use crate::support::Folder;
use crate::support::checkpoint::checkpoint;
use serde_json::Value;

const ARCHITECTURES: [&str; 50] = [
    "bloom",
    "cohere2",
    "deepseek_v3",
    "exaone4",
    "falcon",
    "falcon-alibi",
    "falcon-new",
    "gemma",
    "gemma2",
    "gemma3",
    "gemma3n",
    "gemma4",
    "gemma4-mixture",
    "glm4",
    "glm4_moe",
    "glm4_moe_lite",
    "gpt2",
    "gpt_neox",
    "gpt_oss",
    "granite",
    "granitemoehybrid-experts",
    "hunyuan_v1_dense",
    "idefics3",
    "internvl",
    "lfm2_moe",
    "llama-long",
    "llava",
    "llava_next",
    "ministral3",
    "mistral",
    "mistral3",
    "mistral3-ministral3",
    "mixtral",
    "mpt",
    "nemotron_h-latent",
    "olmo2",
    "olmo3",
    "olmoe",
    "opt",
    "phi3",
    "phi3-partial",
    "qwen2-yarn",
    "qwen2_moe",
    "qwen3_5",
    "qwen3_5_moe",
    "qwen3_next",
    "seed_oss",
    "smollm3",
    "smolvlm",
    "starcoder2",
];

#[track_caller]
fn written(folder: &Folder, arguments: &[&str]) -> Value {
    // `--quiet` suppresses the warning that thirty letters do not prove a mark.
    let common = ["generate", "--json", "--quiet", "--seed", "3", "--model", "model", "--max-tokens", "40"];
    folder.run(&[&common[..], &["--key", "its.key", "--regex", "[a-z]{30}"], arguments].concat()).succeeds().json()
}

/// Marked text under a regular expression: plain, with drafts, in a conversation and steered.
#[test]
fn all_of_generate_works_with_every_architecture() {
    for name in sampled(ARCHITECTURES, 3) {
        let folder = checkpoint(&format!("architectures/{name}"));
        folder.run(&["key", "new", "its.key", "--model", "model"]).done();
        let plain = written(&folder, &["ABC"]);
        let text = plain["text"].as_str().unwrap();
        assert!(text.len() == 30 && text.chars().all(|c| c.is_ascii_lowercase()), "{name}: {plain}");
        assert_eq!(written(&folder, &["--lookup", "--draft-tokens", "3", "ABC"])["text"], plain["text"], "{name}");
        assert_eq!(written(&folder, &["--chat", "ABC"])["text"], plain["text"], "{name}");
        let [alone, drafted] = [&[][..], &["--draft", "model", "--draft-tokens", "2"]]
            .map(|more| written(&folder, &[&["--temperature", "0", "ABC"], more].concat()));
        assert_eq!(alone["text"], drafted["text"], "{name}");
        let steered = ["--expert", "model", "--anti", "model", "ABC"];
        assert_eq!(written(&folder, &steered)["text"], plain["text"], "{name}: steered by itself");
        folder.write("text.txt", text);
        let found = folder.run(&["detect", "text.txt", "--key", "its.key", "--model", "model", "--json"]).json();
        assert!(found["verdict"].is_string(), "{name}: {found}");
    }
}
