//! Checks what drafts must not change, on real models: the distribution of pairs of tokens, and the text at temperature
//! 0.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use rayon::prelude::*;
use verdigris::decoding::{Coupling, DraftLength, DraftModel, Limits, Rule, Seeded, Speculative, Target, TreeShape};
use verdigris::logits::warp::{Temperature, TopK};
use verdigris::logits::{Chain, Random, Row, Sampler, TokenId, Transform};
use verdigris::models::{Batch, DraftHead, LanguageModel, ModelFolder, Rows, Wanted};
use verdigris::{Engine, Error, Request};

use crate::harness::{TALE_SMALL, path};

/// The number of tokens of a row that can be sampled: there are as many cells of pairs as its square.
const CANDIDATES: usize = 12;

/// Pairs that are expected less often than this are counted together.
const RARE: f64 = 10.0;

/// The methods of drafting pairs: a shape, a rule, and whether drafts are sampled or guessed.
pub const WAYS: [(&str, [usize; 2], Rule, Coupling); 4] = [
    ("a chain, token by token", [1, 1], Rule::EachToken, Coupling::Independent),
    ("a chain as a block", [1, 1], Rule::Block, Coupling::Independent),
    ("a tree without replacement", [3, 2], Rule::EachToken, Coupling::Independent),
    ("a tree of guesses", [3, 2], Rule::EachToken, Coupling::Shared),
];

/// Chi-square of the first two tokens of many texts against their exact distribution.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// The statistic.
    pub chi2: f64,
    /// Its degrees of freedom.
    pub degrees: f64,
}

impl Fit {
    /// Whether it is within five standard deviations of its mean, which allows for its long tail.
    pub fn is_good(self) -> bool {
        self.chi2 < self.degrees + 5.0 * (2.0 * self.degrees).sqrt()
    }
}

/// The distribution of the token after a text.
fn distribution_after(
    model: &Arc<dyn LanguageModel>,
    target: &Target,
    prompt: &[TokenId],
    written: &[TokenId],
) -> Vec<f64> {
    let text = [prompt, written].concat();
    let mut rows = Rows::default();
    let mut sequence = model.clone().begin(text.len()).expect("a short text fits");
    sequence.forward(&Batch::chain(&text, Wanted::Last), &mut rows).expect("a model reads its tokens");
    let mut state = target.transforms.start(prompt);
    written.iter().for_each(|&token| target.transforms.advance(&mut state, token));
    let mut row = Row::from(rows.last().to_vec());
    target.transforms.apply(&state, &mut row);
    target.sampler.distribution(&row)
}

/// Samples pairs of tokens with drafts of a smaller model, one pair for each seed.
///
/// # Panics
/// If a model fails, or an impossible pair is sampled.
pub fn pairs(model: &Engine, draft: &Engine, way: usize, draws: u64) -> Fit {
    let (_, levels, rule, coupling) = WAYS[way];
    let transforms =
        Chain::new().then(Temperature::new(0.9).expect("above 0")).then(TopK::new(CANDIDATES).expect("some"));
    let target = Target { transforms, sampler: Sampler::Categorical, random: Random::new(0) };
    let prompt = model.reader().tokenizer().encode_prompt("The captain").expect("a prompt of words");
    let mut expected = BTreeMap::new();
    let first = distribution_after(model.model(), &target, &prompt, &[]);
    for (a, p) in (0..).zip(&first).filter(|(_, p)| **p > 0.0) {
        let second = distribution_after(model.model(), &target, &prompt, &[a]);
        expected.extend((0..).zip(second).filter(|(_, q)| *q > 0.0).map(|(b, q)| ([a, b], p * q * draws as f64)));
    }
    let draw = |seed| {
        let target = Target { random: Random::new(seed), ..target.clone() };
        let drafter = DraftModel::new(draft.model().clone(), 64, &target.transforms, target.sampler, coupling);
        // A third token leaves room for a second level of drafts.
        let limits = Limits { max_tokens: 3, end: Vec::new() };
        let (length, chance) = (DraftLength::Tree(TreeShape::levels(&levels)), Seeded(target.random));
        let (model, drafter) = (model.model().clone(), drafter.expect("a short text fits"));
        let run = Speculative::new(model, &target, &prompt, limits, drafter, length, chance).expect("it fits too");
        let text: Vec<TokenId> = run.judged_by(rule).take(2).map(|token| token.expect("models read on")).collect();
        [text[0], text[1]]
    };
    let mut counts: BTreeMap<[TokenId; 2], f64> = BTreeMap::new();
    for pair in (0..draws).into_par_iter().map(draw).collect::<Vec<_>>() {
        *counts.entry(pair).or_default() += 1.0;
    }
    assert!(counts.keys().all(|pair| expected.contains_key(pair)), "a pair that cannot come");
    let (mut chi2, mut cells, mut rare) = (0.0, 0, [0.0; 2]);
    for (pair, expected) in expected {
        let count = counts.get(&pair).copied().unwrap_or(0.0);
        if expected < RARE {
            rare = [rare[0] + expected, rare[1] + count];
        } else {
            (chi2, cells) = (chi2 + (count - expected).powi(2) / expected, cells + 1);
        }
    }
    if rare[0] > RARE {
        (chi2, cells) = (chi2 + (rare[1] - rare[0]).powi(2) / rare[0], cells + 1);
    }
    Fit { chi2, degrees: f64::from(cells - 1) }
}

