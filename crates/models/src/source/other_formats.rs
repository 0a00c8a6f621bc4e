//! Folders that hold a model in another format: which format it is, and how to convert it.

use super::file_names::{CONFIG, INDEX, MEDUSA_WEIGHTS, TOKENIZER, WEIGHTS};

/// Another format: its files, and the files of ours that it can replace.
struct Other {
    missing: &'static [&'static str],
    files: &'static [&'static str],
    /// The cure, with one `{}` for the model and one for the folder to write to.
    cure: &'static str,
}

const OTHERS: [Other; 3] = [
    Other {
        missing: &[CONFIG, TOKENIZER, WEIGHTS, INDEX],
        files: &["params.json", "consolidated.safetensors", "consolidated.00.pth"],
        cure: "is the format of Mistral's and Meta's own programs: take the model's files for transformers, or convert \
               them with convert_mistral_weights_to_hf.py or convert_llama_weights_to_hf.py of transformers",
    },
    Other {
        missing: &[WEIGHTS, INDEX],
        files: &["pytorch_model.bin", "pytorch_model.bin.index.json"],
        cure: "is a pickle, which may hold any program and is not read: write safetensors with `python -c \"from \
               transformers import AutoModelForCausalLM as M; M.from_pretrained('{}').save_pretrained('{}')\"`",
    },
    Other {
        missing: &[TOKENIZER],
        files: &["tokenizer.model", "spiece.model", "tekken.json", "vocab.json", "vocab.txt"],
        cure: "is not read by itself: write tokenizer.json with `python -c \"from transformers import AutoTokenizer as \
               T; T.from_pretrained('{}').save_pretrained('{}')\"`",
    },
];

/// The message that a file is missing and, if there is one of another format instead, what to do. `has` returns whether
/// a file is there, `model` is the folder or the name on the hub, and `to` the folder to write to.
pub(super) fn missing(file: &str, has: impl Fn(&str) -> bool, model: &str, to: &str) -> String {
    let of = |other: &Other| {
        let found = other.files.iter().find(|file| has(file)).filter(|_| other.missing.contains(&file))?;
        let cure = other.cure.replacen("{}", model, 1).replacen("{}", to, 1);
        Some(format!("it has no {file}, and {found} {cure}"))
    };
    OTHERS.iter().find_map(of).unwrap_or_else(|| format!("it has no {file}"))
}

/// The message that the weights of a draft head are a pickle, if they are, and what to do.
pub(super) fn head_in_pickle(has: impl Fn(&str) -> bool) -> Option<String> {
    const PICKLES: [(&str, &str); 2] = [("medusa_lm_head.pt", MEDUSA_WEIGHTS), ("pytorch_model.bin", WEIGHTS)];
    let (pickle, weights) = PICKLES.into_iter().find(|(pickle, _)| has(pickle))?;
    Some(format!(
        "its weights are in {pickle}, a pickle, which may hold any program and is not read: write {weights} in its \
         folder with `python -c \"import torch, safetensors.torch as s; s.save_file(torch.load('{pickle}', \
         map_location='cpu', weights_only=True), '{weights}')\"`"
    ))
}
