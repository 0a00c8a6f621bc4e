//! Totals of all documents.

use std::time::Duration;

use serde::Serialize;
use verdigris_detector::Level;

use crate::manifest::FORMAT;

/// Numbers of documents, and the p-values of possible finds.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(crate) documents: u64,
    /// Documents that have a p-value.
    pub(crate) judged: u64,
    /// Documents without a text.
    pub(crate) missing: u64,
    /// Documents with C2PA manifests in their text.
    pub(crate) with_manifests: u64,
    /// Documents called marked at the level of a single document.
    pub(crate) marked: u64,
    /// The p-values at or below the allowed share of false finds: only these can be finds.
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
        self.with_manifests += other.with_manifests;
        self.marked += other.marked;
        self.small.extend(other.small);
    }

    /// Documents whose text could not be judged.
    pub(crate) fn faulty(&self) -> u64 {
        self.documents - self.judged - self.missing
    }

    /// Returns the number of documents to call marked, so that the expected share of false finds among them is at most
    /// `share`, and the largest p-value among them: Benjamini and Hochberg, *Controlling the false discovery rate*,
    /// 1995, for independent documents.
    pub(crate) fn finds(&mut self, share: f64) -> (u64, Option<f64>) {
        self.small.sort_unstable_by(f64::total_cmp);
        let is_find = |&(place, &p): &(usize, &f64)| p <= share * (place + 1) as f64 / self.judged as f64;
        let last = self.small.iter().enumerate().rev().find(is_find);
        last.map_or((0, None), |(place, &p)| (place as u64 + 1, Some(p)))
    }
}

/// The summary of a scan, printed by `--json` and saved next to the parts.
#[derive(Serialize)]
pub(crate) struct Summary {
    format: &'static str,
    documents: u64,
    judged: u64,
    missing: u64,
    faulty: u64,
    /// Documents with C2PA manifests in their text, which are not verified.
    with_manifests: u64,
    fdr: f64,
    marked_at_fdr: u64,
    /// The documents with at most this p-value are the marked ones; null if there are none.
    p_at_fdr: Option<f64>,
    level: Level,
    marked_at_level: u64,
    /// Documents that an earlier run judged.
    resumed: u64,
    /// The duration of this run; the two rates also refer to this run only.
    seconds: f64,
    documents_per_second: f64,
    megabytes_per_second: f64,
    pub(crate) unreadable: Vec<Unreadable>,
}

/// A file that could not be read to its end.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Unreadable {
    pub(crate) file: String,
    /// The number of documents before the error, which were judged.
    pub(crate) documents: u64,
    pub(crate) error: String,
}

/// Figures of one run.
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
            with_manifests: tally.with_manifests,
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

    /// Formats the summary for people.
    pub(crate) fn words(&self) -> String {
        let mut lines = vec![format!(
            "{} documents: {} judged, {} without a text, {} faulty",
            self.documents, self.judged, self.missing, self.faulty
        )];
        lines.push(match self.p_at_fdr {
            Some(p) => format!(
                "{} marked (p at most {p:.1e}), with an expected share of false finds of at most {}",
                self.marked_at_fdr, self.fdr
            ),
            None => format!("none marked, with an expected share of false finds of at most {}", self.fdr),
        });
        lines.push(format!("{} marked at the level {}, each tested alone", self.marked_at_level, self.level));
        if self.with_manifests > 0 {
            lines.push(format!("{} with C2PA manifests, which are not verified here", self.with_manifests));
        }
        if self.resumed > 0 {
            lines.push(format!("{} of the documents were judged by an earlier run", self.resumed));
        }
        lines.push(format!(
            "{:.1} s, {:.0} documents and {:.2} MB of text per second",
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
