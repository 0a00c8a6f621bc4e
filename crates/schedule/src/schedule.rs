//! The loop: one pass of a model after the other, as the [policy](crate::policy) says.

use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

use verdigris_decoding::{
    Acceptance, BatchedText, DecodeError, Drafter, Drafting, Limits, Part, Provenance, Stop, Target, pass,
};
use verdigris_logits::TokenId;
use verdigris_models::{LanguageModel, ModelError, PageShape, Rows, Sequence};

use crate::policy::{Account, Asked, Bounds, Counts, Policy, PrefixId, Space, Step, TextId, TooLong};
use crate::rereading::{Rereading, RowReader};
use crate::spaces::Spaces;

/// How much a schedule may have at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capacity {
    /// The most texts that run at a time.
    pub texts: usize,
    /// The most tokens whose keys and values are held, of all texts together and of what is kept for others. Pages that
    /// are begun count as a whole.
    pub tokens: usize,
    /// How many of these may be kept for texts to come, where nobody else needs their memory.
    pub kept: usize,
    /// How many tokens a pass reads where prompts wait: see [`Bounds::rows`] and [`crate::rows`].
    pub rows: usize,
}

impl Capacity {
    /// The rows of a pass, unless told otherwise: as many as go through the layers together.
    pub const ROWS: usize = 512;

    /// The tokens that are kept, unless told otherwise.
    pub const KEPT: usize = 8192;

    /// For so many texts of a model, of at most so many tokens each.
    pub fn of_texts(model: &dyn LanguageModel, texts: usize, tokens: usize) -> Self {
        let each = tokens.div_ceil(model.pages().tokens).saturating_mul(model.pages().tokens);
        Self { texts, tokens: texts.saturating_mul(each), kept: Self::KEPT, rows: Self::ROWS }
    }
}

/// A text that is to be written.
pub struct Ask {
    /// The model that writes it: the schedule's own, if it is not said, else one that is steered as that is.
    pub model: Option<Arc<dyn LanguageModel>>,
    /// What it begins with.
    pub prompt: Arc<[TokenId]>,
    /// Its law.
    pub target: Target,
    /// When it ends.
    pub limits: Limits,
    /// How it is drafted, if it is.
    pub drafting: Option<Drafting>,
    /// What reads the rows that its tokens were drawn from. For that the model reads the text once more at its end, as
    /// one of the texts of the schedule.
    pub rows: Option<RowReader>,
    /// Whom it is written for. Where there is not enough for all, each tenant has an even part, and of that each of its
    /// requests.
    pub account: Account,
    /// Texts share what is kept of their prompts with those of the same salt alone. A text that begins with pages of
    /// another one comes sooner, and is counted, so both say what the other began with.
    #[doc(alias = "cache_salt")]
    pub salt: Arc<str>,
}

impl Ask {
    /// A text without drafts, by the schedule's own model.
    pub fn new(prompt: impl Into<Arc<[TokenId]>>, target: Target, limits: Limits) -> Self {
        let (prompt, account, salt) = (prompt.into(), Account::default(), "".into());
        Self { model: None, prompt, target, limits, drafting: None, rows: None, account, salt }
    }
}

/// Why a text was not taken.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// A prompt that is none, or does not fit into the model's context.
    #[error(transparent)]
    Prompt(#[from] DecodeError),
    /// A prompt that all memory has no room for.
    #[error(transparent)]
    TooLong(#[from] TooLong),
}

/// What comes of a text.
#[derive(Debug)]
pub enum Told {
    /// Its prompt is read from now on: it has waited for its turn and for memory. Told once, before all else.
    Begun,
    /// Its next token, and how it came.
    Token(TokenId, Provenance),
    /// Its end. Nothing comes after it.
    Ended(Ended),
    /// It cannot go on. Nothing comes after it.
    Failed(DecodeError),
}

/// How a text ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// What ended it; `None` where it was [cancelled](Schedule::cancel).
    pub stop: Option<Stop>,
    /// How drafting went; `None` where nothing was drafted.
    pub acceptance: Option<Acceptance>,
    /// The name of the rule that drafts were judged by, where it changed the law of the text.
    pub lossy: Option<&'static str>,
}

/// What a schedule is doing, and has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Texts, pages, and prompts that were there already.
    pub counts: Counts,
    /// Tokens of a page.
    pub page_tokens: usize,
    /// Calls of the model.
    pub passes: usize,
    /// Tokens that it read in them, drafts included.
    pub read: usize,
    /// Tokens that were written, those of texts that were cancelled too.
    pub written: usize,
    /// How many of the tokens that were read were drafts.
    pub drafted: usize,
    /// How many of those stood.
    pub accepted: usize,
}

/// What a text must fit into.
#[derive(Clone)]
pub(crate) struct Room {
    model: Arc<dyn LanguageModel>,
    page_tokens: usize,
    /// The most tokens that a text can have.
    memory: usize,
}

