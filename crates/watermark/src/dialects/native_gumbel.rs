//! The native Gumbel-max scheme: the distortion-free sibling of the native scheme, on the same AES function.
//!
//! A context gives a 128-bit seed as in [`native`](super::native), under a separate sub-key; the uniform number of
//! token `v` is the lower 52 bits of `AES_noise(seed xor v)`, plus a half, over `2^52`.

use std::fmt;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use verdigris_logits::TokenId;

use super::error::BadDialect;
use super::gumbel::{Gumbel, Noise, RULES, score};
use super::native::{BATCH, FEW, Prf, describe_context};
use super::spec::{Secret, Spec};
use crate::context::{BadContext, Context, ContextFunction};
use crate::kdf::Purpose;
use crate::scheme::{ByPosition, EmbedRules, Observation, Scheme, identity, name};

/// Gumbel noise made by AES, as represented in key files.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Parameters {
    /// The context that chooses the noise.
    pub context: Context,
    /// The part of a text that the key marks and reads.
    #[serde(default, skip_serializing_if = "Part::is_whole")]
    pub part: Part,
}

/// The part of a text that a key marks and reads. Contexts decide which half a token belongs to, by the public part's
/// secret.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Part {
    /// All tokens.
    #[default]
    #[serde(skip)]
    Whole,
    /// Marks all tokens, those of the public half with the public part's secret, and reads the other half.
    Private,
    /// Reads the public half, with a secret that everyone may have.
    Public,
}

impl Part {
    fn is_whole(&self) -> bool {
        *self == Self::Whole
    }
}

impl Parameters {
    /// Noise for all tokens.
    pub fn new(context: Context) -> Self {
        Self { context, part: Part::Whole }
    }
}

impl Default for Parameters {
    /// All of the last four tokens.
    fn default() -> Self {
        Self::new(Context::new(ContextFunction::All, 4).expect("a width in range"))
    }
}

impl Spec for Parameters {
    fn is_native(&self) -> bool {
        true
    }

    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect> {
        let prf = |bytes, id: &str| Prf::new(bytes, id, secret.tenant, Purpose::NoiseContext, Purpose::Noise);
        let own = prf(secret.native()?, secret.id);
        let half = match self.part {
            Part::Whole => Half::Whole,
            Part::Private => Half::Private(Box::new(prf(secret.public()?, &public_id(secret.id)))),
            Part::Public => Half::Public,
        };
        Ok(Arc::new(scheme(own, half, self.context, vocabulary)?))
    }

    fn describe(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        describe_context(self.context, f)?;
        f.write_str(match self.part {
            Part::Whole => "",
            Part::Private => ", with a public part",
            Part::Public => ", the public part",
        })
    }
}

/// The surprise of a text before it is marked, in nats. Two texts of one prompt have the same tokens up to there with a
/// probability of at most `e^-7`, below .1 %; from there on, the noise of different contexts keeps them apart.
const AFTER: f64 = 7.0;

/// The id of the public part of a key.
pub(crate) fn public_id(id: &str) -> String {
    format!("{id}-public")
}

struct NativeGumbel {
    prf: Prf,
    half: Half,
    context: Context,
}

/// The half of a text that a scheme reads.
enum Half {
    Whole,
    /// The functions of the public half.
    Private(Box<Prf>),
    Public,
}

/// The seed of a context.
struct Seed {
    seed: u128,
    /// Whether it is in the public half.
    is_public: bool,
}

impl Seed {
    /// A seed of the public part's function, which decides by its highest bit.
    fn public(seed: u128) -> Self {
        Self { seed, is_public: seed >> 127 == 1 }
    }
}

impl fmt::Debug for NativeGumbel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NativeGumbel {{ context: {:?}, key: redacted }}", self.context)
    }
}

impl Noise for NativeGumbel {
    type Context = Seed;

    fn context(&self, tokens: &[TokenId]) -> Seed {
        let seed = |prf: &Prf| prf.seed(self.context.function(), tokens);
        match &self.half {
            Half::Whole => Seed { seed: seed(&self.prf), is_public: false },
            Half::Public => Seed::public(seed(&self.prf)),
            Half::Private(public) => {
                let of_public = Seed::public(seed(public));
                if of_public.is_public { of_public } else { Seed { seed: seed(&self.prf), is_public: false } }
            }
        }
    }

    fn name(&self, tokens: &[TokenId], state: &Seed) -> u64 {
        match self.context.function() {
            ContextFunction::All => name(tokens),
            _ => state.seed as u64,
        }
    }

    fn writes(&self, state: &Seed) -> bool {
        state.is_public || !matches!(self.half, Half::Public)
    }

    fn reads(&self, state: &Seed) -> bool {
        state.is_public == matches!(self.half, Half::Public)
    }

    fn uniform(&self, state: &Seed, token: TokenId) -> f64 {
        unit(self.prf_of(state).expand(state.seed ^ u128::from(token)))
    }

    fn uniforms(&self, state: &Seed, tokens: &[TokenId], out: &mut [f64; BATCH]) {
        let mut drawn = [state.seed; BATCH];
        drawn.iter_mut().zip(tokens).for_each(|(seed, &token)| *seed ^= u128::from(token));
        *out = self.prf_of(state).expand_all(drawn).map(unit);
    }

