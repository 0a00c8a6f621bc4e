//! Texts that the target writes itself, kept in a file.
//!
//! A line is one text: the tokens of its prompt, the tokens written after it, including an end token, and how they were
//! sampled. Lines are added as texts are finished, so an interrupted run continues with the first that is missing.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::Path;

use serde::{Deserialize, Serialize};
use verdigris_decoding::{DecodeError, Limits, Stop, Target};
use verdigris_logits::warp::Temperature;
use verdigris_logits::{Chain, Purpose, Random, Sampler, TokenId};
use verdigris_models::LoadedModel;
use verdigris_schedule::{Ask, Capacity, Event, Refused, Schedule};

use crate::error::TrainError;

/// The name of the file in an output folder.
pub(super) const FILE: &str = "texts.jsonl";

/// The temperatures of texts, one of these each: a head has to guess at all of them.
const TEMPERATURES: [f64; 3] = [0.0, 0.7, 1.0];

/// Texts that are written at a time.
const SIDE_BY_SIDE: usize = 32;

/// The weight of a token of a text relative to one of a prompt, in the choice of the draft vocabulary.
const OF_TEXTS: u64 = 4;

/// A text by its tokens.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct TrainingText {
    pub(super) prompt: Vec<TokenId>,
    pub(super) text: Vec<TokenId>,
    #[serde(default)]
    temperature: f64,
    #[serde(default)]
    seed: u64,
}

/// All texts, in the order of their prompts.
pub(super) struct TrainingTexts(pub(super) Vec<TrainingText>);

impl TrainingTexts {
    /// Reads existing texts.
    pub(super) fn read(path: &Path, vocabulary: usize) -> Result<Self, TrainError> {
        let lines = fs::read_to_string(path).map_err(TrainError::file("read", path))?;
        let texts = lines.lines().enumerate().map(|(number, line)| {
            let wrong = |fault: String| TrainError::Texts { path: path.into(), line: number + 1, fault };
            let text: TrainingText = serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            match text.prompt.iter().chain(&text.text).find(|&&token| token as usize >= vocabulary) {
                Some(token) => Err(wrong(format!("{token} is not a token of the target"))),
                None => Ok(text),
            }
        });
        Ok(Self(texts.collect::<Result<_, _>>()?))
    }

    /// Writes a text after each prompt, unless the file has it. `each` is called with the number of texts so far and of
    /// all texts; if it returns `false`, the result is `None`.
    pub(super) fn write(
        path: &Path,
        model: &LoadedModel,
        prompts: &[Vec<TokenId>],
        max_tokens: usize,
        seed: u64,
        mut each: impl FnMut(usize, usize) -> bool,
    ) -> Result<Option<Self>, TrainError> {
        drop_half_a_line(path)?;
        let mut texts = match path.exists() {
            true => Self::read(path, model.model.vocabulary_size())?,
            false => Self(Vec::new()),
        };
        let random = Random::new(seed);
        let asked = |i: usize| TrainingText {
            prompt: prompts[i].clone(),
            text: Vec::new(),
            temperature: TEMPERATURES[(random.uniform(i as u64, Purpose::Choice) * TEMPERATURES.len() as f64) as usize],
            seed: seed.wrapping_add(i as u64),
        };
        for (i, text) in texts.0.iter().enumerate() {
            let same = i < prompts.len() && asked(i) == TrainingText { text: Vec::new(), ..text.clone() };
            if !same {
                return Err(TrainError::ForeignTexts { path: path.into(), line: i + 1 });
            }
        }
        let file = OpenOptions::new().create(true).append(true).open(path).map_err(TrainError::file("write", path))?;
        let mut file = BufWriter::new(file);
        while texts.0.len() < prompts.len() {
            if !each(texts.0.len(), prompts.len()) {
                return Ok(None);
            }
            let next = texts.0.len()..prompts.len().min(texts.0.len() + SIDE_BY_SIDE);
            let written = side_by_side(model, next.map(asked).collect(), max_tokens)?;
            add(&mut file, &written).map_err(TrainError::file("write", path))?;
            texts.0.extend(written);
        }
        Ok(Some(texts))
    }

