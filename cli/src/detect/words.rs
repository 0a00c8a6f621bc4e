//! What was found, for a terminal.

use std::io::Write;

use anstyle::AnsiColor;
use verdigris::watermark::normalize::Repair;
use verdigris::{Evidence, Judgement, MarkedPassage};

use super::{Judged, Outcome};
use crate::error::Failure;
use crate::report;

/// A verdict as a phrase.
pub(super) fn outcome(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Marked => "marked",
        Outcome::NotMarked => "not marked",
        Outcome::TooShort => "too short",
        Outcome::Faulty => "error",
    }
}

/// Everything about one text.
pub(super) fn describe(out: &mut impl Write, judgement: &Judgement<'_>, level: f64) -> Result<(), Failure> {
    let evidence = &judgement.evidence;
    writeln!(out, "tokens    {}", evidence.tokens)?;
    writeln!(out, "scored    {}{}", evidence.scored, sampled(evidence))?;
    let label = if evidence.colours { "green " } else { "score " };
    writeln!(out, "{label}    {}", report::score(evidence))?;
    if evidence.z.is_finite() {
        writeln!(out, "z         {:.2}", evidence.z)?;
    }
    writeln!(out, "p         {}{}", report::p_value(evidence.ln_p_corrected()), looks(evidence))?;
    if !judgement.repairs.is_empty() {
        writeln!(out, "repaired  {}", repairs(&judgement.repairs))?;
    }
    if judgement.skipped > 0 {
        writeln!(out, "skipped   {} bytes at the beginning", judgement.skipped)?;
    }
    if let Some(read) = judgement.payload {
        writeln!(
            out,
            "payload   {:#x} (if there is one, another was written with probability {})",
            read.payload,
            crate::payload::doubt(read.doubt)
        )?;
    }
    for passage in &judgement.passages {
        writeln!(out, "passage   {}", self::passage(passage))?;
    }
    let whole = evidence.verdict(level);
    let (style, verdict) = match whole {
        Ok(verdict) if judgement.passages.is_empty() => (report::verdict_style(verdict), report::verdict(verdict)),
        _ if judgement.passages.is_empty() => (anstyle::Style::new().bold(), "too short to decide"),
        Ok(verdigris::Verdict::Marked) => (report::style(AnsiColor::Green).bold(), "marked"),
        _ => (report::style(AnsiColor::Green).bold(), "marked in part"),
    };
    let whose = match whole {
        Ok(verdigris::Verdict::Marked) => judgement.key.id().to_owned(),
        _ if judgement.passages.is_empty() => judgement.key.id().to_owned(),
        _ => keys_of_passages(judgement).join(", "),
    };
    writeln!(out, "verdict   {style}{verdict}{style:#} ({whose}, level {level})")?;
    Ok(())
}

/// A passage with its key.
pub(super) fn passage(passage: &MarkedPassage<'_>) -> String {
    let MarkedPassage { key, range, z, ln_p, repairs, .. } = passage;
    let repaired = if repairs.is_empty() { "" } else { ", repaired" };
    let p = report::p_value(*ln_p);
    format!("bytes {} to {}: z {z:.2}, p {p} ({}{repaired})", range.start, range.end, key.id())
}

/// The ids of the keys that passages are marked with, each once, in the order of the passages.
pub(super) fn keys_of_passages<'k>(judgement: &Judgement<'k>) -> Vec<&'k str> {
    let mut ids = Vec::new();
    for passage in &judgement.passages {
        if !ids.contains(&passage.key.id()) {
            ids.push(passage.key.id());
        }
    }
    ids
}

fn sampled(evidence: &Evidence) -> String {
    if evidence.sampled < 1.0 {
        format!(" (a sample of 1 in {} distinct ones)", 1.0 / evidence.sampled)
    } else {
        String::new()
    }
}

fn looks(evidence: &Evidence) -> String {
    if evidence.tried > 1.0 {
        format!(" ({} times {} looks)", report::p_value(evidence.ln_p), evidence.tried)
    } else {
        String::new()
    }
}

/// `3 invisible, 1 homoglyph`.
pub(super) fn repairs(repairs: &[(Repair, usize)]) -> String {
    let name = |repair: &Repair| match repair {
        Repair::Invisible => "invisible characters",
        Repair::Homoglyph => "look-alike letters",
        Repair::Decorative => "decorative letters",
        Repair::Space => "odd spaces",
        Repair::Composition => "decomposed letters",
        Repair::LineEnd => "carriage returns",
    };
    let parts: Vec<String> = repairs.iter().map(|(repair, count)| format!("{count} {}", name(repair))).collect();
    parts.join(", ")
}

pub(super) fn header(out: &mut impl Write) -> Result<(), Failure> {
    let dim = anstyle::Style::new().dimmed();
    Ok(writeln!(out, "{dim}{:>8}{:>8}{:>9}{:>11}  {:<11} text{dim:#}", "tokens", "scored", "z", "p", "verdict")?)
}

/// One of many texts.
pub(super) fn line(out: &mut impl Write, judged: &Judged<'_>, outcome: Outcome) -> Result<(), Failure> {
    let style = match outcome {
        Outcome::Marked => report::style(AnsiColor::Green).bold(),
        Outcome::Faulty => report::style(AnsiColor::Red).bold(),
        _ => anstyle::Style::new(),
    };
    let verdict = self::outcome(outcome);
    let name = &judged.name;
    match &judged.result {
        Err(fault) => {
            writeln!(out, "{:>8}{:>8}{:>9}{:>11}  {style}{verdict:<11}{style:#} {name}: {fault}", "", "", "", "")?
        }
        Ok(judgement) => {
            let Evidence { tokens, scored, z, .. } = judgement.evidence;
            let p = report::p_value(judgement.evidence.ln_p_corrected());
            write!(out, "{tokens:>8}{scored:>8}{z:>9.2}{p:>11}  {style}{verdict:<11}{style:#} {name}")?;
            match judgement.passages.len() {
                0 => writeln!(out)?,
                1 => writeln!(out, " (1 passage)")?,
                n => writeln!(out, " ({n} passages)")?,
            }
        }
    }
    Ok(())
}

pub(super) fn summary(out: &mut impl Write, counts: [u64; 4], level: f64) -> Result<(), Failure> {
    let [marked, not, short, faulty] = counts;
    let texts = marked + not + short + faulty;
    writeln!(out, "\n{texts} texts: {marked} marked, {not} not, {short} too short, {faulty} faulty")?;
    let alarms = level * (marked + not) as f64;
    Ok(writeln!(out, "at level {level} that many unmarked texts have {alarms:.1e} false alarms on average")?)
}
