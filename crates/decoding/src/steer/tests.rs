//! Steered models compared with the formulas.

use super::*;
use crate::drafter::Coupling;
use crate::table::Table;
use verdigris_logits::Chain;
use verdigris_models::{Batch, BatchItem, ModelError, Rows, Sequence, Wanted};

const NO: f32 = f32::NEG_INFINITY;

fn rows(model: Arc<dyn LanguageModel>, tokens: &[u32]) -> Vec<Vec<f32>> {
    let mut rows = Rows::default();
    model.begin(tokens.len()).unwrap().forward(&Batch::chain(tokens, Wanted::All), &mut rows).unwrap();
    (0..rows.count()).map(|i| rows.row(i).to_vec()).collect()
}

fn pair(expert: Arc<Table>, anti: Arc<Table>, alpha: f64) -> Pair {
    Pair::new(expert, anti, Alpha::constant(alpha).unwrap())
}

#[test]
fn rows_are_those_of_the_formula() {
    let (base, expert, anti) = (Table::noise(3, 1), Table::noise(3, 2), Table::noise(3, 3));
    let other = Table::noise(5, 4);
    let pairs = vec![pair(expert.clone(), anti.clone(), 0.5), pair(other.clone(), anti.clone(), -2.0)];
    let steered = Arc::new(Steered::new(base.clone(), pairs));
    for (i, row) in rows(steered, &[0, 2, 1]).iter().enumerate() {
        let token = [0, 2, 1][i];
        let of = |table: &Table| table.row(token).to_vec();
        let (base, expert, anti, other) = (of(&base), of(&expert), of(&anti), of(&other));
        for (v, got) in row.iter().enumerate() {
            let expected = base[v] + 0.5 * (expert[v] - anti[v]) - 2.0 * (other[v] - anti[v]);
            assert!((got - expected).abs() < 1e-5);
        }
    }
}

#[test]
fn alpha_zero_and_twins_change_no_bit() {
    let (base, expert, anti) = (Table::noise(4, 1), Table::noise(4, 2), Table::noise(4, 3));
    let plain = rows(base.clone(), &[0, 3, 1]);
    for pair in [pair(expert.clone(), anti, 0.0), pair(expert.clone(), expert, 1.5)] {
        assert_eq!(rows(Arc::new(Steered::new(base.clone(), vec![pair])), &[0, 3, 1]), plain);
    }
}

#[test]
fn another_weight_is_that_of_all_pairs() {
    let (base, expert, anti) = (Table::noise(4, 1), Table::noise(4, 2), Table::noise(4, 3));
    let of = |alpha: f64| {
        let pairs = vec![pair(expert.clone(), anti.clone(), alpha), pair(anti.clone(), base.clone(), alpha)];
        Steered::new(base.clone(), pairs).guided(1.5).unwrap()
    };
    let weighed = |alpha: f64| of(0.25).weighed(Alpha::constant(alpha).unwrap());
    let all = |steered: Steered| rows(Arc::new(steered), &[0, 3, 1]);
    for alpha in [0.25, 1.5, 0.0] {
        assert_eq!(all(weighed(alpha)), all(of(alpha)), "{alpha}");
    }
    assert_ne!(all(weighed(1.5)), all(of(0.25)));
    assert!(of(0.25).has_pairs() && !weighed(0.0).has_pairs() && weighed(0.0).is_guided());
}

/// Padding differs between models of one tokenizer: a row is as long as the base's, and a token that an expert cannot
/// read is not written.
#[test]
fn rows_may_be_padded_differently() {
    for (expert, anti) in [(5, 3), (3, 5), (3, 3)] {
        let pair = pair(Table::noise(expert, 2), Table::noise(anti, 3), 1.0);
        let steered = Arc::new(Steered::new(Table::noise(4, 1), vec![pair]));
        for row in rows(steered.clone(), &[0, 2, 1]) {
            assert!(row.len() == 4 && row[3] == NO && row[..3].iter().all(|z| z.is_finite()), "{row:?}");
        }
    }
}

