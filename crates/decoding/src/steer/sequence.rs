//! A text as read by all members of a steered model.

use std::any::Any;
use std::sync::Arc;

use verdigris_logits::TokenId;
use verdigris_models::{Batch, BatchItem, LanguageModel, ModelError, Rows, Sequence, Wanted};

use super::ahead::{Ahead, InUse, Rest, SharedAhead};
use super::member::{Member, OwnPrompt, Reads};
use super::mix::{Mixer, Said, Term};
use super::{Kind, Steered};

/// The number of tokens of a text read in one call, which bounds the rows held at a time.
const AT_A_TIME: usize = 64;

pub(super) struct SteeredSequence {
    steered: Arc<Steered>,
    base: Box<dyn Sequence>,
    /// The expert and the anti-expert of each term; `None` is the base.
    members: Vec<(Option<SharedAhead>, Option<Member>)>,
    mixer: Mixer,
    /// The divergence of each row of the last call, if requested.
    moved: Option<Vec<f64>>,
}

impl SteeredSequence {
    pub(super) fn begin(
        steered: Arc<Steered>,
        capacity: usize,
        shared: Option<&SharedAhead>,
    ) -> Result<Self, ModelError> {
        let mut shared = shared;
        let mut members = Vec::with_capacity(steered.terms.len());
        for term in &steered.terms {
            let member = |model: &Option<Arc<dyn LanguageModel>>, own: &Option<OwnPrompt>| {
                model.as_ref().map(|model| Member::begin(model, own.clone(), capacity)).transpose()
            };
            let expert = member(&term.pair.expert, &term.expert)?.map(Ahead::new);
            // The drafter shares the first expert.
            let expert = expert.map(|expert| match shared.take() {
                Some(shared) => shared.fill(expert),
                None => SharedAhead::of(expert),
            });
            members.push((expert, member(&term.pair.anti, &term.anti)?));
        }
        let base = steered.base.clone().begin(capacity)?;
        Ok(Self { steered, base, members, mixer: Mixer::default(), moved: None })
    }

    /// Removes the tokens past a length from every member.
    fn cut(&mut self, length: usize) {
        for (expert, anti) in &mut self.members {
            expert.iter().for_each(|expert| expert.get().truncate(length));
            anti.iter_mut().for_each(|anti| anti.truncate(length));
        }
        self.base.truncate(self.base.len().min(length));
    }

    /// The divergence of each token's distribution: see [`Steered::divergence`].
    pub(super) fn divergence(mut self, prompt: &[TokenId], text: &[TokenId]) -> Result<Vec<f64>, ModelError> {
        let Some((_, inputs)) = text.split_last() else { return Ok(Vec::new()) };
        self.moved = Some(Vec::new());
        let (mut rows, mut all) = (Rows::default(), Vec::with_capacity(text.len()));
        self.forward(&Batch::chain(prompt, Wanted::Last), &mut rows)?;
        all.extend(self.moved.iter().flatten());
        for some in inputs.chunks(AT_A_TIME) {
            self.forward(&Batch::chain(some, Wanted::All), &mut rows)?;
            all.extend(self.moved.iter().flatten());
        }
        Ok(all)
    }
}

/// One of several texts, and its batch.
struct Item<'a> {
    sequence: &'a mut SteeredSequence,
    batch: Batch<'a>,
    rows: &'a mut Rows,
}

