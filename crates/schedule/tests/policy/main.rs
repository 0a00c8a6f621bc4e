//! Random arrivals, ends, forks and bounds: the policy's steps are carried out and checked in a model of memory.

mod memory;

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use verdigris_logits::TokenId;

use memory::{Held, Memory};
use verdigris_schedule::policy::{Account, Bounds, Policy, Step, Submission, TextId, TooLong};

/// The tokens are few, so that texts often have common prefixes.
const TOKENS: u32 = 3;

/// An event for a policy.
#[derive(Clone, Debug)]
enum Happens {
    /// A text arrives with this prompt, to write `writes` tokens.
    Arrives { account: Account, prompt: Vec<TokenId>, writes: usize, ahead: usize, space: Option<u64> },
    /// A text arrives whose prompt begins with `share` quarters of another present text, followed by further tokens.
    Forks { of: usize, share: usize, more: Vec<TokenId>, writes: usize },
    /// Memory for these tokens comes from outside.
    Restored { tokens: Vec<TokenId>, space: u64 },
    /// A present text is ended from outside.
    Cancelled(usize),
    /// The given number of passes.
    Passes(usize),
}

fn happenings() -> impl Strategy<Value = Vec<Happens>> {
    let space = prop_oneof![6 => Just(Some(0)), 1 => Just(Some(1)), 1 => Just(None)];
    let account = prop_oneof![4 => Just((0, 0)), 2 => (0..2usize, 0..3u64), 1 => (0..4usize, 0..4u64)]
        .prop_map(|(tenant, request)| account(["acme", "rival", "third", "fourth"][tenant], request));
    let arrives = (account, vec(0..TOKENS, 1..14), 0..9usize, 0..4usize, space)
        .prop_map(|(account, prompt, writes, ahead, space)| Happens::Arrives { account, prompt, writes, ahead, space });
    let forks = (any::<usize>(), 0..5usize, vec(0..TOKENS, 0..4), 0..9usize)
        .prop_map(|(of, share, more, writes)| Happens::Forks { of, share, more, writes });
    let restored = (vec(0..TOKENS, 1..14), 0..2u64).prop_map(|(tokens, space)| Happens::Restored { tokens, space });
    let happens = prop_oneof![
        4 => arrives,
        3 => forks,
        1 => restored,
        1 => any::<usize>().prop_map(Happens::Cancelled),
        4 => (1..4usize).prop_map(Happens::Passes),
    ];
    vec(happens, 1..60)
}

fn bounds() -> impl Strategy<Value = Bounds> {
    let bounds = |(page_tokens, pages, kept, rows, texts, has_parts)| Bounds {
        page_tokens,
        pages,
        kept,
        rows,
        texts,
        has_parts,
    };
    (1..6usize, 3..24usize, 0..24usize, 1..12usize, 1..7usize, any::<bool>()).prop_map(bounds)
}

fn account(tenant: &str, request: u64) -> Account {
    Account { tenant: tenant.into(), request }
}

/// A text, as known to the executor of the policy.
#[derive(Debug)]
struct Text {
    account: Account,
    tokens: Vec<TokenId>,
    /// The number of tokens still to be written.
    left: usize,
    most: usize,
    ahead: usize,
    space: Option<u64>,
    /// The number of tokens of the prompt, and whether the text is read once more at its end.
    prompt: usize,
    rereads: bool,
    /// Whether it is being read once more.
    is_reread: bool,
    /// The pass before which it must be over.
    over_by: usize,
}

/// A policy, and the results of its steps.
struct World {
    bounds: Bounds,
    policy: Policy,
    memory: Memory,
    texts: BTreeMap<TextId, Text>,
    passes: usize,
    /// The number of tokens read.
    read: usize,
    /// Whether one of four texts is read once more at its end.
    rereads: bool,
}

/// The next token of a text: an arbitrary function.
fn mixed(tokens: &[TokenId], salt: u32) -> u32 {
    tokens.iter().rev().take(5).fold(tokens.len() as u32 ^ salt, |x, &t| {
        let x = (x ^ t).wrapping_mul(0x9e37_79b1);
        x ^ x >> 15
    })
}

