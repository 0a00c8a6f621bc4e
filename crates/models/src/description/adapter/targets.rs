//! The modules that an adapter says that it changes, and the weights that belong to a module.

use regex::{Regex, RegexBuilder};
use serde_json::Value;

use crate::description::families::fields::Fields;

/// The most modules in a file.
const MOST_MODULES: usize = 1 << 16;

/// The most memory of a pattern, in bytes.
const PATTERN_MEMORY: usize = 1 << 20;

/// `target_modules`: the modules whose matrices have changes. `peft` ignores changes of others.
#[derive(Debug)]
pub(super) enum Targets {
    /// All modules for which there are weights.
    All,
    /// Modules with these names, or whose names end with one after a dot.
    Named(Vec<String>),
    /// Modules whose whole name matches.
    Fitting(Regex),
}

impl Targets {
    /// Reads the field. The error says what is wrong with it.
    pub(super) fn read(fields: &Fields) -> Result<Self, String> {
        match fields.get("target_modules") {
            Some(Value::String(all)) if all == "all-linear" => Ok(Self::All),
            // Some Python expressions are not understood here; then the weights alone decide.
            Some(Value::String(text)) => Ok(pattern(&format!("^(?:{text})$")).map_or(Self::All, Self::Fitting)),
            _ => Ok(names(fields, "target_modules")?.map_or(Self::All, Self::Named)),
        }
    }

    /// Whether a module, by its name in the model that was trained, is a target.
    pub(super) fn has(&self, module: &str) -> bool {
        match self {
            Self::All => true,
            Self::Named(names) => names.iter().any(|name| ends_with(module, name)),
            Self::Fitting(expression) => expression.is_match(module),
        }
    }
}

/// Whether `name` is `end`, or ends with it after a dot.
fn ends_with(name: &str, end: &str) -> bool {
    name.strip_suffix(end).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'))
}

/// The list of names in a field, if the field is there.
pub(super) fn names(fields: &Fields, field: &str) -> Result<Option<Vec<String>>, String> {
    let Some(all) = fields.list(field)? else { return Ok(None) };
    let names: Option<Vec<String>> = all.iter().map(|name| name.as_str().map(str::to_owned)).collect();
    let names = names.filter(|names| names.len() <= MOST_MODULES);
    names.map(Some).ok_or_else(|| format!("{field} is not a list of names of modules"))
}

/// Whether a weight belongs to the named module, or to one inside it.
pub(super) fn is_inside(weight: &str, module: &str) -> bool {
    let dots = weight.match_indices('.').map(|(at, _)| &weight[..at]);
    dots.into_iter().any(|parent| ends_with(parent, module))
}

/// The regular expression in `adapter_config.json`, if it is understood and small.
pub(super) fn pattern(text: &str) -> Option<Regex> {
    RegexBuilder::new(text).size_limit(PATTERN_MEMORY).build().ok()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn read(value: Value) -> Result<Targets, String> {
        let Value::Object(fields) = json!({"target_modules": value}) else { unreachable!() };
        Targets::read(&Fields::of(fields))
    }

    #[test]
    fn modules_are_named_as_peft_names_them() {
        let named = read(json!(["q_proj", "layers.1.mlp"])).unwrap();
        assert!(named.has("q_proj") && named.has("model.layers.0.self_attn.q_proj") && named.has("layers.1.mlp"));
        assert!(!named.has("model.layers.0.eq_proj") && !named.has("q_proj.x") && !named.has("model.layers.1"));
        let fitting = read(json!(r".*\.[qk]_proj")).unwrap();
        assert!(
            fitting.has("model.layers.0.q_proj") && !fitting.has("model.layers.0.q_projx") && !fitting.has("q_proj")
        );
        for all in [json!("all-linear"), Value::Null, json!("(?!lm_head).*")] {
            assert!(read(all.clone()).unwrap().has("anything"), "{all}");
        }
        assert!(read(json!([])).is_ok_and(|none| !none.has("q_proj")));
        for bad in [json!(3), json!({"q_proj": 1}), json!(["q_proj", 3])] {
            assert!(read(bad.clone()).unwrap_err().contains("target_modules is"), "{bad}");
        }
        assert!(is_inside("layers.0.mlp.up_proj.weight", "mlp") && is_inside("lm_head.weight", "lm_head"));
        assert!(!is_inside("lm_head.weight", "head") && !is_inside("lm_head.weight", "weight"));
    }
}