/// All members keep the same path of a tree: the next row is the one after that path alone.
#[test]
fn every_member_keeps_the_same_path() {
    let (base, expert, anti) = (Table::deep(4, 1, 20), Table::deep(4, 2, 20), Table::deep(4, 3, 20));
    let steered = Arc::new(Steered::new(base, vec![pair(expert, anti, 0.7)]));
    let expected = rows(steered.clone(), &[3, 1, 0, 2, 1]);
    let (mut sequence, mut rows) = (steered.begin(20).unwrap(), Rows::default());
    sequence.forward(&Batch::chain(&[3, 1, 2, 0, 3, 2, 0], Wanted::Last), &mut rows).unwrap();
    sequence.keep(2, &[1, 3]).unwrap();
    assert_eq!(sequence.len(), 4);
    sequence.forward(&Batch::chain(&[1], Wanted::Last), &mut rows).unwrap();
    assert_eq!(rows.last(), expected[4]);
}

#[test]
fn sequences_keep_step_when_one_fails() {
    let base = Table::noise(4, 1);
    // The expert's context is shorter than the base's.
    let (expert, anti) = (Table::with_context(4, 2, 3), Table::noise(4, 3));
    let steered = Arc::new(Steered::new(base, vec![pair(expert, anti, 1.0)]));
    assert_eq!(steered.context_length(), 3);
    // The base has more room than the expert, which fails after the base has read the batch.
    let mut sequence = steered.begin(10).unwrap();
    let mut rows = Rows::default();
    sequence.forward(&Batch::chain(&[0, 1], Wanted::Last), &mut rows).unwrap();
    assert!(sequence.forward(&Batch::chain(&[2, 3], Wanted::Last), &mut rows).is_err());
    assert_eq!(sequence.len(), 2);
    let mut fork = sequence.fork().unwrap();
    sequence.forward(&Batch::chain(&[2], Wanted::Last), &mut rows).unwrap();
    let expected = rows.last().to_vec();
    sequence.truncate(1);
    sequence.forward(&Batch::chain(&[1, 2], Wanted::Last), &mut rows).unwrap();
    assert_eq!(rows.last(), expected);
    fork.forward(&Batch::chain(&[2], Wanted::Last), &mut rows).unwrap();
    assert_eq!(rows.last(), expected);
}

/// The row after some tokens, read as a whole and separately.
fn row_after(model: &Arc<Table>, tokens: &[u32]) -> Vec<f64> {
    rows(model.clone(), tokens).pop().unwrap().into_iter().map(f64::from).collect()
}

fn softmax(row: &[f64]) -> Vec<f64> {
    let weights: Vec<f64> = row.iter().map(|z| z.exp()).collect();
    let total: f64 = weights.iter().sum();
    weights.iter().map(|w| w / total).collect()
}

/// Guidance follows the formula of `transformers`, row by row; without a negative prompt it leads away from the last
/// token.
#[test]
fn guidance_is_its_formula() {
    let base = Table::deep(6, 1, 60);
    let (prompt, text) = ([1, 2, 3], [4, 5, 0, 1]);
    for negative in [Some(vec![5, 1, 1, 2]), Some(vec![0]), None] {
        for scale in [1.5, 3.0, 0.25, -1.0] {
            let own = OwnPrompts { negative: negative.clone(), ..OwnPrompts::default() };
            let steered = Arc::new(Steered::new(base.clone(), Vec::new()).guided(scale).unwrap().after(&prompt, &own));
            let got = rows(steered.clone(), &[&prompt[..], &text].concat());
            for written in 0..=text.len() {
                let after = |prompt: &[u32]| -> Vec<f64> {
                    softmax(&row_after(&base, &[prompt, &text[..written]].concat())).iter().map(|p| p.ln()).collect()
                };
                let away = after(negative.as_deref().unwrap_or(&prompt[2..]));
                let expected = after(&prompt).into_iter().zip(away).map(|(p, q)| q + scale * (p - q));
                for (got, expected) in got[2 + written].iter().zip(expected) {
                    assert!((f64::from(*got) - expected).abs() < 1e-5, "{got} and not {expected}");
                }
            }
        }
    }
    let nothing =
        Arc::new(Steered::new(base.clone(), Vec::new()).guided(1.0).unwrap().after(&prompt, &OwnPrompts::default()));
    assert_eq!(rows(nothing.clone(), &prompt), rows(base, &prompt));
    assert!(!nothing.is_guided() && nothing.guided_by(f64::NAN).is_err());
}