impl World {
    fn new(bounds: Bounds) -> Self {
        let (policy, memory, texts) = (Policy::new(bounds), Memory::default(), BTreeMap::new());
        Self { bounds, policy, memory, texts, passes: 0, read: 0, rereads: false }
    }

    fn arrives(&mut self, prompt: Vec<TokenId>, writes: usize, ahead: usize, space: Option<u64>) -> Option<TextId> {
        self.arrives_for(Account::default(), prompt, writes, ahead, space)
    }

    /// Like [`World::arrives`], for an account.
    fn arrives_for(
        &mut self,
        account: Account,
        prompt: Vec<TokenId>,
        writes: usize,
        ahead: usize,
        space: Option<u64>,
    ) -> Option<TextId> {
        let most = prompt.len() + writes;
        // Some texts pause where their state is saved.
        let pause = if writes.is_multiple_of(3) { prompt.len() / 2 } else { 0 };
        let prompt_of = prompt.clone().into();
        let submission = Submission { account: account.clone(), prompt: prompt_of, most, ahead, space, pause };
        let (needs, pages) = (most.div_ceil(self.bounds.page_tokens), self.bounds.pages);
        let id = match self.policy.submit(submission) {
            Ok(id) => id,
            Err(error) => {
                assert_eq!(error, TooLong { needs, pages });
                return None;
            }
        };
        assert!(needs <= pages);
        // The oldest text advances by at least one token with each pass, and once more for its end.
        let before: usize = self.texts.values().map(|text| (1 + usize::from(text.rereads)) * (text.most + 1)).sum();
        let (rereads, times) = if self.rereads && mixed(&prompt, 5).is_multiple_of(4) { (true, 2) } else { (false, 1) };
        let over_by = self.passes + before + times * (most + 1);
        self.texts.insert(
            id,
            Text {
                account,
                prompt: prompt.len(),
                tokens: prompt,
                left: writes,
                most,
                ahead,
                space,
                rereads,
                is_reread: false,
                over_by,
            },
        );
        Some(id)
    }

    fn nth(&self, n: usize) -> Option<TextId> {
        self.texts.keys().nth(n.checked_rem(self.texts.len())?).copied()
    }

    fn happens(&mut self, happens: Happens) {
        match happens {
            Happens::Arrives { account, prompt, writes, ahead, space } => {
                self.arrives_for(account, prompt, writes, ahead, space);
            }
            Happens::Forks { of, share, more, writes } => {
                let Some(origin) = self.nth(of).map(|id| &self.texts[&id]) else { return };
                let mut prompt = origin.tokens[..origin.tokens.len() * share / 4].to_vec();
                prompt.extend(more);
                let (account, ahead, space) = (origin.account.clone(), origin.ahead, origin.space);
                if !prompt.is_empty() {
                    self.arrives_for(account, prompt, writes, ahead, space);
                }
            }
            Happens::Restored { tokens, space } => self.restores(space, &tokens),
            Happens::Cancelled(n) => {
                if let Some(id) = self.nth(n) {
                    self.end(id);
                }
            }
            Happens::Passes(count) => (0..count).for_each(|_| self.pass()),
        }
    }

    /// Keeps memory for tokens that no text has read.
    fn restores(&mut self, space: u64, tokens: &[TokenId]) {
        let page_tokens = self.bounds.page_tokens;
        let kept = self.policy.kept(space, tokens);
        let mut held = kept.pages.map_or(Held::default(), |(prefix, count)| {
            let held = self.memory.kept[&prefix].first(page_tokens, count);
            assert_eq!(held.tokens(page_tokens), tokens[..count]);
            held
        });
        let from = kept.pages.map_or(0, |(_, count)| count);
        assert!(from <= kept.tokens && from.is_multiple_of(page_tokens));
        let mut steps = Vec::new();
        let adopted = self.policy.adopt(space, tokens, &mut steps);
        steps.into_iter().for_each(|step| self.done(step));
        let mut before = from;
        for (prefix, to) in adopted {
            assert!(
                before < to && to <= before + page_tokens && (to.is_multiple_of(page_tokens) || to == tokens.len())
            );
            held.append(page_tokens, &tokens[before..to]);
            assert!(self.memory.kept.insert(prefix, held.first(page_tokens, to)).is_none());
            before = to;
        }
        drop(held);
        let counts = self.policy.counts();
        assert!(counts.pages_used + counts.pages_kept <= counts.pages, "{counts:?}");
        assert!(self.memory.pages() <= counts.pages_used + counts.pages_kept, "{counts:?}");
    }

