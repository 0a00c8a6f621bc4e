//! Several texts at a time: each step of all of them is one call of the model.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use verdigris_logits::TokenId;
use verdigris_models::{Batch, LanguageModel, Rows, Wanted};

use crate::chance::{Chance, Seeded};
use crate::draft_length::DraftLength;
use crate::drafter::{Drafter, Undrafted};
use crate::limits::{Limits, Stop};
use crate::rules::Rule;
use crate::speculative::{Acceptance, Speculative};
use crate::target::{DecodeError, Target};
use crate::writing::Provenance;

/// A drafter of one of several texts.
pub type BoxedDrafter<'a> = Box<dyn Drafter + Send + 'a>;

/// Texts being written side by side, each the one that is written alone: that of [`Plain`](crate::Plain), or, with a
/// drafter of its own, that of [`Speculative`]. As an iterator it gives tokens, each with the number of its text, and
/// ends with the last text or the first error, which comes after the tokens that were written before it.
pub struct Together<'a, C = Seeded> {
    model: Arc<dyn LanguageModel>,
    texts: Vec<Speculative<'a, BoxedDrafter<'a>, C>>,
    /// How drafts are judged, where there are any.
    rule: Option<Rule>,
    /// What is not handed over yet: tokens that are written, and behind them what the texts cannot go on for.
    ready: VecDeque<Result<(usize, TokenId, Provenance), DecodeError>>,
    /// How the token came that was handed over last.
    provenance: Provenance,
    failed: bool,
}

impl<'a> Together<'a> {
    /// Begins a text for each target after the same prompt, which the model reads once.
    ///
    /// # Errors
    /// As [`Plain::new`](crate::Plain::new), and the model's error in reading the prompt.
    pub fn new(
        model: Arc<dyn LanguageModel>,
        targets: &'a [Target],
        prompt: &[TokenId],
        limits: &Limits,
    ) -> Result<Self, DecodeError> {
        let mut texts = Vec::with_capacity(targets.len());
        let mut common = limits.begin(model.clone(), prompt)?;
        if targets.len() > 1 && prompt.len() > 1 {
            let all_but_the_last = Batch::chain(&prompt[..prompt.len() - 1], Wanted::Last);
            common.forward(&all_but_the_last, &mut Rows::default())?;
        }
        let size = model.vocabulary_size();
        for target in targets {
            let (drafter, chance) = (Box::new(Undrafted), Seeded(target.random));
            let (limits, sequence, length) = (limits.clone(), common.fork()?, DraftLength::Fixed(0));
            texts.push(Speculative::after(target, prompt, limits, sequence, size, drafter as _, length, chance));
        }
        Ok(Self { model, texts, rule: None, ready: VecDeque::new(), provenance: Provenance::default(), failed: false })
    }

    /// Begins a text for each target after a prompt of its own, with limits of its own.
    ///
    /// # Errors
    /// As [`Plain::new`](crate::Plain::new), of any of the texts.
    pub fn each<'p>(
        model: Arc<dyn LanguageModel>,
        texts: impl IntoIterator<Item = (&'a Target, &'p [TokenId], Limits)>,
    ) -> Result<Self, DecodeError> {
        let with_model = |(target, prompt, limits)| (model.clone(), target, prompt, limits);
        Self::each_of(model.clone(), texts.into_iter().map(with_model))
    }

    /// As [`Together::each`], by a model for each text. `model` reads for all of them
    /// ([`LanguageModel::forward_each`]), so they must be its own, or steered as it is.
    ///
    /// # Errors
    /// As [`Together::each`].
    pub fn each_of<'p>(
        model: Arc<dyn LanguageModel>,
        texts: impl IntoIterator<Item = (Arc<dyn LanguageModel>, &'a Target, &'p [TokenId], Limits)>,
    ) -> Result<Self, DecodeError> {
        let seeded = |(model, target, prompt, limits): (_, &'a Target, _, _)| {
            (model, target, prompt, limits, Seeded(target.random))
        };
        Self::by_chances(model, texts.into_iter().map(seeded))
    }
}

