//! The models that are part of the program, so that it runs from any folder.

use std::path::Path;

use verdigris::ModelFolder;

/// A built-in model and the number of bytes of its weights; all of them share one tokenizer.
macro_rules! built_in {
    ($name:literal) => {
        (
            $name,
            ModelFolder::embedded(
                concat!($name, " (built in)"),
                include_bytes!(concat!("../../fixtures/models/", $name, "/config.json")),
                include_bytes!("../../fixtures/models/tale/tokenizer.json"),
                include_bytes!(concat!("../../fixtures/models/", $name, "/model.safetensors")),
            ),
            include_bytes!(concat!("../../fixtures/models/", $name, "/model.safetensors")).len() as u64,
        )
    };
}

/// The storyteller; a smaller model that drafts for it; and an expert, trained from the smaller one on plays.
const MODELS: [(&str, ModelFolder, u64); 3] = [built_in!("tale"), built_in!("tale-small"), built_in!("tale-expert")];

/// The default model.
pub(crate) fn storyteller() -> ModelFolder {
    let [(_, storyteller, _), ..] = MODELS;
    storyteller
}

/// The names of the built-in models, and the number of bytes of their weights.
pub(crate) fn sizes() -> [(&'static str, u64); 3] {
    MODELS.map(|(name, _, bytes)| (name, bytes))
}

/// The names of the built-in models and the nearest match, for the error about an unknown model.
pub(crate) fn names(given: &Path) -> String {
    let names = MODELS.map(|(name, ..)| name);
    let is_near = |name: &&&str| given.to_str().is_some_and(|given| crate::usage::is_near(given, name));
    let meant = names.iter().find(is_near).map_or(String::new(), |name| format!("; did you mean {name}?"));
    format!("the built-in models are {}{meant}", names.join(", "))
}

/// The model of this name, unless there is a file or a folder of the same name.
pub(crate) fn named(source: &Path) -> Option<ModelFolder> {
    let (_, folder, _) = MODELS.into_iter().find(|(name, ..)| Path::new(name) == source)?;
    (!source.exists()).then_some(folder)
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_tokenizer_serves_all() {
        let tokenizer = |name: &str| std::fs::read(format!("../fixtures/models/{name}/tokenizer.json")).unwrap();
        assert_eq!(tokenizer("tale"), tokenizer("tale-small"));
        assert_eq!(tokenizer("tale"), tokenizer("tale-expert"));
    }
}
