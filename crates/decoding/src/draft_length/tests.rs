//! The shapes chosen in simulations with known acceptance and costs.

use super::*;
use verdigris_logits::{Purpose, Random};

/// A position in a long text that the drafter has read.
const ANYWHERE: Place = Place { left: 1_000_000, unread: [0; WAYS] };

/// The judged drafts of a chain whose first `stood` drafts were accepted.
fn judged_chain(read: usize, stood: usize) -> Vec<Judged> {
    (0..read.min(stood + 1)).map(|above| Judged { above, rank: 0, stood: above < stood }).collect()
}

/// Observes a call that read a chain whose first `stood` drafts were accepted.
fn observe_chain(chooser: &mut Chooser, read: usize, stood: usize, drafting: Duration, verifying: Duration) {
    let judged = judged_chain(read, stood);
    chooser.observe(0, Call { read, is_usual: true, depth: read, unread: 0, judged: &judged, drafting, verifying });
}

/// If rows are cheap, levels of drafts expensive, and the first, second and third draft of a token right with the given
/// probabilities, the tree found is faster than the best chain.
#[test]
fn drafts_stand_side_by_side_where_that_pays() {
    let rates = [0.45, 0.25, 0.12, 0.0];
    let speed = |shape: &TreeShape| {
        let reach = |node: usize| -> f64 {
            std::iter::successors(Some(node), |&node| shape.parent(node))
                .map(|node| rates[shape.children(shape.parent(node)).position(|child| child == node).unwrap()])
                .product()
        };
        let expected = 1.0 + (0..shape.len()).map(reach).sum::<f64>();
        expected / (1.0 + 0.01 * shape.len() as f64 + 0.1 * shape.depth() as f64)
    };
    let chains = (0..=MAX_AUTO).map(|length| speed(&TreeShape::chain(length))).fold(0.0, f64::max);
    let (mut chooser, random) = (Chooser::new(DraftLength::Auto, 3), Random::new(2));
    for call in 0..6000 {
        let shape = chooser.choose(&[0], ANYWHERE).1;
        let (mut judged, mut at, mut above) = (Vec::new(), None, 0);
        loop {
            let mut number = random.uniform_of(call, Purpose::Accept, above as u32);
            let mut stands = None;
            for (rank, child) in shape.children(at).enumerate() {
                let stood = (0.0..rates[rank]).contains(&number);
                stands = stands.or(stood.then_some(child));
                judged.push(Judged { above, rank, stood });
                number -= rates[rank];
            }
            let Some(child) = stands else { break };
            (at, above) = (Some(child), above + 1);
        }
        let seconds = [0.1 * shape.depth() as f64, 1.0 + 0.01 * shape.len() as f64];
        let [drafting, verifying] = seconds.map(Duration::from_secs_f64);
        let (read, depth) = (shape.len(), shape.depth());
        chooser.observe(0, Call { read, is_usual: true, depth, unread: 0, judged: &judged, drafting, verifying });
    }
    let found = chooser.solve(0, 0.0).0;
    assert!(!found.is_chain(), "{found:?}");
    assert!(speed(&found) > 1.05 * chains, "{found:?}: {} and {chains}", speed(&found));
}

/// Runs a chooser in a simulation of given acceptance and costs. Returns its last choice, and its time as a multiple of
/// plain decoding's.
fn live(acceptance: f64, draft_cost: f64, verify_cost: impl Fn(usize) -> f64, tokens: usize) -> (usize, f64) {
    let (mut chooser, random) = (Chooser::new(DraftLength::Auto, 1), Random::new(1));
    let (mut written, mut seconds) = (0, 0.0);
    while written < tokens {
        let drafted = chooser.choose(&[0], ANYWHERE).1.len();
        let coin = |i: usize| random.uniform((written + i) as u64, Purpose::Accept) < acceptance;
        let accepted = (0..drafted).take_while(|&i| coin(i)).count();
        let noise = 1.0 + 0.1 * random.uniform(written as u64, Purpose::Weight);
        let (drafting, verifying) = (drafted as f64 * draft_cost, verify_cost(drafted + 1) * noise);
        (written, seconds) = (written + accepted + 1, seconds + drafting + verifying);
        let [drafting, verifying] = [drafting, verifying].map(Duration::from_secs_f64);
        observe_chain(&mut chooser, drafted, accepted, drafting, verifying);
    }
    (chooser.solve(0, 0.0).0.len(), seconds / (written as f64 * verify_cost(1) * 1.05))
}

