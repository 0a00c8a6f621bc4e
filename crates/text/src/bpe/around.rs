//! The post-processors that are understood: tokens around a prompt, and white space that is left out of offsets.

use std::ops::Range;

use serde::Deserialize;
use serde_json::Value;
use tokenizers::processors::PostProcessorWrapper;
use verdigris_logits::TokenId;

use crate::parts::templates;

/// The effects of a post-processor.
#[derive(Default)]
pub(super) struct Around {
    /// The tokens before and after a prompt.
    pub(super) before: Vec<TokenId>,
    pub(super) after: Vec<TokenId>,
    /// Whether spaces are left out of the ranges of tokens, and whether the first one is kept.
    trims: Option<bool>,
}

impl Around {
    /// Reads a post-processor that has been checked; `None` if it is another one.
    pub(super) fn of(post_processor: Option<Value>) -> Option<Self> {
        let mut around = Self::default();
        let Some(post_processor) = post_processor else { return Some(around) };
        let step = PostProcessorWrapper::deserialize(post_processor).ok()?;
        around.add(&step)?;
        for template in templates(&step) {
            let written = serde_json::to_value(template).ok()?;
            let mut to = &mut around.before;
            for piece in written["single"].as_array()? {
                match piece.pointer("/SpecialToken/id").and_then(Value::as_str) {
                    None => to = &mut around.after,
                    Some(name) => to.extend(Vec::<TokenId>::deserialize(&written["special_tokens"][name]["ids"]).ok()?),
                }
            }
        }
        Some(around)
    }

    fn add(&mut self, step: &PostProcessorWrapper) -> Option<()> {
        match step {
            PostProcessorWrapper::Template(_) => Some(()),
            PostProcessorWrapper::Sequence(steps) => steps.as_ref().iter().try_for_each(|step| self.add(step)),
            PostProcessorWrapper::ByteLevel(step) if step.trim_offsets => {
                self.trims.replace(step.add_prefix_space).is_none().then_some(())
            }
            PostProcessorWrapper::ByteLevel(_) => Some(()),
            PostProcessorWrapper::Roberta(_) | PostProcessorWrapper::Bert(_) => None,
        }
    }

    /// Whether ranges are changed.
    pub(super) fn trims(&self) -> bool {
        self.trims.is_some()
    }

    /// The range of a token without spaces. Lengths are counted in characters of the token's name, as the library does.
    pub(super) fn trimmed(
        &self,
        range: Range<usize>,
        name: impl DoubleEndedIterator<Item = char> + Clone,
        is_first: bool,
    ) -> Range<usize> {
        let Some(keeps_first) = self.trims else { return range };
        let Range { mut start, mut end } = range;
        let count = |characters: &mut dyn Iterator<Item = char>| {
            characters.take_while(|c| c.is_whitespace() || *c == 'Ġ').count()
        };
        let (mut leading, trailing) = (count(&mut name.clone()), count(&mut name.rev()));
        if leading == 1 && keeps_first && (is_first || start == 0) {
            leading = 0;
        }
        start = (start + leading).min(end);
        if end >= trailing {
            end = (end - trailing).max(start);
        }
        start..end
    }
}
