//! Speculation on real models: the same text where that is promised, the same distribution elsewhere, and everything at
//! once.

use std::ops::ControlFlow;

use verdigris::decoding::tree::{DraftTree, Origin, TreeShape};
use verdigris::decoding::{Coupling, DraftModel, Drafter, Rule, Seeded, Stop, Typical};
use verdigris::logits::{Chain, Random, Sampler, Transform};
use verdigris::{Key, Marking, Request};
use verdigris_tests::harness::{TALE, TALE_SMALL as SMALL, engine};
use verdigris_tests::sampled::sampled;
use verdigris_watermark::dialects::{native, native_gumbel};
use verdigris_watermark::{Context, ContextFunction, Dialect, Gamma};

const PROMPTS: [&str; 8] = [
    "The captain",
    "",
    "\"Where is the key?\" she asked. \"Where is the",
    "one two three one two three one two",
    "It was the best of times,",
    "In the morning the snow lay deep, and the children",
    "'No,' said the",
    "Chapter",
];

/// Kernels give a row the same bits whatever else is in the batch, so not one token may differ: on 200 prompts, for
/// each drafter, and for fixed and automatic lengths.
#[test]
fn greedy_speculation_is_greedy_decoding() {
    const TOKENS: usize = 24;
    let (mut drafted, mut accepted) = ([0; 2], [0; 2]);
    for seed in sampled(0..200, 3) {
        // A prompt is the beginning of a text that `tale-small` generates.
        let prompt = SMALL.request("").max_tokens(3 + seed as usize % 9).temperature(1.0).top_p(1.0).seed(seed);
        let prompt = prompt.text().unwrap().text;
        let request = || TALE.request(&prompt).temperature(0.0).max_tokens(TOKENS);
        let plain = request().text().unwrap();
        for (i, request) in [request().draft(&SMALL), request().lookup()].into_iter().enumerate() {
            let request = if seed % 4 == 0 { request } else { request.draft_tokens(1 + seed as usize % 6) };
            let written = request.text().unwrap();
            assert_eq!(written.tokens, plain.tokens, "{prompt:?}");
            assert_eq!(written.stop, plain.stop);
            let acceptance = written.acceptance.unwrap();
            (drafted[i], accepted[i]) = (drafted[i] + acceptance.drafted, accepted[i] + acceptance.accepted);
        }
    }
    assert!(accepted[0] > drafted[0] / 3 && accepted[1] > drafted[1] / 5, "{accepted:?} of {drafted:?}");
}

/// The same with more drafters and with trees, for each of two models; `drafts greedy` runs it for 1,000 prompts.
#[test]
fn greedy_trees_are_greedy_decoding() {
    let models = verdigris_tests::drafts::Drafted::of_project().unwrap();
    let accepted = verdigris_tests::drafts::greedy(&models, 20, 24).unwrap();
    // Random heads are right only by chance.
    let learned = accepted.iter().filter(|(name, _)| name.ends_with("model") || name.ends_with("lookup"));
    assert!(learned.clone().count() == 4 && learned.into_iter().all(|(_, &accepted)| accepted > 10), "{accepted:?}");
}

/// Chi-square on few samples; `drafts pairs` takes 200,000.
#[test]
fn pairs_of_tokens_have_their_distribution() {
    for (way, (name, ..)) in sampled(verdigris_tests::drafts::WAYS.iter().enumerate(), 2) {
        let fit = verdigris_tests::drafts::pairs(&SMALL, &TALE, way, 1000);
        assert!(fit.is_good(), "{name}: {fit:?}");
    }
}

/// Texts in one batch draft too, each by itself, and equal those that each seed gives alone.
#[test]
fn texts_side_by_side_are_those_written_alone() {
    let request = || TALE.request("The captain").temperature(0.8).max_tokens(40).seed(7);
    let drafted = [
        request().lookup().draft_tokens(3),
        request().draft(&SMALL).draft_tokens(3),
        request().draft(&SMALL).draft_tree(TreeShape::levels(&[2, 2])),
        request().draft(&SMALL).repeatable(),
    ];
    for request in drafted {
        let together = request.clone().texts(4).unwrap();
        for (seed, written) in (7..).zip(together) {
            let alone = request.clone().seed(seed).text().unwrap();
            assert_eq!((written.tokens, written.stop), (alone.tokens, alone.stop));
            assert_eq!(written.acceptance.is_some(), alone.acceptance.is_some());
        }
    }
}

