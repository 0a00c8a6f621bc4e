//! Texts that come and go on a real model: each equals the text generated alone, prompts are read once, and passes are
//! full.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use serde_json::json;
use verdigris::constrain::Style;
use verdigris::decoding::{Coupling, DraftLength, DraftModel, Drafting, Limits, Lookup, Plain, Rule, Target};
use verdigris::logits::warp::{MinP, Temperature, TopK, TopP};
use verdigris::logits::{Chain, CountPenalty, Random, RepetitionPenalty, Sampler, TokenId};
use verdigris::models::{CacheLayout, Device, LanguageModel, Sequence};
use verdigris::{Constraint, Engine, Grammar, Key, Marking, Stop, TreeShape};
use verdigris_schedule::{
    Ask, Capacity, Event, PrefixStore, Refused, Schedule, Service, Statistics, StoredTexts, Storing, TextId, TokenEvent,
};
use verdigris_tests::tiny_models::{self, Layers};

/// Has small pages, so that there are many of them.
const PAGES: CacheLayout = CacheLayout::Paged { tokens: 8 };

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let folder = verdigris_tests::harness::model("tale-small").cache_layout(PAGES);
    Engine::from_folder(&folder, &Device::Cpu).unwrap()
});

/// A model of four tokens.
fn tiny(layers: Layers) -> Engine {
    tiny_models::engine(&layers.write(1).unwrap().folder().cache_layout(PAGES))
}

static HYBRID: LazyLock<Engine> = LazyLock::new(|| tiny(Layers::Hybrid));

fn model() -> Arc<dyn LanguageModel> {
    ENGINE.model().clone()
}

fn tokens(text: &str) -> Vec<TokenId> {
    ENGINE.reader().tokenizer().encode(text).unwrap()
}

/// A sequence of pseudo-random numbers.
struct Dice(Random, u64);

impl Dice {
    fn new(seed: u64) -> Self {
        Self(Random::new(seed), 0)
    }

    fn below(&mut self, n: usize) -> usize {
        self.1 += 1;
        (self.0.uniform(self.1, verdigris::logits::Purpose::Choice) * n as f64) as usize
    }
}

/// A model, and what its texts are made of.
struct Subject<'e> {
    engine: &'e Engine,
    key: Key,
    form: Constraint,
    beginnings: [Vec<TokenId>; 4],
    endings: [Vec<TokenId>; 5],
    /// The most tokens of a text.
    longest: usize,
}

/// A text of the experiment, with everything that can differ between texts.
struct Case<'s> {
    subject: &'s Subject<'s>,
    prompt: Vec<TokenId>,
    target: Target,
    limits: Limits,
    drafts: usize,
}

const BEGINNINGS: [&str; 4] = [
    "It was a dark night, and the captain stood at the wheel of the ship, which had left the harbour three days \
     before. The sea was high, the men were tired, and nobody had seen the stars since then. Below, the cook told the \
     boy a story about an island where the trees were made of glass, and ",
    "It was a dark night, and the captain slept. ",
    "The key of the old house lay under a stone beside the door. ",
    "",
];

impl<'e> Subject<'e> {
    fn of_tale() -> Self {
        let schema = json!({"type": "object", "properties": {"name": {"type": "string", "maxLength": 8},
            "of age": {"type": "boolean"}}, "required": ["name", "of age"], "additionalProperties": false});
        let form = Constraint::json_schema(ENGINE.lexicon(), &schema, Style::default()).unwrap();
        let endings = ["The captain", "\"Yes,\" said", "A", "In the morning the ship", "Nobody"];
        Self::new(&ENGINE, form, BEGINNINGS.map(tokens), endings.map(tokens), 24)
    }

    /// Of a model of four tokens, the last of which ends a text.
    fn of_tiny(engine: &'e Engine) -> Self {
        let mut dice = Dice::new(0);
        let mut tokens = |count| (0..count).map(|_| dice.below(3) as TokenId).collect();
        let form = engine.constraint(Grammar::regex("((12|2)*1?2){3}").unwrap());
        Self::new(engine, form, [20, 12, 24, 0].map(&mut tokens), [2, 5, 1, 6, 3].map(tokens), 96)
    }

