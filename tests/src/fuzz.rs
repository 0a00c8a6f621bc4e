//! The code of the fuzz targets (`tests/scripts/fuzz`): arbitrary bytes must cause no panic and break no promise. Their
//! seeds run as ordinary tests.

#[path = "fuzz/constraints.rs"]
mod constraints;
#[path = "fuzz/messages.rs"]
mod messages;
#[path = "fuzz/prompt_file.rs"]
mod prompt_file;
#[path = "fuzz/server.rs"]
mod server;

use self::constraints::LEXICON;
pub use self::constraints::{grammar, regex, schema, structural_tag, walk};
use self::messages::checked;
pub use self::prompt_file::prompt_file;
pub use self::server::server;

use std::io::Read;
use std::path::Path;

use safetensors::SafeTensors;
use verdigris::detector::report::{Content, PublicKeys, ReportKey, SignedReport};
use verdigris::detector::{Unwrapped, Unwrapping};
use verdigris::models::{Batch, Device, DraftHead, ModelFolder, Rows, Wanted};
use verdigris_checkpoint::{Checkpoint, ModelFiles, Pickle};
use verdigris_text::{ChatTemplate, Chunks, Conversation, Message, Tokenizer};
use verdigris_watermark::attack::Attack;
use verdigris_watermark::normalize::normalize;
use verdigris_watermark::windows::passages;
use verdigris_watermark::{Detector, Key, Level, Repeats};

/// The largest vocabulary that a key may split here, since lists of larger ones take too long.
const MAX_VOCABULARY: usize = 1 << 16;

/// The largest number of tokens of a text times the size of a vocabulary. Some schemes permute a vocabulary for each
/// token, which takes twenty milliseconds at this limit, and seconds with a sanitizer.
const MAX_PERMUTED: usize = 1 << 22;

/// A GGUF file gives an error, or a model that reads a token. Returns whether it is a model.
///
/// # Panics
/// If a promise is broken.
pub fn gguf_file(data: &[u8]) -> bool {
    let Ok(model) = ModelFolder::gguf_in_memory(data.to_vec()).model(&Device::Cpu) else { return false };
    let mut rows = Rows::default();
    let capacity = model.context_length().min(4);
    let mut sequence = model.begin(capacity).expect("a sequence within the context");
    sequence.forward(&Batch::chain(&[0], Wanted::Last), &mut rows).expect("a token of the vocabulary");
    true
}

/// A GGUF file gives an error, or a draft head for one of two targets that drafts. Returns whether it is a head.
///
/// # Panics
/// If a promise is broken.
pub fn gguf_head(data: &[u8]) -> bool {
    let head = ModelFolder::gguf_in_memory(data.to_vec());
    let targets = ["models/tale-small", "golden/architectures/gemma4"];
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let load = |target| DraftHead::load(&head, &ModelFolder::at(fixtures.join(target))).ok();
    let Some(head) = targets.into_iter().find_map(load) else { return false };
    let (mut rows, mut next) = (Rows::default(), Vec::new());
    let of_target = vec![0.5; head.hidden_size() * head.layers().len().max(1)];
    match &head {
        DraftHead::Feature(model) => {
            let mut state = Vec::new();
            model.read_states(&of_target, &mut state);
            let mut sequence = model.begin(model.context_length().min(2)).expect("a sequence within the context");
            rows = model.rows();
            sequence.forward(&Batch::chain(&[0], Wanted::Last), &state, &mut rows).expect("a token of the vocabulary");
        }
        DraftHead::Medusa(heads) => heads.guess(&of_target, 1, &mut rows),
        DraftHead::Block(model) => {
            let mut sequence = model.begin(model.context_length().min(80)).expect("a sequence within the context");
            // A context may be shorter than a block.
            if sequence.has_room(1) {
                sequence.read(&of_target).expect("room for a token");
                sequence.guess(0, &mut rows).expect("a token of the vocabulary");
                sequence.after(0, rows.row_mut(0));
            }
        }
        DraftHead::Assistant(model) if model.context_length() > 1 => {
            let mut sequence = model.begin(2).expect("a sequence within the context");
            sequence.read(&of_target).expect("room for a token");
            let (state, mut logits) = (sequence.last_state().to_vec(), Vec::new());
            sequence.guess(&[0], &state, &mut logits, &mut next).expect("a token of the vocabulary");
        }
        DraftHead::Assistant(_) => {}
    }
    true
}

