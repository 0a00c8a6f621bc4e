//! Sums of the statistics of models' loops.

use verdigris::schedule::Statistics;

/// The totals of the loops of several models, of which some were released.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Totals(Statistics);

impl Totals {
    /// Adds the totals of a loop.
    pub(crate) fn add(&mut self, other: &Statistics) {
        let (sum, more) = (&mut self.0, &other.counts);
        sum.counts.asked_tokens += more.asked_tokens;
        sum.counts.shared_tokens += more.shared_tokens;
        sum.counts.preempted += more.preempted;
        sum.passes += other.passes;
        sum.read += other.read;
        sum.restored += other.restored;
        sum.written += other.written;
        sum.drafted += other.drafted;
        sum.accepted += other.accepted;
    }

    /// The totals with the current numbers of texts and pages of some loops.
    pub(crate) fn with_current(mut self, now: impl Iterator<Item = Statistics>) -> Statistics {
        for Statistics { counts, page_tokens, .. } in now {
            let sum = &mut self.0.counts;
            sum.running += counts.running;
            sum.waiting += counts.waiting;
            sum.pages_used += counts.pages_used;
            sum.pages_kept += counts.pages_kept;
            sum.pages += counts.pages;
            self.0.page_tokens = page_tokens;
        }
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_outlive_models_and_counts_do_not() {
        let mut statistics = Statistics { passes: 3, read: 5, ..Statistics::default() };
        (statistics.counts.running, statistics.counts.preempted) = (2, 1);
        let mut totals = Totals::default();
        totals.add(&statistics);
        let now = totals.with_current(std::iter::empty());
        assert_eq!((now.passes, now.read, now.counts.preempted, now.counts.running), (3, 5, 1, 0));
        totals.add(&statistics);
        let now = totals.with_current([statistics].into_iter());
        assert_eq!((now.passes, now.read, now.counts.preempted, now.counts.running), (6, 10, 2, 2));
    }
}