/// The best lengths match the formula for calls that cost the same for any number of rows.
#[test]
fn finds_the_best_length_of_the_formula() {
    let formula = |a: f64, c: f64| {
        let speed = |g: usize| (1.0 - a.powi(g as i32 + 1)) / (1.0 - a) / (1.0 + g as f64 * c);
        (0..=MAX_AUTO).max_by(|&x, &y| speed(x).total_cmp(&speed(y))).map(|g| (g, speed(g))).unwrap()
    };
    for (a, c) in [(0.5, 0.05), (0.6, 0.1), (0.7, 0.1), (0.8, 0.05), (0.8, 0.2), (0.9, 0.3)] {
        let (best, speed) = formula(a, c);
        let (found, time) = live(a, c, |_| 1.0, 20_000);
        assert!(found.abs_diff(best) <= 1 + best / 3, "a {a}, c {c}: {found}, not {best}");
        assert!(1.0 / time > 0.93 * speed, "a {a}, c {c}: {:.2} times as fast, not {speed:.2}", 1.0 / time);
    }
}

#[test]
fn drafts_nothing_where_that_does_not_pay() {
    // Few drafts are accepted; drafts cost as much as the target; rows are computed one after the other.
    for (a, c, row) in [(0.1, 0.2, 0.1), (0.8, 1.0, 0.1), (0.8, 0.1, 1.0)] {
        let (found, time) = live(a, c, |m| 1.0 + row * (m - 1) as f64, 5_000);
        assert_eq!(found, 0, "a {a}, c {c}, row {row}");
        assert!(time < 1.03, "{time}");
    }
}

/// Simulates a draft that takes a twentieth of a call, reading that takes a tenth of a call per token, drafts that are
/// all accepted (or all rejected), and calls that cost the same with drafts. Returns the number of drafted tokens of
/// each call.
fn live_with_prompts(chooser: &mut Chooser, prompt: usize, tokens: usize, limit: usize, good: bool) -> Vec<usize> {
    let (mut written, mut held, mut drafted) = (0, 0, Vec::new());
    while written < tokens {
        let unread = prompt + written - held;
        let shape = chooser.choose(&[0], Place { left: limit - written, unread: [unread; WAYS] }).1;
        let read = shape.len().min(limit - written - 1);
        let stood = if good { read } else { 0 };
        let judged = judged_chain(read, stood);
        let seconds = if read > 0 { 0.05 * read as f64 + 0.1 * unread as f64 } else { 0.0 };
        let [drafting, verifying] = [seconds, 1.0].map(Duration::from_secs_f64);
        chooser.observe(0, Call { read, is_usual: true, depth: read, unread, judged: &judged, drafting, verifying });
        written += stood + 1;
        held = if read > 0 { prompt + written - 1 } else { held };
        drafted.push(read);
    }
    drafted
}

#[test]
fn a_prompt_is_no_price_of_drafts() {
    let mut chooser = Chooser::new(DraftLength::Auto, 1);
    live_with_prompts(&mut chooser, 600, 20, 10_000, true);
    assert!(chooser.solve(0, 0.0).0.len() > 3, "{:?}", chooser.solve(0, 0.0).0);
    let drafting = chooser.learned.ways[0].drafting.unwrap();
    assert!((drafting - 0.05).abs() < 0.01, "{drafting}");
}

/// A prompt is read for drafts only if the rest of the text pays for it: reading 600 tokens takes as long as 60 calls,
/// which does not pay off when only 40 can be saved.
#[test]
fn a_prompt_is_read_where_the_text_is_long_enough() {
    let memory = DraftMemory::default();
    live_with_prompts(&mut Chooser::new(DraftLength::Auto, 1).remembering(&memory), 10, 2000, 2000, true);
    let begin = |prompt: usize, limit: usize| {
        let mut chooser = Chooser::new(DraftLength::Auto, 1).remembering(&memory);
        live_with_prompts(&mut chooser, prompt, limit, limit, true)
    };
    assert!(begin(600, 2000)[0] > 3);
    assert!(begin(600, 40).iter().all(|&drafted| drafted == 0));
    assert!(begin(10, 40).iter().any(|&drafted| drafted > 3));
    // Nor if texts have been short so far, whatever their limit allows.
    for _ in 0..40 {
        begin(10, 30);
    }
    assert!(begin(600, 2000).iter().all(|&drafted| drafted == 0));
}

/// If drafts are rejected, long prompts are read for experiments only within the time allowed.
#[test]
fn experiments_take_their_share_and_no_more() {
    let memory = DraftMemory::default();
    let [mut plain, mut spent] = [0.0; 2];
    for text in 0..200 {
        let mut chooser = Chooser::new(DraftLength::Auto, 1).remembering(&memory);
        let drafted = live_with_prompts(&mut chooser, 300, 64, 64, false);
        if text > 0 {
            plain += drafted.len() as f64;
            spent += drafted.iter().map(|&read| 0.05 * read as f64).sum::<f64>();
            spent += if drafted.iter().any(|&read| read > 0) { 30.0 } else { 0.0 };
        }
    }
    assert!(spent > 0.0 && spent < 0.025 * plain, "{spent} of {plain}");
}

