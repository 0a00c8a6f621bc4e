//! The values of the options of `guide`.

use std::sync::Arc;

use verdigris_decoding::{ScoreKind, Scorer};

use crate::classes::Classes;
use crate::reward::Reward;

/// A judge, its weight, and the number of tokens that it scores.
#[derive(Clone)]
pub(super) struct Guidance<'a> {
    pub(super) by: Judge<'a>,
    pub(super) weight: f64,
    pub(super) top_k: usize,
}

/// What judges.
#[derive(Clone)]
pub(super) enum Judge<'a> {
    Reward(&'a Reward, ScoreKind),
    Classes(&'a Classes<'a>),
    Own(Arc<dyn Scorer>),
}
