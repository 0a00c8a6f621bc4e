//! Several texts at a time: each step of all of them is one call of the model.

use std::collections::VecDeque;
use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_models::{Batch, LanguageModel, Rows, Wanted};

use crate::limits::{Limits, Stop};
use crate::plain::Plain;
use crate::target::{DecodeError, Target};

/// Texts being written side by side, each the one that [`Plain`] writes alone. As an iterator it gives tokens, each
/// with the number of its text, and ends with the last text or the first error, which comes after the tokens that were
/// written before it.
pub struct Together<'a> {
    model: Arc<dyn LanguageModel>,
    texts: Vec<Plain<'a>>,
    /// What is not handed over yet: tokens that are written, and behind them what the texts cannot go on for.
    ready: VecDeque<Result<(usize, TokenId), DecodeError>>,
    failed: bool,
}

impl<'a> Together<'a> {
    /// Begins a text for each target after the same prompt, which the model reads once.
    ///
    /// # Errors
    /// As [`Plain::new`], and the model's error in reading the prompt.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        targets: &'a [Target],
        prompt: &[TokenId],
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        let mut texts = Vec::with_capacity(targets.len());
        let mut common = limits.begin(model.clone(), prompt, 0)?;
        if targets.len() > 1 && prompt.len() > 1 {
            let all_but_the_last = Batch::chain(&prompt[..prompt.len() - 1], Wanted::Last);
            common.forward(&all_but_the_last, &mut Rows::default())?;
        }
        for target in targets {
            texts.push(Plain::after(target, prompt, limits.clone(), common.fork()?, model.vocabulary_size()));
        }
        Ok(Self { model, texts, ready: VecDeque::new(), failed: false })
    }

    /// Begins a text for each target after a prompt of its own, with limits of its own.
    ///
    /// # Errors
    /// As [`Plain::new`], of any of the texts.
    pub fn each<'p>(
        model: Arc<dyn LanguageModel>,
        texts: impl IntoIterator<Item = (&'a Target, &'p [TokenId], Limits)>,
    ) -> Result<Self, DecodeError> {
        let begin = |(target, prompt, limits)| Plain::new(model.clone(), target, prompt, limits);
        let texts = texts.into_iter().map(begin).collect::<Result<_, _>>()?;
        Ok(Self { model, texts, ready: VecDeque::new(), failed: false })
    }

    /// Ends a text here, for a reason that is not seen in its tokens; the others go on.
    pub fn end(&mut self, text: usize, reason: Stop) {
        self.texts[text].end(reason);
    }

    /// What ended a text; `None` while it goes on.
    pub fn stop(&self, text: usize) -> Option<Stop> {
        self.texts[text].stop()
    }

    /// The tokens that the model draws, if it does and all texts let it.
    fn sampled_by_model(
        model: &dyn LanguageModel,
        reading: &mut [(usize, &mut Plain<'a>)],
    ) -> Result<Option<Vec<Option<TokenId>>>, DecodeError> {
        let asked = reading.iter_mut().enumerate().map(|(number, (_, text))| text.item(number));
        let (mut items, requests): (Vec<_>, Vec<_>) = asked.unzip();
        let Some(mut requests) = requests.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        if model.draw_each(&mut items, &mut requests)? {
            return Ok(Some(requests.into_iter().map(|request| request.token).collect()));
        }
        drop((items, requests));
        reading.iter_mut().for_each(|(_, text)| text.stop_device_sampling());
        Ok(None)
    }

    /// Writes a token of each text that is not at its end.
    fn step(&mut self) -> Result<(), DecodeError> {
        let mut reading = Vec::with_capacity(self.texts.len());
        for (i, text) in self.texts.iter_mut().enumerate() {
            if text.is_over() {
                continue;
            }
            match text.decided() {
                Some(token) => self.ready.extend(text.write(token).map(|token| Ok((i, token)))),
                None => reading.push((i, text)),
            }
        }
        let tokens = Self::sampled_by_model(&*self.model, &mut reading)?;
        if tokens.is_none() {
            let mut items: Vec<_> = reading.iter_mut().map(|(_, text)| text.item(0).0).collect();
            self.model.forward_each(&mut items)?;
        }
        for (nth, (i, text)) in reading.into_iter().enumerate() {
            let token = match &tokens {
                Some(tokens) => text.take_sampled(tokens[nth])?,
                None => text.sample_row()?,
            };
            self.ready.extend(text.write(token).map(|token| Ok((i, token))));
        }
        Ok(())
    }
}

impl Iterator for Together<'_> {
    type Item = Result<(usize, TokenId), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed && self.ready.is_empty() && self.texts.iter_mut().any(|text| !text.is_over()) {
            if let Err(error) = self.step() {
                self.failed = true;
                self.ready.push_back(Err(error));
            }
        }
        self.ready.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{Cycle, Table, Without};
    use verdigris_logits::{Chain, Random, Sampler};

    const NO: f32 = f32::NEG_INFINITY;

    fn target(seed: u64) -> Target {
        // Every other text has tokens that are decided without the model.
        let transforms = Chain::new().then(Cycle { tokens: 7, tells: seed.is_multiple_of(2) });
        Target { transforms, sampler: Sampler::Categorical, random: Random::new(seed) }
    }

    /// Texts of different lengths, for an end token ends them.
    #[test]
    fn each_text_is_the_one_that_is_written_alone() {
        let model = Table::noise(7, 3);
        let targets: Vec<Target> = (0..9).map(target).collect();
        for prompt in [&[1][..], &[1, 2, 3]] {
            let limits = Limits { max_tokens: 20, end: vec![4] };
            let mut texts = vec![Vec::new(); 9];
            let mut together = Together::new(model.clone(), &targets, prompt, &limits).unwrap();
            for step in together.by_ref() {
                let (text, token) = step.unwrap();
                texts[text].push(token);
            }
            let mut lengths = std::collections::BTreeSet::new();
            for (i, target) in targets.iter().enumerate() {
                let mut alone = Plain::new(model.clone(), target, prompt, limits.clone()).unwrap();
                let expected: Vec<u32> = alone.by_ref().map(Result::unwrap).collect();
                assert_eq!(texts[i], expected, "text {i}");
                assert_eq!(together.stop(i), alone.stop());
                lengths.insert(expected.len());
            }
            assert!(lengths.len() > 2, "{lengths:?}");
        }
    }

    /// Prompts of any lengths, and a text that is ended from outside leaves the others as they are.
    #[test]
    fn each_after_a_prompt_of_its_own() {
        let model = Table::noise(7, 3);
        let targets: Vec<Target> = (0..5).map(target).collect();
        let prompts: [&[u32]; 5] = [&[1], &[1, 2, 3], &[5, 5], &[6, 0, 1, 2, 3, 4], &[2]];
        let limits = |i: usize| Limits { max_tokens: 10 + i, end: vec![4] };
        let alone = |i: usize| -> Vec<u32> {
            Plain::new(model.clone(), &targets[i], prompts[i], limits(i)).unwrap().map(Result::unwrap).collect()
        };
        let begun = targets.iter().zip(prompts).enumerate().map(|(i, (target, prompt))| (target, prompt, limits(i)));
        let mut together = Together::each(model.clone(), begun).unwrap();
        let mut texts = vec![Vec::new(); 5];
        while let Some(step) = together.next() {
            let (text, token) = step.unwrap();
            texts[text].push(token);
            if text == 3 && texts[3].len() == 2 {
                together.end(3, Stop::StopString);
            }
        }
        for (i, text) in texts.iter().enumerate() {
            match i {
                3 => assert_eq!((&text[..], together.stop(3)), (&alone(3)[..2], Some(Stop::StopString))),
                _ => assert_eq!(text, &alone(i), "text {i}"),
            }
        }
    }

    #[test]
    fn an_error_ends_all() {
        let dead = Table::new(vec![vec![NO; 5]; 5], 10);
        let (targets, limits) = ([target(1), target(3)], Limits { max_tokens: 3, end: Vec::new() });
        let mut together = Together::new(dead.clone(), &targets, &[1], &limits).unwrap();
        assert!(matches!(together.next(), Some(Err(DecodeError::DeadEnd { position: 1 }))));
        assert!(together.next().is_none());
        // What the first text has written comes before the error of the second.
        let targets = [false, true].map(|dead| {
            let transforms = Chain::new().then(Without(if dead { 2 } else { 99 }));
            Target { transforms, sampler: Sampler::Greedy, random: Random::new(0) }
        });
        let only = Table::new((0..3).map(|_| vec![NO, NO, 1.0]).collect(), 10);
        for model in [only.clone(), only.drawing()] {
            let mut together = Together::new(model, &targets, &[1], &limits).unwrap();
            assert!(matches!(together.next(), Some(Ok((0, 2)))));
            assert!(matches!(together.next(), Some(Err(DecodeError::DeadEnd { position: 1 }))));
            assert!(together.next().is_none() && together.next().is_none());
        }
        assert!(Together::new(dead, &targets, &[], &limits).is_err());
    }
}
