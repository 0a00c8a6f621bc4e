//! Rotary positions as tensors.

use candle_core::{Device, Result, Tensor};
use verdigris_models::config::Rotary;
use verdigris_models::rotary::Angles;

/// Cosines and sines of all positions of a context, as tensors of `context x pairs` in f32.
#[derive(Clone, Debug)]
pub(crate) struct Tables {
    cos: Tensor,
    sin: Tensor,
}

impl Tables {
    pub(crate) fn new(rotary: &Rotary, head_dim: usize, context: usize) -> Result<Self> {
        let angles = Angles::new(rotary, head_dim, context);
        let (mut cos, mut sin) = (Vec::new(), Vec::new());
        (0..context as u32).for_each(|position| angles.extend(position, &mut cos, &mut sin));
        let table = |values: Vec<f32>| {
            let pairs = values.len() / context;
            Tensor::from_vec(values, (context, pairs), &Device::Cpu)
        };
        Ok(Self { cos: table(cos)?, sin: table(sin)? })
    }

    /// The rows of the tables for some positions.
    pub(crate) fn at(&self, positions: &[u32]) -> Result<(Tensor, Tensor)> {
        let consecutive = positions.windows(2).all(|pair| pair[1] == pair[0] + 1);
        if consecutive && !positions.is_empty() {
            let (start, length) = (positions[0] as usize, positions.len());
            return Ok((self.cos.narrow(0, start, length)?, self.sin.narrow(0, start, length)?));
        }
        let index = Tensor::from_slice(positions, positions.len(), self.cos.device())?;
        Ok((self.cos.index_select(&index, 0)?, self.sin.index_select(&index, 0)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_differ_and_angles_are_exact_far_out() {
        let rotary = Tables::new(&Rotary::new(10_000.0), 8, 5000).unwrap();
        for position in [1u32, 257, 1025, 4097] {
            let (cos, sin) = rotary.at(&[position, position + 1]).unwrap();
            let (cos, sin) = (cos.to_vec2::<f32>().unwrap(), sin.to_vec2::<f32>().unwrap());
            assert_ne!(cos[0], cos[1]);
            for i in 0..4 {
                let angle = f64::from(position) / 10_000f64.powf(i as f64 / 4.0);
                // An f32 angle of up to 4096 radians is known to 2^-12.
                assert!((f64::from(cos[0][i]) - angle.cos()).abs() < 3e-4, "{position}");
                assert!((f64::from(sin[0][i]) - angle.sin()).abs() < 3e-4, "{position}");
            }
        }
        let (gathered, _) = rotary.at(&[7, 3]).unwrap();
        let (run, _) = rotary.at(&[3]).unwrap();
        assert_eq!(gathered.to_vec2::<f32>().unwrap()[1], run.to_vec2::<f32>().unwrap()[0]);
    }
}