    fn end(&mut self, id: TextId) {
        self.policy.end(id);
        self.memory.texts.remove(&id);
        self.texts.remove(&id);
    }

    /// Carries out a plan.
    fn pass(&mut self) {
        let Bounds { page_tokens, rows, texts, .. } = self.bounds;
        let mut steps = Vec::new();
        self.policy.plan(&mut steps);
        let (mut certain, mut of_prompts, mut begun, mut reads) = (0, 0, Vec::new(), Vec::new());
        for step in steps {
            match step {
                Step::Read { text, tokens, writes } => {
                    let Text { tokens: all, ahead, is_reread, .. } = &self.texts[&text];
                    let ahead = if *is_reread { 0 } else { *ahead };
                    let unread = all.len() - self.memory.texts[&text].tokens(page_tokens).len();
                    assert!(1 <= tokens && tokens <= unread && writes == (tokens == unread));
                    match unread {
                        1 if !begun.contains(&text) => certain += 1 + ahead,
                        _ => of_prompts += tokens,
                    }
                    reads.push((text, tokens, writes));
                }
                Step::Begin(text, _) => {
                    begun.push(text);
                    self.done(step);
                }
                step => self.done(step),
            }
        }
        let kept = self.policy.counts().pages_kept;
        assert!(kept <= self.bounds.kept, "{kept} pages are kept of {:?}", self.bounds);
        assert!(of_prompts <= rows.saturating_sub(certain).max(rows.div_ceil(4)), "{of_prompts} of {rows}");
        assert!(reads.len() <= texts);
        assert_eq!(self.texts.is_empty(), reads.is_empty(), "the oldest continues");
        if let Some(oldest) = self.texts.keys().next() {
            assert!(reads.iter().any(|(id, ..)| id == oldest), "the oldest continues");
        }
        for (id, tokens, writes) in reads {
            self.reads(id, tokens, writes);
        }
        self.passes += 1;
        let late = self.texts.iter().find(|(_, text)| text.over_by < self.passes);
        assert!(late.is_none(), "{late:?} is late after {} passes", self.passes);
        let counts = self.policy.counts();
        assert!(counts.pages_used + counts.pages_kept <= counts.pages, "{counts:?}");
        assert!(self.memory.pages() <= counts.pages_used + counts.pages_kept, "{counts:?}");
    }

    fn done(&mut self, step: Step) {
        let page_tokens = self.bounds.page_tokens;
        match step {
            Step::Read { .. } => unreachable!("it is done with the others"),
            Step::Forget(prefix) => assert!(self.memory.kept.remove(&prefix).is_some()),
            Step::Preempt(id) => {
                assert_ne!(self.texts.keys().next(), Some(&id), "the oldest is never preempted");
                let of_request = |(other, text): (&TextId, &Text)| {
                    text.account == self.texts[&id].account && self.memory.texts.contains_key(other) && *other > id
                };
                assert!(!self.texts.iter().any(of_request), "the youngest of a request goes first");
                assert!(self.memory.texts.remove(&id).is_some());
            }
            Step::Begin(id, from) => {
                let text = &self.texts[&id];
                let mut before = self.texts.iter().take_while(|&(&other, _)| other < id);
                let is_passed = |(other, before): (&TextId, &Text)| {
                    before.account == text.account && !self.memory.texts.contains_key(other)
                };
                assert!(!before.any(is_passed), "no text of a request is passed by a younger one");
                let held = from.map_or(Held::default(), |(prefix, tokens)| {
                    assert!(tokens < text.tokens.len(), "a row is to be computed");
                    assert!(tokens < text.prompt || !text.is_reread, "all rows behind the prompt are to be computed");
                    self.memory.kept[&prefix].first(page_tokens, tokens)
                });
                let tokens = held.tokens(page_tokens);
                assert_eq!(tokens, text.tokens[..tokens.len()], "what is shared is in common");
                assert!(self.memory.texts.insert(id, held).is_none());
            }
            Step::Keep(prefix, id, tokens) => {
                let held = self.memory.texts[&id].first(page_tokens, tokens);
                assert_eq!(held.tokens(page_tokens), self.texts[&id].tokens[..tokens]);
                assert!(self.memory.kept.insert(prefix, held).is_none());
            }
        }
    }

