//! How tokens are drawn, as options.

use clap::Args;
use verdigris::Request;

use crate::number::whole;

#[derive(Args)]
pub(crate) struct SamplingOptions {
    /// Above 1 for more surprise, below for less; 0 takes the most probable token every time
    #[arg(long, value_name = "T", default_value_t = Request::TEMPERATURE)]
    temperature: f64,
    /// Draw from the K most probable tokens, 1 or more
    #[arg(long, value_name = "K", value_parser = whole::<usize>)]
    top_k: Option<usize>,
    /// Draw from the most probable tokens that together have this probability: above 0, and 1 is all
    #[arg(long, value_name = "P", default_value_t = Request::TOP_P)]
    top_p: f64,
    /// Draw from the tokens with at least this share of the best token's probability, 0 to 1
    #[arg(long, value_name = "P")]
    min_p: Option<f64>,
    /// Divide the logits of tokens that came before by this (or multiply, below 0): 0.01 to 100, and 1 is none
    #[arg(long, value_name = "R", default_value_t = 1.0)]
    repetition_penalty: f64,
    /// Take this from the logit of every token that was written before, -100 to 100
    #[arg(long, value_name = "R", default_value_t = 0.0)]
    presence_penalty: f64,
    /// Take this from the logit of a token for each time that it was written, -100 to 100
    #[arg(long, value_name = "R", default_value_t = 0.0)]
    frequency_penalty: f64,
}

impl SamplingOptions {
    /// Whether nothing is drawn.
    pub(crate) fn is_greedy(&self) -> bool {
        self.temperature == 0.0
    }

    pub(crate) fn apply<'a>(&self, request: Request<'a>) -> Request<'a> {
        let mut request = request
            .temperature(self.temperature)
            .top_p(self.top_p)
            .repetition_penalty(self.repetition_penalty)
            .presence_penalty(self.presence_penalty)
            .frequency_penalty(self.frequency_penalty);
        if let Some(k) = self.top_k {
            request = request.top_k(k);
        }
        if let Some(p) = self.min_p {
            request = request.min_p(p);
        }
        request
    }
}
