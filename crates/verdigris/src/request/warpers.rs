//! From which tokens is drawn, beyond temperature, top-k, top-p and min-p.

use verdigris_logits::warp::{
    DynamicTemperature, EpsilonCutoff, EtaCutoff, Mirostat, Temperature, TopA, TypicalP, Xtc,
};
use verdigris_logits::{Chain, Random};

use crate::error::Error;
use crate::request::Request;

/// What is asked for of these, under the names of Hugging Face `transformers`, KoboldAI and llama.cpp.
#[derive(Clone, Debug)]
pub(super) struct Warpers {
    typical_p: Option<f64>,
    epsilon_cutoff: Option<f64>,
    eta_cutoff: Option<f64>,
    top_a: Option<f64>,
    dynatemp_range: f64,
    dynatemp_exponent: f64,
    xtc_probability: f64,
    xtc_threshold: f64,
    mirostat_tau: Option<f64>,
    mirostat_eta: f64,
}

impl Default for Warpers {
    fn default() -> Self {
        Self {
            typical_p: None,
            epsilon_cutoff: None,
            eta_cutoff: None,
            top_a: None,
            dynatemp_range: 0.0,
            dynatemp_exponent: 1.0,
            xtc_probability: 0.0,
            xtc_threshold: Request::XTC_THRESHOLD,
            mirostat_tau: None,
            mirostat_eta: Request::MIROSTAT_ETA,
        }
    }
}

