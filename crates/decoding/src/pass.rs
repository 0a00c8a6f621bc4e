//! Several texts in one call of a model. The caller determines each text's part of a pass.

use std::time::{Duration, Instant};

use verdigris_kernels::each;
use verdigris_logits::TokenId;
use verdigris_models::{LanguageModel, ModelError, Sequence};

use crate::chance::{Chance, Seeded};
use crate::draft_length::{DraftLength, DraftMemory};
use crate::drafter::{Drafter, Undrafted};
use crate::limits::{Limits, Stop};
use crate::provenance::Provenance;
use crate::rules::Rule;
use crate::speculative::{Acceptance, Speculative};
use crate::target::{DecodeError, Target};

/// A drafter of one of several texts.
pub type BoxedDrafter = Box<dyn Drafter + Send>;

/// The drafting of a text.
pub struct Drafting {
    /// The drafter.
    pub drafter: BoxedDrafter,
    /// The number of drafts.
    pub length: DraftLength,
    /// The rule that accepts drafts.
    pub rule: Rule,
    /// The measurements of earlier texts, which [`DraftLength::Auto`] starts from and adds this one's to.
    pub memory: Option<DraftMemory>,
}

/// A text that is written in passes, alone or together with others. It is the same text that [`Plain`](crate::Plain)
/// or, with a drafter, [`Speculative`] gives.
pub struct BatchedText<C = Seeded> {
    text: Speculative<BoxedDrafter, C>,
    /// The rule that judges drafts, if any are made.
    rule: Option<Rule>,
}

/// A text's part of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The given number of tokens that the model has not read, fewer than all of them.
    Read(usize),
    /// All of them, and the text's drafts, so that it continues. The text must [need a call](BatchedText::decide).
    Write,
}

impl BatchedText {
    /// Begins a text after a prompt. `sequence` may hold the first tokens of the prompt, but not the last. It must have
    /// [room](Limits::room) for the text.
    ///
    /// # Panics
    /// If the sequence holds all of the prompt.
    pub fn new(
        model: &dyn LanguageModel,
        target: &Target,
        prompt: &[TokenId],
        limits: Limits,
        sequence: Box<dyn Sequence>,
        drafting: Option<Drafting>,
    ) -> Self {
        Self::by_chance(model, target, prompt, limits, sequence, drafting, Seeded(target.random))
    }
}

impl<C: Chance> BatchedText<C> {
    /// Like [`BatchedText::new`], with a caller-supplied [`Chance`].
    ///
    /// # Panics
    /// Like [`BatchedText::new`].
    pub fn by_chance(
        model: &dyn LanguageModel,
        target: &Target,
        prompt: &[TokenId],
        limits: Limits,
        sequence: Box<dyn Sequence>,
        drafting: Option<Drafting>,
        chance: C,
    ) -> Self {
        assert!(sequence.len() < prompt.len(), "{} of {} tokens", sequence.len(), prompt.len());
        let rule = drafting.as_ref().map(|drafting| drafting.rule);
        let (drafter, length): (BoxedDrafter, _) = (Box::new(Undrafted), DraftLength::Fixed(0));
        let undrafted = Drafting { drafter, length, rule: Rule::default(), memory: None };
        let Drafting { drafter, length, rule: judge, memory } = drafting.unwrap_or(undrafted);
        let size = model.vocabulary_size();
        let text = Speculative::after(target, prompt, limits, sequence, size, drafter, length, chance);
        let text = text.judged_by(judge);
        Self { text: memory.iter().fold(text, Speculative::remembering), rule }
    }

    /// Writes tokens that are decided without the model. Returns whether the text continues with a call of the model.
    pub fn decide(&mut self) -> bool {
        !self.text.is_over() && self.text.write_decided()
    }

    /// The prompt and the text so far.
    pub fn tokens(&self) -> &[TokenId] {
        self.text.tokens()
    }

    /// The model's sequence, which holds all tokens but the last, or fewer. It may be replaced by another one.
    pub fn sequence(&mut self) -> &mut Box<dyn Sequence> {
        self.text.sequence()
    }

    /// Removes and returns the next written token that was not handed over yet, with its provenance.
    pub fn pop(&mut self) -> Option<(TokenId, Provenance)> {
        self.text.pop()
    }

    /// Ends the text here, for a reason that its tokens do not show. Tokens that were not handed over are dropped.
    pub fn end(&mut self, reason: Stop) {
        self.text.end(reason);
    }

    /// The reason that the text ended; `None` while it continues or has tokens to hand over.
    pub fn stop(&self) -> Option<Stop> {
        self.text.stop()
    }

    /// The acceptance of drafts so far; `None` if nothing is drafted.
    pub fn acceptance(&self) -> Option<Acceptance> {
        self.rule.map(|_| self.text.acceptance())
    }

