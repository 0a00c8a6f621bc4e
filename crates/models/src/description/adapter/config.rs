//! The contents of `adapter_config.json`.

use regex::Regex;
use serde_json::{Map, Value};
use verdigris_text::shown;

use super::targets::{Targets, names, pattern};
use crate::description::families::Fields;

/// The most patterns of one kind in a file.
const MOST_PATTERNS: usize = 4096;

/// Known fields. Those that are not read describe the training, or repeat what the weights say.
const HARMLESS: [&str; 28] = [
    "alpha_pattern",
    "auto_mapping",
    "base_model_name_or_path",
    "bias",
    "corda_config",
    "eva_config",
    "exclude_modules",
    "fan_in_fan_out",
    "inference_mode",
    "init_lora_weights",
    "layers_pattern",
    "layers_to_transform",
    "loftq_config",
    "lora_alpha",
    "lora_dropout",
    "lora_ga_config",
    "megatron_config",
    "megatron_core",
    "modules_to_save",
    "peft_type",
    "peft_version",
    "qalora_group_size",
    "r",
    "rank_pattern",
    "runtime_config",
    "target_modules",
    "task_type",
    "use_rslora",
];

/// The strength of an adapter's changes, and the model that they belong to.
#[derive(Debug)]
pub(crate) struct AdapterConfig {
    base: Option<String>,
    revision: Option<String>,
    rank: usize,
    ranks: Vec<(Regex, f64)>,
    alpha: f64,
    alphas: Vec<(Regex, f64)>,
    /// Whether the scale is `alpha / sqrt(rank)` (rsLoRA, arXiv:2312.03732) instead of `alpha / rank`.
    is_rank_stabilized: bool,
    pub(crate) has_lengths: bool,
    pub(super) targets: Targets,
    /// `modules_to_save`: the modules that were trained in full.
    pub(super) saved: Vec<String>,
    gives_scores: bool,
}

impl AdapterConfig {
    /// Reads the file. The error says what is wrong with it, or is not supported.
    pub(crate) fn parse(json: &[u8]) -> Result<Self, String> {
        let fields: Map<String, Value> = serde_json::from_slice(json)
            .map_err(|error| format!("not an adapter's configuration: {}", shown(&error.to_string())))?;
        let fields = Fields::of(fields);
        let kind = fields.text("peft_type")?.unwrap_or("nothing");
        if kind != "LORA" {
            return Err(format!("peft_type {:?} is not supported; LORA is", shown(kind)));
        }
        let is_known = |name: &str| HARMLESS.contains(&name) || ["use_dora", "revision"].contains(&name);
        for name in fields.names().filter(|name| !is_known(name)) {
            let is_nothing = |value: &Value| match value {
                Value::Bool(truth) => !truth,
                Value::Array(all) => all.is_empty(),
                Value::Object(all) => all.is_empty(),
                _ => false,
            };
            fields.refuse(name, is_nothing)?;
        }
        let is_plain =
            |value: &Value| value.is_boolean() || ["gaussian", "eva", "orthogonal"].iter().any(|plain| value == *plain);
        fields.refuse("init_lora_weights", is_plain).map_err(|fault| {
            format!("{fault}: it changes the base too; save it with path_initial_model_for_weight_conversion")
        })?;
        fields.refuse("bias", |value| ["none", "all", "lora_only"].iter().any(|known| value == known))?;
        let config = Self {
            base: fields.text("base_model_name_or_path")?.filter(|base| !base.is_empty()).map(str::to_owned),
            revision: fields.text("revision")?.map(str::to_owned),
            rank: fields.size(&["r"])?,
            ranks: patterns(&fields, "rank_pattern")?,
            alpha: fields.number("lora_alpha")?.ok_or("lora_alpha is missing")?,
            alphas: patterns(&fields, "alpha_pattern")?,
            is_rank_stabilized: fields.flag("use_rslora", false)?,
            has_lengths: fields.flag("use_dora", false)?,
            targets: Targets::read(&fields)?,
            saved: names(&fields, "modules_to_save")?.unwrap_or_default(),
            gives_scores: fields.text("task_type")? == Some("SEQ_CLS"),
        };
        Ok(config)
    }

    /// The model that it was trained from: a path, or a name on the hub.
    pub(crate) fn base(&self) -> Option<&str> {
        self.base.as_deref()
    }

    /// The commit or branch of that model on the hub.
    pub(crate) fn revision(&self) -> Option<&str> {
        self.revision.as_deref()
    }

    /// Whether it turns its base into a reward model.
    pub(crate) fn gives_scores(&self) -> bool {
        self.gives_scores
    }

