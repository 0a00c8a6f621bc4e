//! Combinations of options: ways of generating, constraints, marks, steering, and how tokens are chosen, each with
//! each.
//!
//! `axes` has the options as data, and the promise for every combination; `definition` the distribution of its texts,
//! by definition; `enumerated` runs each way of generating with every branch of its code, on a model of four tokens;
//! `world` requests the same from the library, for that model and for `tale`; `refused` has options that are not on an
//! axis and cannot be combined; `page` writes `docs/together.md`.

mod axes;
mod definition;
mod enumerated;
mod page;
mod refused;
mod world;

use std::collections::{BTreeMap, BTreeSet};

use rayon::prelude::*;
use verdigris::watermark::dialects::synthid::Bits;
use verdigris::{Error, LogprobsMode, Written};

use crate::axes::{Choice, Combination, Draft, Form, Mark, PLAIN, Promise, Run, Steering, all, alone, ways};
use crate::definition::{Definition, TextProbabilities};
use crate::enumerated::{InjectedFault, Setup, Step, concerns, pairs, total_variation};
use crate::refused::{ASIDE, Aside};
use crate::world::{GEMMA, HYBRID, MIXTURE, SMALL, TALE, TINY, World};

/// Runs and drafters whose every branch is enumerated.
const ENUMERATED: &[(Run, Draft)] = &[
    (Run::One, Draft::Nobody),
    (Run::One, Draft::Chain),
    (Run::One, Draft::Tree),
    (Run::One, Draft::Medusa),
    (Run::One, Draft::Block),
    (Run::One, Draft::Lookup),
    (Run::One, Draft::Expert),
    (Run::Several, Draft::Nobody),
    (Run::Several, Draft::Chain),
    (Run::Beams, Draft::Nobody),
    (Run::StochasticBeams, Draft::Nobody),
];

/// Those of a Gemma 4 with its assistant.
const OF_GEMMA: &[(Run, Draft)] = &[(Run::One, Draft::Nobody), (Run::One, Draft::Assistant)];

/// Runs and drafters that `tale` generates with.
const WRITTEN: &[(Run, Draft)] = &[
    (Run::One, Draft::Nobody),
    (Run::One, Draft::Chain),
    (Run::One, Draft::Tree),
    (Run::One, Draft::Feature),
    (Run::One, Draft::Medusa),
    (Run::One, Draft::Lookup),
    (Run::One, Draft::LookupOr),
    (Run::One, Draft::Expert),
    (Run::Several, Draft::Nobody),
    (Run::Several, Draft::Chain),
    (Run::Prompts, Draft::Nobody),
    (Run::Beams, Draft::Nobody),
    (Run::SampledBeams, Draft::Nobody),
    (Run::StochasticBeams, Draft::Nobody),
    (Run::Contrastive, Draft::Nobody),
];

/// A sample of the combinations: with each run and drafter all pairs of constraint, mark, steering and choice occur,
/// and over nine of them all combinations.
fn some_of(ways: &[(Run, Draft)]) -> Vec<Combination> {
    let mut some = Vec::new();
    for (way, &(run, draft)) in ways.iter().enumerate() {
        for (f, &form) in Form::ALL.iter().enumerate() {
            for (m, &mark) in Mark::ALL.iter().enumerate() {
                let steering = Steering::ALL[(f + m + way) % 3];
                let choice = Choice::ALL[(f + 2 * m + way / 3) % 3];
                some.push(Combination { run, draft, form, mark, steering, choice });
            }
        }
    }
    some.retain(|of| of.promise() != Promise::Refused);
    some
}

/// The combinations of a list for models of four tokens, which have no feature drafter.
fn tiny(of: Vec<Combination>) -> Vec<Combination> {
    of.into_iter().filter(|of| of.draft != Draft::Feature).collect()
}

/// Combinations with everything at once, for each run and drafter.
fn everything(ways: &[(Run, Draft)]) -> Vec<Combination> {
    const TWO: [Combination; 2] = [
        Combination {
            form: Form::JsonSchema,
            mark: Mark::Soft,
            steering: Steering::ProxyTuning,
            choice: Choice::Penalties,
            ..PLAIN
        },
        Combination { form: Form::Regex, mark: Mark::Gumbel, steering: Steering::Guidance, ..PLAIN },
    ];
    let all = ways.iter().flat_map(|&(run, draft)| TWO.map(|of| Combination { run, draft, ..of }));
    all.filter(|of| of.promise() != Promise::Refused).collect()
}

