//! The names of the files of a model folder.

pub(crate) const CONFIG: &str = "config.json";
pub(crate) const TOKENIZER: &str = "tokenizer.json";
pub(crate) const WEIGHTS: &str = "model.safetensors";
pub(crate) const INDEX: &str = "model.safetensors.index.json";
pub(crate) const ADAPTER: &str = "adapter_config.json";
pub(crate) const ADAPTER_WEIGHTS: &str = "adapter_model.safetensors";
pub(crate) const CHAT_TEMPLATE: &str = "chat_template.jinja";
pub(crate) const TOKENIZER_CONFIG: &str = "tokenizer_config.json";
pub(crate) const GENERATION: &str = "generation_config.json";
pub(crate) const MEDUSA_WEIGHTS: &str = "medusa_lm_head.safetensors";
