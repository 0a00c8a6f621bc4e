//! The contents of the next pass: which texts read how many tokens, and in whose memory. It only handles numbers, no
//! model.
//!
//! | aspect | policy |
//! |---|---|
//! | order | the oldest text of all always comes first; otherwise slots, rows and pages are divided evenly between tenants, and the part of a tenant between its requests ([`Account`]), whose texts are served in order of arrival |
//! | a pass | the tokens of one call of every text that has one unread token; the others get the rest of the [rows](Bounds::rows) (Sarathi-Serve, Agrawal et al., 2024, algorithm 3), by max-min shares |
//! | admission | a waiting text begins when there are pages for everything that it must read, and one more for each running text that may come to need it; if a tenant or request has more than its share, one of its texts gives way |
//! | preemption | if a text lacks a page, the youngest text of the tenant and request that use most loses its pages, waits again and reads its whole text again (recomputation in vLLM, Kwon et al., 2023, section 4.5) |
//! | sharing | a full page is kept for texts that begin with the same tokens until its memory is needed; the least recently used page is dropped first (RadixAttention in SGLang, Zheng et al., 2024, section 3) |
//! | waiting for a prompt | a text waits if another one is already reading more than half of the tokens that it would have to read |
//!
//! So each pass has at least one token of the oldest text, from which no page is taken: every text ends after at most
//! as many passes as it and the texts before it have tokens, whatever others ask for. And a text of a request without
//! running texts begins with the next pass, however many other texts wait, as long as there are fewer requests than
//! slots.

mod accounts;
mod adopted;
mod prefixes;
mod text_id;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

use verdigris_logits::TokenId;

use accounts::Accounts;
use prefixes::{Found, Prefixes, in_common};
pub use text_id::TextId;

pub use accounts::Account;
pub use adopted::Kept;
pub use prefixes::{PrefixId, Space};

/// The resources that a policy divides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// The number of tokens of a page, at least one.
    pub page_tokens: usize,
    /// The number of pages.
    #[doc(alias = "num_gpu_blocks")]
    pub pages: usize,
    /// The maximum number of pages kept for later texts.
    pub kept: usize,
    /// The number of tokens that a pass reads while prompts are waiting. Texts that are being written take what they
    /// need of it, but a quarter always remains for prompts.
    #[doc(alias = "max_num_batched_tokens")]
    #[doc(alias = "chunked_prefill")]
    pub rows: usize,
    /// The maximum number of texts that run at a time.
    #[doc(alias = "max_num_seqs")]
    pub texts: usize,
    /// Whether a text can begin with the first tokens of a kept page, and not only with all of them.
    pub has_parts: bool,
}

/// A text to read and write.
#[derive(Clone, Debug)]
pub struct Submission {
    /// The account that it is written for.
    pub account: Account,
    /// The prompt, at least one token.
    pub prompt: Arc<[TokenId]>,
    /// The maximum number of tokens that its cache may hold, at least those of the prompt.
    pub most: usize,
    /// The maximum number of drafts that it reads in one call. They have memory in every call, so that the number of
    /// drafts does not depend on the needs of other texts.
    pub ahead: usize,
    /// The group of texts that it may share pages with, or `None` to share none.
    pub space: Option<Space>,
    /// A pass ends when it has read this number of tokens, so that their state can be saved; 0 to end none for this.
    pub pause: usize,
}

/// A text that does not fit into memory, even alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a text of {needs} pages of memory does not fit into {pages}: ask for fewer tokens, or give it more pages")]
pub struct TooLong {
    /// The number of pages that it would need.
    pub needs: usize,
    /// The number of pages that there are.
    pub pages: usize,
}

/// An action to carry out, in the given order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Drop a kept page.
    Forget(PrefixId),
    /// Take the memory of a text, which begins again later.
    Preempt(TextId),
    /// Begin a text, with no memory of its own, or with the first tokens, of the given number, of those that end with a
    /// kept page.
    Begin(TextId, Option<(PrefixId, usize)>),
    /// Read tokens of a text in the next pass.
    Read {
        /// The text.
        text: TextId,
        /// The number of tokens.
        tokens: usize,
        /// Whether these are all its tokens, so that the pass also reads its drafts and the text continues.
        writes: bool,
    },
    /// Keep the first tokens, of the given number, that a text holds.
    Keep(PrefixId, TextId, usize),
}

