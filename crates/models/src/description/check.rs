//! Checks that a configuration describes a decoder.

use super::config::{
    Alternating, Attention, Both, DecoderConfig, FeedForward, Groups, LatentAttention, Mixer, Mixture, Norm, PerLayer,
    Positions, QueryGrowth, RecurrentHeads, Scaling,
};

/// The largest dimension of any model; a larger number in a file means that it is damaged.
const MAX_DIMENSION: usize = 1 << 24;

/// The most residual streams.
const MAX_STREAMS: usize = 64;

/// The largest base of rotary wavelengths.
const MAX_THETA: f64 = 1e15;

/// The reason why a [`DecoderConfig`] does not describe a decoder.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadConfig {
    /// A dimension is 0, or larger than any model's.
    #[error("the {name} is {value}, but must be 1 to {MAX_DIMENSION}")]
    Dimension {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: usize,
    },
    /// The epsilon of norms is not a small positive number.
    #[error("the epsilon of norms is {0}, but must be above 0 and at most 1")]
    Epsilon(f64),
    /// A scale or a cap is not positive.
    #[error("the {name} is {value}, but must be above 0")]
    NotPositive {
        /// Its name.
        name: &'static str,
        /// Its value.
        value: f64,
    },
    /// A window in which a token would not see itself.
    #[error("sliding_window is 0, but a token sees itself at least")]
    NoWindow,
    /// Query heads that cannot be distributed evenly over key-value heads.
    #[error("{heads} attention heads cannot share {kv_heads} key-value heads")]
    Heads {
        /// Query heads.
        heads: usize,
        /// Key and value heads.
        kv_heads: usize,
    },
    /// A token would use more experts than there are.
    #[error("a token cannot use {chosen} of {possible} experts")]
    Experts {
        /// Experts that a token uses.
        chosen: usize,
        /// Experts that can be chosen.
        possible: usize,
    },
    /// Groups of experts that are not equal parts, or a choice of more groups than there are.
    #[error("{experts} experts cannot be {count} equal groups of two or more, of which {kept} are chosen")]
    ExpertGroups {
        /// Experts.
        experts: usize,
        /// Groups.
        count: usize,
        /// Groups that are chosen.
        kept: usize,
    },
    /// A layer refers to a rotary embedding that is not described.
    #[error("a layer has rotary positions that are not described")]
    UnknownRotary,
    /// Elements of a head that cannot be paired.
    #[error("rotary positions need an even number of elements of a head of {head_dim}, not {elements}")]
    RotaryElements {
        /// Elements of a head.
        head_dim: usize,
        /// Elements that would be rotated.
        elements: usize,
    },
    /// A base out of range.
    #[error("the base of rotary positions (rope_theta) is {0}, but must be above 1 and at most {MAX_THETA:e}")]
    Theta(f64),
    /// The number of factors is not the number of wavelengths.
    #[error("{factors} factors for {pairs} rotary wavelengths")]
    Factors {
        /// Factors that are given.
        factors: usize,
        /// Wavelengths: pairs of elements.
        pairs: usize,
    },
    /// Bounds of wavelengths in the wrong order.
    #[error("low_freq_factor is {low}, but must be below high_freq_factor, which is {high}")]
    Frequencies {
        /// The factor for long wavelengths.
        low: f64,
        /// The factor for short wavelengths.
        high: f64,
    },
    /// A factor that is not a positive number.
    #[error("rotary wavelengths are scaled by {0}")]
    Scaling(f64),
    /// Layers of the same rotary embedding with heads of different sizes.
    #[error("layers with heads of {0} and of {1} elements have the same rotary positions")]
    RotaryHeads(usize, usize),
    /// A layer that reads keys and values which are not stored before it, or are of another shape.
    #[error("layer {layer} reads the keys and values of layer {reads}, which has none of its shape")]
    Reads {
        /// The layer.
        layer: usize,
        /// The layer that it reads.
        reads: usize,
    },
    /// Residual streams that are none, too many, or without the one that layers compute.
    #[error("layers compute stream {active} of {streams}, but there must be 1 to {MAX_STREAMS}, and it one of them")]
    Streams {
        /// The stream that layers compute.
        active: usize,
        /// The number of streams.
        streams: usize,
    },
}

