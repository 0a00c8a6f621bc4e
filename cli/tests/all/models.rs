//! Models from every source and in every use, through the built program.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::sampled::sampled;
use crate::support::{Folder, Run, TALE_SMALL};
use serde_json::{Value, json};

const GOLDEN: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/golden");

const TALE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale");

/// The name of a model on the hub.
const ON_THE_HUB: &str = "somebody/tale-small";

/// A folder with the models in it; the hub's cache is in `hf`.
struct Models(Folder);

impl Models {
    fn new() -> Self {
        Self(Folder::with_key())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.0.command(arguments);
        command.env("HF_HOME", self.0.path("hf")).env("HF_HUB_OFFLINE", "1");
        command
    }

    #[track_caller]
    fn run(&self, arguments: &[&str]) -> Run {
        Folder::finish(self.command(arguments))
    }

    /// Like [`Models::run`], but must succeed. Returns standard output.
    #[track_caller]
    fn done(&self, arguments: &[&str]) -> String {
        self.run(arguments).succeeds().out
    }

    #[track_caller]
    fn json(&self, arguments: &[&str]) -> Value {
        self.run(arguments).succeeds().json()
    }

    /// A model folder with a chat template.
    fn with_template(&self, from: &str, to: &str) {
        self.0.copy_model(from, to);
        let template = "{% for m in messages %}{{ m.role }}: {{ m.content }}{{ eos_token }}{% endfor %}assistant:";
        let config = json!({"eos_token": "<|endoftext|>", "chat_template": template});
        self.0.write(&format!("{to}/tokenizer_config.json"), &config.to_string());
    }

    /// Checks that every use of the model at `place` gives the same result as the model in `folder`. Losses differ by
    /// at most `within`.
    fn check(&self, place: &str, folder: &str, within: f64) {
        let generate = |model: &str, more: &[&str]| {
            let common = ["generate", "--max-tokens", "12", "--seed", "3", "--json", "--model", model];
            self.json(&[&common[..], more].concat())
        };
        for more in [&["The captain"][..], &["--chat", "Who are you?"]] {
            let (ours, theirs) = (generate(place, more), generate(folder, more));
            assert_eq!(ours["tokens"].as_array().map(Vec::len), Some(12), "{place}: {ours}");
            assert_eq!(ours["prompt_tokens"], theirs["prompt_tokens"], "{place}");
            assert!(within > 1e-3 || ours["tokens"] == theirs["tokens"], "{place}: {ours} {theirs}");
        }
        // Neither a draft model nor an expert that is its own anti-expert changes the text of a seed.
        let plain = generate(TALE_SMALL, &["The captain"]);
        for more in [&["--draft", place][..], &["--expert", place, "--anti", place]] {
            let written = generate(TALE_SMALL, &[&["The captain"][..], more].concat());
            assert_eq!(written["tokens"], plain["tokens"], "{place} {more:?}");
        }
        let found = self.json(&["detect", "marked.txt", "--key", "my.key", "--json", "--model", place]);
        assert_eq!(found["verdict"], "marked", "{place}");
        self.done(&["key", "new", "new.key", "--model", place]);
        let key: Value = serde_json::from_str(&self.0.read("new.key")).unwrap();
        assert_eq!(key["vocabulary"]["fingerprint"], "e106f5b2af1d8f602ff85a4ace3e36b1", "{place}");
        fs::remove_file(self.0.path("new.key")).unwrap();
        let loss = |model| {
            let arguments = ["bench", "loss", "--text", "marked.txt", "--window", "64", "--windows", "2", "--json"];
            self.json(&[&arguments[..], &["--model", model]].concat())["loss"].as_f64().unwrap()
        };
        let (ours, theirs) = (loss(place), loss(folder));
        assert!((ours - theirs).abs() <= within, "{place}: {ours}, but {theirs}");
    }
}