    fn new(
        engine: &'e Engine,
        form: Constraint,
        beginnings: [Vec<TokenId>; 4],
        endings: [Vec<TokenId>; 5],
        longest: usize,
    ) -> Self {
        let key = Key::from_secret([3; 32], "test", Marking::lists(), engine.reader().vocabulary()).unwrap();
        Self { engine, key, form, beginnings, endings, longest }
    }
}

impl<'s> Case<'s> {
    fn new(subject: &'s Subject<'s>, number: usize) -> Self {
        let Subject { engine, key, form, beginnings, endings, longest } = subject;
        let mut dice = Dice::new(1000 + number as u64);
        let prompt = [&beginnings[dice.below(4)][..], &endings[dice.below(5)]].concat();
        let limits = Limits { max_tokens: 1 + dice.below(*longest), end: engine.end().to_vec() };
        let mut transforms = Chain::new();
        match dice.below(4) {
            0 => transforms.push(RepetitionPenalty::new(1.3).unwrap()),
            1 => transforms.push(CountPenalty::new(0.5, 0.4).unwrap()),
            _ => (),
        }
        if dice.below(4) == 0 {
            transforms.push(form.within(limits.max_tokens.max(20)));
        }
        if dice.below(2) == 0 {
            transforms.push(key.embed().unwrap());
        }
        let sampler = match dice.below(5) {
            0 => Sampler::Greedy,
            n => {
                transforms.push(Temperature::new(0.4 + 0.3 * n as f64).unwrap());
                match dice.below(4) {
                    0 => transforms.push(TopK::new(7).unwrap()),
                    1 => transforms.push(TopP::new(0.8).unwrap()),
                    2 => transforms.push(MinP::new(0.1).unwrap()),
                    _ => (),
                }
                Sampler::Categorical
            }
        };
        let target = Target { transforms, sampler, random: Random::new(number as u64) };
        Self { subject, prompt, target, limits, drafts: dice.below(4) }
    }

    /// Drafts at the target's own draws, or from earlier text, which give the text without drafts.
    fn drafting(&self) -> Option<Drafting> {
        let length = match self.limits.max_tokens % 2 {
            0 => DraftLength::Fixed(3),
            _ => DraftLength::Tree(TreeShape::levels(&[2, 1])),
        };
        let rule = Rule::EachToken;
        let drafter: verdigris::decoding::BoxedDrafter = match self.drafts {
            0 => {
                let Target { transforms, sampler, .. } = &self.target;
                let model = self.subject.engine.model().clone();
                Box::new(DraftModel::new(model, 2048, transforms, *sampler, Coupling::Shared).unwrap())
            }
            1 => Box::new(Lookup::default().over(&self.target.transforms)),
            _ => return None,
        };
        Some(Drafting { drafter, length, rule, memory: None })
    }

    fn ask(&self) -> Ask {
        Ask { drafting: self.drafting(), ..Ask::new(self.prompt.clone(), self.target.clone(), self.limits.clone()) }
    }

    /// The text and its stop reason, generated alone and without drafts.
    fn alone(&self) -> (Vec<TokenId>, Option<Stop>) {
        let model = self.subject.engine.model().clone();
        let mut plain = Plain::new(model, &self.target, &self.prompt, self.limits.clone()).unwrap();
        let text = plain.by_ref().map(Result::unwrap).collect();
        (text, plain.stop())
    }
}

/// The events of texts, by their ids.
#[derive(Default)]
struct Heard(BTreeMap<TextId, (Vec<TokenId>, Option<Stop>)>);