    /// A text reads, and continues if it may.
    fn reads(&mut self, id: TextId, count: usize, writes: bool) {
        let page_tokens = self.bounds.page_tokens;
        self.read += count;
        let text = self.texts.get_mut(&id).unwrap();
        let held = self.memory.texts.get_mut(&id).unwrap();
        let from = held.tokens(page_tokens).len();
        held.append(page_tokens, &text.tokens[from..from + count]);
        let mut steps = Vec::new();
        if !writes {
            assert!(self.memory.pages() <= self.bounds.pages);
            self.policy.holds(id, from + count, &mut steps);
            return steps.into_iter().for_each(|step| self.done(step));
        }
        if text.is_reread {
            return self.end(id);
        }
        // Some drafts are accepted, the others are removed again, and a token follows.
        let known = text.tokens.len();
        let drafts = text.ahead.min(text.left.saturating_sub(1));
        let stand = mixed(&text.tokens, 7) as usize % (drafts + 1);
        let is_over = text.left == 0;
        if !is_over {
            for _ in 0..=stand {
                text.tokens.push(mixed(&text.tokens, 0) % TOKENS);
                text.left -= 1;
            }
        }
        held.append(page_tokens, &text.tokens[known..known + if is_over { 0 } else { stand }]);
        held.append(page_tokens, &vec![9; drafts - stand]);
        assert!(self.memory.pages() <= self.bounds.pages, "{} of {:?}", self.memory.pages(), self.bounds);
        let held = self.memory.texts.get_mut(&id).unwrap();
        let (text, length) = (self.texts.get_mut(&id).unwrap(), known + if is_over { 0 } else { stand });
        held.truncate(length);
        self.policy.extend(id, &text.tokens[known..]);
        self.policy.holds(id, length, &mut steps);
        steps.into_iter().for_each(|step| self.done(step));
        // Sometimes further tokens are decided without a call.
        let text = self.texts.get_mut(&id).unwrap();
        let before = text.tokens.len();
        for _ in 0..(mixed(&text.tokens, 3) as usize % 9).saturating_sub(5).min(text.left) {
            text.tokens.push(mixed(&text.tokens, 0) % TOKENS);
            text.left -= 1;
        }
        self.policy.extend(id, &text.tokens[before..]);
        let is_over = text.left == 0;
        match text.rereads && text.tokens.len() > text.prompt {
            _ if !is_over => (),
            false => self.end(id),
            true => {
                self.memory.texts.remove(&id);
                self.policy.again(id, &text.tokens, text.prompt);
                text.tokens.pop();
                text.is_reread = true;
            }
        }
    }

    /// Runs passes until all texts have ended, which the limit on each ensures.
    fn finish(&mut self) {
        while !self.texts.is_empty() {
            self.pass();
        }
        let counts = self.policy.counts();
        assert_eq!((counts.running, counts.waiting, counts.pages_used), (0, 0, 0), "{counts:?}");
        assert_eq!(self.memory.kept.len(), counts.pages_kept);
        assert!(self.memory.texts.is_empty());
    }
}

