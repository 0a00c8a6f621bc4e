//! Rotary positions, computed in f32 whatever the model's type.
//!
//! In bf16 the integers past 256 collide, so tables made in the model's own type give neighbouring tokens one
//! position. Tables here are f32 (from f64 angles), as in `transformers`.

use candle_core::{Device, Result, Tensor};

/// Cosines and sines: `context x head_dim / 2` each.
#[derive(Clone, Debug)]
pub(crate) struct Rotary {
    cos: Tensor,
    sin: Tensor,
}

impl Rotary {
    pub(crate) fn new(theta: f64, head_dim: usize, context: usize, device: &Device) -> Result<Self> {
        // transformers takes inverse frequencies and angles in f32; the same roundings give the same tables.
        let inverse: Vec<f32> =
            (0..head_dim / 2).map(|i| (1.0 / theta.powf(2.0 * i as f64 / head_dim as f64)) as f32).collect();
        let angles: Vec<f32> =
            (0..context).flat_map(|position| inverse.iter().map(move |f| position as f32 * f)).collect();
        let table = |f: fn(f64) -> f64| {
            let values: Vec<f32> = angles.iter().map(|&angle| f(f64::from(angle)) as f32).collect();
            Tensor::from_vec(values, (context, head_dim / 2), device)
        };
        Ok(Self { cos: table(f64::cos)?, sin: table(f64::sin)? })
    }

    /// The tables' rows of some positions.
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
        let rotary = Rotary::new(10_000.0, 8, 5000, &Device::Cpu).unwrap();
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