impl Steered {
    fn guided_by(&self, scale: f64) -> Result<Self, BadAlpha> {
        self.clone().guided(scale)
    }
}

/// A model that counts its calls.
struct Counted {
    model: Arc<Table>,
    calls: std::sync::atomic::AtomicUsize,
}

impl LanguageModel for Counted {
    fn vocabulary_size(&self) -> usize {
        self.model.vocabulary_size()
    }
    fn context_length(&self) -> usize {
        self.model.context_length()
    }
    fn begin(self: Arc<Self>, capacity: usize) -> Result<Box<dyn Sequence>, ModelError> {
        self.model.clone().begin(capacity)
    }
    fn forward_each(&self, items: &mut [BatchItem<'_>]) -> Result<(), ModelError> {
        self.calls.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        self.model.forward_each(items)
    }
}

/// Texts with different prompts and schedules, read in one call of each model, have the same rows as separately.
#[test]
fn several_texts_are_read_in_one_call_of_each_model() {
    let counted = |seed| Arc::new(Counted { model: Table::deep(6, seed, 60), calls: 0.into() });
    let (base, expert, anti) = (counted(1), counted(2), counted(3));
    let pair = |alpha: &str| Pair::new(expert.clone(), anti.clone(), alpha.parse().unwrap());
    let whole = Steered::new(base.clone(), vec![pair("0.5:3"), pair("1..-1:4")]).guided(1.7).unwrap();
    let prompts: [&[u32]; 3] = [&[1], &[2, 3, 4], &[5, 5, 0, 1, 2, 3]];
    let of_text = |i: usize| {
        let own = |tokens: &[u32]| (i != 1).then(|| tokens.to_vec());
        let experts = vec![None, own(&[4, 4])];
        let own = OwnPrompts { experts, antis: vec![own(&[1, 2, 3, 4, 5])], negative: own(&[3]) };
        Arc::new(whole.after(prompts[i], &own))
    };
    let texts: Vec<Vec<u32>> = (0..3).map(|i| [prompts[i], &[4, 0, 2, 5, 1]].concat()).collect();
    let alone: Vec<_> = (0..3).map(|i| rows(of_text(i), &texts[i])).collect();
    let calls = |model: &Counted| model.calls.swap(0, std::sync::atomic::Ordering::Relaxed);
    for model in [&base, &expert, &anti] {
        calls(model);
    }
    let mut sequences: Vec<_> = (0..3).map(|i| of_text(i).begin(20).unwrap()).collect();
    let mut read = vec![Rows::default(); 3];
    let first = |i: usize| &texts[i][..prompts[i].len()];
    for part in 0..2 {
        let mut items: Vec<BatchItem<'_>> = Vec::new();
        for (i, (sequence, rows)) in sequences.iter_mut().zip(&mut read).enumerate() {
            let tokens = if part == 0 { first(i) } else { &texts[i][prompts[i].len()..] };
            items.push(BatchItem { sequence: &mut **sequence, batch: Batch::chain(tokens, Wanted::All), rows });
        }
        whole.forward_each(&mut items).unwrap();
        assert_eq!([&base, &expert, &anti].map(|model| calls(model)), [1; 3]);
        for (i, rows) in read.iter().enumerate() {
            let from = if part == 0 { 0 } else { prompts[i].len() };
            (0..rows.count()).for_each(|row| assert_eq!(rows.row(row), alone[i][from + row], "text {i}"));
        }
    }
}

/// A prompt that a member reads instead of the text's counts against the member's own context.
#[test]
fn members_have_contexts_of_their_own() {
    let base = Table::deep(6, 1, 30);
    let pair = Pair::new(Table::deep(6, 2, 20), Table::deep(6, 3, 25), Alpha::constant(1.0).unwrap());
    let steered = Steered::new(base, vec![pair]);
    let of = |expert: usize, anti: usize| {
        let own = |length: usize| vec![Some(vec![1; length])];
        let own = OwnPrompts { experts: own(expert), antis: own(anti), negative: None };
        Arc::new(steered.after(&[1, 2, 3, 4], &own)).context_length()
    };
    assert_eq!((steered.context_length(), of(4, 4), of(14, 4), of(1, 9), of(1, 1)), (20, 20, 10, 20, 23));
}

mod distributions {
    //! The distribution of whole texts, by taking every branch of the code that runs, compared with the formulas.