impl DecoderConfig {
    /// Checks that the numbers describe a decoder.
    ///
    /// # Errors
    /// The first number that does not.
    pub fn check(&self) -> Result<(), BadConfig> {
        for (name, value) in [
            ("vocabulary size", self.vocabulary),
            ("hidden size", self.width),
            ("number of layers", self.blocks.len()),
            ("context length", self.context),
        ] {
            dimension(name, value)?;
        }
        let (Norm::Rms { epsilon } | Norm::Layer { epsilon }) = self.norm;
        if !(epsilon > 0.0 && epsilon <= 1.0) {
            return Err(BadConfig::Epsilon(epsilon));
        }
        positive("cap of logits", self.logit_cap)?;
        positive("scale of embeddings", self.embedding_scale)?;
        positive("scale of residuals", self.residual_scale)?;
        positive("scale of logits", self.logit_scale)?;
        for (layer, block) in self.blocks.iter().enumerate() {
            match &block.mixer {
                Mixer::Attention(attention) => {
                    attention.check()?;
                    self.check_reads(layer, attention)?;
                }
                Mixer::Convolution(of) => dimension("length of convolutions", of.taps)?,
                Mixer::DeltaNet(of) => recurrent(&of.heads, of.taps)?,
                Mixer::Mamba(of) => recurrent(&of.heads, of.taps)?,
                Mixer::Latent(latent) => latent.check()?,
            }
            block.feed_forward.check()?;
        }
        if let Some(PerLayer { vocabulary, width, .. }) = self.per_layer {
            dimension("width of a layer's part of the embedding", width)?;
            dimension("number of rows of the embedding for each layer", vocabulary)?;
        }
        if let Some(Alternating { streams, active, rank, .. }) = self.alternating {
            if !(1..=MAX_STREAMS).contains(&streams) || active >= streams {
                return Err(BadConfig::Streams { active, streams });
            }
            dimension("rank past attention", rank)?;
        }
        if let Positions::Rotary(all) = &self.positions {
            let is_missing = all.is_empty() && self.blocks.iter().any(|block| !block.mixer.is_recurrent());
            if is_missing || self.blocks.iter().any(|block| block.mixer.rotary().is_some_and(|at| at >= all.len())) {
                return Err(BadConfig::UnknownRotary);
            }
            for (which, rotary) in all.iter().enumerate() {
                let head_dim = self.rotated_head(which);
                if head_dim == 0 {
                    // No layer has heads to rotate.
                    continue;
                }
                let rotated = self.blocks.iter().filter(|block| block.mixer.rotary() == Some(which));
                let mut heads = rotated.filter_map(|block| block.mixer.rotated_head());
                if let Some(other) = heads.find(|other| *other != head_dim) {
                    return Err(BadConfig::RotaryHeads(head_dim, other));
                }
                let elements = rotary.elements.unwrap_or(head_dim);
                if !elements.is_multiple_of(2) || elements > head_dim {
                    return Err(BadConfig::RotaryElements { head_dim, elements });
                }
                // With a base of 1 all wavelengths are the same.
                if !(rotary.theta > 1.0 && rotary.theta <= MAX_THETA) {
                    return Err(BadConfig::Theta(rotary.theta));
                }
                rotary.scaling.check(elements / 2)?;
            }
        }
        Ok(())
    }

    /// Checks the keys and values that a layer reads.
    fn check_reads(&self, layer: usize, attention: &Attention) -> Result<(), BadConfig> {
        let Some(reads) = attention.reads else { return Ok(()) };
        let shape = |attention: &Attention| (attention.kv_heads, attention.head_dim);
        let read = self.attention(reads).filter(|read| reads < layer && read.reads.is_none());
        match read {
            Some(read) if shape(read) == shape(attention) => Ok(()),
            _ => Err(BadConfig::Reads { layer, reads }),
        }
    }
}

fn dimension(name: &'static str, value: usize) -> Result<(), BadConfig> {
    if (1..=MAX_DIMENSION).contains(&value) { Ok(()) } else { Err(BadConfig::Dimension { name, value }) }
}