    /// The most frequent tokens, at most `count`, in the order of their ids. Those of prompts count less, but they
    /// count, because texts repeat words of prompts.
    pub(super) fn most_frequent(&self, count: usize) -> Vec<TokenId> {
        let mut counts: HashMap<TokenId, u64> = HashMap::new();
        for TrainingText { prompt, text, .. } in &self.0 {
            prompt.iter().for_each(|&token| *counts.entry(token).or_default() += 1);
            text.iter().for_each(|&token| *counts.entry(token).or_default() += OF_TEXTS);
        }
        let mut tokens: Vec<TokenId> = counts.keys().copied().collect();
        tokens.sort_unstable_by_key(|token| (std::cmp::Reverse(counts[token]), *token));
        tokens.truncate(count);
        tokens.sort_unstable();
        tokens
    }
}

/// Removes the incomplete line that a killed run has left.
fn drop_half_a_line(path: &Path) -> Result<(), TrainError> {
    let Ok(bytes) = fs::read(path) else { return Ok(()) };
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    if whole < bytes.len() {
        let file = OpenOptions::new().write(true).open(path).map_err(TrainError::file("write", path))?;
        file.set_len(whole as u64).map_err(TrainError::file("write", path))?;
    }
    Ok(())
}

fn add(file: &mut BufWriter<File>, texts: &[TrainingText]) -> std::io::Result<()> {
    for text in texts {
        serde_json::to_writer(&mut *file, text)?;
        file.write_all(b"\n")?;
    }
    file.flush()
}

/// Writes texts together, with one pass of the model per token. The end token is part of a text, since it is guessed
/// too.
fn side_by_side(
    model: &LoadedModel,
    mut texts: Vec<TrainingText>,
    max_tokens: usize,
) -> Result<Vec<TrainingText>, DecodeError> {
    let (model, end) = (&model.model, &model.end);
    let capacity = Capacity::of_texts(&**model, texts.len().max(1), model.context_length());
    let mut schedule = Schedule::new(model.clone(), capacity);
    let mut numbers = HashMap::new();
    for (i, text) in texts.iter().enumerate() {
        let limits = Limits { max_tokens, end: Vec::new() };
        let submitted = schedule.submit(Ask::new(text.prompt.clone(), target(text), limits));
        let id = submitted.map_err(|refused| match refused {
            Refused::Prompt(error) => error,
            _ => unreachable!("there is memory for the longest: {refused}"),
        })?;
        numbers.insert(id, i);
    }
    let mut fault = None;
    let mut tell = |id, event| {
        match event {
            Event::Reasoning((token, _)) | Event::Text((token, _)) => {
                texts[numbers[&id]].text.push(token);
                if end.contains(&token) {
                    return ControlFlow::Break(Stop::End);
                }
            }
            Event::Begun | Event::End(_) => (),
            Event::Failed(error) => fault = Some(error),
        }
        ControlFlow::Continue(())
    };
    while schedule.pass(&mut tell)? {}
    fault.map_or(Ok(texts), Err)
}

fn target(text: &TrainingText) -> Target {
    let random = Random::new(text.seed);
    match Temperature::new(text.temperature) {
        Ok(temperature) => Target { transforms: Chain::new().then(temperature), sampler: Sampler::Categorical, random },
        // A temperature of 0 cannot be divided by.
        Err(_) => Target { transforms: Chain::new(), sampler: Sampler::Greedy, random },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_frequent_tokens_are_in_order() {
        let text = |prompt: &[u32], text: &[u32]| TrainingText {
            prompt: prompt.to_vec(),
            text: text.to_vec(),
            temperature: 0.0,
            seed: 0,
        };
        let texts = TrainingTexts(vec![text(&[9, 9, 9, 2], &[7, 5]), text(&[1], &[5])]);
        assert_eq!(texts.most_frequent(3), [5, 7, 9]);
        assert_eq!(texts.most_frequent(4), [1, 5, 7, 9]);
        assert_eq!(texts.most_frequent(99), [1, 2, 5, 7, 9]);
    }
}