    /// The name of the rule that judges drafts, if it changes the distribution of the text.
    pub fn lossy(&self) -> Option<&'static str> {
        self.rule.filter(|rule| !rule.is_lossless()).map(Rule::name)
    }
}

/// Makes one call of a model for these texts, which must be its own or those of models that are steered like it. An
/// error of a single text is returned at its index, and does not affect the others. The rows of the texts are
/// independent of each other, so several threads process them in parallel.
///
/// # Errors
/// The model's. All texts are unchanged.
pub fn pass<C: Chance + Send>(
    model: &dyn LanguageModel,
    texts: &mut [(&mut BatchedText<C>, Part)],
) -> Result<Vec<Result<(), DecodeError>>, ModelError> {
    passed(model, texts, |read| each(read, Settling::settle))
}

/// Like [`pass`], one text after the other, for a [`Chance`] that cannot leave its thread.
///
/// # Errors
/// Like [`pass`].
pub fn pass_in_turn<C: Chance>(
    model: &dyn LanguageModel,
    texts: &mut [(&mut BatchedText<C>, Part)],
) -> Result<Vec<Result<(), DecodeError>>, ModelError> {
    passed(model, texts, |read| read.iter_mut().for_each(Settling::settle))
}

/// A text after the model's call.
struct Settling<'p, C> {
    text: &'p mut Speculative<BoxedDrafter, C>,
    part: Part,
    /// The tokens that the model sampled, if it did.
    drawn: Option<Vec<Option<TokenId>>>,
    /// The share of the call's time for this text, in proportion to its tokens.
    charged: Duration,
    outcome: &'p mut Result<(), DecodeError>,
}

impl<C: Chance> Settling<'_, C> {
    fn settle(&mut self) {
        *self.outcome = match self.part {
            Part::Read(_) => self.text.settle_part(),
            Part::Write => {
                let since = self.text.now().saturating_sub(self.charged);
                self.text.settle(self.drawn.take(), since)
            }
        };
    }
}

