//! Probability distributions over tokens. Warpers set most probabilities to zero, so these passes skip blocks of zeros,
//! which change no sum, and leave loops that compilers vectorise.

/// The number of probabilities checked together.
const BLOCK: usize = 64;

fn is_nothing(block: &[f64]) -> bool {
    block.iter().fold(true, |nothing, &p| nothing & (p == 0.0))
}

/// The blocks with a nonzero probability, each with the index of its first token.
pub(crate) fn blocks_mut(distribution: &mut [f64]) -> impl Iterator<Item = (usize, &mut [f64])> {
    distribution
        .chunks_mut(BLOCK)
        .enumerate()
        .filter(|(_, block)| !is_nothing(block))
        .map(|(i, block)| (i * BLOCK, block))
}

/// Tokens and their probabilities in ascending order. Some tokens of probability zero are left out.
pub(crate) fn tokens(distribution: &[f64]) -> impl Iterator<Item = (usize, f64)> {
    let blocks = distribution.chunks(BLOCK).enumerate().filter(|(_, block)| !is_nothing(block));
    blocks.flat_map(|(i, block)| (i * BLOCK..).zip(block.iter().copied()))
}

/// The sum of all probabilities.
pub(crate) fn total(distribution: &[f64]) -> f64 {
    tokens(distribution).map(|(_, p)| p).sum()
}

/// Divides all probabilities by a number.
pub(crate) fn divide(distribution: &mut [f64], by: f64) {
    blocks_mut(distribution).for_each(|(_, block)| block.iter_mut().for_each(|p| *p /= by));
}

/// Whether every probability is zero.
pub(crate) fn is_dead(distribution: &[f64]) -> bool {
    tokens(distribution).next().is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sums and tokens are those of a pass over all probabilities, whatever is skipped.
    #[test]
    fn passes_leave_nothing_out() {
        for size in [0, 1, 63, 64, 65, 300] {
            for every in [1, 7, 64, 100, 1000] {
                let p = |token: usize| if token % every == every / 2 { 1.0 / (token + 3) as f64 } else { 0.0 };
                let mut distribution: Vec<f64> = (0..size).map(p).collect();
                let all: Vec<(usize, f64)> =
                    distribution.iter().copied().enumerate().filter(|(_, p)| *p > 0.0).collect();
                assert_eq!(tokens(&distribution).filter(|(_, p)| *p > 0.0).collect::<Vec<_>>(), all);
                let sum = distribution.iter().fold(0.0, |sum, p| sum + p);
                assert_eq!((total(&distribution), is_dead(&distribution)), (sum, all.is_empty()));
                let halves: Vec<f64> = distribution.iter().map(|p| p / 2.0).collect();
                divide(&mut distribution, 2.0);
                assert_eq!(distribution, halves);
            }
        }
    }
}