/// A text starts with what the previous one has learned.
#[test]
fn texts_learn_from_those_before_them() {
    let memory = DraftMemory::default();
    let live = |calls: usize| {
        let mut chooser = Chooser::new(DraftLength::Auto, 1).remembering(&memory);
        let mut lengths = Vec::new();
        for _ in 0..calls {
            let drafted = chooser.choose(&[0], ANYWHERE).1.len();
            let drafting = Duration::from_secs_f64(0.05 * drafted as f64);
            observe_chain(&mut chooser, drafted, drafted.min(6), drafting, Duration::from_secs(1));
            lengths.push(drafted);
        }
        lengths
    };
    let of_first = live(100);
    assert_eq!(of_first[..5], TRIALS);
    let usual = *of_first.last().unwrap();
    assert!((5..=7).contains(&usual), "{of_first:?}");
    let of_second = live(30);
    assert!(of_second.iter().all(|length| length.abs_diff(usual) <= 1), "{of_second:?} after {usual}");
    // A text without calls loses nothing, and fixed lengths do not use the memory.
    drop(Chooser::new(DraftLength::Fixed(2), 1).remembering(&memory));
    assert_eq!(live(1), [usual]);
    // A drop in acceptance is noticed soon.
    let mut chooser = Chooser::new(DraftLength::Auto, 1).remembering(&memory);
    assert_eq!(chooser.choose(&[0], ANYWHERE).1.len(), usual);
    for _ in 0..200 {
        let drafted = chooser.choose(&[0], ANYWHERE).1.len();
        let drafting = Duration::from_secs_f64(0.05 * drafted as f64);
        observe_chain(&mut chooser, drafted, 0, drafting, Duration::from_secs(1));
    }
    assert!(chooser.solve(0, 0.0).0.is_empty(), "{:?}", chooser.solve(0, 0.0).0);
}

#[test]
fn follows_a_change() {
    let mut chooser = Chooser::new(DraftLength::Auto, 1);
    let mut go = |calls: usize, good: bool| {
        for _ in 0..calls {
            let drafted = chooser.choose(&[0], ANYWHERE).1.len();
            let accepted = if good { drafted } else { 0 };
            let [drafting, verifying] = [0.1 * drafted as f64, 1.0].map(Duration::from_secs_f64);
            observe_chain(&mut chooser, drafted, accepted, drafting, verifying);
        }
        chooser.solve(0, 0.0).0.len()
    };
    assert!(go(200, true) > 8);
    assert_eq!(go(200, false), 0);
    assert!(go(3000, true) > 2);
}

/// Of two free ways of drafting with the given acceptance rates, the better one is used in the end, even while a third
/// has most of the calls.
#[test]
fn of_two_ways_the_better_one_drafts() {
    let taken = |rates: [f64; 2], changed: [f64; 2]| {
        let (mut chooser, random) = (Chooser::new(DraftLength::Auto, 1), Random::new(3));
        let mut counts = [[0; 2]; 2];
        for call in 0..6000u64 {
            let ways: &[usize] = if call % 3 == 0 { &[2, 0] } else { &[1] };
            let (way, shape) = chooser.choose(ways, ANYWHERE);
            assert!(ways.contains(&way));
            let late = call >= 3000;
            let rates = if late { changed } else { rates };
            let rate = [rates[1], 0.3, rates[0]][way];
            let coin = |above: &usize| random.uniform_of(call, Purpose::Accept, *above as u32) < rate;
            let stood = (0..shape.len()).take_while(coin).count();
            let judged = judged_chain(shape.len(), stood);
            let drafting = Duration::from_secs_f64(0.02 * shape.len() as f64);
            let verifying = Duration::from_secs_f64(1.0 + 0.02 * shape.len() as f64);
            let (read, depth) = (shape.len(), shape.depth());
            chooser.observe(way, Call { read, is_usual: true, depth, unread: 0, judged: &judged, drafting, verifying });
            if way != 1 && !shape.is_empty() {
                counts[usize::from(late)][usize::from(way == 0)] += 1;
            }
        }
        counts
    };
    for (better, other) in [(0, 1), (1, 0)] {
        let mut rates = [0.3; 2];
        rates[better] = 0.8;
        let counts = taken(rates, rates);
        assert!(counts[0][other] < 100 && counts[1][other] < 50, "{counts:?}");
        assert!(counts[0][better] > 850 && counts[1][better] > 900, "{counts:?}");
        // A change is noticed.
        let counts = taken(rates, [rates[1], rates[0]]);
        assert!(counts[0][better] > 850 && counts[1][other] > 600, "{counts:?}");
    }
}

#[test]
fn a_fixed_length_stays() {
    let mut chooser = Chooser::new(DraftLength::Fixed(5), 1);
    observe_chain(&mut chooser, 5, 0, Duration::from_secs(9), Duration::ZERO);
    assert_eq!(chooser.choose(&[0], ANYWHERE).1, TreeShape::chain(5));
}
