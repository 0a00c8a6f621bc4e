//! The contract of a step on a row of logits, and chains of such steps.

use std::any::Any;
use std::sync::Arc;

use crate::{Row, TokenId};

/// A pure step on one row of logits.
///
/// # Contract
/// - `apply` depends only on the state and the row. Two calls with equal arguments give equal rows, bit for bit; `self`
///   keeps no history. So a token tree can fork the state at every branch.
/// - `start(prompt)` equals `start(&[])` followed by `advance` over the prompt, unless a step treats prompt and output
///   differently; such a step says so.
/// - `apply` and `advance` do not allocate once the row's scratch space has grown to its vocabulary, except for states
///   that grow with the text, and for steps that call external code.
/// - A step never makes a forbidden token (`-inf`) possible again.
#[doc(alias = "LogitsProcessor")]
#[doc(alias = "LogitsWarper")]
pub trait Transform {
    /// The step's memory of the tokens so far. It is forked at every branch of a token tree, so it should be small.
    type State: Clone + Send + 'static;

    /// The state after a prompt.
    fn start(&self, prompt: &[TokenId]) -> Self::State;

    /// Changes the row of the next token.
    fn apply(&self, state: &Self::State, row: &mut Row);

    /// Adds a token to the state. A step that tracks the probabilities of tokens counts it as certain.
    fn advance(&self, state: &mut Self::State, token: TokenId);

    /// As [`Transform::advance`], for a token that was chosen from `_row`, as all steps have left it. A step whose
    /// state depends on the probabilities of tokens uses the row; all others need not.
    fn advance_from(&self, state: &mut Self::State, _row: &Row, token: TokenId) {
        self.advance(state, token);
    }

    /// The only token that `apply` allows, if it does so whatever the row is: the row of such a token need not be
    /// computed. `None` if there is a choice, or if it is not known.
    #[doc(alias = "forced")]
    #[doc(alias = "fast-forward")]
    #[doc(alias = "ff_tokens")]
    fn decided(&self, _state: &Self::State) -> Option<TokenId> {
        None
    }
}

/// A step that several chains share.
impl<T: Transform> Transform for Arc<T> {
    type State = T::State;

    fn start(&self, prompt: &[TokenId]) -> T::State {
        T::start(self, prompt)
    }

    fn apply(&self, state: &T::State, row: &mut Row) {
        T::apply(self, state, row);
    }

    fn advance(&self, state: &mut T::State, token: TokenId) {
        T::advance(self, state, token);
    }

    fn advance_from(&self, state: &mut T::State, row: &Row, token: TokenId) {
        T::advance_from(self, state, row, token);
    }

    fn decided(&self, state: &T::State) -> Option<TokenId> {
        T::decided(self, state)
    }
}

/// A sequence of steps; itself a [`Transform`]. Clones share the steps.
#[doc(alias = "LogitsProcessorList")]
#[derive(Clone, Default)]
pub struct Chain {
    links: Vec<Link>,
}

/// A step of a chain.
#[derive(Clone)]
struct Link {
    /// The name of the step; empty if it has none.
    name: &'static str,
    step: Arc<dyn ErasedTransform>,
}

/// The states of a chain's steps, in order.
#[derive(Clone)]
pub struct ChainState(Vec<Box<dyn ErasedState>>);

impl Chain {
    /// A chain without steps, which leaves every row unchanged.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a step at the end.
    #[must_use]
    pub fn then<T: Transform + Send + Sync + 'static>(mut self, step: T) -> Self {
        self.push(step);
        self
    }

    /// Adds a step at the end.
    pub fn push<T: Transform + Send + Sync + 'static>(&mut self, step: T) {
        self.push_named("", step);
    }

    /// Adds a step at the end, with a name for reports of what each step did.
    pub fn push_named<T: Transform + Send + Sync + 'static>(&mut self, name: &'static str, step: T) {
        self.links.push(Link { name, step: Arc::new(step) });
    }

    /// The names of the steps, in order; empty for steps without one.
    pub fn names(&self) -> impl ExactSizeIterator<Item = &'static str> {
        self.links.iter().map(|link| link.name)
    }

    /// As [`Transform::apply`], and calls `each` with the index of each step and the row after it.
    pub fn apply_each(&self, state: &ChainState, row: &mut Row, mut each: impl FnMut(usize, &mut Row)) {
        for (i, (link, state)) in self.links.iter().zip(&state.0).enumerate() {
            link.step.apply_erased(&**state, row);
            each(i, row);
        }
    }

    /// As [`Transform::decided`], with the index of the step that decides.
    pub fn decided_by(&self, state: &ChainState) -> Option<(usize, TokenId)> {
        let mut links = self.links.iter().zip(&state.0).enumerate();
        links.find_map(|(i, (link, state))| Some((i, link.step.decided_erased(&**state)?)))
    }

    /// Adds all steps of another chain at the end.
    pub fn append(&mut self, other: Self) {
        self.links.extend(other.links);
    }
}

impl Transform for Chain {
    type State = ChainState;

    fn start(&self, prompt: &[TokenId]) -> ChainState {
        ChainState(self.links.iter().map(|link| link.step.start_erased(prompt)).collect())
    }

    fn apply(&self, state: &ChainState, row: &mut Row) {
        for (link, state) in self.links.iter().zip(&state.0) {
            link.step.apply_erased(&**state, row);
        }
    }

    fn advance(&self, state: &mut ChainState, token: TokenId) {
        for (link, state) in self.links.iter().zip(&mut state.0) {
            link.step.advance_erased(&mut **state, token);
        }
    }

    fn advance_from(&self, state: &mut ChainState, row: &Row, token: TokenId) {
        for (link, state) in self.links.iter().zip(&mut state.0) {
            link.step.advance_from_erased(&mut **state, row, token);
        }
    }