/// The current counts: see [`Policy::counts`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Texts that have memory.
    pub running: usize,
    /// Texts that have none.
    pub waiting: usize,
    /// Pages of running texts.
    pub pages_used: usize,
    /// Pages that are kept for later texts.
    pub pages_kept: usize,
    /// All pages.
    pub pages: usize,
    /// Tokens of texts that began, including resumed ones.
    pub asked_tokens: usize,
    /// Tokens among them that were shared, and not read again.
    #[doc(alias = "prefix_cache_hits")]
    pub shared_tokens: usize,
    /// The number of times that a text lost its memory to another one.
    #[doc(alias = "num_preemptions")]
    pub preempted: usize,
}

/// The policy: see the [module](self). The caller asks it for a [plan](Policy::plan), carries that out, and reports the
/// results.
#[derive(Debug)]
pub struct Policy {
    bounds: Bounds,
    texts: BTreeMap<TextId, Text>,
    accounts: Accounts,
    running: BTreeSet<TextId>,
    prefixes: Prefixes,
    /// The number of pages of texts that are not kept pages.
    own: usize,
    next: u64,
    asked_tokens: usize,
    shared_tokens: usize,
    preempted: usize,
}

/// The known tokens of a text.
#[derive(Debug)]
enum Tokens {
    /// The prompt alone, which the texts of one request share.
    Prompt(Arc<[TokenId]>),
    /// The prompt and the tokens written.
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
    pause: usize,
    /// The number of its first tokens that it may take from others.
    shares: usize,
    /// The number of tokens that its memory holds.
    held: usize,
    /// The last kept page that it uses, and the number of kept pages. They are the first pages of the text.
    path: Option<PrefixId>,
    kept: usize,
    /// The number of its pages after the kept ones.
    own: usize,
    /// Whether it has not yet read all tokens that it began with.
    is_reading: bool,
    /// Whether the pages that it fills are kept. They are not kept after a page that another text has filled with the
    /// same tokens.
    keeps: bool,
}

impl Text {
    fn unread(&self) -> usize {
        self.tokens.len() - self.held
    }

    /// The number of tokens that one pass may read.
    fn at_once(&self) -> usize {
        let to_pause = self.pause.checked_sub(self.held).filter(|&tokens| tokens > 0);
        to_pause.unwrap_or(usize::MAX).min(self.unread())
    }

    /// The tokens that may be taken from others: the row of the last token must be computed.
    fn begins_with(&self) -> &[TokenId] {
        &self.tokens[..self.shares.min(self.tokens.len() - 1)]
    }

    /// The number of pages that it has, shared ones included.
    fn pages_held(&self) -> usize {
        self.kept + self.own
    }

    /// The number of pages that it needs for all known tokens and for its drafts.
    fn pages(&self, page_tokens: usize) -> usize {
        (self.tokens.len() + self.ahead).min(self.most).div_ceil(page_tokens)
    }
}

impl Policy {
    /// A policy for the given resources.
    ///
    /// # Panics
    /// If a page has no tokens, a pass no rows, or no texts are allowed.
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

    /// Adds a text, which waits.
    ///
    /// # Errors
    /// [`TooLong`] if it would not fit even alone.
    ///
    /// # Panics
    /// If its prompt is empty, or longer than `most`.
    pub fn submit(&mut self, submission: Submission) -> Result<TextId, TooLong> {
        let Submission { account, prompt, most, ahead, space, pause } = submission;
        assert!(!prompt.is_empty() && prompt.len() <= most, "{} tokens of at most {most}", prompt.len());
        let (needs, pages) = (most.div_ceil(self.bounds.page_tokens), self.bounds.pages);
        if needs > pages {
            return Err(TooLong { needs, pages });
        }
        let id = TextId::new(self.next);
        self.next += 1;
        let (held, path, kept, own, is_reading, keeps) = (0, None, 0, 0, false, false);
        self.accounts.waits(&account, id);
        let (tokens, shares) = (Tokens::Prompt(prompt), usize::MAX);
        let text =
            Text { account, tokens, most, ahead, space, pause, shares, held, path, kept, own, is_reading, keeps };
        self.texts.insert(id, text);
        Ok(id)
    }

    /// Records that a text continues with these tokens, which its memory need not hold yet.
    pub fn extend(&mut self, id: TextId, tokens: &[TokenId]) {
        self.text(id).tokens.extend(tokens);
    }

    /// Records the number of known tokens that a text's memory holds after a pass. Pages that it has filled may be
    /// kept: these are added to `steps`.
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

    /// Records that a text with these tokens is read once more, for the rows that the tokens after the first `first`
    /// were sampled from. It gives up its memory, waits again, and is over when it has read all its tokens but the
    /// last.
    ///
    /// # Panics
    /// If there are no tokens after the first `first`, or the text had fewer.
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

