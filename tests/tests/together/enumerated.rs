//! Runs every way of generating with every branch of its code: the distribution of whole texts of a model of four
//! tokens.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use verdigris::Key;
use verdigris::decoding::drafter::Undrafted;
use verdigris::decoding::enumerate::{Branch, distribution};
use verdigris::decoding::pass::{BatchedText, BoxedDrafter, Drafting, Part, pass_in_turn};
use verdigris::decoding::search::Draws;
use verdigris::decoding::tree::{DraftTree, Origin};
use verdigris::decoding::{
    Alpha, AssistantDrafter, Beams, BlockDrafter, Chance, Coupling, DecodeError, DraftLength, DraftModel, Drafter,
    EarlyStopping, Limits, Lookup, Medusa, OwnPrompts, Pair, Rule, Speculative, Steered, Target, TreeShape, Typical,
};
use verdigris::logits::transform::ChainState;
use verdigris::logits::warp::{MinP, Temperature, TopP};
use verdigris::logits::{Chain, CountPenalty, Random, RepetitionPenalty, Row, Sampler, TokenId, Transform};
use verdigris::models::{DraftHead, LanguageModel};
use verdigris_tests::tiny_models::END;

use crate::axes::{
    AFTER, ALPHA, Choice, Combination, Draft, FREQUENCY, Form, GUIDANCE, Mark, NEAR_BEST, PRESENCE, REPETITION, Run,
    Steering, TEMPERATURE, TOP_P,
};
use crate::definition::TextProbabilities;
use crate::world::World;

/// A step on rows, in the order in which they act.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Penalties,
    Form,
    Green,
    Warpers,
    Noise,
}

/// A fault in how steps are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum InjectedFault {
    Nothing,
    /// The first step acts just before the second, which should come first.
    Before(Step, Step),
    /// A step does not see the generated tokens.
    Stale(Step),
    /// A step is left out.
    Without(Step),
    /// The model is not steered.
    Unsteered,
    /// Drafts are accepted where they are typical.
    Typical,
    /// Guesses are passed on as if they had been sampled.
    GuessesAsDraws,
    /// The second of two texts is sampled with the random decisions of the first.
    OneChance,
}

/// A combination that is ready to run.
pub(crate) struct Setup<'w> {
    world: &'w World,
    of: Combination,
    fault: InjectedFault,
    limits: Limits,
    prompt: Vec<TokenId>,
    model: Arc<dyn LanguageModel>,
    /// The same model, if it is steered.
    steered: Option<Arc<Steered>>,
    target: Target,
}

/// A step whose state stays as after the prompt.
struct Stale(Chain);

impl Transform for Stale {
    type State = ChainState;
    fn start(&self, prompt: &[TokenId]) -> ChainState {
        self.0.start(prompt)
    }
    fn apply(&self, state: &ChainState, row: &mut Row) {
        self.0.apply(state, row);
    }
    fn advance(&self, _: &mut ChainState, _: TokenId) {}
}

/// Passes on the guesses of another drafter as if sampled from the uniform distribution.
struct AsDrawn(BoxedDrafter);

impl Drafter for AsDrawn {
    fn draft(
        &mut self,
        way: usize,
        text: &[TokenId],
        state: &ChainState,
        shape: &TreeShape,
        chance: &mut dyn Chance,
        tree: &mut DraftTree,
    ) -> Result<(), DecodeError> {
        let mut guessed = DraftTree::default();
        guessed.clear(text.len());
        self.0.draft(way, text, state, shape, chance, &mut guessed)?;
        for node in guessed.nodes() {
            let distribution = tree.distribution(|out| *out = vec![1.0 / f64::from(END + 1); END as usize + 1]);
            tree.push(node.parent, node.token, Origin::Drawn(distribution));
        }
        Ok(())
    }

    fn ways(&mut self, text: &[TokenId]) -> &'static [usize] {
        self.0.ways(text)
    }
}

/// The chance of one of two texts, whose decisions belong to one run.
struct OneOfTwo<'b, 'c> {
    both: &'b RefCell<&'c mut Branch>,
    /// The tokens sampled by the first text, if the second must take them too.
    drawn: Option<&'b RefCell<BTreeMap<usize, TokenId>>>,
}

