//! Options that change the distribution of tokens, in addition to temperature, top-k, top-p and min-p.

use verdigris_logits::warp::{
    DynamicTemperature, EpsilonCutoff, EtaCutoff, Mirostat, Temperature, TopA, TypicalP, Xtc,
};
use verdigris_logits::{Chain, Random};

use crate::error::Error;
use crate::request::Request;
use crate::sampling::Sampling;

impl Request<'_> {
    /// Below this temperature the most probable token is taken every time, as at 0.
    pub const LEAST_TEMPERATURE: f32 = 1e-30;

    /// How tokens are sampled, all options at once.
    pub fn sampling(mut self, sampling: Sampling) -> Self {
        self.sampling = sampling;
        self
    }

    /// Refuses mirostat where tokens are not sampled one after the other from the distribution that it leaves.
    pub(super) fn surprises_are_drawn(&self, with: &'static str, why: &'static str) -> Result<(), Error> {
        match self.sampling.mirostat_tau {
            Some(_) => Err(Error::Apart { what: "mirostat".into(), with, why }),
            None => Ok(()),
        }
    }

    /// Whether the most probable token is taken every time: the temperature is 0, or so low that quotients of logits
    /// would leave the numbers that rows are made of. There any two logits that differ are apart by more than those
    /// numbers can tell.
    pub(super) fn is_greedy(&self) -> bool {
        (self.sampling.temperature as f32) < Self::LEAST_TEMPERATURE
    }

    /// Whether the options leave only one token, whatever the model.
    pub(super) fn leaves_one_token(&self) -> bool {
        // The most probable token of any distribution has at least this probability.
        let least = 1.0 / self.engine.model.vocabulary_size() as f64;
        let Sampling { top_k, min_p, .. } = self.sampling;
        self.is_greedy() || top_k == Some(1) || min_p.is_some_and(|p| p >= 1.0) || self.sampling.mass() <= least
    }

    /// Adds the temperature, fixed or dynamic. Without sampling it is replaced by 1, since the step does not allow 0.
    pub(super) fn push_temperature(&self, warpers: &mut Chain, is_greedy: bool) -> Result<(), Error> {
        let temperature = if is_greedy { 1.0 } else { self.sampling.temperature };
        let exponent = self.sampling.dynatemp_exponent;
        match self.sampling.dynatemp_range {
            0.0 if exponent != 1.0 => {
                let needs = "a range of temperatures (dynatemp_range)";
                return Err(Error::Unused { what: "an exponent of dynamic temperature", needs });
            }
            0.0 => warpers.push_named("temperature", Temperature::new(temperature)?),
            range => warpers.push_named("dynatemp_range", DynamicTemperature::new(temperature, range, exponent)?),
        }
        Ok(())
    }

    /// Adds the steps after top-k, top-p and min-p, in their order.
    pub(super) fn push_warpers(&self, warpers: &mut Chain, random: Random) -> Result<(), Error> {
        let asked = &self.sampling;
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
        } else if asked.xtc_threshold != Sampling::default().xtc_threshold {
            let needs = "a probability (xtc_probability)";
            return Err(Error::Unused { what: "a threshold of XTC", needs });
        }
        // Mirostat is last, since it measures the probability of a token in the distribution that it returns.
        let eta = asked.mirostat_eta;
        match asked.mirostat_tau {
            Some(tau) => warpers.push_named("mirostat_tau", Mirostat::new(tau, eta)?),
            None if eta != Sampling::default().mirostat_eta => {
                let needs = "a target surprise (mirostat_tau)";
                return Err(Error::Unused { what: "a learning rate of mirostat", needs });
            }
            None => (),
        }
        Ok(())
    }
}