impl Room {
    /// The most tokens that a text can have.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// The most tokens that a text may come to have, whatever memory there is.
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

/// Texts of one model that come and go. Nothing happens but in [`Schedule::pass`].
pub struct Schedule {
    model: Arc<dyn LanguageModel>,
    shape: PageShape,
    room: Room,
    policy: Policy,
    spaces: Spaces,
    texts: BTreeMap<TextId, Entry>,
    /// What is kept of texts for those that begin alike.
    kept: HashMap<PrefixId, Box<dyn Sequence>>,
    /// The rows of texts that are read once more.
    rows: Rows,
    steps: Vec<Step>,
    statistics: Statistics,
}

/// A text of a schedule.
struct Entry {
    model: Arc<dyn LanguageModel>,
    space: Space,
    /// The capacity of its sequence.
    capacity: usize,
    stage: Stage,
    /// How many tokens of it the policy knows.
    known: usize,
    /// How many of its drafts are counted.
    counted: Acceptance,
    /// How many of its tokens are the prompt, and how many were handed over.
    prompt: usize,
    told: usize,
    /// Who reads its rows at its end.
    rows: Option<RowReader>,
}

enum Stage {
    Waits(Box<Ask>),
    /// Also where it has lost its memory and waits for it.
    Runs(Box<BatchedText>),
    /// It is written, and read once more for its rows.
    Rereads(Box<Rereading>),
}

/// Who is told what comes of texts, by their numbers. On [`ControlFlow::Break`] at a token its text ends there, for
/// that reason; at an end it does nothing.
pub type Tell<'t> = &'t mut dyn FnMut(TextId, Told) -> ControlFlow<Stop>;

impl Schedule {
    /// A schedule for texts of a model.
    ///
    /// # Panics
    /// If it may have no texts, or read no rows.
    pub fn new(model: Arc<dyn LanguageModel>, capacity: Capacity) -> Self {
        let shape = model.pages();
        let pages = capacity.tokens.div_ceil(shape.tokens).max(1);
        let Capacity { texts, kept, rows, .. } = capacity;
        let bounds = Bounds { page_tokens: shape.tokens, pages, kept: kept.div_ceil(shape.tokens), rows, texts };
        Self {
            shape,
            room: Room { model: model.clone(), page_tokens: shape.tokens, memory: pages.saturating_mul(shape.tokens) },
            policy: Policy::new(bounds),
            spaces: Spaces::default(),
            texts: BTreeMap::new(),
            kept: HashMap::new(),
            rows: Rows::default(),
            steps: Vec::new(),
            statistics: Statistics { page_tokens: shape.tokens, ..Statistics::default() },
            model,
        }
    }

    /// Takes a text, which waits for its turn. Texts get their numbers in the order in which they come.
    ///
    /// # Errors
    /// [`Refused`], where it could never begin.
    pub fn submit(&mut self, mut ask: Ask) -> Result<TextId, Refused> {
        let own = self.room.of(&ask)?;
        let model = ask.model.clone().unwrap_or_else(|| self.model.clone());
        let (memory, prompt) = (self.room.memory, ask.prompt.len());
        // Sequences of one capacity can go on from each other's.
        let capacity = if self.shape.depends_on_capacity { own } else { model.context_length() }.min(memory);
        let space = self.spaces.enter(&model, capacity, &ask.salt);
        let ahead = ask.drafting.as_ref().map_or(0, |drafting| drafting.length.most());
        // Who drafts from what is computed must see all of it.
        let reads_all = ask.drafting.as_ref().is_some_and(|drafting| drafting.drafter.reads_features());
        let (account, prompt_of) = (ask.account.clone(), ask.prompt.clone());
        let most = own.min(memory);
        let asked = Asked { account, prompt: prompt_of, most, ahead, space: (!reads_all).then_some(space) };
        let id = self.policy.submit(asked).inspect_err(|_| self.spaces.leave(space))?;
        let (rows, stage, counted) = (ask.rows.take(), Stage::Waits(Box::new(ask)), Acceptance::default());
        let entry = Entry { model, space, capacity, stage, known: prompt, counted, prompt, told: 0, rows };
        self.texts.insert(id, entry);
        Ok(id)
    }

    /// What texts must fit into.
    pub(crate) fn room(&self) -> &Room {
        &self.room
    }

    /// Ends a text here, and its memory is free for the next pass. `None` where it has ended before.
    pub fn cancel(&mut self, id: TextId) -> Option<Ended> {
        let entry = self.texts.get_mut(&id)?;
        entry.count(&mut self.statistics);
        let ended = Ended { stop: None, ..entry.ended() };
        self.remove(id);
        Some(ended)
    }

    /// What is going on.
    pub fn statistics(&self) -> Statistics {
        Statistics { counts: self.policy.counts(), ..self.statistics }
    }