/// No text starves, no text of a request is overtaken by a younger one, no page is lost or belongs to another text, and
/// no more pages are held than there are.
#[test]
fn whatever_happens_all_is_in_order() {
    let config = Config { cases: 5000, failure_persistence: None, ..Config::default() };
    let run = |(bounds, all)| {
        let mut world = World { rereads: true, ..World::new(bounds) };
        Vec::into_iter(all).for_each(|happens| world.happens(happens));
        world.finish();
        Ok(())
    };
    TestRunner::new(config).run(&(bounds(), happenings()), run).unwrap();
}

const ROOMY: Bounds = Bounds { page_tokens: 4, pages: 100, kept: 100, rows: 8, texts: 10, has_parts: true };

/// The tokens `from`, `from + 1`, ..., which are all different.
fn count(from: u32, tokens: usize) -> Vec<TokenId> {
    (from..from + tokens as u32).collect()
}

#[test]
fn a_second_text_reads_what_is_new_in_it() {
    let mut world = World::new(ROOMY);
    world.arrives(count(0, 30), 1, 0, Some(0)).unwrap();
    world.finish();
    assert_eq!(world.read, 30);
    // Of its seven full pages and the last one, which no text waited for, 28 tokens are kept.
    world.arrives([count(0, 30), count(100, 3)].concat(), 1, 0, Some(0)).unwrap();
    world.finish();
    assert_eq!(world.read, 30 + 5);
    // A part of a page is shared too, and of equal prompts only the last token is read.
    world.arrives(count(0, 27), 1, 0, Some(0)).unwrap();
    world.finish();
    assert_eq!(world.read, 30 + 5 + 1);
    let counts = world.policy.counts();
    assert_eq!((counts.asked_tokens, counts.shared_tokens), (30 + 33 + 27, 28 + 26));
    // Texts of another model share nothing, nor do texts without a space.
    for space in [Some(1), None] {
        world.read = 0;
        world.arrives(count(0, 30), 1, 0, space).unwrap();
        world.finish();
        assert_eq!(world.read, 30);
    }
}

/// A partly shared page counts as used: another one is dropped before it.
#[test]
fn a_page_that_is_taken_in_part_is_kept_longer() {
    let mut world = World::new(Bounds { kept: 3, ..ROOMY });
    // Pages beyond the limit are dropped when the next text has begun; the last text is that next one.
    for prompt in [count(0, 5), count(50, 5), [count(0, 2), count(90, 3)].concat(), count(70, 5), count(110, 5)] {
        world.arrives(prompt, 1, 0, Some(0)).unwrap();
        world.finish();
    }
    world.read = 0;
    world.arrives(count(0, 5), 1, 0, Some(0)).unwrap();
    world.finish();
    assert_eq!(world.read, 1, "the page of the first text is there, and that of the second is not");
}

#[test]
fn of_equal_prompts_that_come_together_one_is_read() {
    for length in [1, 3, 4, 5, 18] {
        let mut world = World::new(ROOMY);
        for _ in 0..8 {
            world.arrives(count(0, length), 1, 0, Some(0)).unwrap();
        }
        world.finish();
        assert_eq!(world.read, length + 7, "{length}");
    }
}

#[test]
fn prompts_are_read_in_pieces_beside_texts_that_go_on() {
    let mut world = World::new(Bounds { rows: 4, ..ROOMY });
    let first = world.arrives(count(0, 1), 40, 1, Some(0)).unwrap();
    world.pass();
    world.arrives(count(50, 20), 1, 0, Some(0)).unwrap();
    for pass in 0..10 {
        let before = world.texts[&first].tokens.len();
        let read = world.read;
        world.pass();
        // Two rows for the text and its draft, two for the prompt.
        assert!(world.texts[&first].tokens.len() > before, "pass {pass}");
        assert!(world.read - read >= 3, "pass {pass}");
        if world.texts.len() == 1 {
            break;
        }
    }
    world.finish();
}

#[test]
fn the_youngest_makes_room_and_is_read_again() {
    let mut world = World::new(Bounds { pages: 6, ..ROOMY });
    world.arrives(count(0, 6), 14, 0, Some(0)).unwrap();
    world.arrives(count(50, 4), 14, 0, Some(0)).unwrap();
    world.finish();
    assert!(world.policy.counts().preempted > 0);
    assert!(world.read > 6 + 4 + 14 + 14, "{}", world.read);
}