    /// Records that a text ends, for any reason, and gives up its memory.
    pub fn end(&mut self, id: TextId) {
        self.give_up(id);
        if let Some(text) = self.texts.remove(&id) {
            self.accounts.ends(&text.account, id);
        }
        self.running.remove(&id);
    }

    /// Plans the steps up to and including the next pass. Adds none if there are no texts.
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
                _ => readers.push((&text.account, id, text.at_once())),
            }
        }
        for (id, tokens) in Accounts::rows(self.rows_beside(certain), &readers) {
            let writes = tokens == self.texts[&id].unread();
            if tokens > 0 {
                steps.push(Step::Read { text: id, tokens, writes });
            }
        }
    }

    /// The number of rows of a pass for prompts, if texts that are being written need `certain` rows.
    fn rows_beside(&self, certain: usize) -> usize {
        self.bounds.rows.saturating_sub(certain).max(self.bounds.rows.div_ceil(4))
    }

    /// Begins the waiting texts that may begin and for which there are rows. A request that is reading nothing may
    /// always begin one.
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

    /// The oldest text of all, which always comes first.
    fn oldest(&self) -> Option<TextId> {
        self.texts.first_key_value().map(|(&id, _)| id)
    }

    /// The current counts.
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

    /// The number of pages that are free, or only kept.
    fn available(&self) -> usize {
        self.bounds.pages - self.own - self.prefixes.len() + self.prefixes.unused()
    }

    /// Takes available pages.
    fn take(&mut self, id: TextId, count: usize, steps: &mut Vec<Step>) {
        self.own += count;
        self.text(id).own += count;
        while self.own + self.prefixes.len() > self.bounds.pages {
            self.forget(steps);
        }
    }

    /// Drops the least recently used page.
    fn forget(&mut self, steps: &mut Vec<Step>) {
        steps.push(Step::Forget(self.prefixes.forget().expect("a page that is only kept")));
    }

    /// Ensures that every running text has the pages that it needs, by preempting texts if necessary.
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

    /// The text that gives way if one must.
    fn last(&self) -> Option<TextId> {
        let oldest = self.oldest()?;
        self.accounts.last(oldest, |id| self.texts[&id].pages_held())
    }

    /// Takes the memory of a running text, which waits again.
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

    /// Begins a waiting text with its kept prefix, if it may begin.
    fn begin(&mut self, id: TextId, steps: &mut Vec<Step>) -> bool {
        let page_tokens = self.bounds.page_tokens;
        let text = &self.texts[&id];
        let find = |space| self.prefixes.find(space, text.begins_with(), self.bounds.has_parts);
        let found = text.space.map_or(Found::default(), find);
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
        // Begin before pages are dropped for it, since its prefix may be one of them.
        steps.push(Step::Begin(id, from.map(|from| (from, held))));
        self.take(id, needs, steps);
        self.accounts.runs(&self.texts[&id].account, id);
        self.running.insert(id);
        let text = self.text(id);
        (text.held, text.path, text.kept) = (held, found.path, found.pages);
        (text.is_reading, text.keeps) = (true, text.space.is_some());
        true
    }

    /// Whether there is a slot and `needs` pages for a waiting text, in addition to the pages that it shares. If not,
    /// texts of accounts with more than their share give way, and all others give way to the oldest.
    fn has_room_made(&mut self, id: TextId, needs: usize, shares: usize, steps: &mut Vec<Step>) -> bool {
        let (oldest, account) = (self.oldest().expect("this one"), self.texts[&id].account.clone());
        let pages = |policy: &Self, id| policy.texts[&id].pages_held();
        let Bounds { texts, pages: all, page_tokens, .. } = self.bounds;
        // Both must be available, so that no text gives way in vain.
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

    /// Whether a running text is about to read more than half of the tokens that this one would have to read itself.
    fn is_being_read(&self, waiting: &Text, held: usize) -> bool {
        let Some(space) = waiting.space else { return false };
        let begins_with = waiting.begins_with();
        self.running.iter().map(|id| &self.texts[id]).any(|text| {
            let is_reading = text.space == Some(space) && text.is_reading && text.keeps;
            is_reading && 2 * in_common(begins_with, &text.tokens).saturating_sub(held) > begins_with.len() - held
        })
    }

    /// Keeps the last page of a text that has just been read, if the next waiting text shares its tokens and there is a
    /// page for it. The text itself continues on another page.
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
                // Not the page that was just kept, which is the most recently used.
                self.forget(steps);
            }
        }
    }
}
