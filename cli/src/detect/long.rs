//! A text too long to be held: read once, in bounded memory, as a whole.

use std::io::{Cursor, IsTerminal, Read};
use std::process::ExitCode;

use indicatif::{ProgressBar, ProgressStyle};
use verdigris::{Judgement, Key, Reader, Verdict};

use super::{Detect, Judged, words};
use crate::error::Failure;

/// Judges a text of which `start` has been read already.
pub(super) fn detect(
    options: &Detect,
    reader: &Reader,
    keys: &[Key],
    start: Vec<u8>,
    rest: Box<dyn Read>,
    name: &str,
    size: Option<u64>,
) -> Result<ExitCode, Failure> {
    let [key] = keys else {
        let message = format!("{name} is longer than 16 MiB: such a text is judged under one key at a time");
        return Err(Failure::Usage(message));
    };
    if options.windows || options.html.is_some() || options.offsets > 1 {
        let message = format!("{name} is longer than 16 MiB: --windows, --offsets and --html need a shorter text");
        return Err(Failure::Usage(message));
    }
    let text = Cursor::new(start).chain(rest);
    let template = "{bar:40} {decimal_bytes} of {decimal_total_bytes}, {decimal_bytes_per_sec}, {eta} left";
    let style = ProgressStyle::with_template(template).expect("a valid template");
    let bar = match size.filter(|_| std::io::stderr().is_terminal()) {
        Some(size) => ProgressBar::new(size).with_style(style),
        None => ProgressBar::hidden(),
    };
    let evidence = reader.detect_repeats(key, bar.wrap_read(text), options.repeats.into());
    bar.finish_and_clear();
    let evidence = evidence.map_err(|source| Failure::Text { name: name.to_owned(), source })?;
    let judgement = Judgement::of(key, evidence);
    let verdict = evidence.verdict(options.level).map_err(verdigris::Error::from)?;
    if options.json {
        options.print_json(&Judged { name: name.to_owned(), text: String::new(), result: Ok(judgement) })?;
    } else {
        words::describe(&mut anstream::stdout(), &judgement, options.level)?;
    }
    Ok(if verdict == Verdict::Marked { ExitCode::SUCCESS } else { ExitCode::from(1) })
}
