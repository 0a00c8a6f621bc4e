//! How tokens are drawn, as options.

use clap::Args;
use verdigris::Request;

#[derive(Args)]
pub(crate) struct SamplingOptions {
    /// Above 1 for more surprise, below for less; 0 takes the most probable token every time
    #[arg(long, value_name = "T", default_value_t = Request::TEMPERATURE)]
    temperature: f64,
    /// Draw from the K most probable tokens; 0 or -1 for all
    #[arg(long, value_name = "K", value_parser = crate::number::or_all, allow_hyphen_values = true)]
    top_k: Option<usize>,
    /// Draw from the most probable tokens that together have this probability: above 0, and 1 is all [default: 0.95,
    /// and 1 with --mirostat-tau]
    #[arg(long, value_name = "P")]
    top_p: Option<f64>,
    /// Draw from the tokens with at least this share of the best token's probability, 0 to 1
    #[arg(long, value_name = "P")]
    min_p: Option<f64>,
    /// Draw from the tokens whose information is nearest to the entropy, of this probability together: above 0, and 1
    /// is all
    #[arg(long, value_name = "P")]
    typical_p: Option<f64>,
    /// Draw from the tokens of at least this probability, such as 0.0005
    #[arg(long, value_name = "E")]
    epsilon_cutoff: Option<f64>,
    /// Draw from the tokens of at least this probability, or less where there is more choice, such as 0.001
    #[arg(long, value_name = "E")]
    eta_cutoff: Option<f64>,
    /// Draw from the tokens with at least A times the square of the best token's probability, 0 to 1
    #[arg(long, value_name = "A")]
    top_a: Option<f64>,
    /// Let the temperature be lower and higher by up to R, where there is less and more choice: 0 is none
    #[arg(long, value_name = "R", default_value_t = 0.0, hide_default_value = true)]
    dynatemp_range: f64,
    /// For --dynatemp-range: how it grows with the choice
    #[arg(long, value_name = "E", default_value_t = 1.0)]
    dynatemp_exp: f64,
    /// Now and then, with this probability, leave out the most probable tokens, all but the last of them: 0 is never
    #[arg(long, value_name = "P", default_value_t = 0.0, hide_default_value = true)]
    xtc_probability: f64,
    /// For --xtc-probability: from which probability on tokens are left out
    #[arg(long, value_name = "P", default_value_t = Request::XTC_THRESHOLD)]
    xtc_threshold: f64,
    /// Aim at so many bits of surprise a token, such as 5 (mirostat 2): leaves out what is more surprising than a bound
    /// that follows the text
    #[arg(long, value_name = "BITS")]
    mirostat_tau: Option<f64>,
    /// For --mirostat-tau: how fast the bound follows the text
    #[arg(long, value_name = "RATE", requires = "mirostat_tau", default_value_t = Request::MIROSTAT_ETA)]
    mirostat_eta: f64,
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
            .repetition_penalty(self.repetition_penalty)
            .presence_penalty(self.presence_penalty)
            .frequency_penalty(self.frequency_penalty)
            .dynatemp_range(self.dynatemp_range)
            .dynatemp_exponent(self.dynatemp_exp)
            .xtc_probability(self.xtc_probability)
            .xtc_threshold(self.xtc_threshold)
            .mirostat_eta(self.mirostat_eta);
        if let Some(p) = self.top_p {
            request = request.top_p(p);
        }
        if let Some(tau) = self.mirostat_tau {
            request = request.mirostat_tau(tau);
        }
        if let Some(k) = self.top_k.filter(|&k| k != 0) {
            request = request.top_k(k);
        }
        if let Some(p) = self.min_p {
            request = request.min_p(p);
        }
        if let Some(p) = self.typical_p {
            request = request.typical_p(p);
        }
        if let Some(epsilon) = self.epsilon_cutoff {
            request = request.epsilon_cutoff(epsilon);
        }
        if let Some(epsilon) = self.eta_cutoff {
            request = request.eta_cutoff(epsilon);
        }
        if let Some(a) = self.top_a {
            request = request.top_a(a);
        }
        request
    }
}