/// The combinations that are not refused.
fn allowed(ways: &[(Run, Draft)]) -> Vec<Combination> {
    all(ways).into_iter().filter(|of| of.promise() != Promise::Refused).collect()
}

/// The numbers of the keys that a mark is tested with. A single key of noise shows little, since the token that it
/// selects may be the same under another distribution.
fn keys(mark: Mark) -> std::ops::Range<u32> {
    match mark {
        Mark::Gumbel => 1..9,
        // Each takes milliseconds to set up.
        Mark::SynthId => 1..3,
        Mark::Nothing | Mark::Hard | Mark::Soft => 1..2,
    }
}

/// The distance of a combination's texts from what is promised, and its bound: from the definition for plain decoding
/// and beams, whose rows have 32 bits, and from plain decoding for all others.
fn distance(world: &World, of: Combination, fault: InjectedFault) -> (f64, f64) {
    let all = keys(of.mark).map(|key| distance_with(world, of, fault, key));
    all.reduce(|a, b| (a.0.max(b.0), a.1)).expect("there are keys")
}

/// The same with the key of the given number.
fn distance_with(world: &World, of: Combination, fault: InjectedFault, number: u32) -> (f64, f64) {
    let tokens = if of.run == Run::Several { 2 } else { world.tokens };
    let key = world.key(of.mark, number);
    let texts = Setup::new(world, of, tokens, key.as_ref(), fault).texts();
    let definition = || Definition::new(world, of, tokens, number);
    let plain = || {
        let of = Combination { run: Run::One, draft: Draft::Nobody, ..of };
        Setup::new(world, of, tokens, key.as_ref(), InjectedFault::Nothing).texts()
    };
    match (of.run, of.draft) {
        (Run::One, Draft::Nobody) => (total_variation(&texts, &definition().texts()), 1e-5),
        (Run::Several, _) => (total_variation(&texts, &pairs(&plain())), 1e-12),
        // Computed from logarithms of 32-bit rows.
        (Run::StochasticBeams, _) => (total_variation(&texts, &plain()), 1e-7),
        (Run::Beams, _) => {
            let scores = definition().scores();
            if !texts.keys().eq(scores.keys()) {
                return (f64::INFINITY, 1e-4);
            }
            (texts.values().zip(scores.values()).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max), 1e-4)
        }
        _ => (total_variation(&texts, &plain()), 1e-12),
    }
}

/// Compares the distribution of whole texts, with every branch of the code.
#[test]
fn every_combination_has_its_distribution() {
    let allowed = allowed(ENUMERATED);
    allowed.par_iter().for_each(|&of| has_its_distribution(&TINY, of));
}

fn has_its_distribution(world: &World, of: Combination) {
    let (distance, bound) = distance(world, of, InjectedFault::Nothing);
    assert!(distance < bound, "{of:?}: {distance:e}");
}

/// The same for a mixture of experts: a sample of the combinations.
#[test]
fn mixtures_have_their_distribution() {
    some_of(ENUMERATED).par_iter().for_each(|&of| has_its_distribution(&MIXTURE, of));
}

/// The same for a hybrid: states that are cut back, replayed, forked and read in trees change no text.
#[test]
fn hybrids_have_their_distribution() {
    some_of(ENUMERATED).par_iter().for_each(|&of| has_its_distribution(&HYBRID, of));
}

/// The same for a Gemma 4 with an assistant, which continues from its target's keys and values.
#[test]
fn assistants_have_their_distribution() {
    allowed(OF_GEMMA).par_iter().for_each(|&of| has_its_distribution(&GEMMA, of));
}