/// Splits the weights of a folder into two files with an index.
fn shard(folder: &Path) {
    let whole = fs::read(folder.join("model.safetensors")).unwrap();
    let length = u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
    let (head, data) = (&whole[8..8 + length], &whole[8 + length..]);
    let mut head: serde_json::Map<String, Value> = serde_json::from_slice(head).unwrap();
    head.remove("__metadata__");
    let mut shards: [(serde_json::Map<String, Value>, Vec<u8>); 2] = Default::default();
    let mut names = serde_json::Map::new();
    for (i, (name, mut tensor)) in head.into_iter().enumerate() {
        let file = format!("model-0000{}-of-00002.safetensors", i % 2 + 1);
        names.insert(name.clone(), file.into());
        let (of_it, bytes) = &mut shards[i % 2];
        let at = |i: usize| tensor["data_offsets"][i].as_u64().unwrap() as usize;
        let part = &data[at(0)..at(1)];
        tensor["data_offsets"] = json!([bytes.len(), bytes.len() + part.len()]);
        bytes.extend_from_slice(part);
        of_it.insert(name, tensor);
    }
    for (i, (head, bytes)) in shards.iter().enumerate() {
        let head = serde_json::to_vec(head).unwrap();
        let file = [&(head.len() as u64).to_le_bytes()[..], &head, bytes].concat();
        fs::write(folder.join(format!("model-0000{}-of-00002.safetensors", i + 1)), file).unwrap();
    }
    fs::remove_file(folder.join("model.safetensors")).unwrap();
    fs::write(folder.join("model.safetensors.index.json"), json!({"weight_map": names}).to_string()).unwrap();
}

/// Stores a folder's files as the hub's own programs do: as blobs, with links from the revision.
#[cfg(unix)]
fn keep_as_the_hub(folder: &Path, home: &Path) {
    let repository = home.join(format!("hub/models--{}", ON_THE_HUB.replace('/', "--")));
    let commit = "c0ffee00c0ffee00c0ffee00c0ffee00c0ffee00";
    for part in ["refs", "blobs", &format!("snapshots/{commit}")] {
        fs::create_dir_all(repository.join(part)).unwrap();
    }
    fs::write(repository.join("refs/main"), commit).unwrap();
    for (i, file) in fs::read_dir(folder).unwrap().enumerate() {
        let file = file.unwrap();
        let blob = format!("{i:040x}");
        fs::copy(file.path(), repository.join("blobs").join(&blob)).unwrap();
        let link = repository.join("snapshots").join(commit).join(file.file_name());
        std::os::unix::fs::symlink(Path::new("../../blobs").join(blob), link).unwrap();
    }
}

fn prepared() -> Models {
    let models = Models::new();
    models.with_template(TALE_SMALL, "small");
    let marked = ["generate", "The captain", "--model", "small", "--key", "my.key", "--seed", "5"];
    let marked = models.done(&[&marked[..], &["--max-tokens", "200"]].concat());
    models.0.write("marked.txt", &marked);
    models
}

#[test]
fn a_model_in_a_folder_of_shards_or_in_the_hubs_cache_is_of_every_use() {
    let models = prepared();
    models.check("small", "small", 0.0);
    models.with_template(TALE_SMALL, "sharded");
    shard(&models.0.path("sharded"));
    models.check("sharded", "small", 0.0);
    #[cfg(unix)]
    {
        keep_as_the_hub(&models.0.path("small"), &models.0.path("hf"));
        models.check(ON_THE_HUB, "small", 0.0);
    }
}

#[test]
fn a_gguf_file_of_every_format_is_of_every_use() {
    let models = prepared();
    models.with_template(TALE, "tale");
    let formats = [
        // The fixture's weights are f16, but GGUF files order the elements of each head differently.
        ("f16", 1e-5),
        ("f32", 1e-3),
        ("bf16", 0.02),
        ("q8_0", 0.02),
        ("q6_k", 0.05),
        ("q5_k", 0.05),
        ("q4_k", 0.1),
        ("q4_0", 0.2),
        ("iq4_nl", 0.15),
        ("iq4_xs", 0.15),
        ("mxfp4", 0.2),
    ];
    for (format, within) in sampled(formats, 3) {
        let file = format!("tale-{format}.gguf");
        models.done(&["convert", "tale", "--out", &file, "--format", format]);
        models.check(&file, "tale", within);
    }
}

