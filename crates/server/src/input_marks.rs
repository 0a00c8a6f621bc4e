//! Marks in the inputs of a request: the messages and prompts that carry the mark of a key, or a C2PA manifest.

use std::sync::Arc;

use serde::Serialize;
use verdigris::detector::Unwrapped;
use verdigris::logits::TokenId;
use verdigris::{Key, Look, Prompt, Reader};

/// The most messages or prompts of a request that are examined, the last ones.
const MESSAGES: usize = 64;

/// The most bytes of their texts.
const BYTES: usize = 256 << 10;

/// The most bytes, counted once for each key.
const WORK: usize = 1 << 20;

/// The verdict on a text that is not examined: it is beyond the limits, cannot be read, or the client has none of the
/// keys.
const NOT_EXAMINED: &str = "not examined";

/// The finding in one message or prompt. It contains no number that a client could learn the key's preferences from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct InputMark {
    /// The number of the message or prompt, from 0.
    pub(crate) index: usize,
    /// The role of a message.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) role: Option<String>,
    /// The verdict, as of `/detect` with passages, or [`NOT_EXAMINED`].
    pub(crate) verdict: &'static str,
    /// The key, if a mark is found.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) key_id: Option<String>,
    /// Whether there is a C2PA manifest, valid or not.
    pub(crate) manifest: bool,
}

/// The inputs of a request.
#[derive(Debug)]
pub(crate) struct Inputs(Vec<(Option<String>, InputText)>);

#[derive(Debug)]
enum InputText {
    Text(String),
    Tokens(Arc<[TokenId]>),
}

impl Inputs {
    /// The messages of a conversation, or the prompts. Their tokens must have been checked before they are examined.
    pub(crate) fn of(prompts: &[Prompt]) -> Self {
        let mut inputs = Vec::new();
        for prompt in prompts {
            match prompt {
                Prompt::Text(text) => inputs.push((None, InputText::Text(text.clone()))),
                Prompt::Tokens(tokens) => inputs.push((None, InputText::Tokens(tokens.clone()))),
                Prompt::Chat(conversation) => inputs.extend(
                    conversation
                        .messages
                        .iter()
                        .map(|message| (Some(message.role.clone()), InputText::Text(message.content.clone()))),
                ),
            }
        }
        Self(inputs)
    }

    /// Examines the last inputs, those that fit within the limits. Manifests are looked for in all of them.
    pub(crate) fn examined(self, reader: &Reader, keys: &[Arc<Key>]) -> Vec<InputMark> {
        let keys: Vec<&Key> = keys.iter().map(|key| &**key).collect();
        let mut left = BYTES.min(WORK / keys.len().max(1));
        let first = self.0.len().saturating_sub(MESSAGES);
        let inputs = self.0.into_iter().enumerate().rev();
        let mut marks: Vec<InputMark> = inputs
            .map(|(index, (role, text))| {
                let text = match text {
                    InputText::Text(text) => text,
                    InputText::Tokens(tokens) => reader.tokenizer().decode(&tokens),
                };
                let is_within = index >= first && text.len() <= left && !keys.is_empty();
                let (verdict, key_id) = if is_within { verdict(reader, &keys, &text) } else { (NOT_EXAMINED, None) };
                left -= if is_within { text.len() } else { 0 };
                let manifest = !Unwrapped::new(&text).manifests.is_empty();
                InputMark { index, role, verdict, key_id, manifest }
            })
            .collect();
        marks.reverse();
        marks
    }
}

/// The verdict on a text, and the key whose mark is found.
fn verdict(reader: &Reader, keys: &[&Key], text: &str) -> (&'static str, Option<String>) {
    // A message may quote a marked text.
    let look = Look { passages: true, ..Look::default() };
    match reader.judge(keys, text, &look) {
        Ok(judgement) => {
            let outcome = judgement.outcome();
            (outcome.name(), outcome.is_marked().then(|| judgement.key.id().to_owned()))
        }
        Err(_) => (NOT_EXAMINED, None),
    }
}

#[cfg(test)]
mod tests {
    use verdigris::Marking;

    use super::*;

    const MANIFEST: &str = "# -----BEGIN C2PA MANIFEST----- https://example.com/a.c2pa -----END C2PA MANIFEST-----\n";

    /// The indices of the texts that are examined, and of those with a manifest.
    fn found(texts: &[String], keys: usize) -> (Vec<usize>, Vec<usize>) {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../fixtures/models/tale");
        let reader = Reader::open(path.as_ref()).unwrap();
        let keys = (0..keys).map(|_| Arc::new(Key::generate(Marking::default(), reader.vocabulary())));
        let prompts: Vec<Prompt> = texts.iter().map(|text| Prompt::Text(text.clone())).collect();
        let marks = Inputs::of(&prompts).examined(&reader, &keys.collect::<Vec<_>>());
        assert!(marks.iter().enumerate().all(|(at, mark)| mark.index == at && mark.key_id.is_none()));
        let is_examined = |mark: &&InputMark| mark.verdict != NOT_EXAMINED;
        let index = |mark: &InputMark| mark.index;
        let with_manifest = marks.iter().filter(|mark| mark.manifest).map(index).collect();
        (marks.iter().filter(is_examined).map(index).collect(), with_manifest)
    }

    #[test]
    fn work_is_bounded_and_manifests_are_always_found() {
        let text = "The sea was calm. ".to_owned();
        let many = vec![text.clone(); 70];
        assert_eq!(found(&many, 1).0, (6..70).collect::<Vec<_>>());
        let long = text.repeat(BYTES / text.len() + 1);
        let mixed = [text.clone(), format!("{MANIFEST}{long}"), format!("{MANIFEST}{text}")];
        assert_eq!(found(&mixed, 1), (vec![0, 2], vec![1, 2]));
        // Under eight keys a text takes eight times the work.
        let half = text.repeat(WORK / 16 / text.len() - 1);
        assert_eq!(found(&[half.clone(), half.clone(), half.clone(), text], 8).0, [1, 2, 3]);
        assert_eq!(found(&[half.clone(), half.clone(), half], 1).0, [0, 1, 2]);
        assert_eq!(found(&[MANIFEST.into()], 0), (vec![], vec![0]));
    }
}
