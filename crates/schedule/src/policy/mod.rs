//! What the next pass holds: which texts read, how much, and in whose memory. Numbers only, no model.
//!
//! | what | how |
//! |---|---|
//! | order | by arrival, in everything |
//! | a pass | a call's worth of tokens of every text that has one unread; of the others what is left of the [rows](Bounds::rows), the oldest first (Sarathi-Serve, Agrawal et al., 2024, algorithm 3) |
//! | admission | the first that waits begins when all that it is to read has pages, and each text that runs could have one more, if it may come to need it |
//! | preemption | where a text lacks a page, the youngest loses its own, waits again and reads all of its text anew (recomputation in vLLM, Kwon et al., 2023, section 4.5) |
//! | sharing | a page that is full is kept for texts that begin with the same tokens, until its memory is wanted for others: that which was not used for longest goes first (RadixAttention in SGLang, Zheng et al., 2024, section 3) |
//! | waiting for a prompt | who would read at least half as much again as somebody is reading already waits for that |
//!
//! So each pass has a token of the oldest text at least, which nobody takes a page from; and a text that waits is never
//! passed by a younger one. Every text ends after as many passes as it and those before it have tokens.

mod prefixes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use verdigris_logits::TokenId;

use prefixes::{Found, Prefixes, in_common};

pub use prefixes::{PrefixId, Space};

/// What a policy has to share out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Tokens of a page; at least one.
    pub page_tokens: usize,
    /// How many pages there are.
    #[doc(alias = "num_gpu_blocks")]
    pub pages: usize,
    /// How many of them may be kept for texts to come, at most.
    pub kept: usize,
    /// How many tokens a pass reads where prompts are waiting. Texts that are being written have all that they need of
    /// that; a quarter remains for prompts in any case.
    #[doc(alias = "max_num_batched_tokens")]
    #[doc(alias = "chunked_prefill")]
    pub rows: usize,
    /// The most texts that run at a time.
    #[doc(alias = "max_num_seqs")]
    pub texts: usize,
}

/// The number of a text. They are given in the order in which texts arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TextId(u64);

/// A text that is to be read and written.
#[derive(Clone, Debug)]
pub struct Asked {
    /// What it begins with: one token at least.
    pub prompt: Vec<TokenId>,
    /// The most tokens that its cache may come to hold; at least those of the prompt.
    pub most: usize,
    /// The most drafts that it reads in one call. They have their memory in every call, so that how many are made does
    /// not depend on what others need.
    pub ahead: usize,
    /// The texts that it may share pages with; `None`: it shares none.
    pub space: Option<Space>,
}

/// A text that there is no memory for, even alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text of {needs} pages of memory does not fit into {pages}: ask for fewer tokens, or give it more pages")]
pub struct TooLong {
    /// How many pages it would need.
    pub needs: usize,
    /// How many there are.
    pub pages: usize,
}

/// One thing to be done, in the order in which they are said.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A page that was kept is given up.
    Forget(PrefixId),
    /// A text gives up its memory; it begins once more later.
    Preempt(TextId),
    /// A text begins, with no memory of its own, or with the first so many tokens of those that end with a kept page.
    Begin(TextId, Option<(PrefixId, usize)>),
    /// The next pass reads so many tokens of a text.
    Read {
        /// Whose.
        text: TextId,
        /// How many.
        tokens: usize,
        /// Whether these are all that it has, so that the pass also reads its drafts, and it goes on.
        writes: bool,
    },
    /// What a text holds of its first so many tokens is kept.
    Keep(PrefixId, TextId, usize),
}

/// What is going on: see [`Policy::counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Texts that have memory.
    pub running: usize,
    /// Texts that have none.
    pub waiting: usize,
    /// Pages of the texts that run.
    pub pages_used: usize,
    /// Pages that are kept for texts to come.
    pub pages_kept: usize,
    /// All pages.
    pub pages: usize,
    /// Tokens of texts that began, also for a second time.
    pub asked_tokens: usize,
    /// How many of them were there already, and not read again.
    #[doc(alias = "prefix_cache_hits")]
    pub shared_tokens: usize,
    /// How often a text lost its memory to an older one.
    #[doc(alias = "num_preemptions")]
    pub preempted: usize,
}