/// Continues several texts: see [`LanguageModel::forward_each`].
pub(super) fn forward_each(items: &mut [BatchItem<'_>]) -> Result<(), ModelError> {
    let mut own = Vec::with_capacity(items.len());
    for BatchItem { sequence, batch, rows } in items {
        let sequence: &mut dyn Any = *sequence;
        let sequence = sequence.downcast_mut::<SteeredSequence>().expect("a sequence of a steered model");
        own.push(Item { sequence, batch: *batch, rows });
    }
    forward(&mut own)
}

/// Continues all texts or, after an error, none.
fn forward(items: &mut [Item<'_>]) -> Result<(), ModelError> {
    let before: Vec<usize> = items.iter().map(|item| item.sequence.base.len()).collect();
    let read = read(items);
    if read.is_err() {
        items.iter_mut().zip(before).for_each(|(item, before)| item.sequence.cut(before));
    }
    read
}

/// Lets all members read, with one call of each model even if it has several roles. With guidance the base reads both
/// prompts in one call.
fn read(items: &mut [Item<'_>]) -> Result<(), ModelError> {
    /// The expert and the anti-expert of a term, prepared.
    type Members<'a> = (Option<(InUse<'a>, Rest)>, Option<(&'a mut Member, Reads)>);
    /// A text with its members.
    struct Ready<'a> {
        steered: &'a Steered,
        base: &'a mut dyn Sequence,
        members: Vec<Members<'a>>,
        mixer: &'a mut Mixer,
        moved: &'a mut Option<Vec<f64>>,
        batch: Batch<'a>,
        rows: &'a mut Rows,
    }
    let mut ready = Vec::with_capacity(items.len());
    for Item { sequence, batch, rows } in items {
        let SteeredSequence { steered, base, members, mixer, moved } = &mut **sequence;
        let batch = *batch;
        let mut prepared = Vec::with_capacity(members.len());
        for (expert, anti) in members {
            let expert = expert.as_ref().map(|expert| {
                let mut expert = expert.get();
                let rest = expert.prepare(&batch);
                (expert, rest)
            });
            let anti = anti.as_mut().map(|anti| {
                let reads = anti.prepare(&batch);
                (anti, reads)
            });
            prepared.push((expert, anti));
        }
        ready.push(Ready { steered, base: &mut **base, members: prepared, mixer, moved, batch, rows });
    }
    let mut calls: Vec<(Arc<dyn LanguageModel>, BatchItem<'_>)> = Vec::new();
    for Ready { steered, base, members, batch, rows, .. } in &mut ready {
        calls.push((steered.base.clone(), BatchItem { sequence: &mut **base, batch: *batch, rows }));
        for (expert, anti) in members {
            if let Some((expert, rest)) = expert {
                let model = expert.member().model().clone();
                calls.extend(expert.item(batch, *rest).map(|item| (model, item)));
            }
            if let Some((anti, reads)) = anti {
                let model = anti.model().clone();
                calls.extend(anti.item(batch, *reads).map(|item| (model, item)));
            }
        }
    }
    while let Some((model, _)) = calls.first() {
        let model = model.clone();
        let is_its =
            |(other, _): &(Arc<dyn LanguageModel>, _)| std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(&model));
        let (its, others): (Vec<_>, Vec<_>) = calls.into_iter().partition(is_its);
        calls = others;
        let mut its: Vec<BatchItem<'_>> = its.into_iter().map(|(_, item)| item).collect();
        match &mut its[..] {
            [BatchItem { sequence, batch, rows }] => sequence.forward(batch, rows)?,
            its => model.forward_each(its)?,
        }
    }
    for Ready { steered, base, mut members, mixer, moved, batch, rows } in ready {
        for (expert, anti) in &mut members {
            expert.iter_mut().for_each(|(expert, rest)| expert.settle(batch.tokens.len(), *rest));
            anti.iter_mut().for_each(|(anti, _)| anti.settle(batch.tokens.len()));
        }
        let budget = steered.budget.or_else(|| moved.as_ref().map(|_| f64::INFINITY));
        if let Some(moved) = moved {
            moved.clear();
        }
        let (positions, first) = (batch.positions(base.len() - batch.tokens.len()), batch.first_wanted());
        for i in 0..rows.count() {
            // The row of the last token of the prompt is that of the first token written.
            let written = (positions[first + i] as usize + 1).saturating_sub(steered.prompt);
            let said = |row: Option<Option<_>>| match row {
                None => Some(Said::AsTheBase),
                Some(row) => row.map(Said::Row),
            };
            let terms = steered.terms.iter().zip(&members).filter_map(|(term, (expert, anti))| {
                let expert = said(expert.as_ref().map(|(expert, _)| expert.row(i)))?;
                let anti = said(anti.as_ref().map(|(anti, _)| anti.row(i)))?;
                let (weight, is_normalized) = (term.pair.weight(written), term.kind == Kind::Guidance);
                Some(Term { expert, anti, weight, is_normalized })
            });
            let terms: Vec<Term<'_>> = terms.collect();
            let kl = mixer.mix(rows.row_mut(i), &terms, &steered.filter, budget);
            if let Some(moved) = moved {
                moved.push(kl);
            }
        }
    }
    Ok(())
}

impl Sequence for SteeredSequence {
    fn len(&self) -> usize {
        self.base.len()
    }

    fn capacity(&self) -> usize {
        self.base.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        forward(&mut [Item { sequence: self, batch: *batch, rows }])
    }

    fn truncate(&mut self, length: usize) {
        assert!(length <= self.len(), "truncating {} tokens to {length}", self.len());
        self.cut(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        self.base.keep(from, path)?;
        for (expert, anti) in &mut self.members {
            expert.iter().try_for_each(|expert| expert.get().keep(from, path))?;
            anti.iter_mut().try_for_each(|anti| anti.keep(from, path))?;
        }
        Ok(())
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let mut members = Vec::with_capacity(self.members.len());
        for (expert, anti) in &self.members {
            let expert = expert.as_ref().map(|expert| expert.get().fork()).transpose()?.map(SharedAhead::of);
            members.push((expert, anti.as_ref().map(Member::fork).transpose()?));
        }
        let (steered, base) = (self.steered.clone(), self.base.fork()?);
        Ok(Box::new(Self { steered, base, members, mixer: Mixer::default(), moved: None }))
    }
}