/// Each fault, and a run and drafter in which it is made.
const FAULTS: &[(InjectedFault, (Run, Draft))] = {
    use Step::{Form, Green, Noise, Penalties, Warpers};
    const PLAIN: (Run, Draft) = (Run::One, Draft::Nobody);
    const CHAIN: (Run, Draft) = (Run::One, Draft::Chain);
    const BEAMS: (Run, Draft) = (Run::Beams, Draft::Nobody);
    &[
        (InjectedFault::Before(Green, Form), PLAIN),
        (InjectedFault::Before(Green, Penalties), PLAIN),
        (InjectedFault::Before(Warpers, Form), PLAIN),
        (InjectedFault::Before(Noise, Form), PLAIN),
        (InjectedFault::Before(Noise, Warpers), PLAIN),
        (InjectedFault::Stale(Penalties), PLAIN),
        (InjectedFault::Stale(Form), PLAIN),
        (InjectedFault::Stale(Green), PLAIN),
        (InjectedFault::Stale(Noise), PLAIN),
        (InjectedFault::Unsteered, PLAIN),
        (InjectedFault::Without(Penalties), CHAIN),
        (InjectedFault::Without(Form), (Run::One, Draft::Tree)),
        (InjectedFault::Without(Green), (Run::One, Draft::Medusa)),
        (InjectedFault::Without(Warpers), (Run::One, Draft::Lookup)),
        (InjectedFault::Without(Noise), CHAIN),
        (InjectedFault::Unsteered, (Run::One, Draft::Tree)),
        (InjectedFault::Unsteered, (Run::One, Draft::Medusa)),
        (InjectedFault::Typical, CHAIN),
        (InjectedFault::Typical, (Run::One, Draft::Tree)),
        (InjectedFault::Typical, (Run::One, Draft::Medusa)),
        (InjectedFault::Typical, (Run::One, Draft::Expert)),
        (InjectedFault::GuessesAsDraws, (Run::One, Draft::Lookup)),
        (InjectedFault::OneChance, (Run::Several, Draft::Nobody)),
        (InjectedFault::Typical, (Run::Several, Draft::Chain)),
        (InjectedFault::Stale(Penalties), BEAMS),
        (InjectedFault::Stale(Form), BEAMS),
        (InjectedFault::Stale(Green), BEAMS),
        (InjectedFault::Before(Green, Penalties), BEAMS),
        (InjectedFault::Unsteered, BEAMS),
        (InjectedFault::Without(Form), (Run::StochasticBeams, Draft::Nobody)),
        (InjectedFault::Stale(Green), (Run::StochasticBeams, Draft::Nobody)),
    ]
};

/// Faults in the combination of steps are detected.
#[test]
fn faults_are_seen() {
    FAULTS.par_iter().for_each(|&(fault, way)| {
        let concerned: Vec<Combination> = allowed(&[way]).into_iter().filter(|&of| concerns(fault, of)).collect();
        let is_seen = concerned.iter().any(|&of| distance(&TINY, of, fault).0 > 1e-3);
        assert!(is_seen, "{fault:?} in {way:?} is not seen in {} combinations", concerned.len());
    });
}

/// Marks of noise change which text is sampled, but not its distribution: the mean of its probability over keys is the
/// one without a mark.
#[test]
fn over_all_keys_noise_leaves_the_distribution() {
    let noisy = |of: &Combination| of.mark.is_noise() && of.choice != Choice::Greedy;
    let noisy: Vec<Combination> = allowed(&ENUMERATED[..1]).into_iter().filter(noisy).collect();
    let distance = |of: Combination, count: u32, fault: InjectedFault| {
        let unmarked = Combination { mark: Mark::Nothing, ..of };
        let distribution = Setup::new(&TINY, unmarked, TINY.tokens, None, InjectedFault::Nothing).texts();
        let each = (0..count).into_par_iter().map(|number| {
            let key = TINY.key_with(of.mark, Bits::Hash, number);
            Setup::new(&TINY, of, TINY.tokens, key.as_ref(), fault).texts()
        });
        let mean = each.reduce(TextProbabilities::new, |mut sum, other| {
            other.into_iter().for_each(|(text, p)| *sum.entry(text).or_default() += p);
            sum
        });
        // In standard deviations of a text that is sampled or not, depending on the key alone.
        let count = f64::from(count);
        let error = |p: f64| (p * (1.0 - p) / count).sqrt() + 1e-12;
        let off =
            distribution.iter().map(|(text, p)| (mean.get(text).copied().unwrap_or(0.0) / count - p).abs() / error(*p));
        off.fold(0.0, f64::max)
    };
    noisy.par_iter().for_each(|&of| {
        let off = distance(of, 300, InjectedFault::Nothing);
        assert!(off < 5.0, "{of:?}: {off} standard deviations");
    });
    // Noise that acts before temperature and top-p samples from another distribution.
    let gumbel = Combination { mark: Mark::Gumbel, ..PLAIN };
    let [right, early] = [InjectedFault::Nothing, InjectedFault::Before(Step::Noise, Step::Warpers)]
        .map(|fault| distance(gumbel, 30_000, fault));
    assert!(right < 5.0 && early > 8.0, "{right} and {early} standard deviations");
}

