//! ALiBi: attention scores fall with the distance (Press, Smith and Lewis 2022).

use super::config::{DecoderConfig, Positions};

/// The penalty on a score for each position of distance, one per query head; `None` without ALiBi.
pub(crate) fn slopes_of(config: &DecoderConfig) -> Option<Vec<f32>> {
    let Positions::Alibi { max_bias, by_scale } = config.positions else { return None };
    let attention = config.attention(0)?;
    let mut slopes = slopes(attention.heads, max_bias);
    if by_scale {
        slopes.iter_mut().for_each(|slope| *slope *= attention.factor());
    }
    Some(slopes)
}

/// A geometric series if the number of heads is a power of two; otherwise that of the next lower power, and then every
/// other one of twice that.
fn slopes(heads: usize, max_bias: f64) -> Vec<f32> {
    let series = |of: usize| (1..=of).map(move |i| 2f64.powf(-max_bias * i as f64 / of as f64) as f32);
    let below = 1 << heads.ilog2();
    series(below).chain(series(2 * below).step_by(2)).take(heads).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slopes_are_those_of_the_paper() {
        let of = |exponents: &[f32]| exponents.iter().map(|x| (-x).exp2()).collect::<Vec<f32>>();
        assert_eq!(slopes(8, 8.0), of(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]));
        assert_eq!(slopes(6, 8.0), of(&[2.0, 4.0, 6.0, 8.0, 1.0, 3.0]));
        assert_eq!(slopes(3, 8.0), of(&[4.0, 8.0, 2.0]));
    }

    /// MPT's code takes every second slope of the next higher power first, and then the others: the same slopes in
    /// another way.
    #[test]
    fn slopes_are_those_of_mpt() {
        for heads in 1usize..200 {
            let above = heads.next_power_of_two();
            let all: Vec<f32> = (1..=above).map(|i| 2f64.powf(-8.0 * i as f64 / above as f64) as f32).collect();
            let expected: Vec<f32> = match above == heads {
                true => all,
                false => all[1..].iter().step_by(2).chain(all.iter().step_by(2)).take(heads).copied().collect(),
            };
            assert_eq!(slopes(heads, 8.0), expected, "{heads}");
        }
    }
}