/// A model and its drafters.
pub struct Drafted {
    name: String,
    model: Engine,
    draft: Option<Engine>,
    heads: Vec<(&'static str, DraftHead)>,
}

impl Drafted {
    /// A model in a folder or file, a model that drafts for it, and draft heads in folders.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn load(model: &Path, draft: Option<&Path>, heads: &[(&'static str, &str)]) -> Result<Self, Error> {
        let target = ModelFolder::at(model);
        let head = |&(kind, head): &(&'static str, &str)| {
            Ok((kind, DraftHead::load(&ModelFolder::at(path("fixtures").join(head)), &target)?))
        };
        Ok(Self {
            name: model.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            heads: heads.iter().map(head).collect::<Result<_, Error>>()?,
            model: Engine::load(model)?,
            draft: draft.map(Engine::load).transpose()?,
        })
    }

    /// The models of the project.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn of_project() -> Result<Vec<Self>, Error> {
        let [tale, small] = ["tale", "tale-small"].map(|name| path("fixtures/models").join(name));
        let of_tale = [("feature", "models/tale-draft"), ("medusa", "models/tale-medusa")];
        let of_small = [("feature", "golden/draft_heads/feature"), ("medusa", "golden/draft_heads/medusa")];
        Ok(vec![Self::load(&tale, Some(&small), &of_tale)?, Self::load(&small, Some(&tale), &of_small)?])
    }

    /// SmolLM2-135M-Instruct from a file, with the draft heads of the project and, if given, a draft model.
    ///
    /// # Errors
    /// If one of them cannot be read.
    pub fn of_smollm2(model: &Path, draft: Option<&Path>) -> Result<Self, Error> {
        let heads = [("feature", "models/smollm2-135m-draft"), ("medusa", "models/smollm2-135m-medusa")];
        Self::load(model, draft, &heads)
    }
}

/// Compares texts at temperature 0 with drafts and without, after `prompts` prompts for each model. Returns the number
/// of accepted drafts of each drafter.
///
/// # Errors
/// The first text that differs.
///
/// # Panics
/// If a model fails.
pub fn greedy(models: &[Drafted], prompts: u64, tokens: usize) -> Result<BTreeMap<String, usize>, String> {
    let shapes = [TreeShape::chain(4), TreeShape::levels(&[3, 2]), TreeShape::levels(&[2, 1, 1])];
    let mut accepted = BTreeMap::new();
    for seed in 0..prompts {
        // A prompt is the beginning of a text that the small model generates.
        let begun = TALE_SMALL.request("").max_tokens(3 + seed as usize % 9).temperature(1.0).top_p(1.0).seed(seed);
        let prompt = begun.text().expect("it writes").text;
        for Drafted { name, model, draft, heads } in models {
            let request = || model.request(&prompt).temperature(0.0).max_tokens(tokens);
            let plain = request().text().expect("it writes");
            let mut drafted: Vec<(&str, Request<'_>)> = vec![("lookup", request().lookup())];
            drafted.extend(draft.iter().map(|draft| ("model", request().draft(draft))));
            drafted.extend(heads.iter().map(|(kind, head)| (*kind, request().draft_head(head))));
            for (kind, request) in drafted {
                let request = match seed as usize % (shapes.len() + 1) {
                    0 => request,
                    shape => request.draft_tree(shapes[shape - 1]),
                };
                let written = request.text().expect("it writes");
                if (&written.tokens, written.stop) != (&plain.tokens, plain.stop) {
                    return Err(format!("{name} with drafts of {kind} after {prompt:?}"));
                }
                let stood = written.acceptance.expect("it drafts").accepted;
                *accepted.entry(format!("{name}, {kind}")).or_default() += stood;
            }
        }
    }
    Ok(accepted)
}