fn recurrent(of: &RecurrentHeads, taps: usize) -> Result<(), BadConfig> {
    let &RecurrentHeads { heads, key_heads, key_dim, value_dim, .. } = of;
    dimension("length of convolutions", taps)?;
    for (name, value) in [
        ("number of recurrent heads", heads),
        ("number of recurrent key heads", key_heads),
        ("recurrent key dimension", key_dim),
        ("recurrent value dimension", value_dim),
    ] {
        dimension(name, value)?;
    }
    let state = heads.checked_mul(key_dim).and_then(|of| of.checked_mul(value_dim));
    dimension("size of a recurrent state", state.unwrap_or(usize::MAX))?;
    if heads.is_multiple_of(key_heads) { Ok(()) } else { Err(BadConfig::Heads { heads, kv_heads: key_heads }) }
}

fn positive(name: &'static str, value: Option<f64>) -> Result<(), BadConfig> {
    let bad = value.filter(|value| !(value.is_finite() && *value > 0.0));
    bad.map_or(Ok(()), |value| Err(BadConfig::NotPositive { name, value }))
}

impl Attention {
    fn check(&self) -> Result<(), BadConfig> {
        let &Self { heads, kv_heads, head_dim, .. } = self;
        dimension("number of attention heads", heads)?;
        dimension("number of key-value heads", kv_heads)?;
        dimension("head dimension", head_dim)?;
        positive("scale of attention", self.scale)?;
        positive("cap of attention", self.cap)?;
        if let Some(QueryGrowth { rate, context }) = self.query_growth {
            positive("growth of queries", Some(rate))?;
            dimension("original context length", context)?;
        }
        if self.window == Some(0) {
            return Err(BadConfig::NoWindow);
        }
        if !heads.is_multiple_of(kv_heads) {
            return Err(BadConfig::Heads { heads, kv_heads });
        }
        Ok(())
    }
}

impl LatentAttention {
    fn check(&self) -> Result<(), BadConfig> {
        for (name, value) in [
            ("number of attention heads", self.heads),
            ("rank of queries", self.query_rank.unwrap_or(1)),
            ("rank of keys and values", self.rank),
            ("number of elements of a head that are not rotated", self.unrotated),
            ("number of elements of a head that are rotated", self.rotated),
            ("number of elements of a head's values", self.value_dim),
        ] {
            dimension(name, value)?;
        }
        if !(self.epsilon > 0.0 && self.epsilon <= 1.0) {
            return Err(BadConfig::Epsilon(self.epsilon));
        }
        positive("scale of attention", Some(self.scale))
    }
}

impl FeedForward {
    fn check(&self) -> Result<(), BadConfig> {
        match self {
            Self::Dense(dense) => dimension("intermediate size", dense.width),
            Self::Mixture(mixture) => mixture.check(),
            Self::None => Ok(()),
            Self::Sparse(sparse) => dimension("intermediate size", sparse.network.width),
            Self::Both(Both { dense, mixture }) => {
                dimension("intermediate size", dense.width)?;
                mixture.check()
            }
        }
    }
}

impl Mixture {
    fn check(&self) -> Result<(), BadConfig> {
        let &Self { experts, chosen, expert, router, shared, latent } = self;
        dimension("number of experts", experts)?;
        dimension("number of experts of a token", chosen)?;
        dimension("intermediate size of an expert", expert.width)?;
        if let Some(shared) = shared {
            dimension("intermediate size of the shared expert", shared.network.width)?;
        }
        if let Some(latent) = latent {
            dimension("width of experts' rows", latent)?;
        }
        let mut possible = experts;
        if let Some(Groups { count, kept }) = router.groups {
            // A group is scored by two of its experts.
            let is_whole = count > 0 && experts.is_multiple_of(count) && experts / count >= 2;
            if !is_whole || !(1..=count).contains(&kept) {
                return Err(BadConfig::ExpertGroups { experts, count, kept });
            }
            possible = experts / count * kept;
        }
        if chosen > possible {
            return Err(BadConfig::Experts { chosen, possible });
        }
        positive("scale of experts", Some(router.scale))
    }
}

