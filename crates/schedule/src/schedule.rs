//! The loop: one pass of a model after the other, as planned by the [policy](crate::policy).

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_decoding::{Acceptance, BatchedText, DecodeError, Drafter, Drafting, Limits, Part, Stop, Target, pass};
use verdigris_logits::TokenId;
use verdigris_models::{LanguageModel, ModelError, PageShape, Rows, Sequence};

use crate::ended::Ended;
use crate::event::{Event, TokenEvent};
use crate::kept::KeptPages;
use crate::policy::{Account, Bounds, Counts, Policy, PrefixId, Space, Step, Submission, TextId, TooLong};
use crate::prefix_store::{PrefixStore, Stored, Storing};
use crate::rereading::{Rereading, RowReader};
use crate::spaces::Spaces;

/// The limits of a schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The maximum number of texts that run at a time.
    pub texts: usize,
    /// The maximum number of tokens whose keys and values are held, for all texts and kept prefixes together. Partly
    /// filled pages count in full.
    pub tokens: usize,
    /// The number of these tokens that may be kept for later texts, as long as no text needs their memory.
    pub kept: usize,
    /// The number of tokens that a pass reads while prompts are waiting: see [`Bounds::rows`] and [`crate::rows`].
    pub rows: usize,
}

impl Capacity {
    /// The default rows of a pass, which is the number that goes through the layers together.
    pub const ROWS: usize = 512;

    /// The default number of kept tokens.
    pub const KEPT: usize = 8192;

    /// The capacity for `texts` texts of a model, of at most `tokens` tokens each.
    pub fn of_texts(model: &dyn LanguageModel, texts: usize, tokens: usize) -> Self {
        let each = tokens.div_ceil(model.pages().tokens).saturating_mul(model.pages().tokens);
        Self { texts, tokens: texts.saturating_mul(each), kept: Self::KEPT, rows: Self::ROWS }
    }
}

/// A text to write.
pub struct Ask {
    /// The model that writes it: by default the schedule's own, else one that is steered like it.
    pub model: Option<Arc<dyn LanguageModel>>,
    /// The prompt.
    pub prompt: Arc<[TokenId]>,
    /// The distribution of the text.
    pub target: Target,
    /// The limits that end it.
    pub limits: Limits,
    /// The drafting of the text, if any.
    pub drafting: Option<Drafting>,
    /// Reads the rows that its tokens were sampled from. For this the model reads the text once more at its end, as one
    /// of the texts of the schedule.
    pub rows: Option<RowReader>,
    /// The account that it is written for. If resources are short, each tenant gets an even part, divided evenly
    /// between its requests.
    pub account: Account,
    /// Texts share kept prompts only with texts of the same salt. A text that begins with pages of another one starts
    /// sooner and is counted, so both its timing and the counts reveal how the other began.
    #[doc(alias = "cache_salt")]
    pub salt: Arc<str>,
    /// The beginning of the text that the schedule's [store](Schedule::with_store) keeps for later ones.
    pub storing: Storing,
}

impl Ask {
    /// A text without drafts, written by the schedule's own model.
    pub fn new(prompt: impl Into<Arc<[TokenId]>>, target: Target, limits: Limits) -> Self {
        let (prompt, account, salt) = (prompt.into(), Account::default(), "".into());
        let storing = Storing::default();
        Self { model: None, prompt, target, limits, drafting: None, rows: None, account, salt, storing }
    }
}

/// The reason that a text was refused.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// An empty prompt, or one that does not fit into the model's context.
    #[error(transparent)]
    Prompt(#[from] DecodeError),
    /// A prompt that is too long for the whole memory.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

/// The current state of a schedule and its totals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Counts of texts, pages, and shared prompts.
    pub counts: Counts,
    /// The number of tokens of a page.
    pub page_tokens: usize,
    /// The number of calls of the model.
    pub passes: usize,
    /// The number of tokens that the calls read, drafts included.
    pub read: usize,
    /// The number of tokens that were not read because their state was [stored](Schedule::with_store).
    pub restored: usize,
    /// The number of tokens that were written, including those of cancelled texts.
    pub written: usize,
    /// The number of drafts among the tokens read.
    pub drafted: usize,
    /// The number of accepted drafts.
    pub accepted: usize,
}