impl Chance for OneOfTwo<'_, '_> {
    fn token(&mut self, sampler: Sampler, row: &Row, position: usize) -> Option<TokenId> {
        let Some(drawn) = self.drawn else { return (&mut **self.both.borrow_mut()).token(sampler, row, position) };
        if let Some(&token) = drawn.borrow().get(&position).filter(|&&token| row.logits()[token as usize].is_finite()) {
            return Some(token);
        }
        let token = (&mut **self.both.borrow_mut()).token(sampler, row, position)?;
        drawn.borrow_mut().insert(position, token);
        Some(token)
    }
    fn draft(&mut self, distribution: &[f64], position: usize, index: usize) -> TokenId {
        (&mut **self.both.borrow_mut()).draft(distribution, position, index)
    }
    fn accept(&mut self, probability: f64, position: usize, index: usize) -> bool {
        (&mut **self.both.borrow_mut()).accept(probability, position, index)
    }
    fn residual(&mut self, distribution: &[f64], position: usize) -> TokenId {
        (&mut **self.both.borrow_mut()).residual(distribution, position)
    }
}

impl<'w> Setup<'w> {
    /// The setup for texts of at most `tokens` tokens, with a key if there is a mark.
    pub(crate) fn new(
        world: &'w World,
        of: Combination,
        tokens: usize,
        key: Option<&Key>,
        fault: InjectedFault,
    ) -> Self {
        let tokenizer = world.reader().tokenizer();
        let [prompt, negative] = [world.prompt, world.negative].map(|text| tokenizer.encode_prompt(text).unwrap());
        let base = world.base.model().clone();
        let steered = match of.steering {
            _ if fault == InjectedFault::Unsteered => None,
            Steering::Unsteered => None,
            Steering::ProxyTuning => {
                let [expert, anti] = [&world.expert, &world.anti].map(|engine| engine.model().clone());
                Some(Steered::new(base.clone(), vec![Pair::new(expert, anti, Alpha::constant(ALPHA).unwrap())]))
            }
            Steering::Guidance => {
                let own = OwnPrompts { negative: Some(negative), ..OwnPrompts::default() };
                Some(Steered::new(base.clone(), Vec::new()).guided(GUIDANCE).unwrap().after(&prompt, &own))
            }
        };
        let steered = steered.map(Arc::new);
        let model = steered.clone().map_or(base, |steered| steered as _);
        let is_greedy = of.choice == Choice::Greedy;
        let sampler = if is_greedy { Sampler::Greedy } else { Sampler::Categorical };
        let transforms = match of.form {
            Form::Thought => of_library(world, of, tokens, key),
            _ => chain(world, of, tokens, key, fault),
        };
        let target = Target { transforms, sampler, random: Random::new(0) };
        let limits = Limits { max_tokens: tokens, end: vec![END] };
        Self { world, of, fault, limits, prompt, model, steered, target }
    }

    /// The distribution of the generated text; several texts are concatenated.
    pub(crate) fn texts(&self) -> TextProbabilities {
        match (self.of.run, self.of.draft) {
            (Run::One, draft) => distribution(|chance| self.one(draft, chance)),
            (Run::Several, draft) => distribution(|chance| self.two(draft, chance)),
            (Run::StochasticBeams, Draft::Nobody) => {
                let (model, target, limits) = (self.model.clone(), &self.target, &self.limits);
                let draws = Draws::new(model, target, &self.prompt, limits, MOST, &|_| false).unwrap();
                draws.texts.into_iter().map(|drawn| (drawn.text.tokens, drawn.sampling_logprob.exp())).collect()
            }
            (Run::Beams, Draft::Nobody) => {
                let beams = Beams::new(MOST).unwrap().length_penalty(0.0).unwrap().early_stopping(EarlyStopping::Never);
                let (model, target, limits) = (self.model.clone(), &self.target, &self.limits);
                let found = beams.search(model, target, &self.prompt, limits, &|_| false);
                found.map_or(TextProbabilities::new(), |found| {
                    found.into_iter().map(|text| (text.tokens, text.score)).collect()
                })
            }
            (run, draft) => panic!("{run:?} with {draft:?} is not enumerated"),
        }
    }

    /// A text; if it cannot continue, the text so far and an invalid token.
    fn one(&self, draft: Draft, chance: &mut Branch) -> Vec<TokenId> {
        let (model, drafter) = match (draft, &self.steered) {
            (Draft::Expert, Some(steered)) => {
                let coupling = Coupling::Independent;
                let drafted = steered.drafted_by_expert(&self.target.transforms, self.target.sampler, coupling);
                let (model, drafter) = drafted.unwrap();
                (model, Box::new(drafter) as Box<dyn Drafter>)
            }
            _ => (self.model.clone(), self.drafter(draft) as Box<dyn Drafter>),
        };
        let (limits, length) = (self.limits.clone(), shape(draft));
        let run = Speculative::new(model, &self.target, &self.prompt, limits, drafter, length, chance).unwrap();
        run.judged_by(self.rule()).map(|token| token.unwrap_or(TokenId::MAX)).collect()
    }