impl Heard {
    fn hears(&mut self, id: TextId, event: TokenEvent) -> ControlFlow<Stop> {
        let known = self.0.contains_key(&id);
        assert_eq!(known, !matches!(event, Event::Begun), "a text begins once, before all else");
        let (text, stop) = self.0.entry(id).or_default();
        assert!(stop.is_none(), "nothing comes behind the end");
        match event {
            Event::Begun => (),
            Event::Reasoning((token, _)) | Event::Text((token, _)) => text.push(token),
            Event::End(ended) => *stop = ended.stop,
            Event::Failed(error) => panic!("{error}"),
        }
        ControlFlow::Continue(())
    }
}

fn finish(schedule: &mut Schedule) -> (Heard, Statistics) {
    let mut heard = Heard::default();
    while schedule.pass(&mut |id, told| heard.hears(id, told)).unwrap() {}
    (heard, schedule.statistics())
}

/// Marks, constraints, penalties, temperatures and drafts in one pass; texts that arrive at any moment, lose their
/// memory, begin from pages of others, and leave.
#[test]
fn a_text_is_the_same_in_any_company() {
    each_is_the_same_in_any_company(&Subject::of_tale());
}

/// The same for a mixture of experts, whose rows are grouped by expert in each pass.
#[test]
fn a_text_of_a_mixture_is_the_same_in_any_company() {
    each_is_the_same_in_any_company(&Subject::of_tiny(&tiny(Layers::Mixture)));
}

/// The same for a hybrid, whose states are forked, cut back and reached again.
#[test]
fn a_text_of_a_hybrid_is_the_same_in_any_company() {
    each_is_the_same_in_any_company(&Subject::of_tiny(&HYBRID));
}

fn each_is_the_same_in_any_company(subject: &Subject<'_>) {
    let cases: Vec<Case> = (0..200).map(|number| Case::new(subject, number)).collect();
    let mut sum = Statistics::default();
    for (company, (rows, tokens)) in [(16, 128), (64, 4000)].into_iter().enumerate() {
        let capacity = Capacity { texts: 12, tokens, kept: tokens, rows };
        let (mut schedule, mut dice, mut heard) =
            (Schedule::new(subject.engine.model().clone(), capacity), Dice::new(company as u64), Heard::default());
        let (mut numbers, mut strangers, mut next) = (BTreeMap::new(), Vec::new(), 0);
        loop {
            for _ in 0..dice.below(4) {
                if let Some(case) = cases.get(next) {
                    numbers.insert(schedule.submit(case.ask()).unwrap(), next);
                    next += 1;
                }
            }
            // Other texts, whose end is not checked.
            if dice.below(3) == 0 && next < cases.len() {
                strangers.push(schedule.submit(Case::new(subject, dice.below(1000)).ask()).unwrap());
            }
            if dice.below(3) == 0 && !strangers.is_empty() {
                let id = strangers.swap_remove(dice.below(strangers.len()));
                schedule.cancel(id);
            }
            let goes_on = schedule.pass(&mut |id, told| heard.hears(id, told)).unwrap();
            if !goes_on && next == cases.len() {
                break;
            }
        }
        for (id, number) in numbers {
            assert_eq!(heard.0[&id], cases[number].alone(), "text {number} in company {company}");
        }
        let now = schedule.statistics();
        assert_eq!((now.counts.running, now.counts.waiting, now.counts.pages_used), (0, 0, 0));
        sum.counts.preempted += now.counts.preempted;
        sum.counts.shared_tokens += now.counts.shared_tokens;
        sum.accepted += now.accepted;
    }
    // Checks that all of this has happened.
    assert!(sum.counts.preempted > 5 && sum.counts.shared_tokens > 1000 && sum.accepted > 100, "{sum:?}");
}

fn plain(seed: u64) -> Target {
    Target { transforms: Chain::new(), sampler: Sampler::Categorical, random: Random::new(seed) }
}

fn ask(prompt: &[TokenId], max_tokens: usize, seed: u64) -> Ask {
    Ask::new(prompt.to_vec(), plain(seed), Limits { max_tokens, end: Vec::new() })
}

