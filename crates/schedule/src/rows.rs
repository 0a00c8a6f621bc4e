//! The number of tokens that a pass should read, from how long passes take.
//!
//! `v(m)` is the time of a pass of m tokens relative to that of one: near 1 as long as reading the weights dominates,
//! near m when arithmetic does (Sarathi-Serve, Agrawal et al., 2024, section 4.1). A pass should read enough tokens to
//! make each of them nearly as cheap as possible, and no more: every text that is being written waits for the whole
//! pass.

use std::time::{Duration, Instant};

use verdigris_logits::TokenId;
use verdigris_models::{Batch, LanguageModel, ModelError, Rows, Wanted};

/// The maximum number of tokens that is tried.
const MOST: usize = 512;

/// The cost of a token that is still acceptable, relative to the best pass.
const NEARLY: f64 = 1.15;

/// No larger pass is tried after one that took this long, since the next would take twice as long.
const LONGEST: Duration = Duration::from_millis(400);

/// Measures passes of 1, 2, 4, ... tokens and returns the best number. It takes a second or two at most, unless a
/// single token takes longer.
///
/// # Errors
/// The model's.
pub fn measured(model: &std::sync::Arc<dyn LanguageModel>) -> Result<usize, ModelError> {
    let most = MOST.min(model.context_length());
    let mut sequence = model.clone().begin(most)?;
    let tokens: Vec<TokenId> = vec![0; most];
    let (mut times, mut rows, mut count) = (Vec::new(), Rows::default(), 1);
    // The first pass is slower than all others.
    sequence.forward(&Batch::chain(&tokens[..1], Wanted::Last), &mut rows)?;
    while count <= most {
        let mut best = Duration::MAX;
        for _ in 0..3 {
            sequence.truncate(0);
            let begun = Instant::now();
            sequence.forward(&Batch::chain(&tokens[..count], Wanted::Last), &mut rows)?;
            best = best.min(begun.elapsed());
            if best > LONGEST / 4 {
                break;
            }
        }
        times.push((count, best.as_secs_f64()));
        if best > LONGEST {
            break;
        }
        count *= 2;
    }
    Ok(worth_it(&times))
}

/// The smallest number of tokens at which each costs nearly the minimum, by the seconds of passes.
fn worth_it(times: &[(usize, f64)]) -> usize {
    let each = |&(count, seconds): &(usize, f64)| seconds / count as f64;
    let least = times.iter().map(each).fold(f64::INFINITY, f64::min);
    times.iter().find(|time| each(time) <= NEARLY * least).map_or(1, |&(count, _)| count)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine that takes a second to read the weights, and computes `tokens_a_second` tokens in that time.
    fn machine(tokens_a_second: f64) -> Vec<(usize, f64)> {
        (0..10).map(|i| 1 << i).map(|m| (m, (m as f64 / tokens_a_second).max(1.0))).collect()
    }

    #[test]
    fn a_pass_reads_as_many_tokens_as_are_cheap() {
        // From the size at which arithmetic takes as long as memory.
        assert_eq!([6.0, 8.0, 200.0, 1e6].map(|speed| worth_it(&machine(speed))), [8, 8, 256, 512]);
        // When each token takes as long as the first, one at a time.
        assert_eq!(worth_it(&[(1, 1.0), (2, 2.0), (4, 4.0)]), 1);
        assert_eq!(worth_it(&[(1, 1.0)]), 1);
    }
}
