//! Probability distributions over tokens. Warpers set most probabilities to zero, so these passes skip blocks of zeros,
//! which change no sum, and leave loops that compilers vectorise.

/// The number of probabilities checked together.
const BLOCK: usize = 64;

fn is_nothing(block: &[f64]) -> bool {
    block.iter().fold(true, |nothing, &p| nothing & (p == 0.0))
}

/// The blocks with a nonzero probability, each with the index of its first token.
pub(crate) fn blocks_mut(law: &mut [f64]) -> impl Iterator<Item = (usize, &mut [f64])> {
    law.chunks_mut(BLOCK).enumerate().filter(|(_, block)| !is_nothing(block)).map(|(i, block)| (i * BLOCK, block))
}

/// Tokens and their probabilities in ascending order. Some tokens of probability zero are left out.
pub(crate) fn tokens(law: &[f64]) -> impl Iterator<Item = (usize, f64)> {
    let blocks = law.chunks(BLOCK).enumerate().filter(|(_, block)| !is_nothing(block));
    blocks.flat_map(|(i, block)| (i * BLOCK..).zip(block.iter().copied()))
}

/// The sum of all probabilities.
pub(crate) fn total(law: &[f64]) -> f64 {
    tokens(law).map(|(_, p)| p).sum()
}

/// Divides all probabilities by a number.
pub(crate) fn divide(law: &mut [f64], by: f64) {
    blocks_mut(law).for_each(|(_, block)| block.iter_mut().for_each(|p| *p /= by));
}

/// Whether every probability is zero.
pub(crate) fn is_dead(law: &[f64]) -> bool {
    tokens(law).next().is_none()
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
                let mut law: Vec<f64> = (0..size).map(p).collect();
                let all: Vec<(usize, f64)> = law.iter().copied().enumerate().filter(|(_, p)| *p > 0.0).collect();
                assert_eq!(tokens(&law).filter(|(_, p)| *p > 0.0).collect::<Vec<_>>(), all);
                let sum = law.iter().fold(0.0, |sum, p| sum + p);
                assert_eq!((total(&law), is_dead(&law)), (sum, all.is_empty()));
                let halves: Vec<f64> = law.iter().map(|p| p / 2.0).collect();
                divide(&mut law, 2.0);
                assert_eq!(law, halves);
            }
        }
    }
}