/// The configuration of a model of one layer, whose weights [`safetensors_file`] gets.
const CONFIG: &str = r#"{"model_type": "llama", "architectures": ["LlamaForCausalLM"], "hidden_size": 8,
    "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 2, "vocab_size": 5,
    "max_position_embeddings": 16, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "hidden_act": "silu",
    "tie_word_embeddings": true, "eos_token_id": 0}"#;

/// A safetensors file gives an error, or a model that reads a token. Returns whether it is a model.
///
/// # Panics
/// If a promise is broken.
pub fn safetensors_file(data: &[u8]) -> bool {
    let folder = tempfile::tempdir().expect("a folder for the model");
    let write = |name: &str, bytes: &[u8]| std::fs::write(folder.path().join(name), bytes).expect("room for a file");
    write("config.json", CONFIG.as_bytes());
    write("model.safetensors", data);
    let folder = ModelFolder::at(folder.path());
    let Ok(model) = folder.model(&Device::Cpu) else { return false };
    let mut rows = Rows::default();
    let mut sequence = model.begin(4).expect("a sequence within the context");
    sequence.forward(&Batch::chain(&[0, 4], Wanted::All), &mut rows).expect("tokens of the vocabulary");
    true
}

/// A pickle gives an error, or values that can be read. Returns whether it is a pickle.
///
/// # Panics
/// If a promise is broken.
pub fn pickle(data: &[u8]) -> bool {
    let Some(pickle) = checked(Pickle::read(data)) else { return false };
    // Values may contain themselves.
    let mut open = vec![pickle.root()];
    for _ in 0..1 << 12 {
        let Some(node) = open.pop() else { break };
        assert!(!node.kind().is_empty());
        _ = node.size();
        open.extend(node.items().into_iter().flatten());
        open.extend(node.entries().into_iter().flatten().flat_map(|(key, value)| [key, value]));
        open.extend(
            [node.state(), node.persistent(), node.call().map(|(.., arguments)| arguments)].into_iter().flatten(),
        );
    }
    true
}

/// The files that a checkpoint of [`checkpoint`] may have.
const CHECKPOINT_FILES: [&str; 9] = [
    "latest",
    "global_step1/mp_rank_00_model_states.pt",
    "global_step1/zero_pp_rank_0_mp_rank_00_model_states.pt",
    "global_step1/zero_pp_rank_1_mp_rank_00_model_states.pt",
    "global_step1/zero_pp_rank_0_mp_rank_00_optim_states.pt",
    "global_step1/zero_pp_rank_1_mp_rank_00_optim_states.pt",
    ".metadata",
    "__0_0.distcp",
    "__1_0.distcp",
];

/// A checkpoint of a sharded training, as files (index in `CHECKPOINT_FILES`, 16 bits of length, bytes), gives an error
/// and no output, or a model's weights that another library reads. Returns whether it is a checkpoint.
///
/// # Panics
/// If a promise is broken.
pub fn checkpoint(mut data: &[u8]) -> bool {
    let folder = tempfile::tempdir().expect("a folder for the checkpoint");
    let at = |name: &str| folder.path().join(name);
    let write = |path: &Path, bytes: &[u8]| std::fs::write(path, bytes).expect("room for a file");
    std::fs::create_dir_all(at("run/global_step1")).expect("room for a folder");
    while let Some((&[which, low, high], rest)) = data.split_first_chunk() {
        let (bytes, rest) = rest.split_at(rest.len().min(u16::from_le_bytes([low, high]).into()));
        let Some(file) = CHECKPOINT_FILES.get(usize::from(which)) else { break };
        write(&at("run").join(file), bytes);
        data = rest;
    }
    ["config.json", "tokenizer.json"].iter().for_each(|file| write(&at("run").join(file), b"{}"));
    let Some(checkpoint) = checked(Checkpoint::open(&at("run"), None)) else { return false };
    // Ranks may refer to the same bytes many times, which costs no more than a larger checkpoint.
    if checkpoint.weights().iter().map(|weight| weight.numel()).sum::<usize>() > 1 << 20 {
        return true;
    }
    let files = ModelFiles::beside(&checkpoint).expect("they are there");
    let written = verdigris_checkpoint::ModelFolder::new(&checkpoint, &files).write(&at("out"), |_| (), |_, _| ());
    let Some(written) = checked(written) else {
        assert!(!at("out").exists());
        return false;
    };
    if written.files == 1 {
        let bytes = std::fs::read(at("out/model.safetensors")).expect("it was written");
        let found = SafeTensors::deserialize(&bytes).expect("a safetensors file");
        assert_eq!(found.len(), checkpoint.weights().len());
    }
    true
}

