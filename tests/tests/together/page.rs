//! Writes `docs/together.md` from the data of the tests, with `VERDIGRIS_UPDATE=1`; otherwise checks it.

use std::fmt::Write;
use std::path::Path;

use crate::axes::{Choice, Combination, Draft, Form, Mark, Promise, REFUSALS, Run, Steering, all, alone, ways};
use crate::refused::ASIDE;
use crate::world::TALE;
use crate::{ENUMERATED, FAULTS, OF_GEMMA, WRITTEN, allowed, everything, some_of, tiny};

impl Promise {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "text",
            Self::Distribution => "distribution",
            Self::Best => "best",
            Self::Refused => "no",
        }
    }
}

/// A row of a table.
fn row(page: &mut String, cells: impl IntoIterator<Item = impl AsRef<str>>) {
    cells.into_iter().for_each(|cell| write!(page, "| {} ", cell.as_ref()).unwrap());
    page.push_str("|\n");
}

fn table(head: &[&str], rows: impl IntoIterator<Item = Vec<String>>) -> String {
    let mut page = String::new();
    row(&mut page, head);
    row(&mut page, head.iter().map(|_| "---"));
    rows.into_iter().for_each(|cells| row(&mut page, cells));
    page.replace("| --- ", "|---")
}

fn name_of((run, draft): (Run, Draft)) -> String {
    match (run, draft) {
        (_, Draft::Nobody) => run.name().to_owned(),
        (Run::One, _) => draft.name().to_owned(),
        _ => format!("{}, {}", run.name(), draft.name()),
    }
}

fn runs_and_drafts() -> String {
    let cell = |way| alone(way).promise().name().to_owned();
    let head: Vec<&str> = [""].into_iter().chain(Draft::ALL.iter().map(|draft| draft.name())).collect();
    let cells = |run: Run| Draft::ALL.iter().map(move |&draft| cell((run, draft)));
    table(&head, Run::ALL.iter().map(|&run| [run.name().to_owned()].into_iter().chain(cells(run)).collect()))
}

/// A value of an axis, applied to a combination.
type Value = (&'static str, Box<dyn Fn(Combination) -> Combination>);

fn values() -> Vec<Value> {
    let mut all: Vec<Value> = Vec::new();
    for &form in &Form::ALL[1..] {
        all.push((form.name(), Box::new(move |of| Combination { form, ..of })));
    }
    for &mark in &Mark::ALL[1..] {
        all.push((mark.name(), Box::new(move |of| Combination { mark, ..of })));
    }
    for &steering in &Steering::ALL[1..] {
        all.push((steering.name(), Box::new(move |of| Combination { steering, ..of })));
    }
    for &choice in Choice::ALL {
        all.push((choice.name(), Box::new(move |of| Combination { choice, ..of })));
    }
    all
}

fn ways_and_values() -> String {
    let values = values();
    let head: Vec<&str> = [""].into_iter().chain(values.iter().map(|(name, _)| *name)).collect();
    let cells = |way| {
        let cells = values.iter().map(|(_, with)| with(alone(way)).promise().name().to_owned());
        [name_of(way)].into_iter().chain(cells).collect()
    };
    table(&head, WRITTEN.iter().map(|&way| cells(way)))
}

fn refusals() -> String {
    let of_axes = REFUSALS.iter().map(|refusal| {
        let only = |of: &Combination| of.refusals().map(|other| other.said).eq([refusal.said]);
        let of = all(&ways()).into_iter().find(only).unwrap();
        let key = TALE.key(of.mark, 1);
        let error = TALE.write(TALE.request(of, key.as_ref(), 1), of.run).unwrap_err();
        (refusal.options, error)
    });
    let aside = ASIDE.iter().map(|aside| (aside.options, (aside.ask)().unwrap_err()));
    let rows = of_axes.chain(aside).map(|([what, with], error)| vec![what.into(), with.into(), error.to_string()]);
    table(&["what", "with", "error"], rows)
}

fn page() -> String {
    let (enumerated, enumerated_too) = (allowed(ENUMERATED).len(), some_of(ENUMERATED).len());
    let of_gemma = allowed(OF_GEMMA).len();
    let (all_of, some_of_each) = (tiny(allowed(WRITTEN)).len(), tiny(some_of(WRITTEN)).len());
    let (some, at_once) = (some_of(WRITTEN).len(), everything(WRITTEN).len());
    let refused = all(WRITTEN).len() - allowed(WRITTEN).len();
    format!(
        "# What goes together

Written by a test from its data: `VERDIGRIS_UPDATE=1 cargo test --release --test together`.

| | what is promised |
|---|---|
| text | the text of decoding one token per call with the same seed, token for token |
| distribution | a text of the same distribution; with `Request::repeatable` (`--repeatable`) that very text |
| best | the best of the texts that the search has seen, by scores of the same distribution |
| no | an error with the cause and the remedy |

Texts match the requested constraint unless a stop string cuts them, and marks are found by their key if a text is long
enough.

## Ways of generating, with drafters

{}
At temperature 0 all drafters give the text itself.

## Ways of generating, with constraints, marks, steering, and how tokens are chosen

{}
Constraints, marks, steering and choices all go with each other. A combination is refused only if
two of its options cannot be combined.

## What is refused

{}
## How this is known

`tests/tests/together` has the axes as data, and a function for each promise.

- {enumerated} combinations are run with every branch of their code, on a model of four tokens. The distribution of
  whole texts is that of plain decoding, with a total variation below 1e-12, and that is the one of a second
  implementation, which knows a constraint by the list of all its texts and a mark by what a detector reads. Beams
  find all texts with their scores.
- That model is dense. {enumerated_too} combinations, in which each way of generating meets every two of the rest, are
  enumerated in the same way on two more models of four tokens: a mixture of experts, with a dense draft model, and a
  hybrid of a gated delta net and attention, whose expert and draft model are hybrids too. {of_gemma} are enumerated on a
  fourth one, a Gemma 4 with an assistant.
- {} faults in the combination of steps are detected: steps in another order, states that do not advance, drafts that
  are verified without a constraint, a mark, penalties or steering, typical acceptance, guesses that pass for samples,
  and one chance for two texts.
- Over the keys of a mark of noise the distribution is the one without a mark.
- The library runs {all_of} combinations on the dense model and {some_of_each} on each of the others ({of_gemma} on the last one), and its
  probabilities of each token (`Request::logprobs`) are compared with those of the second implementation. It runs
  {some} on `tale-small`, in which each way of generating
  meets every two of the rest and all of the rest meet each other, and {at_once} on `tale`, with everything at once in
  every way. Constraints are checked by other validators, texts are compared token for token, and marks are found by
  the detector, with their key and with no other.
- {refused} combinations are refused, each with the cause and the remedy of the list.
",
        runs_and_drafts(),
        ways_and_values(),
        refusals(),
        FAULTS.len(),
    )
}

#[test]
fn the_page_is_what_is_tested() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/together.md");
    let page = page();
    if std::env::var_os("VERDIGRIS_UPDATE").is_some() {
        std::fs::write(&path, page).unwrap();
        return;
    }
    let kept = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    for (number, (kept, written)) in kept.lines().zip(page.lines()).enumerate() {
        assert_eq!(written, kept, "line {} of {}", number + 1, path.display());
    }
    assert_eq!(page.lines().count(), kept.lines().count(), "lines of {}", path.display());
}