/// The library combines the steps like the definition.
#[test]
fn the_library_draws_from_the_distribution_of_the_definition() {
    let each = |world: &World, of: Combination, number: u32| {
        let (key, definition) = (world.key(of.mark, number), Definition::new(world, of, world.tokens, number));
        for seed in 0..4 {
            let request = world.request(of, key.as_ref(), seed).logprobs(4).logprobs_mode(LogprobsMode::Processed);
            let written = request.text().unwrap();
            for (i, expected) in written.logprobs.unwrap().into_iter().enumerate() {
                let distribution = definition.distribution(&written.tokens[..i]);
                assert!(distribution[expected.chosen.token as usize] > 0.0, "{of:?}: {:?}", written.tokens);
                // At temperature 0 it is the distribution before the most probable token is taken.
                for other in expected.top.iter().filter(|_| of.choice != Choice::Greedy) {
                    let p = distribution[other.token as usize];
                    assert!((p - other.logprob.exp()).abs() < 1e-5, "{of:?}: {distribution:?} {other:?}");
                }
            }
        }
    };
    let (all, some) = (allowed(&ENUMERATED[..1]), some_of(&ENUMERATED[..1]));
    for (world, combinations) in [(&*TINY, &all), (&*MIXTURE, &some), (&*HYBRID, &some), (&*GEMMA, &some)] {
        combinations.par_iter().for_each(|&of| keys(of.mark).for_each(|number| each(world, of, number)));
    }
}

/// The parts of a text that are compared.
fn told(written: &Written) -> (&[u32], &str, Option<verdigris::Stop>, Option<bool>) {
    (&written.tokens, &written.text, written.stop, written.complete)
}

/// Generates a combination and compares its texts with what is promised.
fn write_and_judge(world: &World, of: Combination, seed: u64, judges: &BTreeMap<&str, Judge>) -> Vec<Written> {
    let key = world.key(of.mark, 1);
    let request = |seed| world.request(of, key.as_ref(), seed);
    let written = world.write(request(seed), of.run).unwrap_or_else(|error| panic!("{of:?}: {error}"));
    for text in &written {
        assert_eq!(text.complete, (of.form != Form::Free).then_some(true), "{of:?}: {:?}", text.text);
        assert!(judges[of.form.name()](&text.text), "{of:?}: {:?}", text.text);
        assert_eq!(text.lossy, None);
    }
    match of.run {
        Run::Several => {
            for (text, seed) in written.iter().zip(seed..) {
                assert_eq!(told(text), told(&request(seed).text().unwrap()), "{of:?}");
            }
        }
        Run::Prompts => {
            for ((text, seed), prompt) in written.iter().zip(seed..).zip([world.prompt, world.negative]) {
                assert_eq!(told(text), told(&request(seed).prompt(prompt).text().unwrap()), "{of:?}");
            }
        }
        Run::One if of.draft != Draft::Nobody => {
            let plain = world.request(Combination { draft: Draft::Nobody, ..of }, key.as_ref(), seed).text().unwrap();
            let same = match of.promise() {
                Promise::Text => told(&written[0]) == told(&plain),
                _ => told(&request(seed).repeatable().text().unwrap()) == told(&plain),
            };
            assert!(same, "{of:?}: {:?} and not {:?}", written[0].text, plain.text);
        }
        _ => (),
    }
    written
}

type Judge = Box<dyn Fn(&str) -> bool + Send + Sync>;