/// Large models on the hub are split like this.
#[test]
fn a_model_may_be_in_several_gguf_files() {
    let models = prepared();
    for i in 1..=3 {
        let name = format!("shards-0000{i}-of-00003.gguf");
        fs::copy(format!("{GOLDEN}/gguf/{name}"), models.0.path(&name)).unwrap();
    }
    let greedy = ["generate", "captain", "--max-tokens", "8", "--temperature", "0", "--json"];
    let written = models.json(&[&greedy[..], &["--model", "shards-00001-of-00003.gguf"]].concat());
    assert_eq!(written["tokens"].as_array().map(Vec::len), Some(8), "{written}");
    models
        .run(&["generate", "--model", "shards-00002-of-00003.gguf"])
        .fails("give the first, shards-00001-of-00003.gguf");
    fs::remove_file(models.0.path("shards-00003-of-00003.gguf")).unwrap();
    let run = models.run(&["generate", "--model", "shards-00001-of-00003.gguf"]);
    run.fails("it has no shards-00003-of-00003.gguf");
}

/// A GGUF file is recognized by its first bytes, whatever its name.
#[test]
fn a_gguf_file_may_have_any_name() {
    let models = prepared();
    models.done(&["convert", "small", "--out", "small.gguf", "--format", "f16"]);
    fs::rename(models.0.path("small.gguf"), models.0.path("small.bin")).unwrap();
    models.check("small.bin", "small", 1e-5);
    fs::rename(models.0.path("small"), models.0.path("folder.gguf")).unwrap();
    models.done(&["generate", "The captain", "--model", "folder.gguf", "--max-tokens", "3"]);
    models.0.write("text.txt", "no model");
    models.run(&["generate", "--model", "text.txt"]).fails("it is neither a folder nor a GGUF file");
}

/// The file is refused before it is used for anything else, with advice. Its tokenizer can still be used.
#[test]
fn a_gguf_file_in_an_unknown_format_is_refused_by_its_name() {
    let models = prepared();
    models.done(&["convert", "small", "--out", "small.gguf", "--format", "f16"]);
    let mut bytes = fs::read(models.0.path("small.gguf")).unwrap();
    let name = b"blk.0.ffn_up.weight";
    let at = bytes.windows(name.len()).position(|window| window == name).unwrap() + name.len();
    // The format comes after the number of dimensions and two dimensions.
    bytes[at + 20..at + 24].copy_from_slice(&34u32.to_le_bytes());
    fs::write(models.0.path("small.gguf"), bytes).unwrap();
    let run = models.run(&["generate", "--model", "small.gguf"]);
    run.fails("small.gguf: 1 of 38 tensors (blk.0.ffn_up.weight = TQ1_0) are stored as TQ1_0, which is not supported");
    assert!(run.err.contains("Q4_K_M") && !run.err.contains("config.json"), "{run:?}");
    models.done(&["key", "new", "new.key", "--model", "small.gguf"]);
}

/// Reading a list of bytes does not take many times the size of the file.
#[cfg(target_os = "linux")]
#[test]
fn a_gguf_file_with_a_long_list_takes_no_memory() {
    let folder = Folder::new();
    let count = 1u64 << 28;
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let mut head = b"GGUF\x03\0\0\0".to_vec();
    head.extend([0u64.to_le_bytes(), 1u64.to_le_bytes()].concat());
    head.extend([text("list"), 9u32.to_le_bytes().to_vec(), 0u32.to_le_bytes().to_vec()].concat());
    head.extend(count.to_le_bytes());
    fs::write(folder.path("long.gguf"), &head).unwrap();
    fs::File::options().write(true).open(folder.path("long.gguf")).unwrap().set_len(head.len() as u64 + count).unwrap();
    let mut command = Command::new("sh");
    let limited = "ulimit -v 3000000; exec \"$0\" generate --model long.gguf";
    command.args(["-c", limited, env!("CARGO_BIN_EXE_verdigris")]).current_dir(folder.path(""));
    Folder::finish(command).fails("long.gguf: general.architecture is missing");
}