/// The limits that a text must fit into.
#[derive(Clone)]
pub(crate) struct Room {
    model: Arc<dyn LanguageModel>,
    page_tokens: usize,
    /// The maximum number of tokens that a text can have.
    memory: usize,
}

impl Room {
    /// The maximum number of tokens that a text can have.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// The maximum length that a text may reach, regardless of memory.
    pub(crate) fn of(&self, ask: &Ask) -> Result<usize, Refused> {
        let model = ask.model.as_ref().unwrap_or(&self.model);
        let own = ask.limits.room(model.context_length(), &ask.prompt)?;
        let prompt = ask.prompt.len();
        if prompt >= self.memory {
            let [needs, pages] = [prompt + 1, self.memory].map(|tokens| tokens.div_ceil(self.page_tokens));
            return Err(TooLong { needs, pages }.into());
        }
        Ok(own)
    }
}

/// Texts of one model that arrive and end at any time. All work is done in [`Schedule::pass`].
pub struct Schedule {
    model: Arc<dyn LanguageModel>,
    pub(crate) shape: PageShape,
    room: Room,
    pub(crate) policy: Policy,
    spaces: Spaces,
    pub(crate) texts: BTreeMap<TextId, Entry>,
    /// The memory kept for texts with a common prefix.
    pub(crate) kept: KeptPages,
    pub(crate) store: Option<Arc<dyn PrefixStore>>,
    /// The rows of texts that are read once more.
    rows: Rows,
    steps: Vec<Step>,
    pub(crate) statistics: Statistics,
}

/// A text of a schedule.
pub(crate) struct Entry {
    model: Arc<dyn LanguageModel>,
    space: Space,
    /// The capacity of its sequence.
    pub(crate) capacity: usize,
    pub(crate) stage: Stage,
    /// The part that is stored, if the text uses the store.
    pub(crate) stored: Option<Stored>,
    /// The last page of it that was kept.
    last_kept: Option<PrefixId>,
    /// The number of tokens of it that the policy knows.
    known: usize,
    /// The drafts that are already counted.
    counted: Acceptance,
    /// The number of tokens of the prompt, and the number of tokens handed over.
    prompt: usize,
    told: usize,
    /// Reads its rows at its end.
    rows: Option<RowReader>,
}

pub(crate) enum Stage {
    Waits(Box<Ask>),
    /// Also while it has lost its memory and waits.
    Runs(Box<BatchedText>),
    /// It is complete, and read once more for its rows.
    Rereads(Box<Rereading>),
}

/// Receives the events of texts, by their ids. On [`ControlFlow::Break`] at a token the text ends there, for the given
/// reason; at an end it has no effect.
pub type Tell<'t> = &'t mut dyn FnMut(TextId, TokenEvent) -> ControlFlow<Stop>;

impl Schedule {
    /// A schedule for texts of a model.
    ///
    /// # Panics
    /// If it may have no texts, or read no rows.
    pub fn new(model: Arc<dyn LanguageModel>, capacity: Capacity) -> Self {
        let shape = model.pages();
        let pages = capacity.tokens.div_ceil(shape.tokens).max(1);
        let Capacity { texts, kept, rows, .. } = capacity;
        let PageShape { tokens: page_tokens, has_parts, .. } = shape;
        let bounds = Bounds { page_tokens, pages, kept: kept.div_ceil(page_tokens), rows, texts, has_parts };
        Self {
            shape,
            room: Room { model: model.clone(), page_tokens: shape.tokens, memory: pages.saturating_mul(shape.tokens) },
            policy: Policy::new(bounds),
            spaces: Spaces::default(),
            texts: BTreeMap::new(),
            kept: KeptPages::new(texts),
            store: None,
            rows: Rows::default(),
            steps: Vec::new(),
            statistics: Statistics { page_tokens: shape.tokens, ..Statistics::default() },
            model,
        }
    }