/// The policy: see the [module](self). Whoever computes asks it for a [plan](Policy::plan), does what that says, and
/// tells it what came of it.
#[derive(Debug)]
pub struct Policy {
    bounds: Bounds,
    texts: BTreeMap<TextId, Text>,
    waiting: BTreeSet<TextId>,
    running: BTreeSet<TextId>,
    prefixes: Prefixes,
    /// Pages of the texts that are not kept.
    own: usize,
    next: u64,
    asked_tokens: usize,
    shared_tokens: usize,
    preempted: usize,
}

#[derive(Debug)]
struct Text {
    /// What is known of it: the prompt, and what is written.
    tokens: Vec<TokenId>,
    most: usize,
    ahead: usize,
    space: Option<Space>,
    /// How many tokens its memory holds.
    held: usize,
    /// The last of the kept pages that it has, and how many they are: the first of the text.
    path: Option<PrefixId>,
    kept: usize,
    /// How many pages it has behind these.
    own: usize,
    /// Whether it has not yet read all that it began with.
    is_reading: bool,
    /// Whether the pages that it fills are kept. They are not behind one that another text has filled with the same.
    keeps: bool,
}

impl Text {
    fn unread(&self) -> usize {
        self.tokens.len() - self.held
    }

    /// What of it may be had from others: the row of the last token has to be computed.
    fn begins_with(&self) -> &[TokenId] {
        &self.tokens[..self.tokens.len() - 1]
    }

    /// How many pages it needs for all that is known of it, and for its drafts.
    fn pages(&self, page_tokens: usize) -> usize {
        (self.tokens.len() + self.ahead).min(self.most).div_ceil(page_tokens)
    }
}

impl Policy {
    /// A policy for so much.
    ///
    /// # Panics
    /// If there are no tokens in a page, no rows in a pass or no texts.
    pub fn new(bounds: Bounds) -> Self {
        let Bounds { page_tokens, rows, texts, .. } = bounds;
        assert!(page_tokens > 0 && rows > 0 && texts > 0, "{bounds:?}");
        Self {
            bounds,
            texts: BTreeMap::new(),
            waiting: BTreeSet::new(),
            running: BTreeSet::new(),
            prefixes: Prefixes::new(page_tokens),
            own: 0,
            next: 0,
            asked_tokens: 0,
            shared_tokens: 0,
            preempted: 0,
        }
    }

    /// Takes a text, which waits.
    ///
    /// # Errors
    /// [`TooLong`] for one that would not fit alone.
    ///
    /// # Panics
    /// If its prompt is empty, or more than it may hold.
    pub fn submit(&mut self, asked: Asked) -> Result<TextId, TooLong> {
        let Asked { prompt: tokens, most, ahead, space } = asked;
        assert!(!tokens.is_empty() && tokens.len() <= most, "{} tokens of at most {most}", tokens.len());
        let (needs, pages) = (most.div_ceil(self.bounds.page_tokens), self.bounds.pages);
        if needs > pages {
            return Err(TooLong { needs, pages });
        }
        let id = TextId(self.next);
        self.next += 1;
        let (held, path, kept, own, is_reading, keeps) = (0, None, 0, 0, false, false);
        self.texts.insert(id, Text { tokens, most, ahead, space, held, path, kept, own, is_reading, keeps });
        self.waiting.insert(id);
        Ok(id)
    }

    /// Notes that a text goes on with these tokens, which its memory need not hold yet.
    pub fn extend(&mut self, id: TextId, tokens: &[TokenId]) {
        self.text(id).tokens.extend_from_slice(tokens);
    }

