//! What the next pass holds: which texts read, how much, and in whose memory. Numbers only, no model.
//!
//! | what | how |
//! |---|---|
//! | order | the oldest text of all is the first in everything; else places, rows and pages are shared out evenly between tenants, and what a tenant has between its requests ([`Account`]), whose texts are in the order of their arrival |
//! | a pass | a call's worth of tokens of every text that has one unread; of the others what is left of the [rows](Bounds::rows) (Sarathi-Serve, Agrawal et al., 2024, algorithm 3), by max-min shares |
//! | admission | a text that waits begins when all that it is to read has pages, and each text that runs could have one more, if it may come to need it; of a tenant or a request with more than its share, one gives way to it |
//! | preemption | where a text lacks a page, the youngest of those that use most loses its own, waits again and reads all of its text anew (recomputation in vLLM, Kwon et al., 2023, section 4.5) |
//! | sharing | a page that is full is kept for texts that begin with the same tokens, until its memory is wanted for others: that which was not used for longest goes first (RadixAttention in SGLang, Zheng et al., 2024, section 3) |
//! | waiting for a prompt | who would read at least half as much again as somebody is reading already waits for that |
//!
//! So each pass has a token of the oldest text at least, which nobody takes a page from: every text ends after as many
//! passes as it and those before it have tokens, whoever asks for how much. And a text of a request that has none yet
//! begins with the next pass, however many texts of others wait, as long as there are fewer requests than places.

mod accounts;
mod prefixes;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use verdigris_logits::TokenId;

use accounts::Accounts;
use prefixes::{Found, Prefixes, in_common};

pub use accounts::Account;
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
    /// Whom it is written for.
    pub account: Account,
    /// What it begins with: one token at least.
    pub prompt: Arc<[TokenId]>,
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
    accounts: Accounts,
    running: BTreeSet<TextId>,
    prefixes: Prefixes,
    /// Pages of the texts that are not kept.
    own: usize,
    next: u64,
    asked_tokens: usize,
    shared_tokens: usize,
    preempted: usize,
}

/// What is known of a text.
#[derive(Debug)]
enum Tokens {
    /// The prompt alone, which the texts of one request share.
    Prompt(Arc<[TokenId]>),
    /// The prompt, and what is written.
    Written(Vec<TokenId>),
}

impl std::ops::Deref for Tokens {
    type Target = [TokenId];

    fn deref(&self) -> &[TokenId] {
        match self {
            Self::Prompt(tokens) => tokens,
            Self::Written(tokens) => tokens,
        }
    }
}

impl Tokens {
    fn extend(&mut self, tokens: &[TokenId]) {
        match self {
            Self::Prompt(_) if tokens.is_empty() => (),
            Self::Prompt(prompt) => *self = Self::Written([prompt, tokens].concat()),
            Self::Written(all) => all.extend_from_slice(tokens),
        }
    }
}