    /// Adds a text, which waits for its turn. Ids are given in the order of arrival.
    ///
    /// # Errors
    /// [`Refused`] if it could never begin.
    pub fn submit(&mut self, mut ask: Ask) -> Result<TextId, Refused> {
        let own = self.room.of(&ask)?;
        let model = ask.model.clone().unwrap_or_else(|| self.model.clone());
        let (memory, prompt) = (self.room.memory, ask.prompt.len());
        // Sequences of the same capacity can continue from each other's.
        let capacity = if self.shape.depends_on_capacity { own } else { model.context_length() }.min(memory);
        let space = self.spaces.enter(&model, capacity, &ask.salt);
        let ahead = ask.drafting.as_ref().map_or(0, |drafting| drafting.length.most());
        // A drafter that uses the model's computations must see all of them.
        let reads_all = ask.drafting.as_ref().is_some_and(|drafting| drafting.drafter.reads_features());
        let (account, prompt_of) = (ask.account.clone(), ask.prompt.clone());
        let most = own.min(memory);
        let store = self.store.as_ref().filter(|_| !reads_all && Arc::ptr_eq(&model, &self.model));
        let has_parts = self.shape.has_parts;
        let stored =
            store.map(|store| Stored::new(&**store, ask.storing, ask.salt.clone(), ask.prompt.clone(), has_parts));
        let pause = stored.as_ref().filter(|_| !has_parts).map_or(0, |stored| stored.next);
        let space_of = (!reads_all).then_some(space);
        let submission = Submission { account, prompt: prompt_of, most, ahead, space: space_of, pause };
        let id = self.policy.submit(submission).inspect_err(|_| self.spaces.leave(space))?;
        if let Some(stored) = &stored {
            self.restore(space, &model, capacity, stored);
        }
        let (rows, stage, counted) = (ask.rows.take(), Stage::Waits(Box::new(ask)), Acceptance::default());
        let (known, told, last_kept) = (prompt, 0, None);
        let entry = Entry { model, space, capacity, stage, stored, last_kept, known, counted, prompt, told, rows };
        self.texts.insert(id, entry);
        Ok(id)
    }

    /// The limits that texts must fit into.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Ends a text here, which frees its memory for the next pass. Returns `None` if it has already ended.
    pub fn cancel(&mut self, id: TextId) -> Option<Ended> {
        let entry = self.texts.get_mut(&id)?;
        entry.count(&mut self.statistics);
        let ended = Ended { stop: None, ..entry.ended() };
        self.remove(id);
        Some(ended)
    }

    /// The current statistics.
    pub fn statistics(&self) -> Statistics {
        Statistics { counts: self.policy.counts(), ..self.statistics }
    }

    /// Whether there are no texts.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// Makes one call of the model and delivers the events that result. Returns `false` if no texts are left.
    ///
    /// # Errors
    /// The model's, which is no text's fault. Texts that were about to continue are unchanged, and can be cancelled.
    pub fn pass(&mut self, tell: Tell<'_>) -> Result<bool, ModelError> {
        let mut steps = std::mem::take(&mut self.steps);
        steps.clear();
        self.policy.plan(&mut steps);
        let done = self.carry_out(&steps, tell);
        self.steps = steps;
        done?;
        Ok(!self.texts.is_empty())
    }

    /// Carries out a plan.
    fn carry_out(&mut self, steps: &[Step], tell: Tell<'_>) -> Result<(), ModelError> {
        let (mut parts, mut again) = (BTreeMap::new(), Vec::new());
        for &step in steps {
            match step {
                Step::Read { text, tokens, writes } if self.rereads(text) => again.push((text, tokens, writes)),
                Step::Read { text, tokens, writes } => {
                    parts.insert(text, if writes { Part::Write } else { Part::Read(tokens) });
                }
                step => {
                    let begins = match step {
                        Step::Begin(id, _) => Some(id).filter(|id| self.waits(*id)),
                        _ => None,
                    };
                    self.arrange(step)?;
                    if let Some(id) = begins {
                        let _ = tell(id, Event::Begun);
                    }
                }
            }
        }
        for (id, tokens, is_last) in again {
            self.reread(id, tokens, is_last, tell)?;
        }
        // A text that ends without a token reads nothing.
        let over: Vec<TextId> = parts.keys().copied().filter(|id| !self.running(*id).decide()).collect();
        for id in over {
            parts.remove(&id);
            self.hand_over(id, tell);
        }
        if parts.is_empty() {
            return Ok(());
        }
        let running = self.texts.iter_mut().filter_map(|(id, entry)| match (&mut entry.stage, parts.get(id)) {
            (Stage::Runs(text), Some(&part)) => Some((&mut **text, part)),
            _ => None,
        });
        let mut batch: Vec<(&mut BatchedText, Part)> = running.collect();
        self.statistics.read += batch.iter_mut().map(|(text, part)| unread(text, *part)).sum::<usize>();
        let outcomes = pass(&*self.model, &mut batch)?;
        self.statistics.passes += 1;
        for ((id, part), outcome) in parts.into_iter().zip(outcomes) {
            self.settle(id, part, outcome, tell)?;
        }
        Ok(())
    }