    /// Notes how many tokens a text's memory holds after a pass, of those that are known of it. Pages that it has filled
    /// may be kept: `steps` says which.
    pub fn holds(&mut self, id: TextId, held: usize, steps: &mut Vec<Step>) {
        let page_tokens = self.bounds.page_tokens;
        let text = self.texts.get_mut(&id).expect("a text that is there");
        debug_assert!(held <= text.tokens.len(), "{held} of {} tokens", text.tokens.len());
        text.held = held;
        while text.keeps && (text.kept + 1) * page_tokens <= held {
            let space = text.space.expect("what keeps pages shares them");
            let (from, to) = (text.kept * page_tokens, (text.kept + 1) * page_tokens);
            match self.prefixes.insert(space, text.path, &text.tokens[from..to], true) {
                Some(prefix) => {
                    (text.path, text.kept, text.own) = (Some(prefix), text.kept + 1, text.own - 1);
                    self.own -= 1;
                    steps.push(Step::Keep(prefix, id, to));
                }
                None => text.keeps = false,
            }
        }
        if text.is_reading && text.unread() <= 1 {
            text.is_reading = false;
            self.keep_for_the_next(id, steps);
        }
    }

    /// Notes that a text ends, for whatever reason, and gives up its memory.
    pub fn end(&mut self, id: TextId) {
        self.give_up(id);
        self.texts.remove(&id);
        self.waiting.remove(&id);
        self.running.remove(&id);
    }

    /// Says what is to be done, with the next pass at the end of it: nothing where there is no text.
    pub fn plan(&mut self, steps: &mut Vec<Step>) {
        self.make_room(steps);
        while self.prefixes.unused() > self.bounds.kept {
            self.forget(steps);
        }
        let (mut rows, mut left) = (0, Vec::new());
        for (&id, text) in self.running.iter().map(|id| (id, &self.texts[id])) {
            match text.unread() {
                1 => {
                    rows += 1 + text.ahead;
                    steps.push(Step::Read { text: id, tokens: 1, writes: true });
                }
                _ => left.push(id),
            }
        }
        let mut rows = self.bounds.rows.saturating_sub(rows).max(self.bounds.rows.div_ceil(4));
        for id in left {
            self.read(id, &mut rows, steps);
        }
        while rows > 0
            && self.running.len() < self.bounds.texts
            && let Some(&id) = self.waiting.first()
            && self.begin(id, steps)
        {
            self.read(id, &mut rows, steps);
        }
    }

    /// What is going on.
    pub fn counts(&self) -> Counts {
        let Self { own, asked_tokens, shared_tokens, preempted, .. } = *self;
        Counts {
            running: self.running.len(),
            waiting: self.waiting.len(),
            pages_used: own + self.prefixes.len() - self.prefixes.unused(),
            pages_kept: self.prefixes.unused(),
            pages: self.bounds.pages,
            asked_tokens,
            shared_tokens,
            preempted,
        }
    }

    fn text(&mut self, id: TextId) -> &mut Text {
        self.texts.get_mut(&id).expect("a text that is there")
    }

    /// Pages that nobody has, or that are only kept.
    fn available(&self) -> usize {
        self.bounds.pages - self.own - self.prefixes.len() + self.prefixes.unused()
    }

    /// Takes pages that are available.
    fn take(&mut self, id: TextId, count: usize, steps: &mut Vec<Step>) {
        self.own += count;
        self.text(id).own += count;
        while self.own + self.prefixes.len() > self.bounds.pages {
            self.forget(steps);
        }
    }

