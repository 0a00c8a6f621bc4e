//! Samples a token on the device of its row, with steps as candle's operations, so that only a few kilobytes of a row
//! are copied back.
//!
//! Steps that sort all tokens (top-k, top-p, typical sampling) are not supported, since candle cannot sort rows of that
//! length on a GPU; nor are those that compare with the normalizer (epsilon, eta and top-a sampling, XTC).

use candle_core::{DType, Device, Result, Tensor};
use verdigris_logits::steps::{Step, Steps, Words};
use verdigris_logits::{Sampler, TokenId};

/// The number of tokens whose weights are summed before they are copied back.
const BLOCK: usize = 512;

/// Whether all steps are supported.
pub(crate) fn can(steps: &Steps) -> bool {
    !steps.steps().iter().any(|step| step.is_cut() && !matches!(step, Step::MinP(_)))
}

/// The token that `number` selects from a row (`[vocabulary]`, f32) after steps that are supported ([`can`]); `None` if
/// no token is allowed, or the row is broken.
pub(crate) fn draw(row: &Tensor, steps: &Steps, sampler: Sampler, number: f64) -> Result<Option<TokenId>> {
    let mut row = row.clone();
    for step in steps.steps() {
        row = apply(&row, steps, *step)?;
    }
    match sampler {
        Sampler::Greedy => greedy(&row),
        Sampler::Categorical => categorical(&row, number),
    }
}

fn apply(row: &Tensor, steps: &Steps, step: Step) -> Result<Tensor> {
    let (size, device) = (row.dim(0)?, row.device());
    let words = |set: Words| &steps.words()[set.from..set.from + set.count];
    let everywhere = |x: f32| Tensor::full(x, size, device);
    match step {
        Step::Restrict(set) => is_in(words(set), size, device)?.where_cond(row, &everywhere(f32::NEG_INFINITY)?),
        Step::Bias(set, delta) => {
            row + is_in(words(set), size, device)?.where_cond(&everywhere(delta)?, &everywhere(0.0)?)?
        }
        Step::Divide(by) => row / &everywhere(by)?,
        Step::Repetition(set, by) => {
            let (ids, ones): (Vec<TokenId>, Vec<f32>) =
                words(set).iter().map(|word| ((word >> 32) as TokenId, 1.0)).unzip();
            let by = everywhere(by)?;
            let changed = row.gt(0.0)?.where_cond(&(row / &by)?, &(row * &by)?)?;
            at(&ids, ones, size, device)?.gt(0.5)?.where_cond(&changed, row)
        }
        Step::Subtract(set) => {
            let each = words(set).iter().map(|word| ((word >> 32) as TokenId, f32::from_bits(*word as u32)));
            let (ids, numbers): (Vec<TokenId>, Vec<f32>) = each.unzip();
            row - at(&ids, numbers, size, device)?
        }
        Step::MinP(p) => {
            let bound = (row.max(0)?.to_dtype(DType::F64)? + p.ln())?;
            let is_below = row.to_dtype(DType::F64)?.broadcast_lt(&bound)?;
            is_below.where_cond(&everywhere(f32::NEG_INFINITY)?, row)
        }
        Step::TopK(_) | Step::TopP(_) | Step::TypicalP(_) | Step::Xtc(_) => {
            candle_core::bail!("a step that needs an order")
        }
        Step::EpsilonCutoff(_) | Step::EtaCutoff(_) | Step::TopA(_) => {
            candle_core::bail!("a step that needs the normalizer")
        }
    }
}

/// A mask of the set bits. Only the bits, eight to a byte, are copied to the device.
fn is_in(words: &[u64], size: usize, device: &Device) -> Result<Tensor> {
    let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(size.div_ceil(8), 0);
    let bytes = Tensor::from_vec(bytes, (size.div_ceil(8), 1), device)?.to_dtype(DType::F32)?;
    let powers = Tensor::new(&[[1f32, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0]], device)?;
    let shifted = bytes.broadcast_div(&powers)?.floor()?;
    let bits = (&shifted - ((&shifted / 2.0)?.floor()? * 2.0)?)?;
    bits.flatten_all()?.narrow(0, 0, size)?.gt(0.5)
}

/// A row with numbers at the given tokens, and zeros elsewhere. Tokens past the end are ignored.
fn at(ids: &[TokenId], numbers: Vec<f32>, size: usize, device: &Device) -> Result<Tensor> {
    let known = ids.partition_point(|&id| (id as usize) < size);
    let zeros = Tensor::zeros(size, DType::F32, device)?;
    if known == 0 {
        return Ok(zeros);
    }
    zeros.index_add(&Tensor::new(&ids[..known], device)?, &Tensor::new(&numbers[..known], device)?, 0)
}

/// Zero if all logits are finite or forbidden, otherwise NaN.
fn harm(row: &Tensor) -> Result<Tensor> {
    let zeros = row.zeros_like()?;
    (row.eq(f32::NEG_INFINITY)?.where_cond(&zeros, row)? * 0.0)?.sum(0)
}

fn greedy(row: &Tensor) -> Result<Option<TokenId>> {
    let (size, max) = (row.dim(0)?, row.max(0)?);
    // Indices in f32, which are exact up to 2^24; `size` where a logit is not the largest.
    let places = Tensor::arange(0u32, size as u32, row.device())?.to_dtype(DType::F32)?;
    let first = row.broadcast_eq(&max)?.where_cond(&places, &Tensor::full(size as f32, size, row.device())?)?.min(0)?;
    let [harm, max, first]: [f32; 3] =
        Tensor::stack(&[harm(row)?, max, first], 0)?.to_vec1()?.try_into().expect("three");
    Ok((harm == 0.0 && max > f32::NEG_INFINITY).then_some(first as TokenId))
}

