//! Options for searches.

use clap::{Args, ValueEnum};
use verdigris::{Beams, EarlyStopping, Error, Hypothesis, Request};

use crate::choice::{Choice, OneOf};
use crate::error::Failure;

/// The kind of search, and its parameters.
#[derive(Args)]
pub(super) struct SearchOptions {
    /// Search for the most probable texts with N hypotheses (beam search), and print the best one, or the number of
    /// --texts
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) beams: Option<u16>,
    /// For --beams: the hypotheses that are kept
    #[arg(long, value_name = "WHICH", requires = "beams", value_enum, default_value_t)]
    beam_choice: BeamChoice,
    /// For --beams: divide a text's log-probability by its length to the power of P; above 0 favours longer texts
    #[arg(long, value_name = "P", requires = "beams", default_value_t = 1.0, allow_negative_numbers = true)]
    length_penalty: f64,
    /// For --beams: whether to stop when N texts are complete
    #[arg(long, value_name = "WHEN", requires = "beams", value_parser = OneOf(STOPPING), default_value = "false")]
    early_stopping: EarlyStopping,
    /// Write what is probable and unlike the preceding text (contrastive search): the weight of the similarity, 0 to 1.
    /// --top-k is the number of candidates; .6 and 4 are usual
    #[arg(long, value_name = "A", requires = "top_k")]
    penalty_alpha: Option<f64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum BeamChoice {
    /// Those with the highest scores
    #[default]
    Best,
    /// Some sampled without replacement, by their scores (beam sampling)
    Sampled,
    /// Those of N texts sampled without replacement from the distribution of texts (stochastic beam search)
    Stochastic,
}

const STOPPING: &[Choice<EarlyStopping>] = &[
    ("false", EarlyStopping::False, "Not before the hypotheses are worse than these, at their current length"),
    ("true", EarlyStopping::True, "Immediately"),
    ("never", EarlyStopping::Never, "Not before the hypotheses can no longer become better than these"),
];

impl SearchOptions {
    /// Refuses options that exclude each other.
    pub(super) fn check(&self, texts: Option<u16>, chooses_by_reward: bool) -> Result<(), Failure> {
        let Some(beams) = self.beams else { return Ok(()) };
        if chooses_by_reward {
            return Err(Failure::Usage(
                "--beams does not go with --best-of: both choose among texts, by score and by reward; give one of \
                 them"
                    .into(),
            ));
        }
        match texts.filter(|&texts| texts > beams) {
            Some(texts) => Err(Failure::Usage(format!(
                "{beams} hypotheses find at most {beams} texts, but --texts asks for {texts}: raise --beams"
            ))),
            None => Ok(()),
        }
    }

    /// Whether all texts are printed, unless their number is given.
    pub(super) fn writes_all(&self) -> bool {
        self.beams.is_some_and(|beams| beams > 1) && self.beam_choice == BeamChoice::Stochastic
    }

    pub(super) fn apply<'r>(&self, request: Request<'r>) -> Request<'r> {
        match self.penalty_alpha {
            Some(alpha) => request.penalty_alpha(alpha),
            None => request,
        }
    }

    /// The best texts that `beams` hypotheses find: `texts` of them, or by default one, or all of stochastic beams.
    pub(super) fn found(&self, request: Request<'_>, beams: u16, texts: Option<u16>) -> Result<Vec<Hypothesis>, Error> {
        let mut found = if self.beam_choice == BeamChoice::Stochastic {
            request.stochastic_beams(beams.into())?
        } else {
            let asked = Beams::new(beams.into())?.length_penalty(self.length_penalty)?;
            let asked = asked.early_stopping(self.early_stopping);
            let is_sampled = self.beam_choice == BeamChoice::Sampled;
            request.beam_search(&if is_sampled { asked.sampled() } else { asked })?
        };
        let all = if self.beam_choice == BeamChoice::Stochastic { beams } else { 1 };
        found.truncate(texts.unwrap_or(all).into());
        Ok(found)
    }
}