    /// Carries out a step other than reading.
    fn arrange(&mut self, step: Step) -> Result<(), ModelError> {
        match step {
            Step::Read { .. } => (),
            Step::Forget(prefix) => self.kept.remove(prefix),
            Step::Preempt(id) => match &mut self.entry(id).stage {
                Stage::Rereads(text) => text.sequence = None,
                _ => {
                    let sequence = self.running(id).sequence();
                    let empty = sequence.fork_at(0)?;
                    *sequence = empty;
                }
            },
            Step::Begin(id, from) => {
                let shared = from.map_or(0, |(_, tokens)| tokens);
                let from = from.map(|(prefix, tokens)| self.kept.begin_at(prefix, tokens)).transpose()?;
                let entry = self.entry(id);
                entry.begin(from)?;
                entry.stored.iter_mut().for_each(|stored| stored.shares(shared));
                self.store(id);
            }
            Step::Keep(prefix, id, tokens) => {
                let kept = match &mut self.entry(id).stage {
                    Stage::Rereads(text) => text.sequence.as_ref().expect("what reads has begun").fork_at(tokens)?,
                    _ => self.running(id).sequence().fork_at(tokens)?,
                };
                self.kept.insert(prefix, kept);
                // States of fixed size are large, so of the pages of a text only the last one has them, besides those
                // that another text began from.
                let before = self.entry(id).last_kept.replace(prefix).filter(|before| *before != prefix);
                if let Some(page) = before {
                    self.kept.forget_states(page);
                }
            }
        }
        Ok(())
    }

    /// Whether a text is complete and read once more.
    fn rereads(&self, id: TextId) -> bool {
        matches!(self.texts[&id].stage, Stage::Rereads(_))
    }

    /// Reads `tokens` tokens of a text once more. The text is over after the last of them.
    fn reread(&mut self, id: TextId, tokens: usize, is_last: bool, tell: Tell<'_>) -> Result<(), ModelError> {
        let Entry { stage: Stage::Rereads(text), prompt, .. } = self.texts.get_mut(&id).expect("a text that is there")
        else {
            return Ok(());
        };
        let read = text.read(*prompt, tokens, &mut self.rows)?;
        let (held, ended) = (text.sequence.as_ref().map_or(0, |sequence| sequence.len()), text.ended);
        self.statistics.passes += tokens.div_ceil(Rereading::AT_A_TIME);
        self.statistics.read += tokens;
        match (read, is_last) {
            (Ok(()), false) => {
                let mut steps = Vec::new();
                self.policy.holds(id, held, &mut steps);
                steps.into_iter().try_for_each(|step| self.arrange(step))?;
            }
            (Ok(()), true) => {
                self.remove(id);
                let _ = tell(id, Event::End(ended));
            }
            (Err(fault), _) => {
                self.remove(id);
                let _ = tell(id, Event::Failed(fault));
            }
        }
        Ok(())
    }

    /// Processes the result of a pass for a text.
    fn settle(
        &mut self,
        id: TextId,
        part: Part,
        outcome: Result<(), DecodeError>,
        tell: Tell<'_>,
    ) -> Result<(), ModelError> {
        let entry = self.texts.get_mut(&id).expect("a text that is there");
        entry.count(&mut self.statistics);
        self.extend(id);
        let held = self.running(id).sequence().len();
        let mut steps = Vec::new();
        self.policy.holds(id, held, &mut steps);
        steps.into_iter().try_for_each(|step| self.arrange(step))?;
        self.store(id);
        if part == Part::Write {
            if outcome.is_ok() && self.running(id).stop().is_none() {
                self.running(id).decide();
                self.extend(id);
            }
            self.hand_over(id, tell);
        }
        if let Err(fault) = outcome
            && self.texts.contains_key(&id)
        {
            self.remove(id);
            let _ = tell(id, Event::Failed(fault));
        }
        Ok(())
    }