/// Inverts the distribution function in two steps: first the block, then the token in it.
fn categorical(row: &Tensor, number: f64) -> Result<Option<TokenId>> {
    let (size, max) = (row.dim(0)?, row.max(0)?);
    let weights = row.broadcast_sub(&max)?.to_dtype(DType::F64)?.exp()?;
    let blocks = size.div_ceil(BLOCK);
    let weights = weights.pad_with_zeros(0, 0, blocks * BLOCK - size)?.reshape((blocks, BLOCK))?;
    let head = Tensor::stack(&[harm(row)?, max], 0)?.to_dtype(DType::F64)?;
    let all: Vec<f64> = Tensor::cat(&[head, weights.sum(1)?], 0)?.to_vec1()?;
    let (head, sums) = all.split_at(2);
    if head[0] != 0.0 || head[1] == f64::NEG_INFINITY {
        return Ok(None);
    }
    let (block, left) = pick(sums, number * sums.iter().sum::<f64>());
    let (token, _) = pick(&weights.get(block)?.to_vec1::<f64>()?, left);
    Ok(Some((block * BLOCK + token) as TokenId))
}

/// The index of the first weight at which the sum exceeds `left`, or of the last weight that is not zero; and the
/// remainder before it.
fn pick(weights: &[f64], mut left: f64) -> (usize, f64) {
    let mut chosen = (0, left);
    for (i, &weight) in weights.iter().enumerate().filter(|&(_, &weight)| weight > 0.0) {
        chosen = (i, left);
        left -= weight;
        if left < 0.0 {
            break;
        }
    }
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_logits::warp::{MinP, Temperature, TopK};
    use verdigris_logits::{Chain, CountPenalty, Forbid, Purpose, Random, RepetitionPenalty, Row, TokenSet, Transform};

    /// Every step, alone and with others, on rows of odd sizes: the same tokens as sampled from a row on the CPU.
    #[test]
    fn tokens_are_those_of_a_row_that_came_back() {
        let random = Random::new(5);
        for size in [1, 7, 64, 513, 5000] {
            let logits: Vec<f32> =
                (0..size).map(|i| 12.0 * random.uniform(i as u64, Purpose::Token) as f32 - 6.0).collect();
            let forbidden: Vec<TokenId> = (0..size as TokenId).filter(|t| t % 5 == 3).collect();
            let mut green = TokenSet::new(size);
            (0..size as TokenId).filter(|t| t % 4 == 1).for_each(|t| green.insert(t));
            let forbid = || Forbid::new(&forbidden, size);
            let repetition = || RepetitionPenalty::new(1.7).unwrap();
            let count = || CountPenalty::new(0.25, 0.5).unwrap();
            let chains = [
                Chain::new(),
                Chain::new().then(forbid()),
                Chain::new().then(Temperature::new(0.7).unwrap()),
                Chain::new().then(repetition()),
                Chain::new().then(count()),
                Chain::new().then(MinP::new(0.2).unwrap()),
                Chain::new()
                    .then(repetition())
                    .then(count())
                    .then(forbid())
                    .then(Temperature::new(1.3).unwrap())
                    .then(MinP::new(0.01).unwrap()),
            ];
            for (i, chain) in chains.iter().enumerate() {
                let mut state = chain.start(&[0, 1, size as TokenId + 7]);
                [0, 2, 2, 6]
                    .into_iter()
                    .filter(|&t| (t as usize) < size)
                    .for_each(|token| chain.advance(&mut state, token));
                for is_marked in [false, true] {
                    let (mut here, mut steps) = (Row::default(), Steps::default());
                    assert!(here.record(size, &mut steps, |row| {
                        chain.apply(&state, row);
                        if is_marked {
                            row.bias(&green, 2.5);
                        }
                    }));
                    assert!(can(&steps));
                    let mut expected = Row::from(logits.clone());
                    steps.apply(&mut expected);
                    let row = Tensor::new(&logits[..], &Device::Cpu).unwrap();
                    for n in 0..60 {
                        let number = random.uniform(n, Purpose::Draft);
                        for sampler in [Sampler::Greedy, Sampler::Categorical] {
                            let token = draw(&row, &steps, sampler, number).unwrap();
                            assert_eq!(
                                token,
                                sampler.sample(&expected, number),
                                "{size} {i} {is_marked} {sampler:?} {number}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn ties_and_rows_without_a_token_are_as_elsewhere() {
        let no = f32::NEG_INFINITY;
        for logits in [
            vec![1.0, 3.0, 3.0, no],
            vec![no; 4],
            vec![1.0, f32::NAN, 2.0],
            vec![1.0, f32::INFINITY, 2.0],
            vec![no, 0.5, no],
        ] {
            let row = Tensor::new(&logits[..], &Device::Cpu).unwrap();
            for sampler in [Sampler::Greedy, Sampler::Categorical] {
                for number in [0.0, 0.4, 1.0 - f64::EPSILON / 2.0] {
                    let expected = sampler.sample(&Row::from(logits.clone()), number);
                    assert_eq!(
                        draw(&row, &Steps::default(), sampler, number).unwrap(),
                        expected,
                        "{logits:?} {sampler:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn what_needs_an_order_is_left_to_others() {
        let (mut row, mut steps) = (Row::default(), Steps::default());
        assert!(row.record(9, &mut steps, |row| TopK::new(3).unwrap().apply(&(), row)));
        assert!(!can(&steps));
    }
}