/// Accepted drafts and the end of a text come from one call. A model that drafts for itself is always right, so texts
/// mostly end after drafts; the bias makes them end soon.
#[test]
fn a_text_keeps_the_drafts_before_its_end() {
    let mut ended = 0;
    for seed in 0..16 {
        let request = TALE.request("The captain").temperature(0.8).max_tokens(100).seed(seed);
        let request = request.logit_bias(TALE.end()[0], 6.0);
        let alone = request.clone().text().unwrap();
        let drafted = request.clone().draft(&TALE).repeatable().draft_tokens(5).texts(1).unwrap().remove(0);
        assert_eq!((&drafted.tokens, drafted.stop), (&alone.tokens, alone.stop));
        ended += usize::from(alone.stop == Some(Stop::End));
    }
    assert!(ended > 8, "{ended} texts came to an end");
}

/// Compares what a detector reads from texts with drafts and without, with a different key for each seed: marks of
/// noise and of colours, with chains and with trees.
#[test]
fn drafts_cost_no_mark() {
    const TEXTS: u64 = 8;
    let context = Context::new(ContextFunction::All, 2).unwrap();
    let noise = Dialect::NativeGumbel(native_gumbel::Parameters::new(context));
    let colours = Dialect::Native(native::Parameters { gamma: Gamma::new(0.25).unwrap(), context, payload_bits: None });
    for dialect in sampled([noise, colours], 2) {
        let (mut z, mut stood) = ([const { Vec::new() }; 3], 0);
        for seed in 0..TEXTS {
            let vocabulary = SMALL.reader().vocabulary();
            let key = Key::new(vec![seed as u8 + 1; 32], "test", dialect.clone(), None, vocabulary).unwrap();
            let request = SMALL.request("The captain").watermark(&key).temperature(1.0).top_p(1.0).seed(seed);
            let request = request.max_tokens(100).through_end();
            let drafted = || request.clone().draft(&TALE);
            let shape = TreeShape::levels(&[3, 1]);
            let ways = [request.clone(), drafted().draft_tokens(3), drafted().draft_tree(shape)];
            for (z, way) in z.iter_mut().zip(ways) {
                let written = way.text().unwrap();
                let evidence = SMALL.reader().detect(&key, written.text.as_bytes()).unwrap();
                assert!(evidence.ln_p < -11.5, "{dialect}: {evidence:?}");
                stood += written.acceptance.map_or(0, |acceptance| acceptance.accepted);
                z.push(evidence.z);
            }
        }
        assert!(stood > 200, "{dialect}: {stood} drafts stood");
        let mean = |z: &[f64]| z.iter().sum::<f64>() / z.len() as f64;
        let variance = |z: &[f64]| z.iter().map(|each| (each - mean(z)).powi(2)).sum::<f64>() / (z.len() - 1) as f64;
        for drafted in &z[1..] {
            let error = ((variance(&z[0]) + variance(drafted)) / TEXTS as f64).sqrt();
            assert!((mean(&z[0]) - mean(drafted)).abs() < 4.0 * error, "{dialect}: {z:?}");
        }
    }
}

/// A rule that changes the distribution of a text is reported with it.
#[test]
fn a_lossy_rule_is_named() {
    let rule = Rule::Typical(Typical::default());
    let request = || TALE.request("The captain").temperature(0.8).max_tokens(20).draft(&SMALL).draft_tokens(3).seed(1);
    assert_eq!(request().judged_by(rule).text().unwrap().lossy, Some("typical"));
    assert_eq!(request().judged_by(rule).texts(2).unwrap()[1].lossy, Some("typical"));
    assert_eq!(request().judged_by(Rule::Block).text().unwrap().lossy, None);
    let plain = TALE.request("The captain").max_tokens(3).judged_by(rule).text().unwrap();
    assert_eq!(plain.lossy, None, "nothing is drafted");
}

/// A draft model that guesses at the target's own draws changes no token, for any number of drafts; nor does lookup.
#[test]
fn a_repeatable_text_is_that_of_plain_decoding() {
    for (seed, prompt) in PROMPTS.into_iter().enumerate() {
        let request = || TALE.request(prompt).temperature(0.7).top_p(0.9).max_tokens(60).seed(seed as u64);
        let plain = request().text().unwrap();
        let guessed = || request().draft(&SMALL).repeatable();
        for drafted in [guessed(), guessed().draft_tokens(3), request().lookup().draft_tokens(4)] {
            assert_eq!(drafted.text().unwrap().tokens, plain.tokens, "{prompt:?}");
        }
    }
}

