//! What all documents come to.

use std::time::Duration;

use serde::Serialize;
use verdigris_detector::Level;

use crate::manifest::FORMAT;

/// Counts of documents, and the p-values that may matter.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) documents: u64,
    /// Those that have a p-value.
    pub(crate) judged: u64,
    /// Those without a text.
    pub(crate) missing: u64,
    /// Those called marked by themselves.
    pub(crate) marked: u64,
    /// The p-values at or under the share of false finds that is allowed: no other can be a find.
    small: Vec<f64>,
}

impl Tally {
    /// Counts a document by its p-value.
    pub(crate) fn judged(&mut self, p: f64, marked: bool, share: f64) {
        self.documents += 1;
        self.judged += 1;
        self.marked += u64::from(marked);
        if p <= share {
            self.small.push(p);
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.documents += other.documents;
        self.judged += other.judged;
        self.missing += other.missing;
        self.marked += other.marked;
        self.small.extend(other.small);
    }

    /// Those whose text could not be judged.
    pub(crate) fn faulty(&self) -> u64 {
        self.documents - self.judged - self.missing
    }

    /// The documents to be called marked so that the expected share of false ones among them is at most `share`, and
    /// the largest p-value of theirs: Benjamini and Hochberg, *Controlling the false discovery rate*, 1995, for
    /// independent documents.
    pub(crate) fn finds(&mut self, share: f64) -> (u64, Option<f64>) {
        self.small.sort_unstable_by(f64::total_cmp);
        let is_find = |&(place, &p): &(usize, &f64)| p <= share * (place + 1) as f64 / self.judged as f64;
        let last = self.small.iter().enumerate().rev().find(is_find);
        last.map_or((0, None), |(place, &p)| (place as u64 + 1, Some(p)))
    }
}

/// What `--json` prints of a scan, and what lies beside its parts.
#[derive(Serialize)]
pub(crate) struct Summary {
    format: &'static str,
    documents: u64,
    judged: u64,
    missing: u64,
    faulty: u64,
    fdr: f64,
    marked_at_fdr: u64,
    /// Documents with this p-value or a smaller one are those; null where there are none.
    p_at_fdr: Option<f64>,
    level: Level,
    marked_at_level: u64,
    /// Documents that an earlier run had judged.
    resumed: u64,
    /// Of this run alone.
    seconds: f64,
    documents_per_second: f64,
    megabytes_per_second: f64,
    pub(crate) unreadable: Vec<Unreadable>,
}

/// A file that could not be read to its end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Unreadable {
    pub(crate) file: String,
    /// Documents before the fault, which are judged.
    pub(crate) documents: u64,
    pub(crate) error: String,
}

/// What one run has done.
pub(crate) struct Run {
    pub(crate) resumed: u64,
    pub(crate) bytes: u64,
    pub(crate) took: Duration,
    pub(crate) unreadable: Vec<Unreadable>,
}

impl Summary {
    pub(crate) fn new(mut tally: Tally, fdr: f64, level: Level, run: Run) -> Self {
        let (marked_at_fdr, p_at_fdr) = tally.finds(fdr);
        let seconds = run.took.as_secs_f64();
        Self {
            format: FORMAT,
            documents: tally.documents,
            judged: tally.judged,
            missing: tally.missing,
            faulty: tally.faulty(),
            fdr,
            marked_at_fdr,
            p_at_fdr,
            level,
            marked_at_level: tally.marked,
            resumed: run.resumed,
            seconds,
            documents_per_second: (tally.documents - run.resumed) as f64 / seconds,
            megabytes_per_second: run.bytes as f64 / 1e6 / seconds,
            unreadable: run.unreadable,
        }
    }

    pub(crate) fn json(&self) -> String {
        serde_json::to_string(self).expect("a summary serialises")
    }

    /// As people read it.
    pub(crate) fn words(&self) -> String {
        let mut lines = vec![format!(
            "{} documents: {} judged, {} without a text, {} faulty",
            self.documents, self.judged, self.missing, self.faulty
        )];
        lines.push(match self.p_at_fdr {
            Some(p) => format!(
                "{} marked (p at most {p:.1e}), of which a share of at most {} is false on average",
                self.marked_at_fdr, self.fdr
            ),
            None => format!("none marked, where a share of at most {} may be false", self.fdr),
        });
        lines.push(format!("{} marked at the level {}, each for itself", self.marked_at_level, self.level));
        if self.resumed > 0 {
            lines.push(format!("{} of the documents were there from before", self.resumed));
        }
        lines.push(format!(
            "{:.1} s, {:.0} documents and {:.2} MB of text a second",
            self.seconds, self.documents_per_second, self.megabytes_per_second
        ));
        lines.join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ps: &[f64], share: f64) -> Tally {
        let mut tally = Tally::default();
        ps.iter().for_each(|&p| tally.judged(p, false, share));
        tally
    }

    /// The table of section 3 of Benjamini and Hochberg: four of fifteen hypotheses at a share of .05.
    #[test]
    fn finds_are_those_of_the_paper() {
        let ps = [
            0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459, 0.3240, 0.4262, 0.5719, 0.6528,
            0.7590, 1.0000,
        ];
        let mut backwards = ps;
        backwards.reverse();
        for ps in [ps, backwards] {
            assert_eq!(of(&ps, 0.05).finds(0.05), (4, Some(0.0095)));
        }
        assert_eq!(of(&[0.5, 0.9], 0.05).finds(0.05), (0, None));
        assert_eq!(of(&[], 0.05).finds(0.05), (0, None));
    }

    #[test]
    fn parts_add_up() {
        let mut whole = of(&[0.001, 0.2], 0.05);
        let mut other = of(&[0.002, 0.9], 0.05);
        other.documents += 2;
        other.missing += 1;
        whole.add(other);
        assert_eq!((whole.documents, whole.judged, whole.missing, whole.faulty()), (6, 4, 1, 1));
        assert_eq!(whole.finds(0.05), (2, Some(0.002)));
    }
}
