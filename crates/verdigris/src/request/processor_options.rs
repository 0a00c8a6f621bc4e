//! The values of the options that favour, forbid or force tokens.

use verdigris_logits::TokenId;

/// The values of these options, under the names of Hugging Face `transformers`, vLLM and llama.cpp.
#[derive(Clone, Debug, Default)]
pub(super) struct Processors {
    pub(super) logit_bias: Vec<(TokenId, f64)>,
    pub(super) sequence_bias: Vec<(String, f64)>,
    pub(super) bad_words: Vec<String>,
    pub(super) suppress_tokens: Vec<TokenId>,
    /// `None` for the default ones.
    pub(super) dry_breakers: Option<Vec<String>>,
    pub(super) forced_bos_token_id: Option<TokenId>,
    pub(super) forced_eos_token_id: Option<TokenId>,
}