fn passed<C: Chance>(
    model: &dyn LanguageModel,
    texts: &mut [(&mut BatchedText<C>, Part)],
    settle: impl FnOnce(&mut [Settling<'_, C>]),
) -> Result<Vec<Result<(), DecodeError>>, ModelError> {
    let laid_out = texts.iter_mut().map(|(BatchedText { text, .. }, part)| match part {
        Part::Read(tokens) => {
            text.lay_out_part(*tokens);
            Ok(())
        }
        Part::Write => text.lay_out(),
    });
    let mut outcomes: Vec<Result<(), DecodeError>> = laid_out.collect();
    let begun = Instant::now();
    let drawn = drawn_by_model(model, texts, &outcomes)?;
    if drawn.is_none() {
        let items = reading(texts, &outcomes).map(|(text, _)| text.item(0, false).0);
        model.forward_each(&mut items.collect::<Vec<_>>())?;
    }
    let passed = begun.elapsed();
    let tokens: usize = reading(texts, &outcomes).map(|(text, _)| text.reads()).sum();
    let mut drawn = drawn.into_iter().flatten();
    let read = texts.iter_mut().zip(&mut outcomes).filter(|(_, outcome)| outcome.is_ok());
    let mut read: Vec<_> = read
        .map(|((BatchedText { text, .. }, part), outcome)| {
            let charged = passed.mul_f64(text.reads() as f64 / tokens as f64);
            Settling { text, part: *part, drawn: drawn.next(), charged, outcome }
        })
        .collect();
    settle(&mut read);
    Ok(outcomes)
}

/// The tokens that the model samples for the rows of each item, if it does and all texts permit it.
fn drawn_by_model<C: Chance>(
    model: &dyn LanguageModel,
    texts: &mut [(&mut BatchedText<C>, Part)],
    outcomes: &[Result<(), DecodeError>],
) -> Result<Option<Vec<Vec<Option<TokenId>>>>, ModelError> {
    let asked = reading(texts, outcomes).enumerate().map(|(number, (text, part))| {
        let (item, requests) = text.item(number, part == Part::Write);
        // The row of a part is not used.
        (item, if part == Part::Write { requests } else { Some(Vec::new()) })
    });
    let (mut items, requests): (Vec<_>, Vec<_>) = asked.unzip();
    let Some(requests) = requests.into_iter().collect::<Option<Vec<_>>>() else { return Ok(None) };
    let mut requests: Vec<_> = requests.into_iter().flatten().collect();
    if requests.is_empty() {
        return Ok(None);
    }
    if model.draw_each(&mut items, &mut requests)? {
        let mut tokens = vec![Vec::new(); items.len()];
        requests.into_iter().for_each(|request| tokens[request.item].push(request.token));
        return Ok(Some(tokens));
    }
    drop((items, requests));
    reading(texts, outcomes).for_each(|(text, _)| text.stop_device_sampling());
    Ok(None)
}

/// The texts without an error so far.
fn reading<'t, C: Chance>(
    texts: &'t mut [(&mut BatchedText<C>, Part)],
    outcomes: &'t [Result<(), DecodeError>],
) -> impl Iterator<Item = (&'t mut Speculative<BoxedDrafter, C>, Part)> {
    texts
        .iter_mut()
        .zip(outcomes)
        .filter(|(_, outcome)| outcome.is_ok())
        .map(|((text, part), _)| (&mut text.text, *part))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::drafter::{Coupling, DraftModel, Lookup};
    use crate::plain::Plain;
    use crate::table::{Cycle, Table, Without};
    use crate::tree::TreeShape;
    use verdigris_logits::{Chain, Random, Sampler};

    const NO: f32 = f32::NEG_INFINITY;

    /// A text of which nothing is read.
    pub(crate) fn begun(
        model: &Arc<dyn LanguageModel>,
        target: &Target,
        prompt: &[u32],
        limits: Limits,
        drafting: Option<Drafting>,
    ) -> BatchedText {
        let sequence = limits.begin(model.clone(), prompt).unwrap();
        BatchedText::new(&**model, target, prompt, limits, sequence, drafting)
    }

    /// Writes texts to their ends. Returns the tokens of each, and the error that ended it, if any. `part` chooses the
    /// part of a text that has more than one token to read.
    pub(crate) fn written(
        model: &Arc<dyn LanguageModel>,
        texts: &mut [BatchedText],
        mut part: impl FnMut(usize, &mut BatchedText) -> Part,
    ) -> Vec<(Vec<u32>, Option<DecodeError>)> {
        let mut all: Vec<(Vec<u32>, Option<DecodeError>)> = texts.iter().map(|_| (Vec::new(), None)).collect();
        loop {
            let (mut reading, mut numbers) = (Vec::new(), Vec::new());
            for (i, text) in texts.iter_mut().enumerate() {
                let goes_on = all[i].1.is_none() && text.decide();
                all[i].0.extend(std::iter::from_fn(|| text.pop()).map(|(token, _)| token));
                if goes_on {
                    let unread = text.tokens().len() - text.sequence().len();
                    let part = if unread > 1 { part(i, text) } else { Part::Write };
                    reading.push((text, part));
                    numbers.push(i);
                }
            }
            if reading.is_empty() {
                return all;
            }
            let outcomes = pass(&**model, &mut reading).unwrap();
            for ((i, (text, _)), outcome) in numbers.into_iter().zip(reading).zip(outcomes) {
                all[i].0.extend(std::iter::from_fn(|| text.pop()).map(|(token, _)| token));
                all[i].1 = outcome.err();
            }
        }
    }

    fn target(seed: u64) -> Target {
        // Every other text has tokens that are decided without the model.
        let transforms = Chain::new().then(Cycle { tokens: 7, tells: seed.is_multiple_of(2) });
        Target { transforms, sampler: Sampler::Categorical, random: Random::new(seed) }
    }

    /// Texts of different lengths, ended by an end token, after prompts that are read in pieces of any size.
    #[test]
    fn each_text_is_the_one_that_is_written_alone() {
        let table = Table::noise(7, 3);
        let model: Arc<dyn LanguageModel> = table.clone();
        let prompts: [&[u32]; 5] = [&[1], &[1, 2, 3], &[5, 5], &[6, 0, 1, 2, 3, 4], &[2]];
        let limits = |i: usize| Limits { max_tokens: 20 + i, end: vec![4] };
        let mut lengths = std::collections::BTreeSet::new();
        for piece in 1..=6 {
            let mut has_lost = [false; 9];
            let targets: Vec<Target> = (0..9).map(target).collect();
            let mut texts: Vec<BatchedText> =
                (0..9).map(|i| begun(&model, &targets[i], prompts[i % 5], limits(i), None)).collect();
            let all = written(&model, &mut texts, |i, text| {
                let unread = text.tokens().len() - text.sequence().len();
                if text.tokens().len() > 7 && !std::mem::replace(&mut has_lost[i], true) {
                    let capacity = text.sequence().capacity();
                    *text.sequence() = model.clone().begin(capacity).unwrap();
                    return Part::Read(piece);
                }
                if piece < unread { Part::Read(piece) } else { Part::Write }
            });
            for (i, (text, fault)) in all.into_iter().enumerate() {
                let mut alone = Plain::new(model.clone(), &targets[i], prompts[i % 5], limits(i)).unwrap();
                let expected: Vec<u32> = alone.by_ref().map(Result::unwrap).collect();
                assert_eq!(text, expected, "text {i}");
                assert_eq!(texts[i].stop(), alone.stop());
                assert!(fault.is_none());
                lengths.insert(expected.len());
            }
        }
        assert!(lengths.len() > 2, "{lengths:?}");
    }

    /// Ending a text from outside does not affect the others.
    #[test]
    fn a_text_is_ended_between_passes() {
        let model: Arc<dyn LanguageModel> = Table::noise(7, 3);
        let (targets, limits) = ([target(1), target(3)], Limits { max_tokens: 10, end: vec![] });
        let mut texts: Vec<BatchedText> =
            targets.iter().map(|target| begun(&model, target, &[1], limits.clone(), None)).collect();
        for _ in 0..2 {
            let mut reading: Vec<_> = texts.iter_mut().map(|text| (text, Part::Write)).collect();
            pass(&*model, &mut reading).unwrap();
        }
        let first: Vec<u32> = std::iter::from_fn(|| texts[0].pop()).map(|(token, _)| token).collect();
        texts[0].end(Stop::StopString);
        let all = written(&model, &mut texts, |_, _| Part::Write);
        let alone = |i: usize| -> Vec<u32> {
            Plain::new(model.clone(), &targets[i], &[1], limits.clone()).unwrap().map(Result::unwrap).collect()
        };
        assert_eq!((&first[..], texts[0].stop(), all[0].0.len()), (&alone(0)[..2], Some(Stop::StopString), 0));
        assert_eq!((&all[1].0, texts[1].stop()), (&alone(1), Some(Stop::Length)));
    }

    /// Texts of different lengths with different drafters: the text and the drafts of each are the same as when it is
    /// written alone.
    #[test]
    fn each_text_has_its_own_drafts() {
        let (table, small) = (Table::deep(7, 3, 64), Table::deep(7, 4, 64));
        let targets: Vec<Target> = (0..9).map(target).collect();
        let (prompt, limits) = ([1, 2, 1, 2], Limits { max_tokens: 20, end: vec![4] });
        let drafter = |i: usize| -> BoxedDrafter {
            let model = |coupling| {
                let Target { transforms, sampler, .. } = &targets[i];
                // The target itself drafts for some.
                let model = if i < 5 { &table } else { &small };
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
            for model in [table.clone(), table.drawing()] {
                let model: Arc<dyn LanguageModel> = model;
                let drafting = |i| Some(Drafting { drafter: drafter(i), length, rule: Rule::EachToken, memory: None });
                let begun = |i| begun(&model, &targets[i], &prompt, limits.clone(), drafting(i));
                let mut texts: Vec<BatchedText> = (0..9).map(begun).collect();
                let all = written(&model, &mut texts, |i, _| if i < 3 { Part::Read(1) } else { Part::Write });
                for (i, target) in targets.iter().enumerate() {
                    let chance = Seeded(target.random);
                    let alone =
                        Speculative::new(model.clone(), target, &prompt, limits.clone(), drafter(i), length, chance);
                    let mut alone = alone.unwrap();
                    assert_eq!(all[i].0, alone.by_ref().map(Result::unwrap).collect::<Vec<u32>>(), "text {i}");
                    assert_eq!((texts[i].stop(), texts[i].acceptance()), (alone.stop(), Some(alone.acceptance())));
                    if i % 3 > 0 {
                        let plain = Plain::new(model.clone(), target, &prompt, limits.clone()).unwrap();
                        assert_eq!(all[i].0, plain.map(Result::unwrap).collect::<Vec<u32>>(), "text {i}");
                    }
                    accepted += alone.acceptance().accepted;
                }
            }
        }
        assert!(accepted > 100, "{accepted}");
    }

    /// The first text is the same whether the second fails or not.
    #[test]
    fn an_error_of_one_is_none_of_the_others() {
        let limits = Limits { max_tokens: 3, end: Vec::new() };
        let targets = [false, true].map(|dead| {
            let transforms = Chain::new().then(Without(if dead { 2 } else { 99 }));
            Target { transforms, sampler: Sampler::Greedy, random: Random::new(0) }
        });
        let only = Table::new((0..3).map(|_| vec![NO, NO, 1.0]).collect(), 10);
        for model in [only.clone(), only.drawing()] {
            let model: Arc<dyn LanguageModel> = model;
            let mut texts: Vec<BatchedText> =
                targets.iter().map(|target| begun(&model, target, &[1], limits.clone(), None)).collect();
            let all = written(&model, &mut texts, |_, _| Part::Write);
            assert_eq!(all[0].0, [2, 2, 2]);
            assert!(all[0].1.is_none() && all[1].0.is_empty());
            assert!(matches!(all[1].1, Some(DecodeError::DeadEnd { position: 1 })), "{:?}", all[1].1);
        }
    }
}