    /// Reports new tokens to the policy.
    fn extend(&mut self, id: TextId) {
        let entry = self.texts.get_mut(&id).expect("a text that is there");
        if let Stage::Runs(text) = &entry.stage {
            self.policy.extend(id, &text.tokens()[entry.known..]);
            entry.known = text.tokens().len();
        }
    }

    /// Hands over the new tokens of a text, and its end.
    fn hand_over(&mut self, id: TextId, tell: Tell<'_>) {
        while let Some((token, provenance)) = self.running(id).pop() {
            self.statistics.written += 1;
            self.entry(id).told += 1;
            if let ControlFlow::Break(reason) = tell(id, Event::Text((token, provenance))) {
                self.running(id).end(reason);
            }
        }
        if self.running(id).stop().is_none() {
            return;
        }
        let entry = self.entry(id);
        let ended = entry.ended();
        let (rows, length) = (entry.rows.take().filter(|_| entry.told > 0), entry.prompt + entry.told);
        let Some(rows) = rows else {
            self.remove(id);
            let _ = tell(id, Event::End(ended));
            return;
        };
        let tokens = self.running(id).tokens()[..length].to_vec();
        self.policy.again(id, &tokens, self.texts[&id].prompt);
        self.entry(id).stage = Stage::Rereads(Box::new(Rereading { tokens, sequence: None, rows, ended }));
    }

    fn entry(&mut self, id: TextId) -> &mut Entry {
        self.texts.get_mut(&id).expect("a text that is there")
    }

    /// Whether a text has not begun.
    fn waits(&self, id: TextId) -> bool {
        matches!(self.texts[&id].stage, Stage::Waits(_))
    }

    fn remove(&mut self, id: TextId) {
        self.policy.end(id);
        if let Some(entry) = self.texts.remove(&id) {
            self.spaces.leave(entry.space);
        }
    }

    /// Returns a text that has begun.
    fn running(&mut self, id: TextId) -> &mut BatchedText {
        match &mut self.texts.get_mut(&id).expect("a text that is there").stage {
            Stage::Runs(text) => text,
            Stage::Waits(_) | Stage::Rereads(_) => panic!("{id:?} is not being written"),
        }
    }
}

impl Entry {
    /// Begins or resumes the text, from a sequence that holds part of it.
    fn begin(&mut self, from: Option<Box<dyn Sequence>>) -> Result<(), ModelError> {
        match &mut self.stage {
            Stage::Rereads(text) => {
                let sequence = from.map_or_else(|| self.model.clone().begin(self.capacity), Ok)?;
                text.sequence = Some(sequence);
            }
            Stage::Runs(text) => {
                // Otherwise it has an empty one.
                if let Some(from) = from {
                    *text.sequence() = from;
                }
            }
            Stage::Waits(ask) => {
                let sequence = match from {
                    Some(from) => from,
                    None => self.model.clone().begin(self.capacity)?,
                };
                let (drafting, limits) = (ask.drafting.take(), ask.limits.clone());
                let text = BatchedText::new(&*self.model, &ask.target, &ask.prompt, limits, sequence, drafting);
                self.stage = Stage::Runs(Box::new(text));
            }
        }
        Ok(())
    }

    fn ended(&self) -> Ended {
        match &self.stage {
            Stage::Runs(text) => Ended { stop: text.stop(), acceptance: text.acceptance(), lossy: text.lossy() },
            Stage::Rereads(text) => text.ended,
            Stage::Waits(ask) => {
                Ended { acceptance: ask.drafting.as_ref().map(|_| Acceptance::default()), ..Ended::default() }
            }
        }
    }

    /// Adds the drafts since the last call.
    fn count(&mut self, statistics: &mut Statistics) {
        let now = self.ended().acceptance.unwrap_or_default();
        let drafted = now.drafted - self.counted.drafted;
        statistics.read += drafted;
        statistics.drafted += drafted;
        statistics.accepted += now.accepted - self.counted.accepted;
        self.counted = now;
    }
}

/// The number of tokens of a text in its part of a pass, without drafts.
fn unread(text: &mut BatchedText, part: Part) -> usize {
    match part {
        Part::Read(tokens) => tokens,
        Part::Write => text.tokens().len() - text.sequence().len(),
    }
}