/// Pipes are not waited for, and devices are not read without end.
#[cfg(unix)]
#[test]
fn what_is_no_file_is_not_opened() {
    let folder = Folder::with_key();
    let pipe = |to: &str| assert!(Command::new("mkfifo").arg(folder.path(to)).status().unwrap().success());
    let zeros = |to: &str| std::os::unix::fs::symlink("/dev/zero", folder.path(to)).unwrap();
    for (i, make) in [&pipe as &dyn Fn(&str), &zeros].into_iter().enumerate() {
        for (file, said) in [
            ("config.json", "it is a pipe or a device"),
            ("tokenizer.json", "it is a pipe or a device"),
            ("model.safetensors", "it is a pipe or a device"),
        ] {
            let model = format!("model-{i}-{file}");
            folder.copy_model(TALE_SMALL, &model);
            fs::remove_file(folder.path(&format!("{model}/{file}"))).unwrap();
            make(&format!("{model}/{file}"));
            in_time(folder.command(&["generate", "--max-tokens", "3", "--model", &model])).fails(said);
        }
        let file = format!("pipe-{i}.gguf");
        make(&file);
        in_time(folder.command(&["generate", "--model", &file])).fails("it is a pipe or a device");
        in_time(folder.command(&["key", "new", "a.key", "--model", &file])).fails("it is a pipe or a device");
    }
    folder.copy_model(TALE_SMALL, "model");
    fs::remove_file(folder.path("model/model.safetensors")).unwrap();
    fs::create_dir(folder.path("model/model.safetensors")).unwrap();
    folder.run(&["generate", "--model", "model"]).fails("model.safetensors: it is a folder");
}

/// Runs a command that must end within a minute.
#[cfg(unix)]
fn in_time(mut command: Command) -> Run {
    let mut child = command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap();
    let started = std::time::Instant::now();
    while child.try_wait().unwrap().is_none() {
        if started.elapsed().as_secs() > 60 {
            child.kill().unwrap();
            panic!("the command does not end");
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    Run::of(child.wait_with_output().unwrap())
}

/// A field of the wrong type, or one that would change the model's output and is not supported, is not ignored.
#[test]
fn a_configuration_is_understood_or_refused_by_the_name_of_the_field() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "model");
    let whole: Value = serde_json::from_str(&folder.read("model/config.json")).unwrap();
    for (field, value, said) in [
        ("attention_bias", json!("yes"), "attention_bias is \"yes\", which is not a truth value"),
        ("tie_word_embeddings", json!(1), "tie_word_embeddings is 1, which is not a truth value"),
        ("hidden_act", json!(5), "hidden_act is 5, which is not a text"),
        ("model_type", json!(["llama"]), "model_type is [\"llama\"], which is not a text"),
        ("rope_scaling", json!("linear"), "rope_scaling is \"linear\", which is not a JSON object"),
        ("rope_parameters", json!(7), "rope_parameters is 7, which is not a JSON object"),
        ("rope_parameters", json!({"rope_type": 3}), "rope_type is 3, which is not a text"),
        ("num_hidden_layers", json!(4.5), "num_hidden_layers is 4.5, which is not a number of things"),
        ("rms_norm_eps", json!("1e-5"), "rms_norm_eps is \"1e-5\", which is not a number"),
        ("rms_norm_eps", json!(0), "the epsilon of norms is 0"),
        ("rms_norm_eps", json!(1e308), "the epsilon of norms is 1"),
        ("rope_theta", json!(0), "(rope_theta) is 0"),
        ("rope_theta", json!(-1), "(rope_theta) is -1"),
        ("rope_theta", json!(1e308), "(rope_theta) is 1"),
        ("eos_token_id", json!("<|endoftext|>"), "eos_token_id is \"<|endoftext|>\", which is not one of 4096 tokens"),
        ("eos_token_id", json!([0, 4096]), "eos_token_id is 4096, which is not one of 4096 tokens"),
        ("bos_token_id", json!(-1), "bos_token_id is -1, which is not one of 4096 tokens"),
        ("partial_rotary_factor", json!(0.5), "partial_rotary_factor = 0.5 is not supported"),
        ("layer_types", json!(vec!["linear_attention"; 4]), "layer_types has \"linear_attention\""),
        ("layer_types", json!(vec!["sliding_attention"; 4]), "there is no sliding_window"),
        ("no_rope_layers", json!([1, 0, 1, 1]), "no_rope_layers = [1,0,1,1] is not supported"),
        ("attn_logit_softcapping", json!(50.0), "attn_logit_softcapping = 50.0 is not supported"),
        ("final_logit_softcapping", json!(30.0), "final_logit_softcapping = 30.0 is not supported"),
        ("quantization_config", json!({"quant_method": "gptq"}), "in fewer bits by gptq (quantization_config)"),
    ] {
        let mut config = whole.clone();
        config[field] = value;
        folder.write("model/config.json", &config.to_string());
        folder.run(&["generate", "--model", "model"]).fails(said);
    }
    folder.write("model/config.json", &whole.to_string());
    folder.write("model/generation_config.json", "{\"eos_token_id\": \"end\"}");
    folder.run(&["generate", "--model", "model"]).fails("generation_config.json: eos_token_id is \"end\"");
}

