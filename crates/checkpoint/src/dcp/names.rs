//! Finds the tensors of a checkpoint that are the model's weights, and their names in the model.
//!
//! A trainer saves a dictionary that contains the model, or the weights themselves next to its other states. torch
//! joins the keys of nested dictionaries with dots; since version 2.3 it also saves the original keys (`planner_data`),
//! and without them they must be guessed.

use super::metadata::Metadata;

/// The keys that trainers wrap all states in.
const WRAPPERS: [&str; 3] = ["app", "state", "checkpoint"];

/// The keys of the model among a trainer's states.
const MODELS: [&str; 3] = ["model", "module", "state_dict"];

/// The keys of the model's weights, and their names in the model.
///
/// # Errors
/// If there are none, or their names are not those of Hugging Face.
pub(super) fn of_weights(metadata: &Metadata) -> Result<Vec<(&str, String)>, String> {
    let joined = Joined::of(metadata);
    let path = |key: &str| metadata.paths.get(key).cloned().unwrap_or_else(|| joined.path(key));
    let all: Vec<(&str, Vec<String>)> = metadata.keys.iter().map(|key| (&**key, path(key))).collect();
    let below_model = |path: &[String]| {
        let path = if path.len() > 1 && WRAPPERS.contains(&&*path[0]) { &path[1..] } else { path };
        (path.len() > 1 && MODELS.contains(&&*path[0])).then(|| path[1..].join("."))
    };
    let mut weights: Vec<(&str, String)> =
        all.iter().filter_map(|(key, path)| Some((*key, below_model(path)?))).collect();
    if weights.is_empty() {
        weights = all.iter().filter(|(_, path)| path.len() == 1).map(|(key, path)| (*key, path[0].clone())).collect();
    }
    let has = |part: &str| weights.iter().any(|(_, name)| name.contains(part));
    if weights.is_empty() {
        let first = metadata.keys.first().map_or_else(|| "no tensor".into(), |key| format!("tensors such as {key}"));
        return Err(format!("it holds no model, but {first}: name the checkpoint's folder with the weights"));
    }
    if has("tok_embeddings.weight") && has("attention.wq.weight") {
        return Err(
            "its weights have the names of torchtitan: save them with `last_save_in_hf = true`, or convert them with \
                    its script convert_to_hf.py"
                .into(),
        );
    }
    if has("decoder.layers.") && has("linear_qkv") {
        return Err("its weights have the names of Megatron-Core: export them with Megatron Bridge \
                    (AutoBridge.export_ckpt)"
            .into());
    }
    Ok(weights)
}

/// How keys were joined, if the file does not say so.
struct Joined {
    /// The key that all start with.
    wrapper: Option<&'static str>,
    /// Whether the model is below a key `model`. Its own weights may start with `model.` too: below such a key all of
    /// them start with it, and some twice.
    below_model: bool,
}

impl Joined {
    fn of(metadata: &Metadata) -> Self {
        let all_within = |prefix: &str| {
            let is_within = |key: &String| key.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('.'));
            metadata.keys.iter().all(|key| is_within(key) || is_of_optimizer(key))
        };
        let is_twice = |key: &String| key.starts_with("model.model.") || key.starts_with("model.lm_head.");
        Self {
            wrapper: WRAPPERS.into_iter().find(|wrapper| all_within(wrapper)),
            below_model: metadata.keys.iter().any(is_twice) && all_within("model"),
        }
    }

    /// The original keys of a joined key, as far as they matter.
    fn path(&self, key: &str) -> Vec<String> {
        if let Some(wrapper) = self.wrapper
            && let Some((states, rest)) = key.strip_prefix(wrapper).and_then(|rest| rest[1..].split_once('.'))
        {
            return vec![wrapper.into(), states.into(), rest.into()];
        }
        match key.split_once('.') {
            Some((states, rest)) if is_of_optimizer(key) || self.below_model => vec![states.into(), rest.into()],
            _ => vec![key.into()],
        }
    }
}

fn is_of_optimizer(key: &str) -> bool {
    key.starts_with("optim")
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    fn names(keys: &[&str], paths: &[(&str, &[&str])]) -> Vec<String> {
        let owned = |path: &[&str]| path.iter().map(|step| (*step).to_owned()).collect();
        let metadata = Metadata {
            tensors: HashMap::new(),
            keys: owned(keys),
            paths: paths.iter().map(|(key, path)| ((*key).to_owned(), owned(path))).collect(),
            locations: HashMap::new(),
        };
        of_weights(&metadata).unwrap().into_iter().map(|(_, name)| name).collect()
    }

    #[test]
    fn where_torch_says_how_keys_were_joined() {
        let flat: &[&str] = &["model.norm.weight"];
        assert_eq!(names(&["model.norm.weight"], &[("model.norm.weight", flat)]), flat);
        let (nested, moment) = ("app.model.model.norm.weight", "app.optim.state.model.norm.weight.exp_avg");
        let paths: [(&str, &[&str]); 2] = [
            (nested, &["app", "model", "model.norm.weight"]),
            (moment, &["app", "optim", "state", "model.norm.weight", "exp_avg"]),
        ];
        assert_eq!(names(&[nested, moment], &paths), flat);
        // Weights next to other states, as in torchtitan.
        let step = "train_state.step";
        let paths: [(&str, &[&str]); 2] = [("lm_head.weight", &["lm_head.weight"]), (step, &["train_state", "step"])];
        assert_eq!(names(&["lm_head.weight", step], &paths), ["lm_head.weight"]);
    }

    #[test]
    fn where_it_does_not() {
        let expected = ["model.norm.weight", "lm_head.weight"];
        assert_eq!(names(&expected, &[]), expected);
        let nested = ["model.model.norm.weight", "model.lm_head.weight", "optim.state.model.norm.weight.exp_avg"];
        assert_eq!(names(&nested, &[]), expected);
        let wrapped = ["app.model.model.norm.weight", "app.model.lm_head.weight", "app.optim.state.model.norm.exp_avg"];
        assert_eq!(names(&wrapped, &[]), expected);
        // Weights whose own names all start with it.
        assert_eq!(
            names(&["model.norm.weight", "model.embed.weight"], &[]),
            ["model.norm.weight", "model.embed.weight"]
        );
    }
}