    /// Two texts, with [`TokenId::MAX`] between them. If the first drafts, the second drafts too, by lookup.
    fn two(&self, draft: Draft, chance: &mut Branch) -> Vec<TokenId> {
        let (both, drawn) = (RefCell::new(chance), RefCell::default());
        let drawn = (self.fault == InjectedFault::OneChance).then_some(&drawn);
        let begun = |draft| {
            let chance = OneOfTwo { both: &both, drawn };
            let (drafter, length, rule) = (|draft| self.drafter(draft), shape, self.rule());
            let drafting = |draft| Drafting { drafter: drafter(draft), length: length(draft), rule, memory: None };
            let drafting = (draft != Draft::Nobody).then(|| drafting(draft));
            let (limits, model) = (self.limits.clone(), &self.model);
            let sequence = limits.begin(model.clone(), &self.prompt).unwrap();
            BatchedText::by_chance(&**model, &self.target, &self.prompt, limits, sequence, drafting, chance)
        };
        let other = if draft == Draft::Nobody { draft } else { Draft::Lookup };
        let mut batched = [begun(draft), begun(other)];
        let mut texts = [Vec::new(), Vec::new()];
        loop {
            let mut goes_on = Vec::new();
            for (text, tokens) in batched.iter_mut().zip(&mut texts) {
                let decided = text.decide();
                tokens.extend(std::iter::from_fn(|| text.pop()).map(|(token, _)| token));
                goes_on.extend(decided.then_some((text, Part::Write)));
            }
            if goes_on.is_empty() {
                break;
            }
            if pass_in_turn(&*self.model, &mut goes_on).unwrap().iter().any(Result::is_err) {
                let rest = batched.iter_mut().map(|text| std::iter::from_fn(|| text.pop()).map(|(token, _)| token));
                texts.iter_mut().zip(rest).for_each(|(tokens, rest)| tokens.extend(rest));
                break;
            }
        }
        let [first, second] = texts;
        [&first[..], &[TokenId::MAX], &second].concat()
    }

    fn drafter(&self, draft: Draft) -> BoxedDrafter {
        let Target { transforms, sampler, .. } = &self.target;
        let (size, coupling) = (END as usize + 1, Coupling::Independent);
        let capacity = self.prompt.len() + self.limits.max_tokens;
        let drafter: BoxedDrafter = match draft {
            Draft::Nobody => Box::new(Undrafted),
            Draft::Lookup => Box::new(Lookup::new(1).over(transforms)),
            Draft::Chain | Draft::Tree => {
                let small = self.world.drafter.model().clone();
                Box::new(DraftModel::new(small, capacity, transforms, *sampler, coupling).unwrap())
            }
            Draft::Medusa => {
                let DraftHead::Medusa(heads) = &self.world.medusa else { panic!("Medusa heads") };
                Box::new(Medusa::new(heads.clone(), size, transforms, *sampler, coupling))
            }
            Draft::Block => {
                let DraftHead::Block(head) = self.world.block.as_ref().unwrap() else { panic!("a head of blocks") };
                Box::new(BlockDrafter::new(head, capacity, size, transforms, *sampler, coupling).unwrap())
            }
            Draft::Assistant => {
                let DraftHead::Assistant(model) = self.world.assistant.as_ref().unwrap() else {
                    panic!("an assistant")
                };
                Box::new(AssistantDrafter::new(model, capacity, size, transforms, *sampler, coupling).unwrap())
            }
            Draft::Feature | Draft::LookupOr | Draft::Expert => panic!("{draft:?} does not draft here"),
        };
        match self.fault {
            InjectedFault::GuessesAsDraws => Box::new(AsDrawn(drafter)),
            _ => drafter,
        }
    }

    fn rule(&self) -> Rule {
        match self.fault {
            InjectedFault::Typical => Rule::Typical(Typical::default()),
            _ => Rule::EachToken,
        }
    }
}

/// More than the number of possible texts.
const MOST: usize = 200;

fn shape(draft: Draft) -> DraftLength {
    match draft {
        Draft::Nobody => DraftLength::Fixed(0),
        Draft::Tree | Draft::Medusa | Draft::Block | Draft::Assistant => DraftLength::Tree(TreeShape::levels(&[2, 1])),
        _ => DraftLength::Fixed(2),
    }
}

/// The steps of the library.
fn of_library(world: &World, of: Combination, tokens: usize, key: Option<&Key>) -> Chain {
    let plain = Combination { run: Run::One, draft: Draft::Nobody, ..of };
    let request = world.request(plain, key, 0).max_tokens(tokens);
    // Beams without sampling have no warpers.
    let request = if of.run == Run::Beams { request.temperature(0.0) } else { request };
    request.target().unwrap().1.transforms
}

