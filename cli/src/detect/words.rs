//! Prints results for a terminal.

use std::io::Write;

use anstyle::AnsiColor;
use verdigris::{Evidence, Judgement, Level, MarkedPassage, Outcome};

use super::counts::Counts;
use super::judged_text::JudgedText;
use crate::error::Failure;
use crate::report;
use crate::terminal::{NARROW, shown_line, style, width, wrap};

/// The columns before the name in a table, and before the values for one text.
const TABLE: usize = 50;
const LABEL: usize = 10;

/// The note on marks that anyone can write.
pub(crate) const PUBLIC: &str = "this key is public: anyone can have written the mark";

/// A verdict as a phrase; `None` is an error.
pub(super) fn outcome(outcome: Option<Outcome>) -> &'static str {
    outcome.map_or("error", Outcome::name)
}

/// Prints everything about one text.
pub(super) fn describe(out: &mut impl Write, judgement: &Judgement<'_>, hint: Option<&str>) -> Result<(), Failure> {
    let (outcome, level, width) = (judgement.outcome(), judgement.level, width());
    let mut row = |label: &str, what: &str| writeln!(out, "{label:<LABEL$}{}", wrap(what, width, LABEL));
    let evidence = &judgement.evidence;
    row("tokens", &evidence.tokens.to_string())?;
    row("scored", &format!("{}{}", evidence.scored, sampled(evidence)))?;
    row(if evidence.colours { "green" } else { "score" }, &report::score(evidence))?;
    if evidence.z.is_finite() {
        row("z", &format!("{:.2}", evidence.z))?;
    }
    row("p", &format!("{}{}", report::p_value(evidence.ln_p_corrected()), looks(evidence)))?;
    if let Some(expected) = judgement.expected {
        let p = report::p_value(expected.ln_p);
        row("could be", &format!("z {:.2}, p {p}: about what a marked text like this would score", expected.z))?;
    }
    if !judgement.repairs.is_empty() {
        row("repaired", &report::repairs(&judgement.repairs))?;
    }
    if judgement.skipped > 0 {
        row("skipped", &format!("{} bytes at the beginning", judgement.skipped))?;
    }
    if let Some(manifests) = manifests(judgement) {
        row("left out", &manifests)?;
    }
    if let Some(read) = judgement.payload {
        let (payload, doubt) = (read.payload, report::doubt(read.doubt));
        row("payload", &format!("{payload:#x} (if there is one, this one is wrong with probability {doubt})"))?;
    }
    for passage in &judgement.passages {
        row("passage", &self::passage(passage))?;
    }
    let (style, verdict) = match outcome {
        Outcome::Marked | Outcome::MarkedInPart => (style(AnsiColor::Green).bold(), outcome.name()),
        Outcome::Forged => (style(AnsiColor::Red).bold(), outcome.name()),
        Outcome::TooShort => (anstyle::Style::new().bold(), "too short to decide"),
        _ => (anstyle::Style::new().bold(), outcome.name()),
    };
    let whose = match outcome {
        Outcome::MarkedInPart => keys_of_passages(judgement).join(", "),
        _ => judgement.key.id().to_owned(),
    };
    let whose = shown_line(&whose);
    writeln!(out, "{:<LABEL$}{style}{verdict}{style:#} ({whose}, level {level})", "verdict")?;
    if outcome.is_marked() && judgement.key.is_public() {
        writeln!(out, "{:<LABEL$}{}", "note", wrap(PUBLIC, width, LABEL))?;
    }
    if outcome == Outcome::Forged {
        let words = format!(
            "the same tokens have the marks of {} variants of the key, and its holder uses one for each text: this one \
             was forged with marks that were learned from other texts",
            judgement.variants
        );
        writeln!(out, "{:<LABEL$}{}", "reason", wrap(&words, width, LABEL))?;
    }
    if let Some(hint) = hint {
        writeln!(out, "{:<LABEL$}{}", "hint", wrap(hint, width, LABEL))?;
    }
    Ok(())
}

/// The length of the manifests in the text, which are not marked.
fn manifests(judgement: &Judgement<'_>) -> Option<String> {
    let bytes: usize = judgement.manifests.iter().map(std::ops::Range::len).sum();
    let what = if judgement.manifests.len() == 1 { "a C2PA manifest" } else { "C2PA manifests" };
    (bytes > 0).then(|| format!("{bytes} bytes of {what}"))
}

