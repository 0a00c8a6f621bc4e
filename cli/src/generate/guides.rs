//! Options for judges that guide every token.

use std::path::PathBuf;

use clap::Args;
use verdigris::{Classes, Engine, Request, Reward};

use crate::engine::EngineOptions;
use crate::error::Failure;
use crate::generate::rewards::reward;
use crate::model::load;
use crate::number::whole;

#[derive(Args)]
pub(crate) struct GuideOptions {
    /// Guide every token by this reward model: its score of the text with each of the likeliest tokens is added to
    /// their logits, and all other tokens are left out
    #[arg(long, value_name = "PATH|NAME", group = "with_guide")]
    guide: Option<PathBuf>,
    /// Treat the guide's score as the logit of an attribute, and add its log-probability (FUDGE)
    #[arg(long, requires = "with_guide")]
    guide_logit: bool,
    /// Guide by language models of classes of texts instead (GeDi), the wanted class first; one model for all classes
    /// or one for each
    #[arg(long, value_name = "PATH|NAME", conflicts_with = "guide", group = "with_class_model")]
    class_model: Vec<PathBuf>,
    /// The text that the class model reads before the prompt, such as the name of the class; one for each class
    #[arg(long, value_name = "TEXT", requires = "with_class_model", allow_hyphen_values = true)]
    class_prompt: Vec<String>,
    /// The factor for scores; below 0 steers away [default: 1, and 30 for classes]
    #[arg(long, value_name = "W", allow_negative_numbers = true)]
    guide_weight: Option<f64>,
    /// The number of tokens that are scored [default: 10, and 200 for classes]
    #[arg(long, value_name = "K", value_parser = whole::<usize>)]
    guide_top_k: Option<usize>,
}

/// The loaded judges.
pub(crate) struct Judges {
    guide: Option<Reward>,
    /// For each class the index of its model in `models`, and the text that it reads first.
    classes: Vec<(usize, String)>,
    models: Vec<Engine>,
}

impl GuideOptions {
    pub(crate) fn judges(&self, engine: &EngineOptions) -> Result<Judges, Failure> {
        let (models, prompts) = (self.class_model.len(), self.class_prompt.len());
        if self.guide.is_none() && models == 0 {
            let unused =
                [("--guide-weight", self.guide_weight.is_some()), ("--guide-top-k", self.guide_top_k.is_some())];
            if let Some((option, _)) = unused.iter().find(|(_, is_given)| *is_given) {
                let message = format!("{option} needs a judge: --guide REWARD, or --class-model with two classes");
                return Err(Failure::Usage(message));
            }
        }
        if models > 1 && prompts > 0 && models != prompts {
            return Err(Failure::Usage(format!(
                "--class-model is given {models} times, but --class-prompt {prompts} times: give one model for all \
                 classes, or one for each"
            )));
        }
        if models == 1 && prompts < 2 {
            let message = "one class is not enough: give --class-prompt for the wanted class and for another, or a \
                           second --class-model";
            return Err(Failure::Usage(message.into()));
        }
        let mut loaded: Vec<(&PathBuf, Engine)> = Vec::new();
        let mut classes = Vec::new();
        // One model for all classes is used for each.
        for (i, path) in self.class_model.iter().cycle().take(models.max(prompts)).enumerate() {
            let number = match loaded.iter().position(|(known, _)| *known == path) {
                Some(number) => number,
                None => {
                    loaded.push((path, load(path, &engine.device()?)?));
                    loaded.len() - 1
                }
            };
            classes.push((number, self.class_prompt.get(i).cloned().unwrap_or_default()));
        }
        let models = loaded.into_iter().map(|(_, engine)| engine).collect();
        Ok(Judges { guide: self.guide.as_deref().map(reward).transpose()?, classes, models })
    }

    /// The same request with its judges; the classes are those of [`Judges::classes`].
    pub(crate) fn apply<'r>(&self, request: Request<'r>, judges: &'r Judges, classes: &'r Classes<'r>) -> Request<'r> {
        let (weight, top_k) = if judges.classes.is_empty() { (1.0, 10) } else { (30.0, 200) };
        let (weight, top_k) = (self.guide_weight.unwrap_or(weight), self.guide_top_k.unwrap_or(top_k));
        match &judges.guide {
            Some(guide) if self.guide_logit => request.guide_by_classifier(guide, weight, top_k),
            Some(guide) => request.guide(guide, weight, top_k),
            None if judges.classes.is_empty() => request,
            None => request.guide_by_classes(classes, weight, top_k),
        }
    }
}

impl Judges {
    pub(crate) fn classes(&self) -> Classes<'_> {
        let mut classes = Classes::new();
        for (model, prompt) in &self.classes {
            classes = classes.class(&self.models[*model], prompt);
        }
        classes
    }
}
