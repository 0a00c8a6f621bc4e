//! Searching for texts, as options.

use clap::{Args, ValueEnum};
use verdigris::{Beams, EarlyStopping, Error, Hypothesis, Request};

use crate::error::Failure;

/// What is searched for, and how.
#[derive(Args)]
pub(super) struct SearchOptions {
    /// Search for the most probable texts with N hypotheses side by side (beam search), and print the best of them, or
    /// as many as --texts says
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(super) beams: Option<u16>,
    /// For --beams: which hypotheses are kept
    #[arg(long, value_name = "WHICH", requires = "beams", value_enum, default_value_t)]
    beam_choice: BeamChoice,
    /// For --beams: divide a text's log-probability by its length to the power of this; above 0 longer texts gain
    #[arg(long, value_name = "P", requires = "beams", default_value_t = 1.0, allow_negative_numbers = true)]
    length_penalty: f64,
    /// For --beams: whether to stop when N texts are at their ends
    #[arg(long, value_name = "WHEN", requires = "beams", value_enum, default_value_t)]
    early_stopping: Stopping,
    /// Write what is probable and unlike what stands before it (contrastive search): the weight of likeness, 0 to 1.
    /// --top-k says how many tokens are tried; .6 and 4 are usual
    #[arg(long, value_name = "A", requires = "top_k")]
    penalty_alpha: Option<f64>,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum BeamChoice {
    /// Those with the highest scores
    #[default]
    Best,
    /// Some that are drawn without replacement, by their scores (beam sampling)
    Sampled,
    /// Those of N texts that are drawn without replacement from the law of the text (stochastic beam search)
    Stochastic,
}

#[derive(Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
enum Stopping {
    /// Not before the hypotheses are worse than these, at the length that they have
    #[default]
    False,
    /// At once
    True,
    /// Not before the hypotheses must stay worse than these, whatever follows
    Never,
}

impl From<Stopping> for EarlyStopping {
    fn from(when: Stopping) -> Self {
        match when {
            Stopping::False => Self::False,
            Stopping::True => Self::True,
            Stopping::Never => Self::Never,
        }
    }
}

impl SearchOptions {
    /// Refuses what has no meaning together.
    pub(super) fn check(&self, texts: Option<u16>, chooses_by_reward: bool) -> Result<(), Failure> {
        let Some(beams) = self.beams else { return Ok(()) };
        if chooses_by_reward {
            return Err(Failure::Usage(
                "--beams does not go with --best-of: both choose among texts, by score and by reward; ask for one of \
                 them"
                    .into(),
            ));
        }
        match texts.filter(|&texts| texts > beams) {
            Some(texts) => Err(Failure::Usage(format!(
                "{beams} hypotheses find at most {beams} texts, and --texts asks for {texts}: raise --beams"
            ))),
            None => Ok(()),
        }
    }

    pub(super) fn apply<'r>(&self, request: Request<'r>) -> Request<'r> {
        match self.penalty_alpha {
            Some(alpha) => request.penalty_alpha(alpha),
            None => request,
        }
    }

    /// The best texts that so many hypotheses find: one, or all that are drawn without replacement, unless it is said
    /// how many.
    pub(super) fn found(&self, request: Request<'_>, beams: u16, texts: Option<u16>) -> Result<Vec<Hypothesis>, Error> {
        let mut found = if self.beam_choice == BeamChoice::Stochastic {
            request.stochastic_beams(beams.into())?
        } else {
            let asked = Beams::new(beams.into())?.length_penalty(self.length_penalty)?;
            let asked = asked.early_stopping(self.early_stopping.into());
            let is_sampled = self.beam_choice == BeamChoice::Sampled;
            request.beam_search(&if is_sampled { asked.sampled() } else { asked })?
        };
        let all = if self.beam_choice == BeamChoice::Stochastic { beams } else { 1 };
        found.truncate(texts.unwrap_or(all).into());
        Ok(found)
    }
}
