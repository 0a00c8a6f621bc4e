//! `verdigris demo`: the whole story in one screen.

use std::io::Write;
use std::process::ExitCode;

use anstyle::Style;
use clap::Args;
use verdigris::logits::random::philox4x32;
use verdigris::{Device, Engine, Evidence, Key, Mark, Marking};

use crate::error::Failure;
use crate::model::ModelOption;
use crate::report;

/// Jane Austen, *Pride and Prejudice* (1813), chapter 1.
const HUMAN: &str = "It is a truth universally acknowledged, that a single man in possession of a good fortune, must be in want of a wife. However little known the feelings or views of such a man may be on his first entering a neighbourhood, this truth is so well fixed in the minds of the surrounding families, that he is considered as the rightful property of some one or other of their daughters.\n\n\"My dear Mr. Bennet,\" said his lady to him one day, \"have you heard that Netherfield Park is let at last?\"\n\nMr. Bennet replied that he had not.\n\n\"But it is,\" returned she; \"for Mrs. Long has just been here, and she told me all about it.\"\n\nMr. Bennet made no answer.\n\n\"Do not you want to know who has taken it?\" cried his wife impatiently.\n\n\"You want to tell me, and I have no objection to hearing it.\"\n\nThis was invitation enough.";

/// The widest line.
const COLUMNS: usize = 96;

/// See it work: a key, marked text, unmarked text, and what the detector makes of them
#[derive(Args)]
pub(crate) struct Demo {
    #[command(flatten)]
    model: ModelOption,
    /// Another story with another key
    #[arg(long, value_name = "N", default_value_t = 2)]
    seed: u64,
    /// Tokens of each text
    #[arg(long, value_name = "N", default_value_t = 200)]
    tokens: usize,
}

impl Demo {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        let mut out = anstream::stdout();
        let engine = self.model.engine(&Device::Cpu)?;
        let key = demo_key(&engine, self.seed, 0, "demo");
        let other = demo_key(&engine, self.seed, 1, "another key");
        let request =
            || engine.request("").max_tokens(self.tokens).through_end().temperature(0.8).top_p(0.95).seed(self.seed);
        let marked = request().watermark(&key).text()?.text;
        let plain = request().text()?.text;

        let bold = Style::new().bold();
        let dim = Style::new().dimmed();
        let (green, red) = {
            let colour = |green| report::mark_style(Mark::Counted { green, score: 0.0 });
            (colour(true), colour(false))
        };
        writeln!(out, "{bold}A key{bold:#} that is made for this screen: {}", key.describe())?;
        writeln!(
            out,
            "After each few tokens the key calls a quarter of all tokens {green}green{green:#}, and the writer prefers them.\n"
        )?;
        let mut rows = Vec::new();
        for (title, text) in [("Marked", &marked), ("Not marked", &plain)] {
            writeln!(out, "{bold}{title}{bold:#}, {} tokens, as the key sees them", self.tokens)?;
            rows.push(colored(&mut out, &engine, &key, text)?);
            writeln!(out, "\n")?;
        }
        let judge = |key: &Key, text: &str| engine.reader().detect(key, text.as_bytes());
        writeln!(
            out,
            "{green}green{green:#} and {red}red{red:#}{dim}; faint: not counted, since its context repeats or is missing{dim:#}\n"
        )?;
        writeln!(out, "{bold}What the detector says{bold:#}, from the text and the key alone\n")?;
        writeln!(out, "  {dim}{:<36}{:>7}{:>9}{:>9}{:>11}   verdict{dim:#}", "text", "scored", "green", "z", "p")?;
        for (name, evidence) in [
            ("marked", rows[0]),
            ("marked, read with another key", judge(&other, &marked)?),
            ("not marked", rows[1]),
            ("Jane Austen, Pride and Prejudice", judge(&key, HUMAN)?),
        ] {
            row(&mut out, name, &evidence)?;
        }
        writeln!(out, "\n{dim}p: how often a text that knows nothing of the key would look so green.{dim:#}")?;
        Ok(ExitCode::SUCCESS)
    }
}

fn row(out: &mut impl Write, name: &str, evidence: &Evidence) -> Result<(), Failure> {
    let verdict = evidence.verdict(verdigris::watermark::DEFAULT_LEVEL).map_err(verdigris::Error::from)?;
    let style = report::verdict_style(verdict);
    let share = format!("{:.0} %", 100.0 * evidence.score / evidence.scored as f64);
    let p = report::p_value(evidence.ln_p);
    let verdict = report::verdict(verdict);
    Ok(writeln!(
        out,
        "  {name:<36}{:>7}{share:>9}{:>9.2}{p:>11}   {style}{verdict}{style:#}",
        evidence.scored, evidence.z
    )?)
}

/// A key for show: whoever knows the seed knows the secret.
fn demo_key(engine: &Engine, seed: u64, index: u32, id: &str) -> Key {
    Key::from_secret(secret(seed, index), id, Marking::default(), engine.reader().vocabulary())
}

/// 32 bytes that a seed gives.
pub(crate) fn secret(seed: u64, index: u32) -> [u8; 32] {
    let mut secret = [0; 32];
    for (block, part) in secret.chunks_mut(16).enumerate() {
        let words = philox4x32([block as u32, index, 0, 0], [seed as u32, (seed >> 32) as u32]);
        part.iter_mut().zip(words.iter().flat_map(|word| word.to_le_bytes())).for_each(|(to, from)| *to = from);
    }
    secret
}

/// Prints a text in the colours of its tokens, wrapped at words.
fn colored(out: &mut impl Write, engine: &Engine, key: &Key, text: &str) -> Result<Evidence, Failure> {
    let mut characters = report::Characters::default();
    let mut pieces: Vec<(Style, String)> = Vec::new();
    let evidence = engine.reader().detect_marked(key, text.trim().as_bytes(), |bytes, mark| {
        pieces.push((report::mark_style(mark), characters.push(bytes)));
    })?;
    let mut column = 0;
    for i in 0..pieces.len() {
        let (style, text) = &pieces[i];
        for (at, line) in text.split('\n').enumerate() {
            if at > 0 {
                writeln!(out)?;
                column = 0;
            }
            // A word may go on in the tokens after this one.
            let word: usize = line.chars().count()
                + pieces[i + 1..]
                    .iter()
                    .map_while(|(_, next)| (!next.starts_with([' ', '\n'])).then(|| next.chars().count()))
                    .sum::<usize>();
            let mut line = line;
            if line.starts_with(' ') && column + word > COLUMNS {
                writeln!(out)?;
                (column, line) = (0, &line[1..]);
            }
            write!(out, "{style}{line}{style:#}")?;
            column += line.chars().count();
        }
    }
    Ok(evidence)
}