/// A long prompt that is cached is not read again, except for its end; the count is of tokens that the model reads.
#[test]
fn a_prompt_is_read_once() {
    let long: Vec<TokenId> = tokens(&BEGINNINGS[0].repeat(30))[..1500].to_vec();
    let mut schedule = Schedule::new(model(), Capacity::of_texts(&*model(), 32, 1600));
    schedule.submit(ask(&long, 5, 0)).unwrap();
    let (_, before) = finish(&mut schedule);
    assert_eq!(before.read, 1500 + 4);
    let questions: Vec<Vec<TokenId>> =
        (0..31).map(|i| [&long[..], &tokens(["Who was", "Where stood", "A"][i % 3])].concat()).collect();
    for (i, prompt) in questions.iter().enumerate() {
        schedule.submit(ask(prompt, 5, i as u64)).unwrap();
    }
    let (heard, after) = finish(&mut schedule);
    let new: usize = questions.iter().map(|prompt| prompt.len() - 1500 + 4).sum();
    // The tokens of the last page, which is not full, are read by one of them, and so is one of equal questions.
    let (read, page) = (after.read - before.read, after.page_tokens);
    assert!((31 * 5..new + page).contains(&read), "{read} tokens, of which {new} are new");
    for (text, (i, prompt)) in heard.0.values().zip(questions.iter().enumerate()).take(4) {
        let limits = Limits { max_tokens: 5, end: Vec::new() };
        let alone = Plain::new(model(), &plain(i as u64), prompt, limits).unwrap();
        assert_eq!(text.0, alone.map(Result::unwrap).collect::<Vec<_>>(), "text {i}");
    }
    // The same holds for equal prompts that arrive together, without a full page.
    let mut schedule = Schedule::new(model(), Capacity::of_texts(&*model(), 32, 100));
    for seed in 0..32 {
        schedule.submit(ask(&long[..20], 3, seed)).unwrap();
    }
    assert_eq!(finish(&mut schedule).1.read, 20 + 31 + 32 * 2);
}

/// Texts of a hybrid begin with whole pages of another one, though its states have read further.
#[test]
fn a_beginning_is_shared_by_texts_of_a_hybrid() {
    let (model, mut dice) = (HYBRID.model(), Dice::new(0));
    let mut tokens = |count: usize| (0..count).map(|_| dice.below(3) as TokenId).collect::<Vec<_>>();
    let long = tokens(1500);
    let mut schedule = Schedule::new(model.clone(), Capacity::of_texts(&**model, 32, 1600));
    let page = schedule.statistics().page_tokens;
    schedule.submit(ask(&[&long[..], &tokens(90)].concat(), 5, 0)).unwrap();
    let (_, before) = finish(&mut schedule);
    let questions: Vec<Vec<TokenId>> = (1..32).map(|i| [&long[..], &tokens(i % 7 + 1)].concat()).collect();
    for (prompt, seed) in questions.iter().zip(0..) {
        schedule.submit(ask(prompt, 5, seed)).unwrap();
    }
    let (heard, after) = finish(&mut schedule);
    let unread: usize = questions.iter().map(|prompt| prompt.len() - 1500 / page * page + 4).sum();
    assert!(after.read - before.read <= unread, "{} tokens, and {unread} are new", after.read - before.read);
    for ((id, text), (prompt, seed)) in heard.0.iter().zip(questions.iter().zip(0..)) {
        let limits = Limits { max_tokens: 5, end: Vec::new() };
        let alone = Plain::new(model.clone(), &plain(seed), prompt, limits).unwrap();
        assert_eq!(text.0, alone.map(Result::unwrap).collect::<Vec<_>>(), "{id:?}");
    }
}

/// A store that has nothing, and notes after which tokens the pages in memory can be continued.
#[derive(Default)]
struct Onlooker(Mutex<Vec<(usize, Vec<usize>)>>);

impl PrefixStore for Onlooker {
    fn restore(&self, _: StoredTexts<'_>, _: &[TokenId], kept: usize, sequence: &mut dyn Sequence) {
        self.0.lock().unwrap().push((kept, sequence.saved_ends().unwrap()));
    }