impl Scaling {
    fn check(&self, pairs: usize) -> Result<(), BadConfig> {
        let (numbers, lists): (Vec<f64>, Vec<&[f64]>) = match self {
            Self::None => return Ok(()),
            &Self::Linear(factor) => (vec![factor], vec![]),
            &Self::Llama3 { low_freq_factor: low, high_freq_factor: high, .. } if low >= high => {
                return Err(BadConfig::Frequencies { low, high });
            }
            &Self::Llama3 { factor, low_freq_factor, high_freq_factor, context } => {
                (vec![factor, low_freq_factor, high_freq_factor, context], vec![])
            }
            Self::Each(factors) => (vec![], vec![factors]),
            &Self::Yarn { factor, beta_fast, beta_slow, context, magnitude, .. } => {
                (vec![factor, beta_fast, beta_slow, context, magnitude], vec![])
            }
            Self::LongRope { short, long, context, magnitude } => {
                (vec![*context as f64, *magnitude], vec![short, long])
            }
            &Self::Dynamic { factor, context } => (vec![factor, context as f64], vec![]),
            &Self::Proportional { factor, .. } => (vec![factor], vec![]),
        };
        if let Some(list) = lists.iter().find(|list| list.len() != pairs) {
            return Err(BadConfig::Factors { factors: list.len(), pairs });
        }
        let bad = numbers.iter().chain(lists.into_iter().flatten()).find(|x| !(x.is_finite() && **x > 0.0));
        bad.map_or(Ok(()), |x| Err(BadConfig::Scaling(*x)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::description::config::{Activation, Dense, Rotary, Router};

    const NETWORK: Dense = Dense { width: 48, activation: Activation::Relu, gated: false, bias: false };

    fn llama() -> DecoderConfig {
        let attention = Attention { heads: 4, kv_heads: 2, head_dim: 8, ..Default::default() };
        let shape = DecoderConfig { vocabulary: 100, width: 32, context: 64, ..Default::default() };
        shape.with_layers(2, attention, NETWORK)
    }

    #[test]
    fn the_error_says_which_number_it_is() {
        assert_eq!(llama().check(), Ok(()));
        let fault = |change: &dyn Fn(&mut DecoderConfig)| {
            let mut config = llama();
            change(&mut config);
            config.check().unwrap_err()
        };
        let rotary = |rotary: Rotary| {
            move |config: &mut DecoderConfig| config.positions = Positions::Rotary(vec![rotary.clone()])
        };
        assert_eq!(fault(&|c| c.blocks.clear()), BadConfig::Dimension { name: "number of layers", value: 0 });
        let heads = Mixer::Attention(Attention { heads: 4, kv_heads: 3, head_dim: 8, ..Default::default() });
        let of_heads = |c: &mut DecoderConfig| c.blocks[1].mixer = heads.clone();
        assert_eq!(fault(&of_heads), BadConfig::Heads { heads: 4, kv_heads: 3 });
        let mixture = |chosen, groups| {
            let router = Router { groups, ..Default::default() };
            let mixture = Mixture { experts: 8, chosen, expert: NETWORK, router, shared: None, latent: None };
            move |config: &mut DecoderConfig| config.blocks[1].feed_forward = FeedForward::Mixture(mixture)
        };
        assert_eq!(fault(&mixture(9, None)), BadConfig::Experts { chosen: 9, possible: 8 });
        let four = |kept| Some(Groups { count: 4, kept });
        assert_eq!(fault(&mixture(5, four(2))), BadConfig::Experts { chosen: 5, possible: 4 });
        assert_eq!(fault(&mixture(2, four(5))), BadConfig::ExpertGroups { experts: 8, count: 4, kept: 5 });
        assert_eq!(fault(&|c| c.norm = Norm::Rms { epsilon: 0.0 }), BadConfig::Epsilon(0.0));
        assert_eq!(fault(&|c| c.positions = Positions::Rotary(vec![])), BadConfig::UnknownRotary);
        assert_eq!(fault(&rotary(Rotary::new(1.0))), BadConfig::Theta(1.0));
        let odd = Rotary { elements: Some(3), ..Rotary::new(10.0) };
        assert_eq!(fault(&rotary(odd)), BadConfig::RotaryElements { head_dim: 8, elements: 3 });
        let few = Rotary { scaling: Scaling::Each(vec![1.0]), ..Rotary::new(10.0) };
        assert_eq!(fault(&rotary(few)), BadConfig::Factors { factors: 1, pairs: 4 });
        let backwards = Rotary { scaling: Scaling::Linear(-1.0), ..Rotary::new(10.0) };
        assert_eq!(fault(&rotary(backwards)).to_string(), "rotary wavelengths are scaled by -1");
    }
}