/// A text of one token arrives while a request of 1,000 texts fills all slots, rows and pages: it ends after a few
/// passes, whether it belongs to another tenant or the same one.
#[test]
fn a_small_request_does_not_wait_for_a_large_one() {
    let bounds = Bounds { page_tokens: 4, pages: 200, kept: 200, rows: 16, texts: 8, has_parts: true };
    // Texts that take slots; prompts that take rows; texts that take all pages.
    for (prompt, writes, pages) in [(4, 200, 1000), (150, 1, 1000), (90, 110, 200), (1, 199, 200)] {
        for small in [account("rival", 0), account("acme", 1)] {
            let mut world = World::new(Bounds { pages, ..bounds });
            for i in 0..1000 {
                world.arrives_for(account("acme", 0), count(200 * i, prompt), writes, 0, Some(0)).unwrap();
            }
            (0..40).for_each(|_| world.pass());
            for round in 0..20 {
                let before = world.policy.counts().preempted;
                let id = world.arrives_for(small.clone(), count(500_000 + round, 5), 1, 0, Some(1)).unwrap();
                let passes = (1..).find(|_| {
                    world.pass();
                    !world.texts.contains_key(&id)
                });
                assert!(passes <= Some(3), "{passes:?} passes next to texts of {prompt} and {writes} tokens");
                let preempted = world.policy.counts().preempted - before;
                assert!(preempted <= 4, "{preempted} texts give way to one");
            }
            assert!(world.texts.len() > 700, "the large one is still there");
        }
    }
}

/// Tenants get even parts of the tokens written, whatever their number of requests and texts, and so do the requests of
/// one tenant.
#[test]
fn what_there_is_is_shared_out_evenly() {
    let bounds = Bounds { page_tokens: 4, pages: 200, kept: 0, rows: 16, texts: 8, has_parts: true };
    for (prompt, writes, pages) in [(4, 30, 1000), (60, 2, 1000), (20, 30, 80)] {
        let mut world = World::new(Bounds { pages, ..bounds });
        // One with a request of many texts, one with many requests, one with two requests of which one is large.
        let accounts = (0..300).map(|i| match i {
            0..100 => account("acme", 0),
            100..200 => account("rival", i),
            _ => account("third", 1000 + u64::from(i % 10 == 0)),
        });
        let mut of = BTreeMap::new();
        for (i, account) in (0..).zip(accounts) {
            let id = world.arrives_for(account.clone(), count(200 * i, prompt), writes, 0, Some(0)).unwrap();
            of.insert(id, account);
        }
        let there: BTreeMap<TextId, usize> = world.texts.iter().map(|(&id, text)| (id, text.left)).collect();
        // As long as all have texts.
        let mut done = BTreeMap::<&str, usize>::new();
        for _ in 0..600 {
            world.pass();
            done.clear();
            for (id, account) in &of {
                let left = world.texts.get(id).map_or(0, |text| text.left);
                *done.entry(&account.tenant).or_default() += there[id] - left;
            }
            if done.values().any(|&done| done > 80 * writes) {
                break;
            }
        }
        let (least, most) = (done.values().min().unwrap(), done.values().max().unwrap());
        assert!(*least as f64 > 0.75 * *most as f64, "{done:?} next to texts of {prompt} and {writes} tokens");
    }
}

/// Waiting texts do not make passes smaller.
#[test]
fn passes_are_full_however_many_wait() {
    let rows_a_pass = |texts: u32| {
        let mut world = World::new(Bounds { page_tokens: 4, pages: 40, kept: 40, rows: 16, texts: 8, has_parts: true });
        for i in 0..texts {
            world.arrives(count(100 * i, 9), 10, 0, Some(0)).unwrap();
        }
        world.finish();
        world.read as f64 / world.passes as f64
    };
    let [some, many] = [16, 400].map(rows_a_pass);
    assert!(many > 0.95 * some, "{many} rows a pass against {some}");
}
