//! The origins of tokens.

/// The origin of a written token.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Provenance {
    /// Computed by a call of the model.
    #[default]
    Computed,
    /// Computed by a call of the model, instead of a draft that was rejected.
    Corrected,
    /// An accepted draft.
    Drafted {
        /// The drafter's [way](crate::drafter::Drafter::ways) of drafting that produced it.
        way: u8,
    },
    /// Decided without a call: a transform allowed no other token.
    Decided,
}
