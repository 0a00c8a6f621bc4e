//! `verdigris demo`: shows marking and detection on one screen.

use std::io::Write;
use std::ops::Range;
use std::process::ExitCode;

use anstyle::Style;
use clap::Args;
use verdigris::logits::random::philox4x32;
use verdigris::{Device, Engine, Evidence, Key, Level, Mark, Marking, Outcome};

use crate::error::Failure;
use crate::model::ModelOption;
use crate::number::whole;
use crate::report;
use crate::terminal;

/// Jane Austen, *Pride and Prejudice* (1813), chapter 1.
const HUMAN: &str = "It is a truth universally acknowledged, that a single man in possession of a good fortune, must \
    be in want of a wife. However little known the feelings or views of such a man may be on his first entering a \
    neighbourhood, this truth is so well fixed in the minds of the surrounding families, that he is considered as the \
    rightful property of some one or other of their daughters.\n\n\"My dear Mr. Bennet,\" said his lady to him one \
    day, \"have you heard that Netherfield Park is let at last?\"\n\nMr. Bennet replied that he had not.\n\n\"But it \
    is,\" returned she; \"for Mrs. Long has just been here, and she told me all about it.\"\n\nMr. Bennet made no \
    answer.\n\n\"Do not you want to know who has taken it?\" cried his wife impatiently.\n\n\"You want to tell me, and \
    I have no objection to hearing it.\"\n\nThis was invitation enough.";

/// The widest line, and the narrowest terminal that lines are made for.
const WIDEST: usize = 96;
const NARROWEST: usize = 30;

/// The least number of columns for a table. Narrower terminals get a line or two for each text.
const TABLE: usize = 88;

/// Show how it works: a key, marked text, unmarked text, and the detector's verdicts
#[derive(Args)]
pub(crate) struct Demo {
    #[command(flatten)]
    model: ModelOption,
    /// The seed of the story and of the key
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = whole::<u64>)]
    seed: u64,
    /// Tokens of each text
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = whole::<usize>)]
    tokens: usize,
}

impl Demo {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let width = terminal::width().unwrap_or(WIDEST).clamp(NARROWEST, WIDEST);
        let (mut out, colours) = (anstream::stdout(), terminal::colours(anstream::ColorChoice::Auto));
        let engine = self.model.engine(None, &Device::Cpu)?;
        let key = demo_key(&engine, self.seed, 0, "demo");
        let other = demo_key(&engine, self.seed, 1, "another key");
        let request = || engine.request("").max_tokens(self.tokens).through_end().seed(self.seed);
        let (marked, plain) = (request().watermark(&key).text()?, request().text()?);