    /// Gives up the page that nobody has used for longest.
    fn forget(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Forget(self.prefixes.forget().expect("a page that is only kept")));
    }

    /// Sees to it that all that run have the pages that they need, or run no longer.
    fn make_room(&mut self, steps: &mut Vec<Step>) {
        let page_tokens = self.bounds.page_tokens;
        let mut next = self.running.first().copied();
        while let Some(id) = next {
            let text = &self.texts[&id];
            let lacks = text.pages(page_tokens) - text.kept - text.own;
            if lacks <= self.available() {
                self.take(id, lacks, steps);
                next = self.running.range((Excluded(id), Unbounded)).next().copied();
                continue;
            }
            let youngest = self.running.pop_last().expect("this one runs");
            self.give_up(youngest);
            self.waiting.insert(youngest);
            self.preempted += 1;
            steps.push(Step::Preempt(youngest));
            if youngest == id {
                return;
            }
        }
    }

    /// Gives up the memory of a text.
    fn give_up(&mut self, id: TextId) {
        let text = self.texts.get_mut(&id).expect("a text that is there");
        self.own -= std::mem::take(&mut text.own);
        self.prefixes.release(text.path.take());
        (text.held, text.kept, text.is_reading, text.keeps) = (0, 0, false, false);
    }

    /// Reads of a text what there are rows for.
    fn read(&self, id: TextId, rows: &mut usize, steps: &mut Vec<Step>) {
        let unread = self.texts[&id].unread();
        let tokens = unread.min(*rows);
        if tokens > 0 {
            *rows -= tokens;
            steps.push(Step::Read { text: id, tokens, writes: tokens == unread });
        }
    }

    /// Begins the first of the texts that wait, if it may; with what is kept of it.
    fn begin(&mut self, id: TextId, steps: &mut Vec<Step>) -> bool {
        let page_tokens = self.bounds.page_tokens;
        let text = &self.texts[&id];
        let found = text.space.map_or(Found::default(), |space| self.prefixes.find(space, text.begins_with()));
        let held = found.pages * page_tokens + found.part.map_or(0, |(_, tokens)| tokens);
        if self.is_being_read(text, held) {
            return false;
        }
        let needs = text.pages(page_tokens) - found.pages;
        let running = self.running.iter().map(|id| &self.texts[id]);
        let grow = running.filter(|text| text.kept + text.own < text.most.div_ceil(page_tokens)).count();
        self.prefixes.hold(found.path);
        if needs + grow > self.available() {
            self.prefixes.release(found.path);
            return false;
        }
        if let Some((part, _)) = found.part {
            self.prefixes.touch(part);
        }
        self.asked_tokens += text.tokens.len();
        self.shared_tokens += held;
        let from = found.part.map(|(part, _)| part).or(found.path);
        // Before pages are forgotten for it: what it begins with may be one of them.
        steps.push(Step::Begin(id, from.map(|from| (from, held))));
        self.take(id, needs, steps);
        self.waiting.remove(&id);
        self.running.insert(id);
        let text = self.text(id);
        (text.held, text.path, text.kept) = (held, found.path, found.pages);
        (text.is_reading, text.keeps) = (true, text.space.is_some());
        true
    }

    /// Whether a text that runs is about to have read at least half of what this one would have to read itself.
    fn is_being_read(&self, waiting: &Text, held: usize) -> bool {
        let Some(space) = waiting.space else { return false };
        let begins_with = waiting.begins_with();
        self.running.iter().map(|id| &self.texts[id]).any(|text| {
            let is_reading = text.space == Some(space) && text.is_reading && text.keeps;
            is_reading && 2 * in_common(begins_with, &text.tokens).saturating_sub(held) > begins_with.len() - held
        })
    }

    /// Keeps what stands in the last page of a text that has just been read, if the next that waits has it in common and
    /// there is a page for it. A text that goes on writes to a page of its own.
    fn keep_for_the_next(&mut self, id: TextId, steps: &mut Vec<Step>) {
        let page_tokens = self.bounds.page_tokens;
        let (Some(next), text) = (self.waiting.first(), &self.texts[&id]) else { return };
        let next = &self.texts[next];
        let (Some(space), true) = (text.space, text.keeps && text.space == next.space) else { return };
        let (from, to) = (text.kept * page_tokens, in_common(next.begins_with(), &text.tokens[..text.held]));
        if to <= from || self.available() == 0 {
            return;
        }
        let (path, tokens) = (text.path, &text.tokens[from..to]);
        if let Some(prefix) = self.prefixes.insert(space, path, tokens, false) {
            steps.push(Step::Keep(prefix, id, to));
            self.prefixes.touch(prefix);
            if self.own + self.prefixes.len() > self.bounds.pages {
                // Not the one that was just kept, which was used last.
                self.forget(steps);
            }
        }
    }
}