/// The steps, in the order of [`verdigris::Request`].
fn chain(world: &World, of: Combination, tokens: usize, key: Option<&Key>, fault: InjectedFault) -> Chain {
    let mut steps = Vec::new();
    if of.choice == Choice::Penalties {
        let repetition = RepetitionPenalty::new(REPETITION).unwrap();
        let penalties = Chain::new().then(repetition).then(CountPenalty::new(PRESENCE, FREQUENCY).unwrap());
        steps.push((Step::Penalties, penalties));
    }
    if let Some(grammar) = world.grammar(of.form) {
        steps.push((Step::Form, Chain::new().then(world.base.constraint(grammar).within(tokens))));
    }
    let embed = key.map(|key| key.embed().unwrap());
    let (green, noise) = if of.mark.is_noise() { (None, embed) } else { (embed, None) };
    steps.extend(green.map(|embed| (Step::Green, Chain::new().then(embed))));
    // Beams without sampling have no warpers.
    if of.choice != Choice::Greedy && of.run != Run::Beams {
        let warpers = Chain::new().then(Temperature::new(TEMPERATURE).unwrap()).then(TopP::new(TOP_P).unwrap());
        steps.push((Step::Warpers, warpers));
    }
    if let Some(embed) = noise.map(|embed| embed.after(AFTER)) {
        let is_greedy = of.choice == Choice::Greedy;
        let embed = if is_greedy { embed.near_best(MinP::new(NEAR_BEST).unwrap()) } else { embed };
        steps.push((Step::Noise, Chain::new().then(embed)));
    }
    match fault {
        InjectedFault::Before(first, then) => {
            let place = |step| steps.iter().position(|(other, _)| *other == step);
            if let (Some(from), Some(to)) = (place(first), place(then)) {
                let moved = steps.remove(from);
                steps.insert(to, moved);
            }
        }
        InjectedFault::Without(step) => steps.retain(|(other, _)| *other != step),
        _ => (),
    }
    steps.into_iter().fold(Chain::new(), |chain, (step, own)| match fault {
        InjectedFault::Stale(stale) if stale == step => chain.then(Stale(own)),
        _ => {
            let mut chain = chain;
            chain.append(own);
            chain
        }
    })
}

/// The total variation distance of two distributions.
pub(crate) fn total_variation(a: &TextProbabilities, b: &TextProbabilities) -> f64 {
    let at = |distribution: &TextProbabilities, text: &Vec<TokenId>| distribution.get(text).copied().unwrap_or(0.0);
    let all: BTreeSet<&Vec<TokenId>> = a.keys().chain(b.keys()).collect();
    all.into_iter().map(|text| (at(a, text) - at(b, text)).abs()).sum::<f64>() / 2.0
}

/// The distribution of two independent texts.
pub(crate) fn pairs(distribution: &TextProbabilities) -> TextProbabilities {
    let pair =
        |(a, p): (&Vec<TokenId>, &f64), (b, q): (&Vec<TokenId>, &f64)| ([&a[..], &[TokenId::MAX], b].concat(), p * q);
    distribution.iter().flat_map(|first| distribution.iter().map(move |second| pair(first, second))).collect()
}

/// Whether a fault affects a combination.
pub(crate) fn concerns(fault: InjectedFault, of: Combination) -> bool {
    let has = |step| match step {
        Step::Penalties => of.choice == Choice::Penalties,
        Step::Form => of.form != Form::Free,
        Step::Green => matches!(of.mark, Mark::Hard | Mark::Soft),
        Step::Warpers => of.choice != Choice::Greedy && of.run != Run::Beams,
        Step::Noise => of.mark.is_noise(),
    };
    match fault {
        InjectedFault::Nothing => true,
        // Its steps are those of the library.
        _ if of.form == Form::Thought => false,
        InjectedFault::Before(first, then) => has(first) && has(then),
        InjectedFault::Stale(step) | InjectedFault::Without(step) => has(step),
        InjectedFault::Unsteered => of.steering != Steering::Unsteered && of.draft != Draft::Expert,
        InjectedFault::Typical => of.draft != Draft::Nobody && of.choice != Choice::Greedy,
        InjectedFault::GuessesAsDraws => of.draft == Draft::Lookup && of.choice != Choice::Greedy,
        InjectedFault::OneChance => of.run == Run::Several && of.choice != Choice::Greedy && !of.mark.is_noise(),
    }
}