/// The error names the outer model type, and the feature `candle` if that supports the model.
#[test]
fn models_that_are_not_supported_are_named() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "model");
    let whole: Value = serde_json::from_str(&folder.read("model/config.json")).unwrap();
    let said = |change: &dyn Fn(&mut Value)| {
        let mut config = whole.clone();
        change(&mut config);
        folder.write("model/config.json", &config.to_string());
        let run = folder.run(&["generate", "--model", "model"]);
        run.fails("is not supported; these are: bloom, ");
        run.err
    };
    for model_type in ["jamba", "kimi_linear", "rwkv7"] {
        let said = said(&|config| config["model_type"] = model_type.into());
        assert!(said.contains(&format!("model_type \"{model_type}\"")) && !said.contains("candle"), "{said}");
    }
    if cfg!(not(feature = "candle")) {
        for model_type in ["mamba", "phi"] {
            let said = said(&|config| config["model_type"] = model_type.into());
            assert!(said.contains("this one is supported with the feature `candle`"), "{said}");
        }
    }
    let of = |outer: &str, inner: &str| {
        said(&|config| *config = json!({"model_type": outer, "text_config": {"model_type": inner}}))
    };
    assert!(of("jamba_vl", "jamba").contains("model_type \"jamba_vl\" is not supported"));
    assert!(of("unheard_of", "llama").contains("model_type \"unheard_of\" is not supported"));
    assert!(of("llava", "jamba").contains("the text part of this llava is \"jamba\", which is not supported"));
}

/// The error names the format and a command that converts it.
#[test]
fn folders_in_other_formats_get_the_command_that_writes_ours() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "model");
    let generate = || folder.run(&["generate", "--model", "model"]);
    fs::rename(folder.path("model/model.safetensors"), folder.path("model/pytorch_model.bin")).unwrap();
    generate().fails("it has no model.safetensors, and pytorch_model.bin is a pickle");
    generate().fails("M.from_pretrained('model').save_pretrained('model')");
    fs::rename(folder.path("model/tokenizer.json"), folder.path("model/tokenizer.model")).unwrap();
    generate().fails("it has no tokenizer.json, and tokenizer.model is not read by itself: write tokenizer.json with");
    folder
        .run(&["key", "new", "a.key", "--model", "model"])
        .fails("T.from_pretrained('model').save_pretrained('model')");
    fs::rename(folder.path("model/pytorch_model.bin"), folder.path("model/consolidated.safetensors")).unwrap();
    fs::rename(folder.path("model/config.json"), folder.path("model/params.json")).unwrap();
    generate().fails("it has no config.json, and params.json is the format of Mistral's and Meta's own programs");
}

#[test]
fn a_tokenizer_without_tokens_is_refused() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "model");
    let tokenizer = json!({"version": "1.0", "added_tokens": [], "normalizer": null, "pre_tokenizer": null,
        "post_processor": null, "decoder": null, "model": {"type": "BPE", "vocab": {}, "merges": []}});
    folder.write("model/tokenizer.json", &tokenizer.to_string());
    folder.run(&["generate", "--model", "model"]).fails("it has no tokens");
    folder.run(&["key", "new", "a.key", "--model", "model"]).fails("it has no tokens");
    assert!(!folder.path("a.key").exists());
}