    use super::*;
    use crate::chance::Seeded;
    use crate::draft_length::DraftLength;
    use crate::drafter::{DraftModel, Lookup};
    use crate::enumerate::distribution;
    use crate::limits::Limits;
    use crate::pass::tests::{begun, written};
    use crate::pass::{BatchedText, Part};
    use crate::plain::Plain;
    use crate::speculative::Speculative;
    use crate::target::Target;
    use crate::tree::TreeShape;
    use verdigris_logits::{Random, Sampler};

    const PROMPT: [u32; 3] = [1, 0, 2];
    const TOKENS: usize = 3;

    fn table(seed: u64) -> Arc<Table> {
        Table::deep(4, seed, 40)
    }

    fn target(seed: u64) -> Target {
        Target { transforms: Chain::new(), sampler: Sampler::Categorical, random: Random::new(seed) }
    }

    fn limits(max_tokens: usize) -> Limits {
        Limits { max_tokens, end: Vec::new() }
    }

    /// Kinds of steering, each with the distribution of the next token by its definition, given the text written so
    /// far.
    type Definition = Box<dyn Fn(&[u32]) -> Vec<f64>>;

    fn kinds() -> Vec<(&'static str, Arc<Steered>, Definition)> {
        let after =
            |seed: u64, prompt: &'static [u32]| move |text: &[u32]| row_after(&table(seed), &[prompt, text].concat());
        let pair = |alpha: &str| Pair::new(table(2), table(3), alpha.parse().unwrap());
        let own = |own: &OwnPrompts, steered: Steered| Arc::new(steered.after(&PROMPT, own));
        let (base, expert, anti) = (after(1, &PROMPT), after(2, &PROMPT), after(3, &PROMPT));
        let moved = move |text: &[u32], alpha: f64| -> Vec<f64> {
            let sum = base(text).into_iter().zip(expert(text)).zip(anti(text));
            sum.map(|((z, e), a)| z + alpha * (e - a)).collect()
        };
        let none = OwnPrompts::default();
        let other =
            OwnPrompts { experts: vec![Some(vec![3, 3])], antis: vec![Some(vec![2])], negative: Some(vec![0, 1]) };
        let (of_expert, of_anti, away) = (after(2, &[3, 3]), after(3, &[2]), after(1, &[0, 1]));
        vec![
            (
                "a line and an end",
                own(&none, Steered::new(table(1), vec![pair("1..0:2"), pair("0.5:1")])),
                Box::new(move |text: &[u32]| softmax(&moved(text, [1.5, 0.5, 0.0][text.len()]))),
            ),
            (
                "prompts of their own",
                own(&other, Steered::new(table(1), vec![pair("0.8")])),
                Box::new(move |text: &[u32]| {
                    let sum = base(text).into_iter().zip(of_expert(text)).zip(of_anti(text));
                    softmax(&sum.map(|((z, e), a)| z + 0.8 * (e - a)).collect::<Vec<_>>())
                }),
            ),
            (
                "alphas of tokens",
                {
                    let set = |tokens: &[u32]| {
                        let mut set = TokenSet::new(4);
                        tokens.iter().for_each(|&token| set.insert(token));
                        Arc::new(set)
                    };
                    let [first, second] = ["0:1", "-0.5..1.5:2"].map(|alpha| alpha.parse().unwrap());
                    let of_tokens = vec![(set(&[1]), first), (set(&[1, 3]), second)];
                    own(&none, Steered::new(table(1), vec![Pair { of_tokens, ..pair("0.8") }]))
                },
                Box::new(move |text: &[u32]| {
                    // The weight of each token at each position of the text.
                    let alphas = [[0.8, 0.0, 0.8, -0.5], [0.8, 0.0, 0.8, 0.5], [0.8, 0.0, 0.8, 1.5]][text.len()];
                    let [base, expert, anti] = [1, 2, 3].map(|seed| softmax(&after(seed, &PROMPT)(text)));
                    let weight = |v: usize| base[v] * (expert[v] / anti[v]).powf(alphas[v]);
                    let total: f64 = (0..4).map(weight).sum();
                    (0..4).map(|v| weight(v) / total).collect()
                }),
            ),
            (
                "DExperts",
                own(
                    &none,
                    Steered::new(table(1), vec![pair("0.8")]).filtered(BaseFilter::new(Some(2), None, None).unwrap()),
                ),
                Box::new(move |text: &[u32]| {
                    let (mut row, base) = (moved(text, 0.8), base(text));
                    for (z, &own) in row.iter_mut().zip(&base) {
                        if base.iter().filter(|&&other| other > own).count() >= 2 {
                            *z = f64::NEG_INFINITY;
                        }
                    }
                    softmax(&row)
                }),
            ),
            (
                "guidance",
                own(&other, Steered::new(table(1), Vec::new()).guided(2.5).unwrap()),
                Box::new(move |text: &[u32]| {
                    let ln = |row: Vec<f64>| -> Vec<f64> { softmax(&row).iter().map(|p| p.ln()).collect() };
                    let sum = ln(base(text)).into_iter().zip(ln(away(text)));
                    softmax(&sum.map(|(p, q)| q + 2.5 * (p - q)).collect::<Vec<_>>())
                }),
            ),
            (
                "a budget",
                own(&none, Steered::new(table(1), vec![pair("2")]).within(0.2)),
                Box::new(move |text: &[u32]| {
                    let distribution = |t: f64| softmax(&moved(text, 2.0 * t));
                    let distance = |t| -> f64 {
                        distribution(t).iter().zip(distribution(0.0)).map(|(q, p)| q * (q / p).ln()).sum()
                    };
                    let (mut low, mut high) = (0.0, 1.0);
                    for _ in 0..80 {
                        let middle = (low + high) / 2.0;
                        (low, high) = if distance(middle) <= 0.2 { (middle, high) } else { (low, middle) };
                    }
                    distribution(if distance(1.0) <= 0.2 { 1.0 } else { low })
                }),
            ),
        ]
    }