    /// Whether there is no text.
    pub fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// One call of the model, and what comes of it; `false` where there is no text.
    ///
    /// # Errors
    /// The model's, which is no text's fault. Those that were to go on are as before, and can be cancelled.
    pub fn pass(&mut self, tell: Tell<'_>) -> Result<bool, ModelError> {
        let mut steps = std::mem::take(&mut self.steps);
        steps.clear();
        self.policy.plan(&mut steps);
        let done = self.carry_out(&steps, tell);
        self.steps = steps;
        done?;
        Ok(!self.texts.is_empty())
    }

    /// Does what a plan says.
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
                        let _ = tell(id, Told::Begun);
                    }
                }
            }
        }
        for (id, tokens, is_last) in again {
            self.reread(id, tokens, is_last, tell)?;
        }
        // Of no tokens at all nothing is read.
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

    /// Does one thing that is no reading.
    fn arrange(&mut self, step: Step) -> Result<(), ModelError> {
        match step {
            Step::Read { .. } => (),
            Step::Forget(prefix) => drop(self.kept.remove(&prefix)),
            Step::Preempt(id) => match &mut self.entry(id).stage {
                Stage::Rereads(text) => text.sequence = None,
                _ => {
                    let sequence = self.running(id).sequence();
                    let empty = first(&**sequence, 0)?;
                    *sequence = empty;
                }
            },
            Step::Begin(id, from) => {
                let from = from.map(|(prefix, tokens)| first(&*self.kept[&prefix], tokens)).transpose()?;
                self.entry(id).begin(from)?;
            }
            Step::Keep(prefix, id, tokens) => {
                let kept = match &mut self.entry(id).stage {
                    Stage::Rereads(text) => first(&**text.sequence.as_ref().expect("what reads has begun"), tokens)?,
                    _ => first(&**self.running(id).sequence(), tokens)?,
                };
                self.kept.insert(prefix, kept);
            }
        }
        Ok(())
    }

    /// Whether a text is written and read once more.
    fn rereads(&self, id: TextId) -> bool {
        matches!(self.texts[&id].stage, Stage::Rereads(_))
    }

    /// Reads so many tokens of a text once more; it is over with the last of them.
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
                let _ = tell(id, Told::Ended(ended));
            }
            (Err(fault), _) => {
                self.remove(id);
                let _ = tell(id, Told::Failed(fault));
            }
        }
        Ok(())
    }

    /// Takes in what came of a text in a pass.
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
            let _ = tell(id, Told::Failed(fault));
        }
        Ok(())
    }

    /// Tells the policy of new tokens.
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
            if let ControlFlow::Break(reason) = tell(id, Told::Token(token, provenance)) {
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
            let _ = tell(id, Told::Ended(ended));
            return;
        };
        let tokens = self.running(id).tokens()[..length].to_vec();
        self.policy.again(id, &tokens, self.texts[&id].prompt);
        self.entry(id).stage = Stage::Rereads(Box::new(Rereading { tokens, sequence: None, rows, ended }));
    }

    fn entry(&mut self, id: TextId) -> &mut Entry {
        self.texts.get_mut(&id).expect("a text that is there")
    }

    /// Whether a text that is there has not begun.
    fn waits(&self, id: TextId) -> bool {
        matches!(self.texts[&id].stage, Stage::Waits(_))
    }

    fn remove(&mut self, id: TextId) {
        self.policy.end(id);
        if let Some(entry) = self.texts.remove(&id) {
            self.spaces.leave(entry.space);
        }
    }

    /// A text that has begun.
    fn running(&mut self, id: TextId) -> &mut BatchedText {
        match &mut self.texts.get_mut(&id).expect("a text that is there").stage {
            Stage::Runs(text) => text,
            Stage::Waits(_) | Stage::Rereads(_) => panic!("{id:?} is not being written"),
        }
    }
}

impl Entry {
    /// Begins the text, or goes on with it, from what a sequence holds of it.
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

    /// Adds what was drafted since the last time.
    fn count(&mut self, statistics: &mut Statistics) {
        let now = self.ended().acceptance.unwrap_or_default();
        let drafted = now.drafted - self.counted.drafted;
        statistics.read += drafted;
        statistics.drafted += drafted;
        statistics.accepted += now.accepted - self.counted.accepted;
        self.counted = now;
    }
}

/// How many tokens of a text its part of a pass has, without drafts.
fn unread(text: &mut BatchedText, part: Part) -> usize {
    match part {
        Part::Read(tokens) => tokens,
        Part::Write => text.tokens().len() - text.sequence().len(),
    }
}

/// Another sequence with the first tokens of one. A fork of a fork that was cut has no page that these do not need.
fn first(sequence: &dyn Sequence, tokens: usize) -> Result<Box<dyn Sequence>, ModelError> {
    let mut fork = sequence.fork()?;
    if fork.len() == tokens {
        return Ok(fork);
    }
    fork.truncate(tokens);
    fork.fork()
}