/// A model that drafts for itself is always right: its cache and its transforms equal those of the target.
#[test]
fn a_twin_is_never_rejected() {
    let key = Key::from_secret([6; 32], "test", Marking::lists(), SMALL.reader().vocabulary()).unwrap();
    for (seed, prompt) in PROMPTS.into_iter().enumerate() {
        let request = SMALL.request(prompt).watermark(&key).temperature(0.8).top_p(0.9).max_tokens(80);
        let written = request.seed(seed as u64).draft(&SMALL).draft_tokens(5).text().unwrap();
        let acceptance = written.acceptance.unwrap();
        // The drafts after the end of a text are not verified.
        assert!(acceptance.drafted - acceptance.accepted < 5, "{acceptance:?}");
        assert!(acceptance.accepted >= written.tokens.len() * 4 / 5, "{acceptance:?}");
    }
}

/// A drafter's memory of rejected texts has no effect.
#[test]
fn a_drafter_forgets_what_was_rejected() {
    let model = SMALL.model().clone();
    let chain = Chain::new();
    let state = chain.start(&[]);
    let drafter = || DraftModel::new(model.clone(), 100, &chain, Sampler::Categorical, Coupling::Independent).unwrap();
    let mut used = drafter();
    for text in [&[5, 6, 7][..], &[5, 6, 7, 8, 9], &[5, 6, 10, 11], &[5, 6, 10, 11, 12, 13, 14], &[1], &[5, 6]] {
        let draft = |drafter: &mut DraftModel| -> Vec<(u32, Option<Vec<f64>>)> {
            let (mut tree, shape) = (DraftTree::default(), TreeShape::chain(4));
            tree.clear(text.len());
            drafter.draft(0, text, &state, &shape, &mut Seeded(Random::new(3)), &mut tree).unwrap();
            let distribution = |origin| match origin {
                Origin::Drawn(distribution) => Some(tree.distribution_of(distribution).to_vec()),
                _ => None,
            };
            tree.nodes().iter().map(|node| (node.token, distribution(node.origin))).collect()
        };
        let again = draft(&mut used);
        assert!(again.len() == 4 && again.iter().all(|(_, distribution)| distribution.is_some()));
        assert!(again == draft(&mut drafter()), "{text:?}");
    }
}

#[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Play {
    title: Title,
    /// Each a speaker and what he says.
    #[schemars(length(min = 4, max = 6))]
    lines: Vec<Line>,
}

#[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Title(#[schemars(regex(pattern = "^[A-Z][a-z]+( [A-Za-z][a-z]*){1,4}$"), length(max = 40))] String);

#[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
struct Line {
    speaker: Speaker,
    #[schemars(length(min = 60, max = 120))]
    says: String,
    aside: bool,
}

#[derive(Debug, serde::Deserialize, serde::Serialize, schemars::JsonSchema)]
enum Speaker {
    Captain,
    Cook,
    /// Somebody else.
    Other {
        #[schemars(length(min = 1, max = 12))]
        name: String,
    },
}

/// JSON that is a value of a Rust type, marked, steered and speculative, in one run; and the detector proves the mark.
#[test]
fn everything_at_once() {
    let (expert, anti) = (engine("tale-expert"), engine("tale-small"));
    let steered = engine("tale").steered(&[(&expert, &anti, 0.75)]).unwrap();
    let key = Key::from_secret([4; 32], "test", Marking::lists(), steered.reader().vocabulary()).unwrap();
    let write = |key: Option<&Key>| {
        let request =
            steered.request("").draft(&expert).draft_tokens(3).max_tokens(900).temperature(1.0).top_p(1.0).seed(5);
        let request = key.into_iter().fold(request, Request::watermark);
        let mut streamed = String::new();
        let (play, written) = request
            .json_stream::<Play>(|piece| {
                streamed.push_str(piece);
                ControlFlow::Continue(())
            })
            .unwrap();
        assert_eq!(streamed, written.text);
        let json: serde_json::Value = serde_json::from_str(&written.text).unwrap();
        assert_eq!(serde_json::to_value(&play).unwrap(), json);
        let acceptance = written.acceptance.unwrap();
        assert!(acceptance.accepted > acceptance.drafted / 5, "{acceptance:?}");
        assert!(play.lines.iter().all(|line| (60..=120).contains(&line.says.chars().count())), "{play:?}");
        written.text
    };
    let (marked, plain) = (write(Some(&key)), write(None));
    let judge = |text: &str| steered.reader().detect(&key, text.as_bytes()).unwrap();
    assert!(judge(&marked).ln_p < -11.5, "{marked}: {:?}", judge(&marked));
    assert!(judge(&plain).p() > 1e-3, "{plain}: {:?}", judge(&plain));
}
