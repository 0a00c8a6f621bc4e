//! The ranks of a model other than rank 0.

use verdigris_collective::{Collective, CollectiveError};

use super::command::{Command, CommandInput, TextId};
use super::first_unable;
use crate::cpu::{CpuDecoder, CpuItem, Peers, Sight, State, Work, forward, reserve};
use crate::description::share::Split;
use crate::error::ModelError;
use crate::language_model::Rows;

/// A rank that executes rank 0's commands with its part of a model.
pub struct Worker {
    part: CpuDecoder,
    split: Split,
    collective: Box<dyn Collective>,
    /// The texts by their numbers.
    texts: Vec<Option<State>>,
    input: CommandInput,
    /// The states of the texts that are being read.
    taken: Vec<State>,
    /// Unused rows of these texts: only rank 0 writes rows.
    rows: Vec<Rows>,
    work: Work,
    able: Vec<f32>,
}

impl Worker {
    pub(super) fn new(part: CpuDecoder, split: Split, collective: Box<dyn Collective>) -> Self {
        let (texts, taken, rows, able) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        let (input, work) = (CommandInput::default(), Work::default());
        Self { part, split, collective, texts, input, taken, rows, work, able }
    }

    /// The number of this rank.
    pub fn rank(&self) -> usize {
        self.collective.rank()
    }

    /// The number of ranks.
    pub fn world(&self) -> usize {
        self.collective.world()
    }

    /// Executes rank 0's commands until it sends no more.
    ///
    /// # Errors
    /// [`ModelError::Ranks`] if a rank is gone, is late, or sends a command that cannot be executed; and an error if
    /// this rank does not have enough memory, which it reports to the others.
    pub fn serve(mut self) -> Result<(), ModelError> {
        let mut message = Vec::new();
        loop {
            match self.obey(&mut message) {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                Err(error) => {
                    self.collective.abort(&error.to_string());
                    return Err(error);
                }
            }
        }
    }

    /// Executes rank 0's next command. Returns whether more follow.
    fn obey(&mut self, message: &mut Vec<u8>) -> Result<bool, ModelError> {
        self.collective.broadcast(message)?;
        let command = Command::parse(message, &mut self.input);
        match command.map_err(|bad| out_of_step(bad.to_string()))? {
            Command::Begin { text, capacity } => {
                let state = State::new(&self.part, capacity);
                self.begin(text, state)?;
            }
            Command::Fork { text, length, fork } => {
                let state = self.text(text, length)?.fork();
                self.begin(fork, Ok(state))?;
            }
            Command::Forward => self.forward()?,
            Command::Keep { text, length, from } => {
                let path = std::mem::take(&mut self.input.path);
                if path.last().map_or(from, |last| from + last + 1) > length {
                    return Err(out_of_step(format!("it keeps tokens past {length}")));
                }
                self.text(text, length)?.keep(from, &path)?;
                self.input.path = path;
            }
            Command::Drop { text } => drop(self.take(text)?),
            Command::End => return Ok(false),
        }
        Ok(true)
    }

    /// Begins a text if all ranks can.
    fn begin(&mut self, text: TextId, state: Result<State, ModelError>) -> Result<(), ModelError> {
        let at = text as usize;
        // Rank 0 uses a freed number or the next new one.
        if at > self.texts.len() || self.texts.get(at).is_some_and(Option::is_some) {
            return Err(out_of_step(format!("text {text} cannot begin")));
        }
        let unable = first_unable(&mut *self.collective, state.is_ok(), &mut self.able)?;
        let state = state.ok().filter(|_| unable.is_none());
        match self.texts.get_mut(at) {
            Some(place) => *place = state,
            None => self.texts.push(state),
        }
        Ok(())
    }

    /// A text, truncated to `length` tokens.
    fn text(&mut self, text: TextId, length: usize) -> Result<&mut State, ModelError> {
        let state = self.texts.get_mut(text as usize).and_then(Option::as_mut);
        let state = state.ok_or_else(|| out_of_step(format!("there is no text {text}")))?;
        if length > state.held.length() {
            let held = state.held.length();
            return Err(out_of_step(format!("text {text} has {held} tokens, not {length}")));
        }
        state.held.truncate(length);
        Ok(state)
    }

    fn take(&mut self, text: TextId) -> Result<State, ModelError> {
        let state = self.texts.get_mut(text as usize).and_then(Option::take);
        state.ok_or_else(|| out_of_step(format!("there is no text {text}")))
    }

    fn forward(&mut self) -> Result<(), ModelError> {
        self.taken.clear();
        for i in 0..self.input.batches.len() {
            let text_batch = self.input.batches[i];
            self.text(text_batch.text, text_batch.length)?;
            let state = self.take(text_batch.text)?;
            self.taken.push(state);
        }
        let Self { part, split, collective, input, taken, rows, work, texts, .. } = self;
        rows.resize_with(taken.len().max(rows.len()), Rows::default);
        let items = taken.iter_mut().zip(&input.batches).zip(rows);
        let mut items = items.map(|((state, text_batch), rows)| CpuItem {
            state,
            batch: input.batch(text_batch),
            beginning: None,
            sight: Sight::Before,
            rows,
        });
        let mut read = |items: &mut [CpuItem<'_>]| {
            reserve(part, items)?;
            forward(part, items, work, &mut Peers::new(*split, &mut **collective))
        };
        match (items.next(), items.len()) {
            // The usual case, which needs no list.
            (Some(one), 0) => read(&mut [one])?,
            (first, _) => read(&mut first.into_iter().chain(items).collect::<Vec<_>>())?,
        }
        for (state, text_batch) in taken.drain(..).zip(&input.batches) {
            texts[text_batch.text as usize] = Some(state);
        }
        Ok(())
    }
}

/// The error of a command that cannot be executed.
fn out_of_step(fault: String) -> ModelError {
    CollectiveError::OutOfStep { peer: "rank 0".into(), fault }.into()
}
