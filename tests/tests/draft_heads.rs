//! Draft heads as drafters: they give the text of plain decoding where that is promised, and its distribution
//! elsewhere. The heads are those of `tale`; some of their drafts are accepted and some are not.

use std::cell::LazyCell;
use std::sync::LazyLock;

use verdigris::decoding::{AssistantDrafter, Coupling, DraftTree, Drafter, Seeded, TreeShape};
use verdigris::logits::{Chain, Random, Sampler, TokenId, Transform};
use verdigris::models::{Batch, DraftHead, Rows, Wanted};
use verdigris::{Device, Engine, Key, Marking, ModelFolder, Request};
use verdigris_tests::harness::{TALE, TALE_SMALL, model, path};
use verdigris_tests::sampled::sampled;

static HEADS: LazyLock<[DraftHead; 2]> =
    LazyLock::new(|| ["tale-draft", "tale-medusa"].map(|name| DraftHead::load(&model(name), &model("tale")).unwrap()));

/// A tiny Gemma 4 with random weights, and its assistant.
static GEMMA4: LazyLock<(Engine, DraftHead)> = LazyLock::new(|| {
    let folder = ModelFolder::at(path("fixtures/golden/gguf_architectures/gemma4.gguf"));
    let assistant = ModelFolder::at(path("fixtures/golden/assistants/gemma4"));
    (Engine::from_folder(&folder, &Device::Cpu).unwrap(), DraftHead::load(&assistant, &folder).unwrap())
});

const PROMPTS: [&str; 5] = ["The captain", "", "one two three one two three one two", "'No,' said the", "Chapter"];

fn shapes() -> [TreeShape; 4] {
    [TreeShape::chain(1), TreeShape::chain(3), TreeShape::levels(&[3, 2]), TreeShape::levels(&[2, 1, 2])]
}

/// Holds at any temperature, for drafts that guess at the target's own draws.
#[test]
fn a_repeatable_text_is_that_of_plain_decoding() {
    let key = Key::from_secret([6; 32], "test", Marking::lists(), TALE.reader().vocabulary()).unwrap();
    for head in sampled(&*HEADS, 2) {
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
    let counts = |engine: &'static Engine, each: &dyn Fn(Request<'static>) -> Request<'static>, first: u64| {
        let mut counts = std::collections::BTreeMap::new();
        for seed in first..first + TEXTS {
            let request = engine.request("Th").temperature(0.5).top_k(6).top_p(1.0).max_tokens(3).seed(seed);
            *counts.entry(each(request).text().unwrap().tokens).or_insert(0.0) += 1.0;
        }
        counts
    };
    let [of_tale, of_gemma] =
        [&*TALE, &GEMMA4.0].map(|engine| (engine, LazyCell::new(move || counts(engine, &|request| request, 0))));
    let shapes = || [TreeShape::chain(2), TreeShape::levels(&[3, 2])];
    let all = HEADS.iter().map(|head| (head, &of_tale)).chain([(&GEMMA4.1, &of_gemma)]);
    let all = all.flat_map(|(head, of)| shapes().map(|shape| (head, of, shape)));
    for (head, (engine, plain), shape) in sampled(all, 6) {
        let plain = LazyCell::force(plain);
        let drafted = counts(engine, &|request| request.draft_head(head).draft_tree(shape), 1 << 20);
        let texts: std::collections::BTreeSet<_> = plain.keys().chain(drafted.keys()).collect();
        let (mut chi2, mut cells) = (0.0, 0.0);
        for text in texts {
            let [a, b]: [f64; 2] = [plain, &drafted].map(|counts| counts.get(text).copied().unwrap_or(0.0));
            if a + b >= 20.0 {
                (chi2, cells) = (chi2 + (a - b).powi(2) / (a + b), cells + 1.0);
            }
        }
        // Two samples of one distribution: as many degrees of freedom as cells, plus five standard deviations.
        assert!(cells > 30.0 && chi2 < cells + 5.0 * f64::sqrt(2.0 * cells), "{chi2} with {cells} cells");
    }
}

/// The drafts of an assistant are its best guesses, each after the one before it: in chains and trees, and also after
/// tokens that were written without a call of the model.
#[test]
fn an_assistant_drafts_its_best_guesses() {
    let (_, head) = &*GEMMA4;
    let DraftHead::Assistant(assistant) = head else { panic!("an assistant") };
    let folder = ModelFolder::at(path("fixtures/golden/gguf_architectures/gemma4.gguf"));
    let model = folder.model(&Device::Cpu).unwrap();
    let (read, late): ([TokenId; 10], [TokenId; 3]) = ([5, 9, 60, 3, 3, 17, 40, 22, 8, 30], [11, 4, 50]);
    let mut rows = Rows::with_layers(head.layers());
    model.clone().begin(16).unwrap().forward(&Batch::chain(&read, Wanted::Last), &mut rows).unwrap();
    let states: Vec<f32> = (0..read.len()).flat_map(|i| rows.hidden(i).to_vec()).collect();
    let transforms = Chain::new();
    let mut chance = Seeded(Random::new(1));
    for count in 1..=late.len() {
        let text = [&read[..], &late[..count]].concat();
        for shape in shapes() {
            let mut drafter =
                AssistantDrafter::new(assistant, 20, 61, &transforms, Sampler::Greedy, Coupling::Independent).unwrap();
            let mut tree = DraftTree::default();
            let mut draft = |drafter: &mut AssistantDrafter, tree: &mut DraftTree| {
                tree.clear(text.len());
                drafter.draft(0, &text, &transforms.start(&text), &shape, &mut chance, tree).unwrap();
            };
            draft(&mut drafter, &mut tree);
            assert!(tree.is_empty(), "a draft before any state");
            let all: Vec<usize> = (0..read.len()).collect();
            drafter.observe(&read, &rows, &all).unwrap();
            draft(&mut drafter, &mut tree);
            let first: Vec<TokenId> = tree.nodes().iter().map(|node| node.token).collect();
            draft(&mut drafter, &mut tree);
            assert_eq!(tree.nodes().iter().map(|node| node.token).collect::<Vec<_>>(), first);
            assert_eq!(tree.len(), shape.len());
            for (i, node) in tree.nodes().iter().enumerate() {
                let mut before: Vec<TokenId> = Vec::new();
                let mut at = node.parent;
                while let Some(parent) = at {
                    before.insert(0, tree.nodes()[parent].token);
                    at = tree.nodes()[parent].parent;
                }
                let mut sequence = assistant.begin(20).unwrap();
                sequence.read(&states).unwrap();
                let (mut state, mut logits, mut next) = (sequence.last_state().to_vec(), Vec::new(), Vec::new());
                for token in late[..count].iter().chain(&before) {
                    sequence.guess(&[*token], &state, &mut logits, &mut next).unwrap();
                    state.clone_from(&next);
                }
                let earlier = tree.nodes()[..i].iter().filter(|other| other.parent == node.parent).count();
                let mut best: Vec<usize> = (0..logits.len()).collect();
                best.sort_by(|&a, &b| logits[b].total_cmp(&logits[a]));
                assert_eq!(node.token as usize, best[earlier], "{shape:?}, draft {i}");
            }
        }
    }
}

#[test]
fn a_head_needs_hidden_states_of_its_size() {
    for head in &*HEADS {
        let fault = TALE_SMALL.request("The").draft_head(head).text().unwrap_err().to_string();
        assert!(fault.contains("a draft head reads hidden states"), "{fault}");
    }
}
