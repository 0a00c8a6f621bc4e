//! Options that are not on an axis and cannot be combined, as data.

use verdigris::constrain::ForcedText;
use verdigris::{Beams, Error, LogprobsMode, Request, Style};

use crate::axes::{Combination, Form, Mark, PLAIN, Run, Steering};
use crate::world::{TALE, TINY};

pub(crate) struct Aside {
    pub options: [&'static str; 2],
    /// Parts of the error message: the cause and the remedy.
    pub said: [&'static str; 2],
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
        options: ["contrastive search", "beams of all kinds"],
        said: ["each has its own criterion for the best token", "ask for one of them"],
        ask: || ask(Combination { run: Run::Beams, ..PLAIN }, |request| request.penalty_alpha(0.6).top_k(4)),
    },
    Aside {
        options: ["contrastive search", "several texts, several prompts"],
        said: ["nothing is sampled, so all texts after one prompt would be the same", "ask for one at a time"],
        ask: || ask(Combination { run: Run::Several, ..PLAIN }, |request| request.penalty_alpha(0.6).top_k(4)),
    },
    Aside {
        options: ["contrastive search", "no top-k"],
        said: ["needs a top-k, the number of tokens to choose from", LEAVE],
        ask: || ask(PLAIN, |request| request.penalty_alpha(0.6)),
    },
    Aside {
        options: ["an explanation of each token", "beams of all kinds"],
        said: ["their tokens are chosen for what follows them", "leave it out"],
        ask: || ask(Combination { run: Run::Beams, ..PLAIN }, |request| request.explain()),
    },
    Aside {
        options: ["log-probabilities of the processed distribution", "beams, beam sampling"],
        said: ["hypotheses are ranked by sums that are not probabilities", "ask for the model's own"],
        ask: || {
            let request = TALE.request(PLAIN, None, 1).logprobs(1).logprobs_mode(LogprobsMode::Processed);
            request.beam_search(&Beams::new(2).expect("two")).map(drop)
        },
    },
    Aside {
        options: ["token healing", "other prompts for steering models"],
        said: ["the text begins with the end of the prompt, which they do not have", "leave out one of the two"],
        ask: || ask(Combination { steering: Steering::Guidance, ..PLAIN }, |request| request.heal()),
    },
    Aside {
        options: ["token healing", "a forced first token"],
        said: [
            "the text begins with the end of the prompt, which that token does not spell",
            "leave out one of the two",
        ],
        ask: || ask(PLAIN, |request| request.heal().forced_bos_token_id(1)),
    },
    Aside {
        options: ["mirostat", "marks of noise"],
        said: [
            "it measures the surprise of each token, and their noise leaves no surprise",
            "use a key of green lists",
        ],
        ask: || ask(Combination { mark: Mark::Gumbel, ..PLAIN }, |request| request.mirostat_tau(3.0)),
    },
    Aside {
        options: ["mirostat", "beams of all kinds, contrastive search"],
        said: ["it follows the surprise of the samples of one text", "leave it out"],
        ask: || ask(Combination { run: Run::Beams, ..PLAIN }, |request| request.mirostat_tau(3.0)),
    },
    Aside {
        options: ["a surprise after which a text is marked", "beams of all kinds, contrastive search"],
        said: ["it follows the samples of one text", "leave it out"],
        ask: || ask(Combination { mark: Mark::Hard, run: Run::Beams, ..PLAIN }, |request| request.mark_after(2.0)),
    },
    Aside {
        options: ["an entropy threshold", "marks of noise"],
        said: ["needs a key of green lists", LEAVE],
        ask: || ask(Combination { mark: Mark::Gumbel, ..PLAIN }, |request| request.entropy_threshold(0.5)),
    },
    Aside {
        options: ["an entropy threshold", "no mark"],
        said: ["needs a key of green lists", LEAVE],
        ask: || ask(PLAIN, |request| request.entropy_threshold(0.5)),
    },
    Aside {
        options: ["a payload", "no mark"],
        said: ["needs a key that carries it", LEAVE],
        ask: || ask(PLAIN, |request| request.payload(7)),
    },
    Aside {
        options: ["a payload", "a key that carries none"],
        said: ["carries no", "payload"],
        ask: || ask(Combination { mark: Mark::Soft, ..PLAIN }, |request| request.payload(7)),
    },
    Aside {
        options: ["a key", "a model of other tokens"],
        said: ["was made for a vocabulary of 4 tokens", "choose the model that goes with the key"],
        ask: || TALE.request(PLAIN, TINY.key(Mark::Soft, 1).as_ref(), 1).text().map(drop),
    },
    Aside {
        options: ["a style of JSON", "no form, regex"],
        said: ["needs a JSON schema", LEAVE],
        ask: || ask(Combination { form: Form::Regex, ..PLAIN }, |request| request.style(Style::default())),
    },
    Aside {
        options: ["a way to write forced text", "no form"],
        said: ["needs a constraint", LEAVE],
        ask: || ask(PLAIN, |request| request.forced_text(ForcedText::Canonical)),
    },
    Aside {
        options: ["a prompt for experts", "not steered"],
        said: ["needs a steered model", LEAVE],
        ask: || ask(PLAIN, |request| request.expert_prompt("Ho!")),
    },
    Aside {
        options: ["a negative prompt", "proxy-tuning"],
        said: ["needs a guidance scale other than 1", LEAVE],
        ask: || ask(Combination { steering: Steering::ProxyTuning, ..PLAIN }, |request| request.negative_prompt("Ho!")),
    },
    Aside {
        options: ["a draft model", "a model of other tokens"],
        said: ["the models have different tokenizers", "choose models with the same tokenizer"],
        ask: || TALE.request(PLAIN, None, 1).draft(&TINY.drafter).text().map(drop),
    },
    Aside {
        options: ["a draft head", "a model that it was not trained for"],
        said: ["this model has none of that size", "use the model that it was trained for"],
        ask: || TALE.request(PLAIN, None, 1).draft_head(&TINY.medusa).text().map(drop),
    },
];
