//! Options that are not on an axis and cannot be combined, as data.

use verdigris::constrain::ForcedText;
use verdigris::{Beams, Error, LogprobsMode, Request, Style};

use crate::axes::{Combination, Form, Mark, PLAIN, Run, Steering};
use crate::world::{TALE, TINY};

pub(crate) struct Aside {
    pub what: &'static str,
    pub with: &'static str,
    /// Parts of the error message: the cause and the remedy.
    pub cause: &'static str,
    pub cure: &'static str,
    pub ask: fn() -> Result<(), Error>,
}

/// Requests a text of `tale` with more options.
fn ask(of: Combination, more: impl FnOnce(Request<'_>) -> Request<'_>) -> Result<(), Error> {
    let key = TALE.key(of.mark, 1);
    TALE.write(more(TALE.request(of, key.as_ref(), 1)), of.run).map(drop)
}

const LEAVE: &str = "ask for that too, or leave it out";

pub(crate) const ASIDE: &[Aside] = &[
    Aside {
        what: "contrastive search",
        with: "beams of all kinds",
        cause: "each has its own criterion for the best token",
        cure: "ask for one of them",
        ask: || ask(Combination { run: Run::Beams, ..PLAIN }, |request| request.penalty_alpha(0.6).top_k(4)),
    },
    Aside {
        what: "contrastive search",
        with: "several texts, several prompts",
        cause: "nothing is sampled, so all texts after one prompt would be the same",
        cure: "ask for one at a time",
        ask: || ask(Combination { run: Run::Several, ..PLAIN }, |request| request.penalty_alpha(0.6).top_k(4)),
    },
    Aside {
        what: "contrastive search",
        with: "no top-k",
        cause: "needs a top-k, the number of tokens to choose from",
        cure: LEAVE,
        ask: || ask(PLAIN, |request| request.penalty_alpha(0.6)),
    },
    Aside {
        what: "an explanation of each token",
        with: "beams of all kinds",
        cause: "their tokens are chosen for what follows them",
        cure: "leave it out",
        ask: || ask(Combination { run: Run::Beams, ..PLAIN }, |request| request.explain()),
    },
    Aside {
        what: "log-probabilities of the processed law",
        with: "beams, beam sampling",
        cause: "hypotheses are ranked by sums that are not probabilities",
        cure: "ask for the model's own",
        ask: || {
            let request = TALE.request(PLAIN, None, 1).logprobs(1).logprobs_mode(LogprobsMode::Processed);
            request.beam_search(&Beams::new(2).expect("two")).map(drop)
        },
    },
    Aside {
        what: "mirostat",
        with: "marks of noise",
        cause: "it measures the surprise of each token, and their noise leaves no surprise",
        cure: "use a key of green lists",
        ask: || ask(Combination { mark: Mark::Gumbel, ..PLAIN }, |request| request.mirostat_tau(3.0)),
    },
    Aside {
        what: "mirostat",
        with: "beams of all kinds, contrastive search",
        cause: "it follows the surprise of the samples of one text",
        cure: "leave it out",
        ask: || ask(Combination { run: Run::Beams, ..PLAIN }, |request| request.mirostat_tau(3.0)),
    },
    Aside {
        what: "an entropy threshold",
        with: "marks of noise",
        cause: "needs a key of green lists",
        cure: LEAVE,
        ask: || ask(Combination { mark: Mark::Gumbel, ..PLAIN }, |request| request.entropy_threshold(0.5)),
    },
    Aside {
        what: "an entropy threshold",
        with: "no mark",
        cause: "needs a key of green lists",
        cure: LEAVE,
        ask: || ask(PLAIN, |request| request.entropy_threshold(0.5)),
    },
    Aside {
        what: "a payload",
        with: "no mark",
        cause: "needs a key that carries it",
        cure: LEAVE,
        ask: || ask(PLAIN, |request| request.payload(7)),
    },
    Aside {
        what: "a payload",
        with: "a key that carries none",
        cause: "carries no",
        cure: "payload",
        ask: || ask(Combination { mark: Mark::Soft, ..PLAIN }, |request| request.payload(7)),
    },
    Aside {
        what: "a key",
        with: "a model of other tokens",
        cause: "was made for a vocabulary of 4 tokens",
        cure: "choose the model that goes with the key",
        ask: || TALE.request(PLAIN, TINY.key(Mark::Soft, 1).as_ref(), 1).text().map(drop),
    },
    Aside {
        what: "a style of JSON",
        with: "no form, regex",
        cause: "needs a JSON schema",
        cure: LEAVE,
        ask: || ask(Combination { form: Form::Regex, ..PLAIN }, |request| request.style(Style::default())),
    },
    Aside {
        what: "a way to write forced text",
        with: "no form",
        cause: "needs a constraint",
        cure: LEAVE,
        ask: || ask(PLAIN, |request| request.forced_text(ForcedText::Canonical)),
    },
    Aside {
        what: "a prompt for experts",
        with: "not steered",
        cause: "needs a steered model",
        cure: LEAVE,
        ask: || ask(PLAIN, |request| request.expert_prompt("Ho!")),
    },
    Aside {
        what: "a negative prompt",
        with: "proxy-tuning",
        cause: "needs a guidance scale other than 1",
        cure: LEAVE,
        ask: || ask(Combination { steering: Steering::ProxyTuning, ..PLAIN }, |request| request.negative_prompt("Ho!")),
    },
    Aside {
        what: "a draft model",
        with: "a model of other tokens",
        cause: "the models have different tokenizers",
        cure: "choose models with the same tokenizer",
        ask: || TALE.request(PLAIN, None, 1).draft(&TINY.drafter).text().map(drop),
    },
    Aside {
        what: "a draft head",
        with: "a model that it was not trained for",
        cause: "this model has none of that size",
        cure: "use the model that it was trained for",
        ask: || TALE.request(PLAIN, None, 1).draft_head(&TINY.medusa).text().map(drop),
    },
];