fn judges(world: &World) -> BTreeMap<&'static str, Judge> {
    Form::ALL.iter().map(|form| (form.name(), world.judge(*form))).collect()
}

/// Runs every combination through the library, on the dense model of four tokens, and some on the others.
#[test]
fn texts_are_valid_and_drafts_change_what_they_may() {
    let (all, some) = (tiny(allowed(WRITTEN)), tiny(some_of(WRITTEN)));
    let of_gemma = allowed(OF_GEMMA);
    for (world, combinations) in [(&*TINY, &all), (&*MIXTURE, &some), (&*HYBRID, &some), (&*GEMMA, &of_gemma)] {
        let judges = judges(world);
        combinations.par_iter().for_each(|&of| drop(write_and_judge(world, of, 1, &judges)));
    }
}

/// The results of detectors for texts of one kind.
#[derive(Default)]
struct Read {
    /// By key: that of the mark, if there is one, and another.
    z: [f64; 2],
    texts: BTreeSet<String>,
}

/// Models combine everything, and the mark is found by its key, but not by another key, nor without a mark.
#[test]
fn models_keep_all_promises_at_once() {
    for (world, some) in [(&*SMALL, some_of(WRITTEN)), (&*TALE, everything(WRITTEN))] {
        let judges = judges(world);
        let mut kinds: BTreeMap<(&str, &str), Read> = BTreeMap::new();
        for (of, seed) in some.into_iter().zip(0..) {
            let text = write_and_judge(world, of, seed, &judges).swap_remove(0).text;
            let read = kinds.entry((of.mark.name(), of.form.name())).or_default();
            // A repeated text is not new evidence.
            if !read.texts.insert(text.clone()) {
                continue;
            }
            let reader = match world.grammar(of.form) {
                None => world.reader().clone(),
                Some(grammar) => world.reader().clone().of_grammar(grammar),
            };
            let mark = if of.mark == Mark::Nothing { Mark::Soft } else { of.mark };
            for (number, z) in (1..).zip(&mut read.z) {
                *z += reader.detect(&world.key(mark, number).unwrap(), text.as_bytes()).unwrap().z;
            }
        }
        for ((mark, form), read) in kinds {
            // A sum of independent numbers of variance one.
            let [own, other] = read.z.map(|z| z / (read.texts.len() as f64).sqrt());
            let is_as_it_should_be = if mark == Mark::Nothing.name() { own.abs() < 4.0 } else { own > 6.0 };
            assert!(is_as_it_should_be && other.abs() < 4.0, "{mark}, {form}: {own} by its key, {other} by another");
        }
    }
}

/// Refusals name the cause and the remedy.
#[test]
fn what_has_no_meaning_together_is_refused() {
    let refused: Vec<Combination> = all(WRITTEN).into_iter().filter(|of| of.promise() == Promise::Refused).collect();
    let has_drafter = |of: &&Combination| of.draft != Draft::Feature;
    refused.par_iter().filter(has_drafter).for_each(|&of| says_why(&TINY, of));
    refused.iter().filter(|of| of.form == Form::Free).for_each(|&of| says_why(&SMALL, of));
    // Every run with every drafter.
    for of in ways().into_iter().map(alone) {
        let world = if of.draft == Draft::Assistant { &*GEMMA } else { &*SMALL };
        match of.promise() {
            Promise::Refused => says_why(world, of),
            _ => drop(write_and_judge(world, of, 1, &judges(world))),
        }
    }
    for Aside { options: [what, with], said, ask } in ASIDE {
        let error = ask().expect_err(what).to_string();
        assert!(said.iter().all(|part| error.contains(part)), "{what} with {with}: {error}");
    }
}

fn says_why(world: &World, of: Combination) {
    let key = world.key(of.mark, 1);
    let error: Error = match world.write(world.request(of, key.as_ref(), 1), of.run) {
        Ok(written) => panic!("{of:?} is written: {:?}", written[0].text),
        Err(error) => error,
    };
    let message = error.to_string();
    let is_said = of.refusals().any(|refusal| refusal.said.iter().all(|part| message.contains(part)));
    assert!(is_said, "{of:?}: {message}");
}
