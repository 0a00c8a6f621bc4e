//! Which tensors of a checkpoint are the model's weights, and what the model calls them.
//!
//! A trainer saves a dictionary with the model in it, or the weights themselves beside its other states. torch joins
//! the keys of nested dictionaries by dots; since version 2.3 it also says which they were (`planner_data`), and
//! without that they have to be told by what they look like.

use super::metadata::Metadata;

/// What may stand around a trainer's states.
const WRAPPERS: [&str; 3] = ["app", "state", "checkpoint"];

/// What trainers call the model among them.
const MODELS: [&str; 3] = ["model", "module", "state_dict"];

/// The keys of the model's weights, and their names.
///
/// # Errors
/// If there are none, or they are named as no folder of Hugging Face is.
pub(super) fn of_weights(metadata: &Metadata) -> Result<Vec<(&str, String)>, String> {
    let all: Vec<(&str, Vec<String>)> = metadata.keys.iter().map(|key| (&**key, path(metadata, key))).collect();
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

/// The keys that a key was joined of.
fn path(metadata: &Metadata, key: &str) -> Vec<String> {
    if let Some(path) = metadata.paths.get(key) {
        return path.clone();
    }
    // A model's own weights may begin with `model.`; below a key of that name all of them do, and some twice.
    let all_within = |prefix: &str| metadata.keys.iter().all(|key| key.starts_with(prefix) || is_of_optimizer(key));
    for wrapper in WRAPPERS {
        if let Some(rest) = key.strip_prefix(wrapper).and_then(|rest| rest.strip_prefix('.'))
            && all_within(&key[..=wrapper.len()])
        {
            return vec![wrapper.into(), first_of(rest), rest[first_of(rest).len()..].trim_start_matches('.').into()];
        }
    }
    let has_twice =
        metadata.keys.iter().any(|key| key.starts_with("model.model.") || key.starts_with("model.lm_head."));
    if has_twice && all_within("model.") {
        return match key.strip_prefix("model.") {
            Some(name) => vec!["model".into(), name.into()],
            None => vec![first_of(key), key.into()],
        };
    }
    if is_of_optimizer(key) { vec![first_of(key), key.into()] } else { vec![key.into()] }
}

fn first_of(key: &str) -> String {
    key.split('.').next().unwrap_or_default().to_owned()
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
            stored: HashMap::new(),
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
        // Weights beside other states, as torchtitan has them.
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
        // Weights that all begin so of themselves.
        assert_eq!(
            names(&["model.norm.weight", "model.embed.weight"], &[]),
            ["model.norm.weight", "model.embed.weight"]
        );
    }
}