        let (no, bold, dim) = (Style::new(), Style::new().bold(), Style::new().dimmed());
        let (green, red) = {
            let colour = |green| report::mark_style(Mark::Counted { green, score: 0.0 });
            (colour(true), colour(false))
        };
        let made = format!(" made for this demo: {}", key.describe());
        wrapped(&mut out, width, &[(bold, "A key"), (no, &made)])?;
        let before = "For each token, the key colours a quarter of the vocabulary green, here ";
        let seen = if colours { "blue and bold" } else { "in brackets" };
        wrapped(&mut out, width, &[(no, before), (green, seen), (no, ", and the writer prefers them.")])?;
        let mut rows = Vec::new();
        for (title, written) in [("Marked", &marked), ("Not marked", &plain)] {
            writeln!(out)?;
            let count = format!(", {} tokens, as the key sees them", written.tokens.len());
            wrapped(&mut out, width, &[(bold, title), (no, &count)])?;
            rows.push(seen_by(&key, &mut out, width, &engine, &written.text, colours)?);
        }
        let judge = |key: &Key, text: &str| engine.reader().detect(key, text.as_bytes());
        writeln!(out)?;
        match colours {
            true => {
                let faint = "; faint: not counted, since its context repeats or is missing";
                wrapped(&mut out, width, &[(green, "green tokens"), (no, " and "), (red, "the others"), (dim, faint)])?;
            }
            false => wrapped(&mut out, width, &[(no, "[green tokens] that count, and all others")])?,
        }
        writeln!(out)?;
        wrapped(&mut out, width, &[(bold, "What the detector says"), (no, ", from the text and the key alone")])?;
        writeln!(out)?;
        if width >= TABLE {
            writeln!(out, "  {dim}{:<36}{:>7}{:>9}{:>9}{:>11}   verdict{dim:#}", "text", "scored", "green", "z", "p")?;
        }
        for (name, evidence) in [
            ("marked", rows[0]),
            ("marked, read with another key", judge(&other, &marked.text)?),
            ("not marked", rows[1]),
            ("Jane Austen, Pride and Prejudice", judge(&key, HUMAN)?),
        ] {
            row(&mut out, width, name, &evidence)?;
        }
        writeln!(out)?;
        let p = "p: how often a text written without the key would look this green.";
        wrapped(&mut out, width, &[(dim, p)])?;
        out.flush()?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(out: &mut impl Write, width: usize, name: &str, evidence: &Evidence) -> Result<(), Failure> {
    let marked = evidence.is_marked(Level::DEFAULT).map_err(verdigris::Error::from)?;
    let style = report::verdict_style(marked);
    let share = format!("{:.0} %", 100.0 * evidence.score / evidence.scored as f64);
    let p = report::p_value(evidence.ln_p);
    let verdict = if marked { Outcome::Marked } else { Outcome::NotMarked }.name();
    let Evidence { scored, z, .. } = evidence;
    match width >= TABLE {
        true => writeln!(out, "  {name:<36}{scored:>7}{share:>9}{z:>9.2}{p:>11}   {style}{verdict}{style:#}")?,
        false => {
            let numbers = format!("; {scored} scored, {share} green, z {z:.2}, p {p}");
            wrapped(out, width, &[(Style::new(), name)])?;
            wrapped(out, width, &[(Style::new(), "  "), (style, verdict), (Style::new(), &numbers)])?;
        }
    }
    Ok(())
}

/// A key for demonstration only: the seed gives away the secret.
fn demo_key(engine: &Engine, seed: u64, index: u32, id: &str) -> Key {
    Key::from_secret(secret(seed, index), id, Marking::lists(), engine.reader().vocabulary()).expect("a short id")
}

/// Derives 32 bytes from a seed.
pub(crate) fn secret(seed: u64, index: u32) -> [u8; 32] {
    let mut secret = [0; 32];
    for (block, part) in secret.chunks_mut(16).enumerate() {
        let words = philox4x32([block as u32, index, 0, 0], [seed as u32, (seed >> 32) as u32]);
        part.iter_mut().zip(words.iter().flat_map(|word| word.to_le_bytes())).for_each(|(to, from)| *to = from);
    }
    secret
}

/// Prints a text in the colours that a key gives its tokens, or with the green ones in brackets.
fn seen_by(
    key: &Key,
    out: &mut impl Write,
    width: usize,
    engine: &Engine,
    text: &str,
    colours: bool,
) -> Result<Evidence, Failure> {
    let (mut characters, mut read) = (report::Characters::default(), String::new());
    let mut tokens: Vec<(Range<usize>, Mark)> = Vec::new();
    let evidence = engine.reader().detect_marked(key, text.trim().as_bytes(), |bytes, mark| {
        let start = read.len();
        read += &characters.push(bytes);
        tokens.push((start..read.len(), mark));
    })?;
    if colours {
        let piece = |(range, mark): &(Range<usize>, Mark)| (report::mark_style(*mark), &read[range.clone()]);
        wrapped(out, width, &tokens.iter().map(piece).collect::<Vec<_>>())?;
    } else {
        let mut bracketed = Vec::new();
        report::marked(&mut bracketed, &read, &tokens, false)?;
        wrapped(out, width, &[(Style::new(), &String::from_utf8_lossy(&bracketed))])?;
    }
    Ok(evidence)
}

/// Prints styled pieces of text, wrapped between words, and a line end. A word may span pieces.
fn wrapped(out: &mut impl Write, width: usize, pieces: &[(Style, &str)]) -> std::io::Result<()> {
    // Parts of words, each with the white space before it.
    let mut parts: Vec<(Style, &str)> = Vec::new();
    for &(style, text) in pieces {
        let mut rest = text;
        while !rest.is_empty() {
            let word = rest.find(|c: char| !c.is_whitespace()).unwrap_or(rest.len());
            let end = rest[word..].find(char::is_whitespace).map_or(rest.len(), |length| word + length);
            parts.push((style, &rest[..end]));
            rest = &rest[end..];
        }
    }
    let length = |text: &str| text.chars().count();
    let mut column = 0;
    for (i, &(style, part)) in parts.iter().enumerate() {
        let follows =
            parts[i + 1..].iter().map_while(|(_, next)| (!next.starts_with(char::is_whitespace)).then_some(next));
        let word = length(part) + follows.map(|next| length(next)).sum::<usize>();
        let mut part = part;
        if part.starts_with(' ') && !part.contains('\n') && column > 0 && column + word > width {
            writeln!(out)?;
            (column, part) = (0, part.trim_start());
        }
        let shown = terminal::shown(part);
        write!(out, "{style}{shown}{style:#}")?;
        column = match shown.rsplit_once('\n') {
            Some((_, last)) => length(last),
            None => column + length(&shown),
        };
    }
    writeln!(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_between_words() {
        let (no, bold) = (Style::new(), Style::new().bold());
        let pieces =
            [(no, "A wo"), (bold, "rd, and"), (no, " an"), (no, "other one;\n\n  then"), (bold, " the end of it.")];
        let text: String = pieces.iter().map(|(_, text)| *text).collect();
        for width in 8..60 {
            let mut out = anstream::StripStream::new(Vec::new());
            wrapped(&mut out, width, &pieces).unwrap();
            let shown = String::from_utf8(out.into_inner()).unwrap();
            assert!(shown.lines().all(|line| line.chars().count() <= width), "{width}: {shown}");
            let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
            assert_eq!(words(&shown), words(&text), "{width}: {shown}");
        }
    }
}
