//! Rotary positions, computed in f32 for models of every type.
//!
//! In bf16 the integers past 256 collide, so tables in the model's own type would give neighbouring tokens the same
//! position. These tables are f32 (from f64 angles), as in `transformers`.

use crate::description::config::{Rotary, Scaling};

/// The angles of a rotary embedding: the rotation of each pair of elements per position.
#[derive(Clone, Debug)]
pub struct Angles {
    /// For each pair, the rotation per position.
    inverse: Vec<f32>,
    magnitude: f64,
}

impl Angles {
    /// The angles of texts that may become `length` tokens long. Where angles depend on the length, they depend on this
    /// maximum and not on the current length: all positions of a text are rotated alike, however it is split into
    /// batches.
    pub fn new(rotary: &Rotary, head_dim: usize, length: usize) -> Self {
        let elements = rotary.elements.unwrap_or(head_dim);
        let theta = base(rotary, elements, length);
        // transformers computes inverse frequencies and angles in f32; the same roundings give the same angles.
        let inverse = |i: usize| (1.0 / theta.powf(2.0 * i as f64 / elements as f64)) as f32;
        let inverse = (0..elements / 2).map(|i| match &rotary.scaling {
            Scaling::LongRope { short, long, context, .. } => {
                let factors = if length > *context { long } else { short };
                // transformers rounds both factors of the wavelength and their product, which is visible far into a
                // text.
                let longer = theta.powf(f64::from((2 * i) as f32 / elements as f32)) as f32;
                1.0 / (factors[i] as f32 * longer)
            }
            _ => slower(inverse(i), i, elements, rotary),
        });
        let inverse = inverse.collect();
        let magnitude = match rotary.scaling {
            Scaling::Yarn { magnitude, .. } | Scaling::LongRope { magnitude, .. } => magnitude,
            _ => 1.0,
        };
        Self { inverse, magnitude }
    }

    /// For each pair, the rotation per position.
    #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
    pub(crate) fn inverse(&self) -> &[f32] {
        &self.inverse
    }

    /// The factor of cosines and sines.
    #[cfg(any(feature = "cuda", feature = "emulated-cuda"))]
    pub(crate) fn magnitude(&self) -> f64 {
        self.magnitude
    }

    /// The factors by which the wavelengths of `longer` are longer.
    pub(crate) fn ratios(&self, longer: &Self) -> Vec<f32> {
        self.inverse.iter().zip(&longer.inverse).map(|(ours, theirs)| ours / theirs).collect()
    }

    /// Appends the cosines and sines of a position, one per pair.
    pub fn extend(&self, position: u32, cos: &mut Vec<f32>, sin: &mut Vec<f32>) {
        for inverse in &self.inverse {
            let (of_sin, of_cos) = f64::from(position as f32 * inverse).sin_cos();
            cos.push((of_cos * self.magnitude) as f32);
            sin.push((of_sin * self.magnitude) as f32);
        }
    }
}

/// The base of the wavelengths.
fn base(rotary: &Rotary, elements: usize, length: usize) -> f64 {
    let Scaling::Dynamic { factor, context } = rotary.scaling else { return rotary.theta };
    let stretch = factor * length.max(context) as f64 / context as f64 - (factor - 1.0);
    rotary.theta * stretch.powf(elements as f64 / (elements as f64 - 2.0))
}

/// The inverse of a wavelength, changed for longer texts.
fn slower(inverse: f32, pair: usize, elements: usize, rotary: &Rotary) -> f32 {
    match &rotary.scaling {
        Scaling::None | Scaling::Dynamic { .. } | Scaling::LongRope { .. } => inverse,
        Scaling::Linear(factor) => inverse / *factor as f32,
        &Scaling::Proportional { pairs, factor } => {
            if pair < pairs {
                inverse / factor as f32
            } else {
                0.0
            }
        }
        Scaling::Each(factors) => (f64::from(inverse) / factors[pair]) as f32,
        &Scaling::Yarn { factor, beta_fast, beta_slow, context, truncate, .. } => {
            // The pair that makes this number of rotations in a text of the original context length.
            let pair_of = |rotations: f64| {
                elements as f64 * (context / (rotations * 2.0 * std::f64::consts::PI)).ln() / (2.0 * rotary.theta.ln())
            };
            let (mut first, mut last) = (pair_of(beta_fast), pair_of(beta_slow));
            if truncate {
                (first, last) = (first.floor(), last.ceil());
            }
            (first, last) = (first.max(0.0), last.min(elements as f64 - 1.0));
            let width = if first == last { 0.001 } else { last - first };
            let share = ((pair as f64 - first) / width).clamp(0.0, 1.0);
            let inverse = f64::from(inverse);
            (inverse / factor * share + inverse * (1.0 - share)) as f32
        }
        &Scaling::Llama3 { factor, low_freq_factor, high_freq_factor, context } => {
            let inverse = f64::from(inverse);
            let wavelength = 2.0 * std::f64::consts::PI / inverse;
            if wavelength < context / high_freq_factor {
                return inverse as f32;
            }
            if wavelength > context / low_freq_factor {
                return (inverse / factor) as f32;
            }
            let share = (context / wavelength - low_freq_factor) / (high_freq_factor - low_freq_factor);
            ((1.0 - share) * inverse / factor + share * inverse) as f32
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All of 131,072 positions have other rows than their neighbours.
    #[test]
    fn no_two_neighbours_are_alike() {
        let angles = Angles::new(&Rotary::new(500_000.0), 128, 131_072);
        let row = |position: u32| {
            let (mut cos, mut sin) = (Vec::new(), Vec::new());
            angles.extend(position, &mut cos, &mut sin);
            (cos, sin)
        };
        let mut before = row(0);
        for position in 1..131_072 {
            let now = row(position);
            assert!(now != before, "{position}");
            before = now;
        }
    }
}