    fn observe(&self, width: usize, tokens: &[TokenId], out: &mut Vec<Observation>) {
        let judged = tokens.len().saturating_sub(width);
        if judged < FEW || !matches!(self.half, Half::Whole) {
            return out.extend(tokens.windows(width + 1).map(|window| self.observation(window)));
        }
        for start in (0..judged).step_by(BATCH) {
            let end = judged.min(start + BATCH);
            let seeds = self.prf.seeds(self.context, &tokens[start..end + width - 1]);
            let judged = tokens[start..end + width].windows(width + 1);
            self.draw(seeds, judged, |seed, window, score| {
                let context = self.name(&window[..width], &Seed { seed, is_public: false });
                out.push(Observation { context, identity: identity(context, window[width]), score });
            });
        }
    }

    fn by_position(&self) -> Option<&dyn ByPosition> {
        let by_tokens = self.context.function() == ContextFunction::All && matches!(self.half, Half::Whole);
        by_tokens.then_some(self)
    }

    fn embed_rules(&self) -> EmbedRules {
        EmbedRules { after: AFTER, ..RULES }
    }
}

impl NativeGumbel {
    /// The functions that decide after a context.
    fn prf_of(&self, state: &Seed) -> &Prf {
        match &self.half {
            Half::Private(public) if state.is_public => public,
            _ => &self.prf,
        }
    }

    /// Judges the last token of each window, up to [`BATCH`] of them, by the seeds of the tokens before it, and passes
    /// the seed, the window and the score to `each`.
    fn draw<'t>(
        &self,
        seeds: [u128; BATCH],
        windows: impl Iterator<Item = &'t [TokenId]> + Clone,
        mut each: impl FnMut(u128, &'t [TokenId], f32),
    ) {
        let mut drawn = seeds;
        for (seed, window) in drawn.iter_mut().zip(windows.clone()) {
            *seed ^= u128::from(window[window.len() - 1]);
        }
        let drawn = self.prf.expand_all(drawn);
        for ((seed, drawn), window) in seeds.into_iter().zip(drawn).zip(windows) {
            each(seed, window, score(unit(drawn)) as f32);
        }
    }
}

impl ByPosition for NativeGumbel {
    fn scores(&self, tokens: &[TokenId], positions: &[u32], out: &mut Vec<f32>) {
        let width = self.context.width();
        for positions in positions.chunks(BATCH) {
            let windows = positions.iter().map(|&at| &tokens[at as usize - width..=at as usize]);
            let seeds = self.prf.seeds_of_all(windows.clone().map(|window| &window[..width]));
            self.draw(seeds, windows, |_, _, score| out.push(score));
        }
    }
}

/// The uniform number of a block.
fn unit(block: u128) -> f64 {
    let bits = block as u64 & ((1 << 52) - 1);
    (bits as f64 + 0.5) / (1u64 << 52) as f64
}

/// The scheme of a secret, a key id and a tenant, which marks and reads all tokens.
///
/// # Errors
/// [`BadContext`] for a self-salted context, where the candidate would choose its own noise.
pub fn native_gumbel(
    secret: &[u8; 32],
    id: &str,
    tenant: &str,
    context: Context,
    vocabulary: usize,
) -> Result<impl Scheme + use<>, BadContext> {
    let prf = Prf::new(secret, id, tenant, Purpose::NoiseContext, Purpose::Noise);
    scheme(prf, Half::Whole, context, vocabulary)
}

fn scheme(prf: Prf, half: Half, context: Context, vocabulary: usize) -> Result<Gumbel<NativeGumbel>, BadContext> {
    if context.function() == ContextFunction::SelfSalted {
        return Err(BadContext::SelfSalted);
    }
    Ok(Gumbel { noise: NativeGumbel { prf, half, context }, width: context.width(), vocabulary })
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use verdigris_logits::Row;
    use verdigris_logits::random::philox4x32;

    use super::*;
    use crate::Strength;

    /// On flat and steep rows, with the number of tokens of a batch, fewer and more.
    #[test]
    fn the_token_with_the_most_noise_is_left() {
        let vocabulary = 1000;
        let context = Context::new(ContextFunction::All, 2).unwrap();
        let prf = Prf::new(&[4; 32], "", "", Purpose::NoiseContext, Purpose::Noise);
        let scheme = scheme(prf, Half::Whole, context, vocabulary).unwrap();
        let mut winners = HashSet::new();
        for i in 0..300 {
            let random = |token: u32| f64::from(philox4x32([i, token, 0, 0], [5, 6])[0]) / 4_294_967_296.0;
            let allowed = [3, BATCH as u32, 500][i as usize % 3];
            let logit = |token: u32| {
                let logit = random(token) * f64::from(i % 40) - 7.0;
                if token.is_multiple_of(vocabulary as u32 / allowed) { logit as f32 } else { f32::NEG_INFINITY }
            };
            let logits: Vec<f32> = (0..vocabulary as u32).map(logit).collect();
            let state = scheme.noise.context(&[i, 9]);
            let noisy =
                |token: &u32| f64::from(logits[*token as usize]) - (-scheme.noise.uniform(&state, *token).ln()).ln();
            let best = (0..vocabulary as u32).max_by(|a, b| noisy(a).total_cmp(&noisy(b))).unwrap();
            let mut row = Row::from(logits.clone());
            scheme.mark(&[i, 9], Strength::default(), &mut row);
            let left: Vec<usize> = (0..vocabulary).filter(|&t| row.logits()[t] > f32::NEG_INFINITY).collect();
            assert_eq!(left, [best as usize]);
            winners.insert(best);
        }
        assert!(winners.len() > 100, "{}", winners.len());
    }
}