impl Request<'_> {
    /// The probability from which on XTC leaves tokens out, unless told otherwise.
    pub const XTC_THRESHOLD: f64 = 0.1;

    /// The share of what is missed by which mirostat's bound moves, unless told otherwise.
    pub const MIROSTAT_ETA: f64 = 0.1;

    /// Draws from the tokens whose information is nearest to the entropy, as many as it takes until their mass reaches
    /// `p` ([`TypicalP`]).
    pub fn typical_p(mut self, p: f64) -> Self {
        self.warpers.typical_p = Some(p);
        self
    }

    /// Draws from the tokens of at least this probability, or the best ([`EpsilonCutoff`]).
    pub fn epsilon_cutoff(mut self, epsilon: f64) -> Self {
        self.warpers.epsilon_cutoff = Some(epsilon);
        self
    }

    /// Draws from the tokens of at least this probability, or less where the entropy is high ([`EtaCutoff`]).
    pub fn eta_cutoff(mut self, epsilon: f64) -> Self {
        self.warpers.eta_cutoff = Some(epsilon);
        self
    }

    /// Draws from the tokens with at least `a` times the square of the best token's probability ([`TopA`]).
    pub fn top_a(mut self, a: f64) -> Self {
        self.warpers.top_a = Some(a);
        self
    }

    /// Lets the temperature be this much lower where one token is certain, this much higher where all are equal, and
    /// between them elsewhere ([`DynamicTemperature`]); 0 is none.
    pub fn dynatemp_range(mut self, range: f64) -> Self {
        self.warpers.dynatemp_range = range;
        self
    }

    /// How [`Request::dynatemp_range`] grows between its ends; 1 unless told otherwise.
    pub fn dynatemp_exponent(mut self, exponent: f64) -> Self {
        self.warpers.dynatemp_exponent = exponent;
        self
    }

    /// With this probability, leaves out all but the least probable of the tokens of [`Request::xtc_threshold`] or more
    /// ([`Xtc`]); 0 is never.
    pub fn xtc_probability(mut self, probability: f64) -> Self {
        self.warpers.xtc_probability = probability;
        self
    }

    /// The probability from which on tokens are left out; [`Request::XTC_THRESHOLD`] unless told otherwise.
    pub fn xtc_threshold(mut self, threshold: f64) -> Self {
        self.warpers.xtc_threshold = threshold;
        self
    }

    /// Aims at so many bits of surprise a token: what is more surprising than a bound is left out, and the bound
    /// follows the text ([`Mirostat`], version 2; 5 is usual). The cuts before it act as ever, but [`Request::top_p`]
    /// is 1 unless told otherwise.
    #[doc(alias = "mirostat")]
    pub fn mirostat_tau(mut self, tau: f64) -> Self {
        self.warpers.mirostat_tau = Some(tau);
        self
    }

    /// How fast mirostat's bound follows the text; [`Request::MIROSTAT_ETA`] unless told otherwise.
    pub fn mirostat_eta(mut self, eta: f64) -> Self {
        self.warpers.mirostat_eta = eta;
        self
    }

    /// Refuses mirostat where tokens are not drawn one after the other from the law that it leaves.
    pub(super) fn surprises_are_drawn(&self, with: &'static str, why: &'static str) -> Result<(), Error> {
        match self.warpers.mirostat_tau {
            Some(_) => Err(Error::Apart { what: "mirostat".into(), with, why }),
            None => Ok(()),
        }
    }

    /// The mass that is drawn from.
    pub(super) fn mass(&self) -> f64 {
        self.top_p.unwrap_or(if self.warpers.mirostat_tau.is_some() { 1.0 } else { Self::TOP_P })
    }

    /// Whether the most probable token is taken every time: the temperature is 0, or so low that quotients of logits
    /// would leave the numbers that rows are made of. There any two logits that differ are apart by more than those
    /// numbers can tell.
    pub(super) fn is_greedy(&self) -> bool {
        (self.temperature as f32) < Self::LEAST_TEMPERATURE
    }

    /// The option that leaves one token to choose from whatever the model says, and what it must be instead.
    pub(super) fn leaves_one_token(&self) -> Option<(&'static str, &'static str)> {
        // The most probable token of any distribution has at least this.
        let least = 1.0 / self.engine.model.vocabulary_size() as f64;
        match () {
            () if self.is_greedy() => Some(("temperature", "a temperature above 0: raise it")),
            () if self.top_k == Some(1) => Some(("top_k", "a top_k above 1: raise it")),
            () if self.min_p.is_some_and(|p| p >= 1.0) => Some(("min_p", "a min_p below 1: lower it")),
            () if self.mass() <= least => Some(("top_p", "a top_p that leaves more than one token: raise it")),
            () => None,
        }
    }

    /// The temperature, fixed or not. That of a text where nothing is drawn is 0, which is none for a step.
    pub(super) fn push_temperature(&self, warpers: &mut Chain, is_greedy: bool) -> Result<(), Error> {
        let temperature = if is_greedy { 1.0 } else { self.temperature };
        let exponent = self.warpers.dynatemp_exponent;
        match self.warpers.dynatemp_range {
            0.0 if exponent != 1.0 => {
                let needs = "a range of temperatures (dynatemp_range)";
                return Err(Error::Unused { what: "an exponent of dynamic temperature", needs });
            }
            0.0 => warpers.push_named("temperature", Temperature::new(temperature)?),
            range => warpers.push_named("dynatemp_range", DynamicTemperature::new(temperature, range, exponent)?),
        }
        Ok(())
    }

    /// Those that come after top-k, top-p and min-p, in their order.
    pub(super) fn push_warpers(&self, warpers: &mut Chain, random: Random) -> Result<(), Error> {
        let asked = &self.warpers;
        if let Some(p) = asked.typical_p {
            warpers.push_named("typical_p", TypicalP::new(p)?);
        }
        if let Some(epsilon) = asked.epsilon_cutoff {
            warpers.push_named("epsilon_cutoff", EpsilonCutoff::new(epsilon)?);
        }
        if let Some(epsilon) = asked.eta_cutoff {
            warpers.push_named("eta_cutoff", EtaCutoff::new(epsilon)?);
        }
        if let Some(a) = asked.top_a {
            warpers.push_named("top_a", TopA::new(a)?);
        }
        let xtc = Xtc::new(asked.xtc_probability, asked.xtc_threshold, random)?;
        if asked.xtc_probability > 0.0 {
            warpers.push_named("xtc_probability", xtc);
        } else if asked.xtc_threshold != Self::XTC_THRESHOLD {
            let needs = "how often it is to be (xtc_probability)";
            return Err(Error::Unused { what: "a threshold of XTC", needs });
        }
        // The last, for it asks how probable a token was in the law that it leaves.
        let eta = asked.mirostat_eta;
        match asked.mirostat_tau {
            Some(tau) => warpers.push_named("mirostat_tau", Mirostat::new(tau, eta)?),
            None if eta != Self::MIROSTAT_ETA => {
                let needs = "an aim for it (mirostat_tau)";
                return Err(Error::Unused { what: "a learning rate of mirostat", needs });
            }
            None => (),
        }
        Ok(())
    }
}