    /// The scale of the change of a module whose matrices have this rank. The error says what is wrong with the rank.
    pub(crate) fn scale(&self, module: &str, rank: usize) -> Result<f32, String> {
        let of = |patterns: &[(Regex, f64)], otherwise: f64| {
            patterns.iter().find(|(pattern, _)| pattern.is_match(module)).map_or(otherwise, |(_, number)| *number)
        };
        let said = of(&self.ranks, self.rank as f64);
        let rank = rank as f64;
        if said != rank {
            return Err(format!("has rank {rank}, but adapter_config.json says {said}"));
        }
        let divisor = if self.is_rank_stabilized { rank.sqrt() } else { rank };
        Ok((of(&self.alphas, self.alpha) / divisor) as f32)
    }
}

/// Numbers for the modules whose names end as a pattern says; the first match counts.
fn patterns(fields: &Fields, name: &str) -> Result<Vec<(Regex, f64)>, String> {
    let Some(all) = fields.inner(name)? else { return Ok(Vec::new()) };
    if all.names().count() > MOST_PATTERNS {
        return Err(format!("{name} has more than {MOST_PATTERNS} patterns"));
    }
    let of = |text: &str| {
        let number = all.number(text)?.ok_or_else(|| format!("{name} has no number for {:?}", shown(text)))?;
        let regex = pattern(&format!(r"^(?:.*\.)?(?:{text})$"));
        let regex =
            regex.ok_or_else(|| format!("{name} has {:?}, which is not understood as a pattern", shown(text)))?;
        Ok((regex, number))
    };
    all.names().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(more: &str) -> Result<AdapterConfig, String> {
        AdapterConfig::parse(format!(r#"{{"peft_type": "LORA", "r": 4, "lora_alpha": 6{more}}}"#).as_bytes())
    }

    #[test]
    fn the_first_pattern_that_fits_counts() {
        let plain = read("").unwrap();
        assert_eq!(plain.scale("model.layers.0.q_proj", 4), Ok(1.5));
        assert_eq!(plain.scale("q_proj", 8), Err("has rank 8, but adapter_config.json says 4".into()));
        let more = r#", "use_rslora": true, "rank_pattern": {"q_proj": 9, "layers\\.1\\..*": 16},
            "alpha_pattern": {"^model.layers.0.*_proj": 12, "k_proj": 18}"#;
        let config = read(more).unwrap();
        for (module, rank, expected) in [
            ("model.layers.0.q_proj", 9, 4.0),
            ("model.layers.1.q_proj", 9, 2.0),
            ("model.layers.1.k_proj", 16, 4.5),
            ("model.layers.2.k_proj", 4, 9.0),
            ("model.layers.2.eq_proj", 4, 3.0),
        ] {
            assert_eq!(config.scale(module, rank), Ok(expected), "{module}");
        }
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        for (more, said) in [
            (r#", "peft_type": "IA3""#, "peft_type \"IA3\""),
            (r#", "layer_replication": [[0, 4], [2, 5]]"#, "layer_replication = [[0,4],[2,5]]"),
            (r#", "lora_bias": true"#, "lora_bias = true"),
            (r#", "trainable_token_indices": [5]"#, "trainable_token_indices"),
            (r#", "target_parameters": ["experts"]"#, "target_parameters"),
            (r#", "use_something_new": true"#, "use_something_new"),
            (r#", "init_lora_weights": "pissa""#, "init_lora_weights = \"pissa\""),
            (r#", "rank_pattern": {"(": 4}"#, "rank_pattern has \"(\""),
            (r#", "rank_pattern": {"a{1000}{1000}{1000}": 4}"#, "which is not understood"),
            (r#", "rank_pattern": {"a": "b"}"#, "a is \"b\", which is not a number"),
            (r#", "lora_alpha": "1""#, "lora_alpha is \"1\""),
            (r#", "use_dora": 1"#, "use_dora is 1"),
            (r#", "bias": "everything""#, "bias = \"everything\" is not supported"),
            (r#", "bias": true"#, "bias = true is not supported"),
            (r#", "target_modules": 3"#, "target_modules is 3"),
            (r#", "modules_to_save": "lm_head""#, "modules_to_save is \"lm_head\""),
        ] {
            let fault = read(more).unwrap_err();
            assert!(fault.contains(said), "{fault:?} should say {said:?}");
        }
        for more in [r#", "lora_bias": false"#, r#", "target_parameters": []"#, r#", "use_something_new": null"#] {
            assert!(read(more).is_ok(), "{more}");
        }
        assert!(AdapterConfig::parse(b"[]").is_err());
    }
}