    /// Texts written without drafts, with drafts of a model, with trees, and with drafts of the expert itself.
    #[test]
    fn texts_have_the_distribution_of_the_formula() {
        for (name, steered, definition) in kinds() {
            let target = target(0);
            let model: Arc<dyn LanguageModel> = steered.clone();
            let lengths = [DraftLength::Fixed(0), DraftLength::Fixed(2), DraftLength::Tree(TreeShape::levels(&[2, 1]))];
            let mut ways: Vec<(String, _)> = Vec::new();
            for length in lengths {
                let by_model = distribution(|chance| {
                    let (transforms, sampler) = (&target.transforms, target.sampler);
                    let drafter = DraftModel::new(table(7), 40, transforms, sampler, Coupling::Independent).unwrap();
                    let run =
                        Speculative::new(model.clone(), &target, &PROMPT, limits(TOKENS), drafter, length, chance);
                    run.unwrap().map(Result::unwrap).collect()
                });
                ways.push((format!("{length:?}"), by_model));
                if steered.first_expert().is_some() {
                    let by_expert = distribution(|chance| {
                        let (transforms, sampler) = (&target.transforms, target.sampler);
                        let (model, drafter) =
                            steered.drafted_by_expert(transforms, sampler, Coupling::Independent).unwrap();
                        let run = Speculative::new(model, &target, &PROMPT, limits(TOKENS), drafter, length, chance);
                        run.unwrap().map(Result::unwrap).collect()
                    });
                    ways.push((format!("{length:?} by the expert"), by_expert));
                }
            }
            for (way, found) in ways {
                let total: f64 = found.values().sum();
                assert!((total - 1.0).abs() < 1e-12);
                for (text, p) in &found {
                    let expected: f64 = (0..TOKENS).map(|i| definition(&text[..i])[text[i] as usize]).product();
                    assert!((p - expected).abs() < 2e-6, "{name}, {way}, {text:?}: {p} and not {expected}");
                }
            }
        }
    }