/// Files that cannot be made again are not replaced.
#[test]
fn a_conversion_replaces_no_key_and_no_input() {
    let folder = Folder::with_key();
    folder.run(&["convert", TALE_SMALL, "--out", "a.gguf"]).done();
    let (key, model) = (folder.read("my.key"), fs::read(folder.path("a.gguf")).unwrap());
    for (from, to, said) in [
        (TALE_SMALL, "my.key", "my.key is a key, which --force does not replace"),
        ("a.gguf", "a.gguf", "a.gguf is a file that is read here"),
        (TALE_SMALL, "none/b.gguf", "none/b.gguf"),
        (TALE_SMALL, "/dev/null", "/dev/null is a device or a pipe"),
    ] {
        folder.run(&["convert", from, "--out", to, "--force"]).fails(said);
    }
    assert_eq!((folder.read("my.key"), fs::read(folder.path("a.gguf")).unwrap()), (key, model));
    #[cfg(unix)]
    {
        use std::os::unix::ffi::OsStrExt;
        std::os::unix::fs::symlink("a.gguf", folder.path("link.gguf")).unwrap();
        folder.run(&["convert", TALE_SMALL, "--out", "link.gguf", "--format", "f32", "--force"]).done();
        assert!(folder.path("link.gguf").is_symlink() && fs::read(folder.path("a.gguf")).unwrap().len() > 1_000_000);
        // A name that JSON cannot hold.
        let mut command = folder.command(&["convert", TALE_SMALL, "--json", "--out"]);
        let made = command.arg(std::ffi::OsStr::from_bytes(b"c\xff.gguf")).output().unwrap();
        let made: Value = serde_json::from_slice(&made.stdout).unwrap();
        assert_eq!(made["file"], "c\u{fffd}.gguf");
    }
}

/// Two conversions to the same file at the same time: the result is the complete output of one of them.
#[test]
fn files_that_are_converted_at_once_do_not_meet() {
    let folder = Folder::new();
    let formats = ["f32", "q8_0"];
    let arguments = |format, out| ["convert", TALE, "--format", format, "--out", out];
    let alone = formats.map(|format| {
        assert_eq!(folder.run(&arguments(format, "alone.gguf")).status, 0);
        let bytes = fs::read(folder.path("alone.gguf")).unwrap();
        fs::remove_file(folder.path("alone.gguf")).unwrap();
        bytes
    });
    for is_forced in [false, true] {
        let both = formats.map(|format| {
            let mut command = folder.command(&arguments(format, "one.gguf"));
            command.args(is_forced.then_some("--force")).stdout(std::process::Stdio::null());
            command.stderr(std::process::Stdio::null()).spawn().unwrap()
        });
        let done = both.map(|mut child| child.wait().unwrap().code().unwrap());
        let whole = fs::read(folder.path("one.gguf")).unwrap();
        let which = alone.iter().position(|bytes| *bytes == whole).expect("the complete output of one");
        if is_forced {
            assert_eq!(done, [0, 0]);
        } else {
            assert_eq!((done[which], done[1 - which]), (0, 2), "the file of the first is not replaced");
        }
        let left: Vec<_> = fs::read_dir(folder.path("")).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["one.gguf"]);
    }
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        folder.write("plain", "");
        let mode = |file| folder.path(file).metadata().unwrap().permissions().mode();
        assert_eq!(mode("one.gguf"), mode("plain"), "like any new file");
    }
}

#[test]
fn damaged_weights_are_named() {
    let folder = Folder::new();
    folder.copy_model(TALE_SMALL, "damaged");
    let weights = folder.path("damaged/model.safetensors");
    let mut bytes = fs::read(&weights).unwrap();
    // The last weight of the file is NaN in f16.
    let last = bytes.len() - 2;
    bytes[last..].copy_from_slice(&[0x00, 0x7e]);
    fs::write(&weights, &bytes).unwrap();
    for format in ["q8_0", "q4_k", "f16", "f32"] {
        let run = folder.run(&["convert", "damaged", "--out", "bad.gguf", "--format", format]);
        run.fails("has a weight that is NaN: the model is damaged");
        assert!(!folder.path("bad.gguf").exists());
    }
    folder.write("text.txt", &"The moon came up, and the sea lay still. ".repeat(20));
    let loss = ["bench", "loss", "-m", "damaged", "--text", "text.txt", "--windows", "1", "--window", "8"];
    folder.run(&loss).fails("the loss is not a number");
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_output_is_an_error_of_convert() {
    let folder = Folder::new();
    for more in [&[][..], &["--json", "--force"]] {
        let run = folder.run_full(&[&["convert", TALE_SMALL, "--out", "small.gguf"], more].concat());
        assert!(run.status == 2 && run.err.starts_with("error: cannot write the output"), "{run:?}");
        assert!(folder.path("small.gguf").exists());
    }
}