impl<'a, C: Chance> Together<'a, C> {
    /// As [`Together::each_of`], with chances of one's own in the place of those that seeds give.
    ///
    /// # Errors
    /// As [`Together::each`].
    pub fn by_chances<'p>(
        model: Arc<dyn LanguageModel>,
        texts: impl IntoIterator<Item = (Arc<dyn LanguageModel>, &'a Target, &'p [TokenId], Limits, C)>,
    ) -> Result<Self, DecodeError> {
        let begin = |(model, target, prompt, limits, chance): (_, &'a Target, _, _, C)| {
            let drafter = Box::new(Undrafted);
            Speculative::new(model, target, prompt, limits, drafter as _, DraftLength::Fixed(0), chance)
        };
        let texts = texts.into_iter().map(begin).collect::<Result<_, _>>()?;
        Ok(Self { model, texts, rule: None, ready: VecDeque::new(), provenance: Provenance::default(), failed: false })
    }

    /// Has drafts made for the texts, none of which has been begun, by a drafter for each: as many of each text as pay
    /// for it, where that is to be found, and judged by a rule.
    ///
    /// # Panics
    /// If there is not one drafter for each text.
    #[must_use]
    pub fn drafting(
        self,
        drafters: impl IntoIterator<Item = BoxedDrafter<'a>>,
        length: DraftLength,
        rule: Rule,
    ) -> Self {
        let mut drafters = drafters.into_iter();
        let mut one = || drafters.next().expect("a drafter for each text");
        let texts = self.texts.into_iter().map(|text| text.drafting(one(), length, rule)).collect();
        assert!(drafters.next().is_none(), "a text for each drafter");
        Self { texts, rule: Some(rule), ..self }
    }

    /// Ends a text here, for a reason that is not seen in its tokens; the others go on.
    pub fn end(&mut self, text: usize, reason: Stop) {
        self.texts[text].end(reason);
        self.ready.retain(|step| !matches!(step, Ok((of, ..)) if *of == text));
    }

    /// What ended a text; `None` while it goes on.
    pub fn stop(&self, text: usize) -> Option<Stop> {
        let is_waiting = || self.ready.iter().any(|step| matches!(step, Ok((of, ..)) if *of == text));
        self.texts[text].stop().filter(|_| !is_waiting())
    }

    /// How drafting went so far for a text; `None` where nothing is drafted.
    pub fn acceptance(&self, text: usize) -> Option<Acceptance> {
        self.rule.map(|_| self.texts[text].acceptance())
    }

    /// How the token came that was handed over last.
    pub fn provenance(&self) -> Provenance {
        self.provenance
    }

    /// The name of the rule that drafts are judged by, where it changes the law of the texts.
    pub fn lossy(&self) -> Option<&'static str> {
        self.rule.filter(|rule| !rule.is_lossless()).map(Rule::name)
    }

    /// The tokens that the model draws, if it does and all texts let it: of each item those of its rows.
    fn sampled_by_model(&mut self, reading: &[usize]) -> Result<Option<Vec<Vec<Option<TokenId>>>>, DecodeError> {
        let asked = reading_of(&mut self.texts, reading).enumerate().map(|(number, text)| text.item(number, true));
        let (mut items, requests): (Vec<_>, Vec<_>) = asked.unzip();
        let Some(requests) = requests.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
        let mut requests: Vec<_> = requests.into_iter().flatten().collect();
        if self.model.draw_each(&mut items, &mut requests)? {
            let mut tokens = vec![Vec::new(); reading.len()];
            requests.into_iter().for_each(|request| tokens[request.item].push(request.token));
            return Ok(Some(tokens));
        }
        drop((items, requests));
        reading_of(&mut self.texts, reading).for_each(Speculative::stop_device_sampling);
        Ok(None)
    }

    /// Writes at least a token of each text that is not at its end.
    fn step(&mut self) -> Result<(), DecodeError> {
        let mut reading = Vec::with_capacity(self.texts.len());
        for i in 0..self.texts.len() {
            if self.texts[i].is_over() {
                continue;
            }
            match self.texts[i].prepare()? {
                true => reading.push(i),
                false => self.hand_over(i),
            }
        }
        let begun = Instant::now();
        let mut sampled = self.sampled_by_model(&reading)?;
        if sampled.is_none() {
            let items = reading_of(&mut self.texts, &reading).map(|text| text.item(0, false).0);
            self.model.forward_each(&mut items.collect::<Vec<_>>())?;
        }
        let passed = begun.elapsed();
        let rows: usize = reading.iter().map(|&i| self.texts[i].rows_read()).sum();
        for (nth, &i) in reading.iter().enumerate() {
            let text = &mut self.texts[i];
            // Each text is charged by its rows.
            let since = text.now().saturating_sub(passed.mul_f64(text.rows_read() as f64 / rows as f64));
            let settled = text.settle(sampled.as_mut().map(|tokens| std::mem::take(&mut tokens[nth])), since);
            self.hand_over(i);
            settled?;
        }
        Ok(())
    }

    fn hand_over(&mut self, text: usize) {
        let written = std::iter::from_fn(|| self.texts[text].pop());
        self.ready.extend(written.map(|(token, provenance)| Ok((text, token, provenance))));
    }
}