    fn save(&self, _: StoredTexts<'_>, _: Arc<[TokenId]>, _: Box<dyn Sequence>) {}
}

/// Of the pages of a text of a hybrid, only the last one keeps states, besides snapshots.
#[test]
fn one_page_of_a_text_keeps_its_states() {
    let (model, mut dice) = (HYBRID.model(), Dice::new(3));
    let long: Vec<TokenId> = (0..1500).map(|_| dice.below(3) as TokenId).collect();
    let store = Arc::new(Onlooker::default());
    // More texts than there are pages, so that the number of states is not limited otherwise.
    let schedule = Schedule::new(model.clone(), Capacity::of_texts(&**model, 1600, 1600));
    let page = schedule.statistics().page_tokens;
    let mut schedule = schedule.with_store(store.clone());
    let asked = |prompt: &[TokenId]| Ask { storing: Storing::Shared, ..ask(prompt, 1, 0) };
    schedule.submit(asked(&long)).unwrap();
    finish(&mut schedule);
    let whole = 1499 / page * page;
    for length in (page..=whole).step_by(page) {
        let prompt = [&long[..length], &[(long[length] + 1) % 3, 1]].concat();
        schedule.submit(asked(&prompt)).unwrap();
        finish(&mut schedule);
    }
    let seen = store.0.lock().unwrap();
    // The page that a prompt shares has not been begun from before.
    let with_states = seen.iter().skip(1).filter(|(kept, ends)| ends.contains(kept)).count();
    assert!(with_states <= 1 + 2, "{with_states} of {} pages have states", seen.len());
}

/// The kept pages of hybrids that were used last have states, up to the number of texts that may run.
#[test]
fn states_of_few_pages_are_kept() {
    let (model, store) = (HYBRID.model(), Arc::new(Onlooker::default()));
    let schedule = Schedule::new(model.clone(), Capacity::of_texts(&**model, 4, 1600));
    let page = schedule.statistics().page_tokens;
    let mut schedule = schedule.with_store(store.clone());
    let mut write = |number: usize, last: TokenId| {
        // The first page is that of the number.
        let digits = (0..page as u32).map(|at| (number / 3usize.pow(at.min(3)) % 3) as TokenId);
        let prompt: Vec<TokenId> = digits.chain([last, 1]).collect();
        schedule.submit(Ask { storing: Storing::Shared, ..ask(&prompt, 1, 0) }).unwrap();
        finish(&mut schedule);
    };
    (0..12).for_each(|number| write(number, 0));
    store.0.lock().unwrap().clear();
    // The latest first, since the states of a page that is used are there afterwards.
    (0..12).rev().for_each(|number| write(number, 2));
    let seen = store.0.lock().unwrap();
    let with_states: Vec<bool> = seen.iter().map(|(kept, ends)| *kept == page && ends.contains(kept)).collect();
    assert_eq!(with_states, [[true; 4].as_slice(), &[false; 8]].concat());
}

/// A pass has the same number of tokens, however many texts wait.
#[test]
fn passes_are_as_full_under_a_crowd() {
    let rows_a_pass = |texts: usize| {
        let capacity = Capacity { texts: 16, tokens: 16 * 128, kept: 16 * 128, rows: 32 };
        let mut schedule = Schedule::new(model(), capacity);
        for i in 0..texts {
            schedule.submit(ask(&tokens(&format!("Chapter {i}. The captain and the {i} men")), 20, i as u64)).unwrap();
        }
        let (heard, statistics) = finish(&mut schedule);
        assert!(heard.0.len() == texts && heard.0.values().all(|(text, _)| text.len() == 20));
        statistics.read as f64 / statistics.passes as f64
    };
    let [few, many] = [32, 320].map(rows_a_pass);
    assert!(many > 0.98 * few, "{many} tokens a pass, and {few} with a tenth of the texts");
}

/// Refusals, and the reasons for the end of a text.
#[test]
fn ends_and_refusals() {
    let mut schedule = Schedule::new(model(), Capacity { texts: 4, tokens: 128, kept: 0, rows: 8 });
    assert!(matches!(schedule.submit(ask(&[], 5, 0)), Err(Refused::Prompt(_))));
    let error = schedule.submit(ask(&[1; 200], 5, 0)).unwrap_err();
    assert!(matches!(error, Refused::TooLong(_)), "{error}");
    assert!(matches!(schedule.submit(ask(&[1; 3000], 5, 0)), Err(Refused::Prompt(_))));
    let ids = [
        schedule.submit(ask(&[5, 6], 0, 0)).unwrap(),
        schedule.submit(ask(&[5, 6], 7, 0)).unwrap(),
        // Memory is full before the text ends.
        schedule.submit(ask(&[5, 6], 500, 1)).unwrap(),
        schedule.submit(ask(&[5, 6], 50, 2)).unwrap(),
    ];
    let mut heard = Heard::default();
    while schedule
        .pass(&mut |id, told| {
            heard.hears(id, told)?;
            match id == ids[3] && heard.0[&id].0.len() == 3 && heard.0[&id].1.is_none() {
                true => ControlFlow::Break(Stop::StopString),
                false => ControlFlow::Continue(()),
            }
        })
        .unwrap()
    {}
    let ends = ids.map(|id| (heard.0[&id].0.len(), heard.0[&id].1));
    let expected = [(0, Stop::Length), (7, Stop::Length), (127, Stop::Context), (3, Stop::StopString)];
    assert_eq!(ends, expected.map(|(length, stop)| (length, Some(stop))));
    assert!(schedule.cancel(ids[1]).is_none(), "it has ended");
    let id = schedule.submit(ask(&[5, 6], 50, 2)).unwrap();
    assert_eq!(schedule.cancel(id).unwrap().stop, None);
    assert!(schedule.is_empty());
}

/// The loop on its own thread: many callers, one that does not read, one that disconnects.
#[test]
fn a_service_waits_for_nobody() {
    let service = Service::start(model(), Capacity::of_texts(&*model(), 8, 600));
    // This stream is not read, and does not delay the others.
    let (unread, waiting) = service.stream(ask(&[5, 6], 500, 0)).unwrap();
    let (gone, of_gone) = service.stream(ask(&[5, 6], 500, 1)).unwrap();
    drop((gone, of_gone));
    std::thread::scope(|scope| {
        for seed in 0..20 {
            let service = &service;
            scope.spawn(move || {
                let (_text, told) = service.stream(ask(&[7, 8, 9], 12, seed)).unwrap();
                let mut text = Vec::new();
                for told in told {
                    match told {
                        Event::Begun => assert!(text.is_empty(), "it begins before it goes on"),
                        Event::Reasoning((token, _)) | Event::Text((token, _)) => text.push(token),
                        Event::End(ended) => assert_eq!(ended.stop, Some(Stop::Length)),
                        Event::Failed(error) => panic!("{error}"),
                    }
                }
                let limits = Limits { max_tokens: 12, end: Vec::new() };
                let alone = Plain::new(model(), &plain(seed), &[7, 8, 9], limits).unwrap();
                assert_eq!(text, alone.map(Result::unwrap).collect::<Vec<_>>());
            });
        }
    });
    let mut heard = 0;
    loop {
        match waiting.recv_timeout(Duration::from_secs(60)) {
            Ok(Event::Begun) => (),
            Ok(Event::Text(_)) => heard += 1,
            Ok(_) => break,
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => panic!("{heard} tokens and no end"),
        }
    }
    assert_eq!(heard, 500);
    drop(unread);
    let counts = service.statistics().counts;
    assert!(counts.running <= 1 && counts.waiting == 0, "{counts:?}");
    // A text that is still running ends with the service.
    let (_late, told) = service.stream(ask(&[5, 6], 500, 3)).unwrap();
    drop(service);
    assert!(told.iter().all(|told| matches!(told, Event::Begun | Event::Text(_))), "it has no end");
}
