//! Top-k: the `k` most probable tokens.

use crate::Row;
use crate::row::descending;
use crate::steps::Step;
use crate::warp::{OutOfRange, check, stateless};

/// Keeps the `k` tokens with the largest logits. Ties with the last of them are kept too.
#[doc(alias = "TopKLogitsWarper")]
#[doc(alias = "top_k")]
#[derive(Clone, Copy, Debug)]
pub struct TopK(usize);

impl TopK {
    /// `k` tokens, at least 1.
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(k: usize) -> Result<Self, OutOfRange> {
        check("top-k", k as f64, k >= 1, "at least 1")?;
        Ok(Self(k))
    }
}

stateless!(TopK, |warper, row| {
    if warper.0 < row.len() {
        row.top_k(warper.0);
    }
});

impl Row {
    pub(crate) fn top_k(&mut self, k: usize) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::TopK(k));
        }
        let (least, _) = self.reached_by(k);
        let bound = self.with_those_from(least, |order, logits| {
            (k <= order.len()).then(|| {
                let (_, &mut kth, _) = order.select_nth_unstable_by(k - 1, |&a, &b| descending(logits, a, b));
                logits[kth as usize]
            })
        });
        if let Some(bound) = bound {
            self.forbid_below(bound.into());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::warp::tests::{NO, apply};

    #[test]
    fn ties_are_kept() {
        assert_eq!(apply(TopK::new(2).unwrap(), &[1.0, 3.0, 2.0, 2.0, NO]), [NO, 3.0, 2.0, 2.0, NO]);
        assert_eq!(apply(TopK::new(9).unwrap(), &[1.0, NO]), [1.0, NO]);
    }
}
