//! Rank 0 of a model that several ranks compute.

use std::any::Any;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use verdigris_collective::{Collective, CollectiveError};

use super::command::{self, TextId};
use super::first_unable;
use crate::cpu::{CpuDecoder, CpuItem, Peers, Sight, State, Work, forward, reserve};
use crate::description::share::Split;
use crate::error::ModelError;
use crate::language_model::{Batch, BatchItem, LanguageModel, Rows, Sequence};

/// Rank 0's part of a model; other processes have the rest. It is a [`LanguageModel`] like any other; its sequences
/// pass each call on to the other ranks. After an error of a rank all calls fail. When it is dropped, the other ranks
/// end.
pub struct Leader {
    part: CpuDecoder,
    split: Split,
    group: Mutex<Group>,
}

/// The state that sequences use one at a time.
struct Group {
    collective: Box<dyn Collective>,
    work: Work,
    message: Vec<u8>,
    able: Vec<f32>,
    /// The numbers of ended texts, for reuse.
    free: Vec<TextId>,
    next: TextId,
}

impl Leader {
    pub(super) fn new(part: CpuDecoder, split: Split, collective: Box<dyn Collective>) -> Self {
        let (work, message, able, free) = (Work::default(), Vec::new(), Vec::new(), Vec::new());
        Self { part, split, group: Mutex::new(Group { collective, work, message, able, free, next: 0 }) }
    }

    /// Ignores poisoning: a panic in one text does not affect the others.
    fn group(&self) -> MutexGuard<'_, Group> {
        self.group.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks the items on this rank, then reads them on every rank.
    fn forward(&self, items: &mut [CpuItem<'_>], texts: &[TextId]) -> Result<(), ModelError> {
        reserve(&self.part, items)?;
        let mut group = self.group();
        let Group { collective, work, message, .. } = &mut *group;
        let inputs = items.iter().zip(texts).map(|(item, text)| (*text, item.state.held.length(), item.batch));
        command::forward(message, inputs);
        collective.broadcast(message)?;
        forward(&self.part, items, work, &mut Peers::new(self.split, &mut **collective))
    }
}

impl Group {
    fn tell(&mut self) -> Result<(), CollectiveError> {
        self.collective.broadcast(&mut self.message)
    }

    /// Gives a text a number, for which `say` writes the command to the other ranks. Either all ranks begin the text or
    /// none.
    fn begin(&mut self, own: State, say: impl FnOnce(&mut Vec<u8>, TextId)) -> Result<(TextId, State), ModelError> {
        let text = self.free.pop().unwrap_or_else(|| {
            self.next += 1;
            self.next - 1
        });
        say(&mut self.message, text);
        self.tell()?;
        match first_unable(&mut *self.collective, true, &mut self.able)? {
            None => Ok((text, own)),
            Some(rank) => {
                self.free.push(text);
                Err(ModelError::RankMemory { rank, tokens: own.held.capacity() })
            }
        }
    }
}

impl LanguageModel for Leader {
    fn vocabulary_size(&self) -> usize {
        self.part.config().vocabulary
    }

    fn context_length(&self) -> usize {
        self.part.config().context
    }

    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        // If this fails, the other ranks are not asked.
        let own = State::new(&self.part, capacity)?;
        let say = |message: &mut Vec<u8>, text| command::begin(message, text, capacity);
        let (text, state) = self.group().begin(own, say)?;
        Ok(Box::new(LeaderSequence { leader: self, text, state }))
    }

    fn forward_each(&self, items: &mut [BatchItem<'_>]) -> Result<(), ModelError> {
        let mut texts = Vec::with_capacity(items.len());
        let mut own = Vec::with_capacity(items.len());
        for BatchItem { sequence, batch, rows } in items {
            let sequence: &mut dyn Any = *sequence;
            let sequence = sequence.downcast_mut::<LeaderSequence>().filter(|own| std::ptr::eq(&*own.leader, self));
            let LeaderSequence { state, text, .. } = sequence.expect("a sequence of this model");
            texts.push(*text);
            own.push(CpuItem { state, batch: *batch, beginning: None, sight: Sight::Before, rows });
        }
        self.forward(&mut own, &texts)
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let mut group = self.group();
        command::end(&mut group.message);
        // Ranks that do not receive it find the connection closed.
        let _ = group.tell();
    }
}

/// One text on all ranks.
struct LeaderSequence {
    leader: Arc<Leader>,
    text: TextId,
    /// The state in rank 0's part.
    state: State,
}

impl Sequence for LeaderSequence {
    fn len(&self) -> usize {
        self.state.held.length()
    }

    fn capacity(&self) -> usize {
        self.state.held.capacity()
    }

    fn forward(&mut self, batch: &Batch<'_>, rows: &mut Rows) -> Result<(), ModelError> {
        let Self { leader, text, state } = self;
        leader.forward(&mut [CpuItem { state, batch: *batch, beginning: None, sight: Sight::Before, rows }], &[*text])
    }

    fn truncate(&mut self, length: usize) {
        self.state.held.truncate(length);
    }

    fn keep(&mut self, from: usize, path: &[usize]) -> Result<(), ModelError> {
        let length = self.len();
        // Panics on a bad path before anything is sent.
        self.state.held.after_keep(from, path);
        let mut group = self.leader.group();
        command::keep(&mut group.message, self.text, length, from, path);
        group.tell()?;
        let kept = self.state.keep(from, path);
        if let Err(error) = &kept {
            group.collective.abort(&error.to_string());
        }
        kept
    }

    fn fork(&self) -> Result<Box<dyn Sequence>, ModelError> {
        let (length, text) = (self.len(), self.text);
        let say = |message: &mut Vec<u8>, fork| command::fork(message, text, length, fork);
        let (text, state) = self.leader.group().begin(self.state.fork(), say)?;
        Ok(Box::new(Self { leader: self.leader.clone(), text, state }))
    }
}

impl Drop for LeaderSequence {
    fn drop(&mut self) {
        let mut group = self.leader.group();
        command::drop(&mut group.message, self.text);
        // If this fails, the next call reports it.
        if group.tell().is_ok() {
            group.free.push(self.text);
        }
    }
}