/// A passage with its key.
pub(super) fn passage(passage: &MarkedPassage<'_>) -> String {
    let MarkedPassage { key, range, z, ln_p, repairs, .. } = passage;
    let repaired = if repairs.is_empty() { "" } else { ", repaired" };
    let (p, key) = (report::p_value(*ln_p), shown_line(key.id()));
    format!("bytes {} to {}: z {z:.2}, p {p} ({key}{repaired})", range.start, range.end)
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

pub(super) fn header(out: &mut impl Write) -> Result<(), Failure> {
    if is_narrow() {
        return Ok(());
    }
    let dim = anstyle::Style::new().dimmed();
    Ok(writeln!(out, "{dim}{:>8}{:>8}{:>9}{:>11}  {:<11} text{dim:#}", "tokens", "scored", "z", "p", "verdict")?)
}

fn is_narrow() -> bool {
    width().is_some_and(|width| width < NARROW)
}

/// Prints one of many texts: as a row of a table, or on two lines if the terminal is too narrow.
pub(super) fn line(out: &mut impl Write, judged: &JudgedText<'_>) -> Result<(), Failure> {
    let outcome = judged.outcome();
    let style = match outcome {
        Some(Outcome::Marked | Outcome::MarkedInPart) => style(AnsiColor::Green).bold(),
        None => style(AnsiColor::Red).bold(),
        _ => anstyle::Style::new(),
    };
    // The number of passages after the name says that it is only a part.
    let verdict = match outcome {
        Some(Outcome::MarkedInPart) => "in part",
        outcome => self::outcome(outcome),
    };
    let name = shown_line(&judged.name);
    let (figures, text) = match &judged.result {
        Err(fault) => (None, format!("{name}: {}", shown_line(&fault.to_string()))),
        Ok(judgement) => {
            let passages = match judgement.passages.len() {
                0 => String::new(),
                1 => " (1 passage)".into(),
                n => format!(" ({n} passages)"),
            };
            let Evidence { tokens, scored, z, .. } = judgement.evidence;
            let p = report::p_value(judgement.evidence.ln_p_corrected());
            (Some((tokens, scored, z, p)), format!("{name}{passages}"))
        }
    };
    let width = width();
    if is_narrow() {
        let line = wrap(&format!("{verdict} {text}"), width, 2);
        writeln!(out, "{style}{verdict}{style:#}{}", line.strip_prefix(verdict).unwrap_or(&line))?;
        if let Some((tokens, scored, z, p)) = figures {
            writeln!(out, "  {}", wrap(&format!("tokens {tokens}, scored {scored}, z {z:.2}, p {p}"), width, 2))?;
        }
        return Ok(());
    }
    let text = wrap(&text, width, TABLE);
    match figures {
        None => write!(out, "{:>36}", "")?,
        Some((tokens, scored, z, p)) => write!(out, "{tokens:>8}{scored:>8}{z:>9.2}{p:>11}")?,
    }
    Ok(writeln!(out, "  {style}{verdict:<11}{style:#} {text}")?)
}

/// Prints the totals over all texts.
pub(super) fn summary(out: &mut impl Write, counts: &Counts, level: Level, hint: Option<&str>) -> Result<(), Failure> {
    let &Counts { marked, not, short, forged, faulty, .. } = counts;
    let (texts, width) = (counts.texts(), width());
    let s = if texts == 1 { "" } else { "s" };
    let forgeries = if forged > 0 { format!("{forged} forged, ") } else { String::new() };
    let line = format!("{texts} text{s}: {marked} marked, {forgeries}{not} not, {short} too short, {faulty} faulty");
    writeln!(out, "\n{}", wrap(&line, width, 0))?;
    let judged = marked + forged + not;
    if judged > 0 {
        let alarms = level.value() * judged as f64;
        let line = match alarms < 1.0 {
            true => format!(
                "at level {level}: if none of these {judged} were marked, about 1 run in {:.0} would give a false alarm",
                1.0 / alarms
            ),
            false => {
                format!(
                    "at level {level}: if none of these {judged} were marked, about {alarms:.0} would be false alarms"
                )
            }
        };
        writeln!(out, "{}", wrap(&line, width, 0))?;
    }
    if let Some(hint) = hint {
        writeln!(out, "{}", wrap(&format!("hint: {hint}"), width, 0))?;
    }
    Ok(())
}