    /// The token that one of the steps decides; another step may forbid it.
    fn decided(&self, state: &ChainState) -> Option<TokenId> {
        self.decided_by(state).map(|(_, token)| token)
    }
}

/// A [`Transform`] whose state type is erased, so that a chain can hold steps of different kinds.
trait ErasedTransform: Send + Sync {
    fn start_erased(&self, prompt: &[TokenId]) -> Box<dyn ErasedState>;
    fn apply_erased(&self, state: &dyn ErasedState, row: &mut Row);
    fn advance_erased(&self, state: &mut dyn ErasedState, token: TokenId);
    fn advance_from_erased(&self, state: &mut dyn ErasedState, row: &Row, token: TokenId);
    fn decided_erased(&self, state: &dyn ErasedState) -> Option<TokenId>;
}

impl<T: Transform + Send + Sync> ErasedTransform for T {
    fn start_erased(&self, prompt: &[TokenId]) -> Box<dyn ErasedState> {
        Box::new(Transform::start(self, prompt))
    }

    fn apply_erased(&self, state: &dyn ErasedState, row: &mut Row) {
        Transform::apply(self, own(state), row);
    }

    fn advance_erased(&self, state: &mut dyn ErasedState, token: TokenId) {
        Transform::advance(self, own_mut(state), token);
    }

    fn advance_from_erased(&self, state: &mut dyn ErasedState, row: &Row, token: TokenId) {
        Transform::advance_from(self, own_mut(state), row, token);
    }

    fn decided_erased(&self, state: &dyn ErasedState) -> Option<TokenId> {
        Transform::decided(self, own(state))
    }
}

/// The state of a step, which a chain pairs with it.
fn own<S: 'static>(state: &dyn ErasedState) -> &S {
    (state as &dyn Any).downcast_ref().expect("a chain pairs each step with its own state")
}

fn own_mut<S: 'static>(state: &mut dyn ErasedState) -> &mut S {
    (state as &mut dyn Any).downcast_mut().expect("a chain pairs each step with its own state")
}

trait ErasedState: Any + Send {
    fn fork(&self) -> Box<dyn ErasedState>;
}

impl<S: Clone + Send + 'static> ErasedState for S {
    fn fork(&self) -> Box<dyn ErasedState> {
        Box::new(self.clone())
    }
}

impl Clone for Box<dyn ErasedState> {
    fn clone(&self) -> Self {
        (**self).fork()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Forbids the token just seen.
    struct NoRepeat;
    impl Transform for NoRepeat {
        type State = Option<TokenId>;
        fn start(&self, prompt: &[TokenId]) -> Self::State {
            prompt.last().copied()
        }
        fn apply(&self, state: &Self::State, row: &mut Row) {
            if let Some(t) = *state {
                row.logits_mut()[t as usize] = f32::NEG_INFINITY;
            }
        }
        fn advance(&self, state: &mut Self::State, token: TokenId) {
            *state = Some(token);
        }
    }

    struct Double;
    impl Transform for Double {
        type State = ();
        fn start(&self, _: &[TokenId]) {}
        fn apply(&self, _: &(), row: &mut Row) {
            row.logits_mut().iter_mut().for_each(|z| *z *= 2.0);
        }
        fn advance(&self, _: &mut (), _: TokenId) {}
    }

    #[test]
    fn a_chain_applies_in_order_and_its_state_forks() {
        let chain = Chain::new().then(NoRepeat).then(Double);
        let trunk = chain.start(&[1]);
        let mut branch = trunk.clone();
        chain.advance(&mut branch, 2);
        let apply = |state: &ChainState| {
            let mut row = Row::from(vec![1.0, 2.0, 3.0]);
            chain.apply(state, &mut row);
            row.logits().to_vec()
        };
        assert_eq!(apply(&trunk), [2.0, f32::NEG_INFINITY, 6.0]);
        assert_eq!(apply(&branch), [2.0, 4.0, f32::NEG_INFINITY]);
        assert_eq!(apply(&trunk), [2.0, f32::NEG_INFINITY, 6.0], "the branch must not touch the trunk");
    }

    #[test]
    fn steps_are_seen_one_by_one_under_their_names() {
        struct Only(TokenId);
        impl Transform for Only {
            type State = ();
            fn start(&self, _: &[TokenId]) {}
            fn apply(&self, _: &(), _: &mut Row) {}
            fn advance(&self, _: &mut (), _: TokenId) {}
            fn decided(&self, _: &()) -> Option<TokenId> {
                Some(self.0)
            }
        }
        let mut chain = Chain::new().then(Double);
        let mut more = Chain::new();
        more.push_named("no_repeat", NoRepeat);
        more.push_named("only", Only(7));
        chain.append(more);
        assert_eq!(chain.names().collect::<Vec<_>>(), ["", "no_repeat", "only"]);
        let (state, mut row, mut seen) = (chain.start(&[1]), Row::from(vec![1.0, 2.0]), Vec::new());
        chain.apply_each(&state, &mut row, |i, row| seen.push((i, row.logits().to_vec())));
        let no = f32::NEG_INFINITY;
        assert_eq!(seen, [(0, vec![2.0, 4.0]), (1, vec![2.0, no]), (2, vec![2.0, no])]);
        assert_eq!((chain.decided_by(&state), chain.decided(&state)), (Some((2, 7)), Some(7)));
    }

    #[test]
    fn a_chain_nests_in_a_chain_or_goes_on_with_its_steps() {
        let mut chain = Chain::new().then(Chain::new().then(Double));
        chain.append(Chain::new().then(Double));
        let mut row = Row::from(vec![1.0]);
        chain.apply(&chain.start(&[]), &mut row);
        assert_eq!(row.logits(), [4.0]);
    }
}