/// A tokenizer file gives an error, or a tokenizer that reads texts or returns errors. Returns whether it is a
/// tokenizer.
///
/// # Panics
/// If a promise is broken.
pub fn tokenizer_file(data: &[u8]) -> bool {
    let Ok(tokenizer) = Tokenizer::from_json(data) else { return false };
    let vocabulary = tokenizer.vocabulary();
    assert!(vocabulary.size() > 0 && vocabulary.fingerprint().len() == 32);
    for text in ["", "the captain said: \"Go!\" \u{1F600} <0x0A>\n\tnaïve  1234", "<|end|>the[SEP]<unk>"] {
        if let Ok(tokens) = tokenizer.encode(text) {
            let _ = tokenizer.decode(&tokens);
            assert!(tokens.iter().all(|&token| (token as usize) < vocabulary.size()), "{tokens:?}");
        }
        let _ = tokenizer.encode_prompt(text);
        for (_, range) in tokenizer.encode_with_offsets(text).unwrap_or_default() {
            assert!(range.start <= range.end && range.end <= text.len(), "{range:?} of {}", text.len());
        }
    }
    true
}

/// A chat template gives an error, or a prompt of a bounded length.
///
/// # Panics
/// If a promise is broken.
pub fn chat_template(data: &[u8]) {
    let Ok(source) = std::str::from_utf8(data) else { return };
    let Ok(template) = ChatTemplate::new(source, Some("<s>"), Some("</s>")) else { return };
    let said = [Message::system("Be brief."), Message::user("a|b <|endoftext|>\n"), Message::assistant("Yes.")];
    let tools = vec![serde_json::json!({"type": "function", "function": {"name": "f", "parameters": {}}})];
    let conversation = Conversation { messages: said.into(), tools, ..Conversation::default() };
    if let Some(prompt) = checked(template.render(&conversation)) {
        assert!(prompt.len() < 64 << 20, "{} bytes", prompt.len());
    }
    let _ = template.tokens(&conversation, LEXICON.tokenizer());
}

/// The public key of RFC 8037, appendix A.2, with which the seeds of [`signed_report`] are signed.
const REPORT_KEY: &[u8] = br#"{"kty": "OKP", "crv": "Ed25519", "x": "11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}"#;

/// A file gives errors, or reports whose signature is valid; a key of reports, or an error. Returns whether it has a
/// valid report or a key.
///
/// # Panics
/// If a promise is broken.
pub fn signed_report(data: &[u8]) -> bool {
    let private = checked(ReportKey::parse(data));
    let public = checked(PublicKeys::parse(data));
    let keys = PublicKeys::parse(REPORT_KEY).expect("a public key");
    let mut is_valid = false;
    for read in SignedReport::read(data) {
        if let Some(verified) = checked(read.and_then(|signed| signed.verify(&keys))) {
            is_valid = true;
            checked(verified.is_about(&Content::of("")));
        }
    }
    is_valid || private.is_some() || public.is_some()
}

/// A key file gives a key that judges, or an error that does not quote the secret.
///
/// # Panics
/// If a promise is broken.
pub fn key_file(data: &[u8]) {
    match Key::parse(data) {
        Err(fault) => assert!((1..400).contains(&fault.to_string().len())),
        Ok(key) => {
            assert!(!format!("{key:?}{}", key.describe()).contains("secret\":"));
            if key.vocabulary().size() > MAX_VOCABULARY {
                return;
            }
            let size = key.vocabulary().size() as u32;
            let tokens: Vec<u32> = (0..40).map(|i| i * 7919 % size).collect();
            match key.scheme() {
                Ok(scheme) => {
                    let mut detector = Detector::new(scheme);
                    detector.push(&tokens);
                    let _ = detector.evidence().is_marked(Level::DEFAULT);
                }
                Err(_) => key.payload_reader().expect("a key that carries payloads").push(&tokens),
            }
        }
    }
}

