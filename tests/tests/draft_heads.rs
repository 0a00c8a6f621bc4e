//! Draft heads as drafters: they give the text of plain decoding where that is promised, and its distribution
//! elsewhere. The heads are those of `tale`; some of their drafts are accepted and some are not.

use std::sync::LazyLock;

use verdigris::decoding::TreeShape;
use verdigris::models::DraftHead;
use verdigris::{Key, Marking, Request};
use verdigris_tests::harness::{TALE, TALE_SMALL, model, sampled};

static HEADS: LazyLock<[DraftHead; 2]> =
    LazyLock::new(|| ["tale-draft", "tale-medusa"].map(|name| DraftHead::load(&model(name), &model("tale")).unwrap()));

const PROMPTS: [&str; 5] = ["The captain", "", "one two three one two three one two", "'No,' said the", "Chapter"];

fn shapes() -> [TreeShape; 4] {
    [TreeShape::chain(1), TreeShape::chain(3), TreeShape::levels(&[3, 2]), TreeShape::levels(&[2, 1, 2])]
}

/// Holds at any temperature, for drafts that guess at the target's own draws.
#[test]
fn a_repeatable_text_is_that_of_plain_decoding() {
    let key = Key::from_secret([6; 32], "test", Marking::lists(), TALE.reader().vocabulary()).unwrap();
    for head in &*HEADS {
        let (mut drafted, mut accepted) = (0, 0);
        for (seed, prompt) in PROMPTS.into_iter().enumerate() {
            for temperature in [0.0, 0.8] {
                let request = || {
                    let request = TALE.request(prompt).temperature(temperature).max_tokens(40).seed(seed as u64);
                    if seed % 2 == 0 { request } else { request.watermark(&key).repetition_penalty(1.1) }
                };
                let plain = request().text().unwrap();
                for shape in shapes() {
                    let written = request().draft_head(head).draft_tree(shape).repeatable().text().unwrap();
                    assert_eq!((written.tokens, written.stop), (plain.tokens.clone(), plain.stop), "{shape:?}");
                    if temperature == 0.0 && shape.is_chain() {
                        let acceptance = written.acceptance.unwrap();
                        drafted += acceptance.drafted;
                        accepted += acceptance.accepted;
                    }
                }
                let written = request().draft_head(head).repeatable().text().unwrap();
                assert_eq!(written.tokens, plain.tokens);
            }
        }
        assert!(accepted > drafted / 8, "{accepted} of {drafted}");
    }
}

/// Under this constraint most tokens are decided without a call of the model, so heads get hidden states late and
/// feature drafters continue from their own states.
#[test]
fn what_is_decided_is_not_waited_for() {
    let expression = "(one|two) small (ship|boat)s? sailed (away|home)[a-z ]{5,20}\\.";
    for head in &*HEADS {
        for seed in 0..6 {
            let request = || TALE.request("The").regex(expression).max_tokens(60).temperature(0.9).seed(seed);
            let plain = request().text().unwrap();
            for shape in shapes() {
                let written = request().draft_head(head).draft_tree(shape).repeatable().text().unwrap();
                assert_eq!(written.tokens, plain.tokens, "{shape:?}");
                let free = request().draft_head(head).draft_tree(shape).text().unwrap();
                assert_eq!(free.complete, Some(true), "{}", free.text);
            }
        }
    }
}

/// Counts of drafted and verified texts have the same distribution as those of plain decoding.
#[test]
fn drafts_of_their_own_leave_the_distribution_as_it_is() {
    const TEXTS: u64 = 3000;
    let request = |seed: u64| TALE.request("The").temperature(0.5).top_k(6).top_p(1.0).max_tokens(3).seed(seed);
    let counts = |each: &dyn Fn(Request<'static>) -> Request<'static>, first: u64| {
        let mut counts = std::collections::BTreeMap::new();
        for seed in first..first + TEXTS {
            *counts.entry(each(request(seed)).text().unwrap().tokens).or_insert(0.0) += 1.0;
        }
        counts
    };
    let plain = counts(&|request| request, 0);
    let shapes = || [TreeShape::chain(2), TreeShape::levels(&[3, 2])];
    for (head, shape) in sampled(HEADS.iter().flat_map(|head| shapes().map(|shape| (head, shape))), 4) {
        let drafted = counts(&|request| request.draft_head(head).draft_tree(shape), 1 << 20);
        let texts: std::collections::BTreeSet<_> = plain.keys().chain(drafted.keys()).collect();
        let (mut chi2, mut cells) = (0.0, 0.0);
        for text in texts {
            let [a, b]: [f64; 2] = [&plain, &drafted].map(|counts| counts.get(text).copied().unwrap_or(0.0));
            if a + b >= 20.0 {
                (chi2, cells) = (chi2 + (a - b).powi(2) / (a + b), cells + 1.0);
            }
        }
        // Two samples of one distribution: as many degrees of freedom as cells, plus five standard deviations.
        assert!(cells > 30.0 && chi2 < cells + 5.0 * f64::sqrt(2.0 * cells), "{chi2} with {cells} cells");
    }
}

#[test]
fn a_head_needs_hidden_states_of_its_size() {
    for head in &*HEADS {
        let fault = TALE_SMALL.request("The").draft_head(head).text().unwrap_err().to_string();
        assert!(fault.contains("a draft head reads hidden states"), "{fault}");
    }
}
