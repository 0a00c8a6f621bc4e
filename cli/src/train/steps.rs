//! The options that all training has in common.

use clap::Args;
use verdigris_train::Steps;

use crate::number::whole;

/// The number and the size of steps.
#[derive(Args)]
pub(super) struct StepOptions {
    /// Maximum number of steps, 1 or more
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = whole::<u64>)]
    steps: u64,
    /// Maximum number of minutes, above 0; the learning rate falls to its final value by then
    #[arg(long, value_name = "M")]
    max_minutes: Option<f64>,
    /// The highest learning rate, above 0
    #[arg(long, value_name = "RATE", default_value_t = 1e-3)]
    learning_rate: f64,
    /// Steps over which the learning rate rises to it, 0 or more
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = whole::<u64>)]
    warm_up: u64,
    /// Weight decay of matrices, 0 to 1
    #[arg(long, value_name = "W", default_value_t = 0.1)]
    weight_decay: f64,
    /// The largest norm of gradients, above 0; larger ones are clipped
    #[arg(long, value_name = "NORM", default_value_t = 1.0)]
    clip: f64,
    /// The seed of everything random
    #[arg(short, long, value_name = "N", default_value_t = 1, value_parser = whole::<u64>)]
    seed: u64,
    /// Minutes between checkpoints, above 0
    #[arg(long, value_name = "M", default_value_t = 5.0)]
    checkpoint_minutes: f64,
    /// Steps between measurements on held-out text, 1 or more
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = whole::<u64>)]
    heldout_every: u64,
}

impl StepOptions {
    pub(super) fn steps(&self) -> Steps {
        Steps {
            count: self.steps,
            max_minutes: self.max_minutes,
            learning_rate: self.learning_rate,
            warm_up: self.warm_up,
            weight_decay: self.weight_decay,
            max_norm: self.clip,
            seed: self.seed,
            checkpoint_minutes: self.checkpoint_minutes,
            heldout_every: self.heldout_every,
        }
    }
}