/// The texts of these numbers, which are ascending.
fn reading_of<'t, T>(texts: &'t mut [T], reading: &[usize]) -> impl Iterator<Item = &'t mut T> {
    texts.iter_mut().enumerate().filter(|(i, _)| reading.binary_search(i).is_ok()).map(|(_, text)| text)
}

impl<C: Chance> Iterator for Together<'_, C> {
    type Item = Result<(usize, TokenId), DecodeError>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.failed && self.ready.is_empty() && self.texts.iter().any(|text| !text.is_over()) {
            if let Err(error) = self.step() {
                self.failed = true;
                self.ready.push_back(Err(error));
            }
        }
        let (text, token, provenance) = match self.ready.pop_front()? {
            Ok(written) => written,
            Err(error) => return Some(Err(error)),
        };
        self.provenance = provenance;
        Some(Ok((text, token)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drafter::{Coupling, DraftModel, Lookup};
    use crate::plain::Plain;
    use crate::table::{Cycle, Table, Without};
    use crate::tree::TreeShape;
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

    /// Texts of different lengths with drafts of their own kinds: each is the text that it is alone, and its drafts are
    /// those that it has alone.
    #[test]
    fn each_text_has_its_own_drafts() {
        let (model, small) = (Table::deep(7, 3, 64), Table::deep(7, 4, 64));
        let targets: Vec<Target> = (0..9).map(target).collect();
        let (prompt, limits) = ([1, 2, 1, 2], Limits { max_tokens: 20, end: vec![4] });
        let drafter = |i: usize| -> BoxedDrafter<'_> {
            let model = |coupling| {
                let Target { transforms, sampler, .. } = &targets[i];
                // A twin of the target drafts for some.
                let model = if i < 5 { &model } else { &small };
                Box::new(DraftModel::new(model.clone(), 64, transforms, *sampler, coupling).unwrap())
            };
            match i % 3 {
                0 => model(Coupling::Independent),
                1 => model(Coupling::Shared),
                _ => Box::new(Lookup::new(1)),
            }
        };
        let mut accepted = 0;
        for length in [DraftLength::Fixed(3), DraftLength::Tree(TreeShape::levels(&[2, 1]))] {
            for model in [model.clone(), model.drawing()] {
                let mut together = Together::new(model.clone(), &targets, &prompt, &limits).unwrap();
                together = together.drafting((0..9).map(drafter), length, Rule::EachToken);
                let mut texts = vec![Vec::new(); 9];
                for step in together.by_ref() {
                    let (text, token) = step.unwrap();
                    texts[text].push(token);
                }
                for (i, target) in targets.iter().enumerate() {
                    let chance = Seeded(target.random);
                    let alone =
                        Speculative::new(model.clone(), target, &prompt, limits.clone(), drafter(i), length, chance);
                    let mut alone = alone.unwrap();
                    assert_eq!(texts[i], alone.by_ref().map(Result::unwrap).collect::<Vec<u32>>(), "text {i}");
                    assert_eq!((together.stop(i), together.acceptance(i)), (alone.stop(), Some(alone.acceptance())));
                    if i % 3 > 0 {
                        let plain = Plain::new(model.clone(), target, &prompt, limits.clone()).unwrap();
                        assert_eq!(texts[i], plain.map(Result::unwrap).collect::<Vec<u32>>(), "text {i}");
                    }
                    accepted += alone.acceptance().accepted;
                }
            }
        }
        assert!(accepted > 100, "{accepted}");
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