/// A key and a text: the first line is a key file, the rest is text. Any split into chunks gives the same evidence.
///
/// # Panics
/// If a promise is broken.
pub fn detector_input(data: &[u8]) {
    let Some(end) = data.iter().position(|&byte| byte == b'\n') else { return };
    let (file, text) = (&data[..end], &data[end + 1..]);
    let Ok(key) = Key::parse(file) else { return };
    let Ok(scheme) = key.scheme() else { return };
    let size = key.vocabulary().size();
    if size > MAX_VOCABULARY || text.len() > 4096 || text.len() * size > MAX_PERMUTED {
        return;
    }
    let joined: Result<Vec<String>, _> = Chunks::new(text).collect();
    assert_eq!(joined.is_ok(), std::str::from_utf8(text).is_ok());
    // Uses bytes as tokens, some of them outside the vocabulary.
    let tokens: Vec<u32> = text.iter().map(|&byte| u32::from(byte) * 37).collect();
    for repeats in [Repeats::Context, Repeats::Observation, Repeats::Nothing] {
        let detector = || Detector::new(scheme.clone()).repeats(repeats).recording();
        let (mut whole, mut chunks) = (detector(), detector());
        whole.push(&tokens);
        tokens.chunks(1 + text.len() % 7).for_each(|piece| _ = chunks.push(piece));
        // Sums of scores could differ by rounding, but their order in the table does not differ, so they are equal.
        let (a, b) = (whole.evidence(), chunks.evidence());
        assert!(a.scored == b.scored && a.score == b.score && a.tokens == b.tokens);
        assert!(a.ln_p <= 0.0 || a.ln_p.is_nan() && a.scored == 0, "{a:?}");
        for passage in passages(whole.distribution(), whole.record(), 0.5) {
            assert!(passage.start < passage.end && passage.end <= tokens.len() && passage.ln_p <= 0.0);
        }
    }
}

/// A text: after repair, every range maps back into the original, and attacks return text.
///
/// # Panics
/// If a promise is broken.
pub fn normalization(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let normalized = normalize(text);
    let mut last = 0;
    for (here, _) in normalized.text.char_indices() {
        let there = normalized.origin(here);
        assert!(last <= there && text.is_char_boundary(there), "{here} maps to {there} after {last}");
        last = there;
    }
    assert_eq!(normalized.origin(normalized.text.len()), text.len());
    assert!(normalized.changes.iter().all(|change| text.is_char_boundary(change.at)));
    if normalized.changes.is_empty() {
        assert_eq!(normalized.text, text);
    }
    for (attack, ..) in Attack::ALL {
        attack.apply(text, 0.3, data.len() as u64, "Some words of somebody else.");
    }
}

/// A text without its manifests is the same when read as a whole and as a stream, every range maps back into the
/// original, and the removed parts have no words.
///
/// # Panics
/// If a promise is broken.
pub fn manifest(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let unwrapped = Unwrapped::new(text);
    let mut streamed = String::new();
    Unwrapping::new(data).read_to_string(&mut streamed).expect("bytes that are there");
    assert_eq!(streamed, unwrapped.text);
    let mut last = 0;
    for range in &unwrapped.manifests {
        assert!(last <= range.start && range.start < range.end && text.is_char_boundary(range.start));
        let words = text[range.clone()].split_ascii_whitespace().filter(|word| word.contains(char::is_alphanumeric));
        // `-----BEGIN`, `C2PA`, `MANIFEST-----`, a reference, and the same at the end.
        assert!(matches!(words.count(), 0 | 6 | 7), "{:?}", &text[range.clone()]);
        last = range.end;
    }
    for (start, c) in unwrapped.text.char_indices() {
        let range = unwrapped.origin(start..start + c.len_utf8());
        assert_eq!(text[range].chars().collect::<Vec<_>>(), [c]);
    }
}