    /// Texts written together, after one prompt or each after its own, are the same as when written alone, and the
    /// budget used by a text is the divergence of its tokens.
    #[test]
    fn several_steered_texts_are_those_that_are_written_alone() {
        for (name, steered, definition) in kinds() {
            let targets: Vec<Target> = (0..5).map(target).collect();
            let alone = |i: usize| -> Vec<u32> {
                Plain::new(steered.clone(), &targets[i], &PROMPT, limits(TOKENS)).unwrap().map(Result::unwrap).collect()
            };
            let model: Arc<dyn LanguageModel> = steered.clone();
            for piece in [0, 1, 2] {
                let begun = |target| begun(&model, target, &PROMPT, limits(TOKENS), None);
                let mut texts: Vec<BatchedText> = targets.iter().map(begun).collect();
                // All but the first continue from forks.
                let all = written(&model, &mut texts, |i, text| {
                    let unread = text.tokens().len() - text.sequence().len();
                    if i > 0 {
                        *text.sequence() = text.sequence().fork().unwrap();
                    }
                    if 0 < piece && piece < unread { Part::Read(piece) } else { Part::Write }
                });
                (0..5).for_each(|i| assert_eq!(all[i].0, alone(i), "{name}, read by {piece}"));
            }
            let (run, target) = (alone(0), &targets[0]);
            let (lookup, length) = (Lookup::new(1), DraftLength::Fixed(3));
            let chance = Seeded(target.random);
            let guessed =
                Speculative::new(steered.clone(), target, &PROMPT, limits(TOKENS), lookup, length, chance).unwrap();
            assert_eq!(guessed.map(Result::unwrap).collect::<Vec<u32>>(), run, "{name}");
            let spent = steered.divergence(&PROMPT, &run).unwrap();
            assert_eq!(spent.len(), TOKENS);
            if name != "DExperts" {
                for (i, kl) in spent.iter().enumerate() {
                    let base = softmax(&row_after(&table(1), &[&PROMPT, &run[..i]].concat()));
                    let moved: f64 = definition(&run[..i]).iter().zip(base).map(|(q, p)| q * (q / p).ln()).sum();
                    assert!((kl - moved).abs() < 1e-5, "{name}: {kl} and not {moved}");
                    assert!(steered.budget().is_none_or(|budget| *kl <= budget && *kl > budget - 1e-9 || *kl < budget));
                }
            }
        }
    }
}