#[derive(Debug)]
struct Text {
    account: Account,
    tokens: Tokens,
    most: usize,
    ahead: usize,
    space: Option<Space>,
    /// How many of its first tokens it may have from others.
    shares: usize,
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
        &self.tokens[..self.shares.min(self.tokens.len() - 1)]
    }

    /// How many pages it has, those that others have too among them.
    fn pages_held(&self) -> usize {
        self.kept + self.own
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
            accounts: Accounts::default(),
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
        let Asked { account, prompt, most, ahead, space } = asked;
        assert!(!prompt.is_empty() && prompt.len() <= most, "{} tokens of at most {most}", prompt.len());
        let (needs, pages) = (most.div_ceil(self.bounds.page_tokens), self.bounds.pages);
        if needs > pages {
            return Err(TooLong { needs, pages });
        }
        let id = TextId(self.next);
        self.next += 1;
        let (held, path, kept, own, is_reading, keeps) = (0, None, 0, 0, false, false);
        self.accounts.waits(&account, id);
        let (tokens, shares) = (Tokens::Prompt(prompt), usize::MAX);
        let text = Text { account, tokens, most, ahead, space, shares, held, path, kept, own, is_reading, keeps };
        self.texts.insert(id, text);
        Ok(id)
    }

    /// Notes that a text goes on with these tokens, which its memory need not hold yet.
    pub fn extend(&mut self, id: TextId, tokens: &[TokenId]) {
        self.text(id).tokens.extend(tokens);
    }

    /// Notes how many tokens a text's memory holds after a pass, of those that are known of it. Pages that it has
    /// filled may be kept: `steps` says which.
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

    /// Notes that a text of these tokens is read once more, for the rows that those behind the first so many were drawn
    /// from: it gives up its memory and waits again, and is over when it has read all of its tokens but the last.
    ///
    /// # Panics
    /// If there are no tokens behind the first, or the text had fewer.
    pub fn again(&mut self, id: TextId, tokens: &[TokenId], first: usize) {
        self.give_up(id);
        self.running.remove(&id);
        let text = self.texts.get_mut(&id).expect("a text that is there");
        let read = tokens.len() - 1;
        assert!((1..=read).contains(&first) && read < text.tokens.len(), "{first} of {read} tokens");
        text.tokens = Tokens::Prompt(tokens[..read].into());
        (text.most, text.ahead, text.shares) = (read, 0, first - 1);
        self.accounts.waits(&text.account, id);
    }

    /// Notes that a text ends, for whatever reason, and gives up its memory.
    pub fn end(&mut self, id: TextId) {
        self.give_up(id);
        if let Some(text) = self.texts.remove(&id) {
            self.accounts.ends(&text.account, id);
        }
        self.running.remove(&id);
    }

    /// Says what is to be done, with the next pass at the end of it: nothing where there is no text.
    pub fn plan(&mut self, steps: &mut Vec<Step>) {
        self.make_room(steps);
        let begun = self.admit(steps);
        while self.prefixes.unused() > self.bounds.kept {
            self.forget(steps);
        }
        let (mut certain, mut readers) = (0, Vec::new());
        for (&id, text) in self.running.iter().map(|id| (id, &self.texts[id])) {
            match text.unread() {
                1 if !begun.contains(&id) => {
                    certain += 1 + text.ahead;
                    steps.push(Step::Read { text: id, tokens: 1, writes: true });
                }
                unread => readers.push((&text.account, id, unread)),
            }
        }
        for (id, tokens) in Accounts::rows(self.rows_beside(certain), &readers) {
            let writes = tokens == self.texts[&id].unread();
            if tokens > 0 {
                steps.push(Step::Read { text: id, tokens, writes });
            }
        }
    }

    /// How many rows a pass has for prompts, where texts that are being written have so many.
    fn rows_beside(&self, certain: usize) -> usize {
        self.bounds.rows.saturating_sub(certain).max(self.bounds.rows.div_ceil(4))
    }

    /// Begins those of the texts that wait which may, and for which there are rows; of a request that reads nothing yet
    /// one in any case.
    fn admit(&mut self, steps: &mut Vec<Step>) -> BTreeSet<TextId> {
        let (mut begun, mut passed) = (BTreeSet::new(), BTreeSet::new());
        let certain = self.running.iter().map(|id| &self.texts[id]).filter(|text| text.unread() == 1);
        let rows = self.rows_beside(certain.map(|text| 1 + text.ahead).sum());
        let oldest = self.oldest().filter(|id| !self.running.contains(id));
        let mut next = oldest;
        while let Some(id) = next.take().or_else(|| self.accounts.next(&passed)) {
            let account = self.texts[&id].account.clone();
            let reading = self.running.iter().map(|id| (id, &self.texts[id]));
            let reading = reading.filter(|(id, text)| text.unread() > 1 || begun.contains(*id)).map(|(_, text)| text);
            let (unread, of_request) = reading.fold((0, false), |(unread, of_request), text| {
                (unread + text.unread(), of_request || text.account == account)
            });
            let has_rows = unread < rows || !of_request || oldest == Some(id);
            if has_rows && self.begin(id, steps) {
                begun.insert(id);
            } else {
                passed.insert(account);
            }
        }
        begun
    }

    /// The oldest text of all, which is the first in everything.
    fn oldest(&self) -> Option<TextId> {
        self.texts.first_key_value().map(|(&id, _)| id)
    }

    /// What is going on.
    pub fn counts(&self) -> Counts {
        let Self { own, asked_tokens, shared_tokens, preempted, .. } = *self;
        Counts {
            running: self.running.len(),
            waiting: self.texts.len() - self.running.len(),
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
            let last = self.last().expect("a text that is alone has all pages");
            self.preempt(last, steps);
            if last == id {
                next = self.running.range((Excluded(id), Unbounded)).next().copied();
            }
        }
    }

    /// The text that gives way where one must.
    fn last(&self) -> Option<TextId> {
        let oldest = self.oldest()?;
        self.accounts.last(oldest, |id| self.texts[&id].pages_held())
    }

    /// Takes its memory from a text that runs, which waits again.
    fn preempt(&mut self, id: TextId, steps: &mut Vec<Step>) {
        self.give_up(id);
        self.running.remove(&id);
        self.accounts.waits(&self.texts[&id].account, id);
        self.preempted += 1;
        steps.push(Step::Preempt(id));
    }

    /// Gives up the memory of a text.
    fn give_up(&mut self, id: TextId) {
        let text = self.texts.get_mut(&id).expect("a text that is there");
        self.own -= std::mem::take(&mut text.own);
        self.prefixes.release(text.path.take());
        (text.held, text.kept, text.is_reading, text.keeps) = (0, 0, false, false);
    }

    /// Begins a text that waits, if it may; with what is kept of it.
    fn begin(&mut self, id: TextId, steps: &mut Vec<Step>) -> bool {
        let page_tokens = self.bounds.page_tokens;
        let text = &self.texts[&id];
        let found = text.space.map_or(Found::default(), |space| self.prefixes.find(space, text.begins_with()));
        let held = found.pages * page_tokens + found.part.map_or(0, |(_, tokens)| tokens);
        if self.oldest() != Some(id) && self.is_being_read(text, held) {
            return false;
        }
        let needs = text.pages(page_tokens) - found.pages;
        self.prefixes.hold(found.path);
        if !self.has_room_made(id, needs, found.pages, steps) {
            self.prefixes.release(found.path);
            return false;
        }
        if let Some((part, _)) = found.part {
            self.prefixes.touch(part);
        }
        self.asked_tokens += self.texts[&id].tokens.len();
        self.shared_tokens += held;
        let from = found.part.map(|(part, _)| part).or(found.path);
        // Before pages are forgotten for it: what it begins with may be one of them.
        steps.push(Step::Begin(id, from.map(|from| (from, held))));
        self.take(id, needs, steps);
        self.accounts.runs(&self.texts[&id].account, id);
        self.running.insert(id);
        let text = self.text(id);
        (text.held, text.path, text.kept) = (held, found.path, found.pages);
        (text.is_reading, text.keeps) = (true, text.space.is_some());
        true
    }

    /// Whether there is a place and so many pages for a text that waits, beside those that it shares; where there are
    /// not, texts of those who have more than their share give way. To the oldest all others do.
    fn has_room_made(&mut self, id: TextId, needs: usize, shares: usize, steps: &mut Vec<Step>) -> bool {
        let (oldest, account) = (self.oldest().expect("this one"), self.texts[&id].account.clone());
        let pages = |policy: &Self, id| policy.texts[&id].pages_held();
        let Bounds { texts, pages: all, page_tokens, .. } = self.bounds;
        // Nobody gives way in vain: both must be had.
        let for_place = |policy: &Self| match policy.running.len() < texts {
            true => Some(None),
            false if id == oldest => policy.last().map(Some),
            false => policy.accounts.gives_way(&account, 1, texts, oldest, |_| 1).map(Some),
        };
        let for_pages = |policy: &Self| {
            let running = policy.running.iter().map(|id| &policy.texts[id]);
            let grow = running.filter(|text| text.pages_held() < text.most.div_ceil(page_tokens)).count();
            if needs + grow <= policy.available() {
                return Some(None);
            }
            if id == oldest {
                return policy.last().map(Some);
            }
            let (needs, uses) = (needs + shares + grow, |id| pages(policy, id));
            policy.accounts.gives_way(&account, needs, all, oldest, uses).map(Some)
        };
        loop {
            let (Some(place), Some(memory)) = (for_place(self), for_pages(self)) else { return false };
            let Some(last) = place.or(memory) else { return true };
            self.preempt(last, steps);
        }
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

    /// Keeps what stands in the last page of a text that has just been read, if the next that waits has it in common
    /// and there is a page for it. A text that goes on writes to a page of its own.
    fn keep_for_the_next(&mut self, id: TextId, steps: &mut Vec<Step>) {
        let page_tokens = self.bounds.page_tokens;
        let text = &self.texts[&id];
        let (Some(space), true) = (text.space, text.keeps) else { return };
        let next = [self.accounts.first_of(&text.account), self.accounts.next(&BTreeSet::new())];
        let next = next.into_iter().flatten().map(|next| &self.texts[&next]).filter(|next| next.space == text.space);
        let common = next.map(|next| in_common(next.begins_with(), &text.tokens[..text.held])).max();
        let (from, to) = (text.kept * page_tokens, common.unwrap_or(0));
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
