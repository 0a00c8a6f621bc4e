//! Multi-bit marks: a number of up to 32 bits in the text, read back with the key.
//!
//! Position allocation after Yoo, Ahn and Kwak, *Advancing beyond identification: multi-bit watermark for large
//! language models*, NAACL 2024: the context's seed chooses one of several positions, and the symbol there chooses
//! which quarter of the vocabulary is green (radix 4, so `gamma` is 1/4). Bit `i` of the payload enters a tail-biting
//! convolutional code of rate 1/2 and constraint length 7 (generators 171 and 133 octal, the classical pair of
//! Odenwalder 1970), whose two output bits are symbol `i`. There are thus as many positions as bits, and a symbol lost
//! to noise is recovered from its neighbours.
//!
//! The reader counts, for each position and symbol, the tokens that were green under it, and finds the payload with the
//! most green tokens of *all* payloads (Viterbi's algorithm from every starting state). Since all payloads were tried,
//! its binomial p-value is multiplied by their number. The probability of another payload, given that there is one,
//! follows from the sum of the likelihoods of all payloads.

use std::sync::Arc;

use verdigris_logits::{Row, TokenId};

use crate::detect::Evidence;
pub use crate::dialects::error::{BITS, BadPayload};
use crate::dialects::native::Native;
use crate::distinct::Distinct;
use crate::real::{exp, ln, ln_1p};
use crate::scheme::{Observation, Scheme, mark_list};
use crate::score_distribution::ScoreDistribution;
use crate::statistics::{binomial, ln_corrected};
use crate::strength::Strength;

/// The number of bits in the code's memory.
const MEMORY: usize = 6;
const STATES: usize = 1 << MEMORY;
const GENERATORS: [u32; 2] = [0o171, 0o133];

/// The native scheme with a payload. For those who know the payload it is a scheme like any other.
#[derive(Debug)]
pub struct Carrier {
    native: Native,
    symbols: Vec<u8>,
}

impl Carrier {
    /// A scheme that writes `payload`, the lowest `bits` of a number.
    ///
    /// # Errors
    /// [`BadPayload::TooLarge`] if `payload` has more bits.
    pub fn new(native: Native, bits: u8, payload: u32) -> Result<Self, BadPayload> {
        if bits < 32 && payload >> bits != 0 {
            return Err(BadPayload::TooLarge { payload, bits });
        }
        Ok(Self { native, symbols: encode(payload, bits) })
    }
}

impl Scheme for Carrier {
    fn distribution(&self) -> ScoreDistribution {
        self.native.distribution()
    }

    fn context_width(&self) -> usize {
        self.native.context_width()
    }

    fn vocabulary_size(&self) -> usize {
        self.native.vocabulary_size()
    }

    fn observe(&self, tokens: &[TokenId], out: &mut Vec<Observation>) {
        self.native.coloured(tokens, |observation, position, colour| {
            let symbol = self.symbols[position_of(position, self.symbols.len())];
            out.push(Observation { score: f32::from(u8::from(colour == u16::from(symbol))), ..observation });
        });
    }

    fn mark(&self, context: &[TokenId], strength: Strength, row: &mut Row) {
        let symbol = self.symbols[position_of(self.native.position(context), self.symbols.len())];
        mark_list(row, self.native.vocabulary_size(), strength, |green| {
            self.native.colour_list(context, u16::from(symbol), green);
        });
    }

    fn context_name(&self, context: &[TokenId]) -> u64 {
        self.native.context_name(context)
    }

    fn context_decides(&self) -> bool {
        self.native.context_decides()
    }
}

/// Reads the payload of one text, in any number of pieces.
pub struct PayloadReader {
    native: Arc<Native>,
    bits: u8,
    tail: Vec<TokenId>,
    contexts: Distinct,
    observations: Distinct,
    /// Counted tokens by position and colour.
    counts: Vec<[u64; 4]>,
}

/// A payload that was read.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PayloadReading {
    /// The payload with the most green tokens.
    pub payload: u32,
    /// The number of counted tokens.
    pub scored: u64,
    /// The number of them that are green under the payload.
    pub green: u64,
    /// The expected number of green tokens under any one payload by chance.
    pub expected: f64,
    /// The logarithm of the p-value for the text carrying any payload, corrected for the number of payloads.
    pub ln_p: f64,
    /// The probability that another payload was written, if one was: from the likelihoods of all payloads at the
    /// strength of this one.
    pub doubt: f64,
}

impl PayloadReader {
    /// A reader for payloads of `bits` bits.
    pub fn new(native: Arc<Native>, bits: u8) -> Self {
        let counts = vec![[0; 4]; usize::from(bits)];
        Self { native, bits, tail: Vec::new(), contexts: Distinct::new(), observations: Distinct::new(), counts }
    }

    /// Reads the next tokens of the text.
    pub fn push(&mut self, tokens: &[TokenId]) {
        self.push_if(tokens, |_| true);
    }

    /// Like [`PayloadReader::push`], but counts only tokens with a choice, like
    /// [`Detector::push_choices`](crate::Detector::push_choices).
    ///
    /// # Panics
    /// If `tokens` and `choices` have different lengths.
    pub fn push_choices(&mut self, tokens: &[TokenId], choices: &[u32]) {
        assert_eq!(tokens.len(), choices.len(), "one number a token");
        self.push_if(tokens, |i| choices[i] > 1);
    }

    /// Counts the tokens of the piece for whose index `is_free` returns true.
    fn push_if(&mut self, tokens: &[TokenId], is_free: impl Fn(usize) -> bool) {
        self.tail.extend_from_slice(tokens);
        let Self { native, tail, contexts, observations, counts, .. } = self;
        // The first judged token has a complete context before it.
        let mut place = tokens.len() - tail.len().saturating_sub(native.context_width());
        native.coloured(tail, |observation, position, colour| {
            place += 1;
            if !is_free(place - 1) {
                return;
            }
            if contexts.insert(observation.context).is_some() && observations.insert(observation.identity).is_some() {
                let position = position_of(position, counts.len());
                counts[position][usize::from(colour)] += 1;
            }
        });
        let width = native.context_width();
        tail.drain(..tail.len().saturating_sub(width));
    }

    /// The number of possible payloads, all of which are tried.
    pub fn payloads(&self) -> f64 {
        2f64.powi(i32::from(self.bits))
    }

    /// The evidence that a text of `tokens` tokens carries any payload, corrected for the number of payloads.
    pub fn evidence(&self, tokens: u64) -> Evidence {
        let read = self.read();
        Evidence::from_sum(&self.native.distribution(), read.scored, read.green as f64)
            .of_tokens(tokens)
            .best_of(self.payloads())
    }

    /// The most likely payload, if the text carries any.
    pub fn read(&self) -> PayloadReading {
        let scored = self.counts.iter().flatten().sum();
        let (payload, green) = decode(&self.counts, self.bits);
        let ln_p = ln_corrected(binomial::ln_tail(scored, green, self.native.gamma()), self.payloads());
        // The factor by which a green token is more probable than another one.
        let share = ((green as f64 + 0.25) / (scored as f64 + 1.0)).clamp(0.25, 0.99);
        let odds = ln(share / (1.0 - share) * 3.0);
        let doubt = 1.0 - exp(odds * green as f64 - ln_likelihoods(&self.counts, odds)).min(1.0);
        PayloadReading { payload, scored, green, expected: scored as f64 * self.native.gamma(), ln_p, doubt }
    }
}

/// A position from 32 uniform bits.
fn position_of(bits: u32, positions: usize) -> usize {
    ((u64::from(bits) * positions as u64) >> 32) as usize
}

/// The symbol of a state, which is the last seven bits with the newest lowest.
fn symbol(window: u32) -> u8 {
    let [a, b] = GENERATORS.map(|generator| (window & generator).count_ones() as u8 & 1);
    a << 1 | b
}

fn bit(payload: u32, i: usize) -> u32 {
    payload >> i & 1
}

/// Encodes a payload, one symbol per bit. The bits before the first one are the last ones (tail-biting).
fn encode(payload: u32, bits: u8) -> Vec<u8> {
    let n = usize::from(bits);
    let mut window = (n - MEMORY..n).fold(0, |window, i| window << 1 | bit(payload, i));
    (0..n)
        .map(|i| {
            window = (window << 1 | bit(payload, i)) & ((1 << (MEMORY + 1)) - 1);
            symbol(window)
        })
        .collect()
}

/// Walks the code's trellis from every starting state back to itself.
/// `step(into, from, index, newest bit, symbol's count)` combines values; returns the value of each start.
fn trellis<T: Copy>(
    counts: &[[u64; 4]],
    none: T,
    one: T,
    mut step: impl FnMut(T, T, usize, u32, u64) -> T,
) -> impl Iterator<Item = (usize, T)> {
    (0..STATES).map(move |start| {
        let mut states = [none; STATES];
        states[start] = one;
        for (i, counts) in counts.iter().enumerate() {
            let mut next = [none; STATES];
            for (state, &value) in states.iter().enumerate() {
                for newest in 0..2u32 {
                    let window = (state as u32) << 1 | newest;
                    let to = window as usize & (STATES - 1);
                    next[to] = step(next[to], value, i, newest, counts[usize::from(symbol(window))]);
                }
            }
            states = next;
        }
        (start, states[start])
    })
}

/// The payload with the largest count, and that count.
fn decode(counts: &[[u64; 4]], bits: u8) -> (u32, u64) {
    debug_assert_eq!(counts.len(), usize::from(bits));
    let paths = trellis(counts, None, Some((0u64, 0u32)), |best, from, i, newest, count| {
        let path = from.map(|(sum, payload)| (sum + count, payload | newest << i));
        match (best, path) {
            (Some(a), Some(b)) if b.0 > a.0 => Some(b),
            (None, path) => path,
            (best, _) => best,
        }
    });
    let best = paths.filter_map(|(_, path)| path).max_by_key(|path| path.0);
    best.map_or((0, 0), |(sum, payload)| (payload, sum))
}

/// `ln` of the sum over all payloads of `e^(odds * count)`.
fn ln_likelihoods(counts: &[[u64; 4]], odds: f64) -> f64 {
    let no = f64::NEG_INFINITY;
    let starts = trellis(counts, no, 0.0, |sum, from, _, _, count| ln_add(sum, from + odds * count as f64));
    starts.fold(no, |sum, (_, value)| ln_add(sum, value))
}

fn ln_add(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if low == f64::NEG_INFINITY { high } else { high + ln_1p(exp(low - high)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dialect::{BadDialect, Dialect};
    use crate::dialects::native;
    use crate::{Context, ContextFunction, Gamma};
    use verdigris_logits::random::philox4x32;
    use verdigris_logits::{Purpose, Random, Sampler, Transform};

    fn counts(bits: u8, seed: u32) -> Vec<[u64; 4]> {
        (0..u32::from(bits)).map(|i| philox4x32([i, 0, 0, 0], [seed, 0]).map(|word| u64::from(word % 5))).collect()
    }

    fn sum(payload: u32, counts: &[[u64; 4]], bits: u8) -> u64 {
        encode(payload, bits).iter().zip(counts).map(|(&symbol, counts)| counts[usize::from(symbol)]).sum()
    }

    /// Compared with all 1024 payloads of ten bits.
    #[test]
    fn decoding_equals_looking_at_every_payload() {
        for seed in 0..50 {
            let counts = counts(10, seed);
            let most = (0..1024).map(|payload| sum(payload, &counts, 10)).max().unwrap();
            let (payload, green) = decode(&counts, 10);
            assert_eq!((green, sum(payload, &counts, 10)), (most, most));
            let odds = 0.7;
            let all: f64 = (0..1024).map(|payload| (odds * sum(payload, &counts, 10) as f64).exp()).sum();
            assert!((ln_likelihoods(&counts, odds) - all.ln()).abs() < 1e-9);
        }
    }

    /// Codewords of different payloads differ in many symbols.
    #[test]
    fn codewords_are_far_apart() {
        let least = |bits: u8| {
            let zero = encode(0, bits);
            let differs = |payload| encode(payload, bits).iter().zip(&zero).filter(|(a, b)| a != b).count();
            (1..1u32 << bits).map(differs).min().unwrap()
        };
        assert_eq!([least(8), least(12), least(16)], [2, 3, 4]);
    }

    /// Codes are those of docs/spec.md: compares with `fixtures/spec/vectors.json`, made by a second implementation.
    #[test]
    fn codes_are_those_of_the_specification() {
        let vectors: serde_json::Value =
            serde_json::from_str(include_str!("../../../fixtures/spec/vectors.json")).unwrap();
        let cases = vectors["codes"].as_array().unwrap();
        assert!(cases.len() > 3);
        for case in cases {
            let number = |name: &str| case["input"][name].as_u64().unwrap();
            let symbols = encode(number("payload") as u32, number("bits") as u8);
            let symbols: String = symbols.iter().map(u8::to_string).collect();
            assert_eq!(case["answer"]["symbols"], symbols.as_str(), "{case}");
        }
        for case in vectors["payload_counts"].as_array().unwrap() {
            let counts: Vec<[u64; 4]> = serde_json::from_value(case["input"]["counts"].clone()).unwrap();
            let (payload, green) = decode(&counts, counts.len() as u8);
            assert_eq!(case["answer"], serde_json::json!({"payload": payload, "green": green}), "{case}");
        }
    }

    fn native(context: ContextFunction) -> Native {
        let context = Context::new(context, 2).unwrap();
        Native::new(&[4; 32], "p", "", Gamma::new(0.25).unwrap(), context, 500)
    }

    fn write(scheme: Arc<dyn Scheme>, n: u64, seed: u64) -> Vec<TokenId> {
        let embed = crate::Embed::new(scheme, Strength::soft(2.5).unwrap());
        let random = Random::new(seed);
        let mut text = vec![1, 2];
        let mut state = embed.start(&text);
        for position in 0..n {
            let logits: Vec<f32> =
                (0..500u64).map(|t| 2.0 * random.uniform(position * 512 + t, Purpose::Data) as f32).collect();
            let mut row = Row::from(logits);
            embed.apply(&state, &mut row);
            let token = Sampler::Categorical.sample(&row, random.uniform(position, Purpose::Token)).unwrap();
            embed.advance(&mut state, token);
            text.push(token);
        }
        text
    }

    #[test]
    fn what_is_written_is_read() {
        for function in [ContextFunction::All, ContextFunction::Min] {
            for (bits, payload) in [(8, 0xa5), (16, 0xbeef), (32, 0xdead_beef)] {
                let carrier = Arc::new(Carrier::new(native(function), bits, payload).unwrap());
                let text = write(carrier.clone(), 500, u64::from(payload));
                let mut reader = PayloadReader::new(Arc::new(native(function)), bits);
                text.chunks(37).for_each(|piece| reader.push(piece));
                let reading = reader.read();
                assert_eq!(reading.payload, payload, "{reading:x?}");
                assert!(reading.ln_p < -20.0 && reading.doubt < 1e-3, "{reading:?}");
                // With a known payload the same tokens are green.
                let evidence = Evidence::of(carrier, &text);
                assert_eq!((evidence.scored, evidence.score), (reading.scored, reading.green as f64));
            }
        }
    }

    /// The doubt is the posterior share of all other payloads by Bayes, with the likelihood of a green token estimated
    /// from the green ones found.
    #[test]
    fn doubt_is_what_bayes_says_of_all_payloads() {
        for (n, seed) in [(40, 5), (60, 6), (120, 7)] {
            let text = write(Arc::new(Carrier::new(native(ContextFunction::All), 8, 0x5a).unwrap()), n, seed);
            let mut reader = PayloadReader::new(Arc::new(native(ContextFunction::All)), 8);
            reader.push(&text);
            let reading = reader.read();
            let share = (reading.green as f64 + 0.25) / (reading.scored as f64 + 1.0);
            assert!(share > 0.62 && share < 0.99, "{share}");
            let likelihood = |payload: u32| {
                let green: u64 = encode(payload, 8).iter().zip(&reader.counts).map(|(&at, of)| of[at as usize]).sum();
                (share / (1.0 - share) * 3.0).powf(green as f64 - reading.green as f64)
            };
            let all: f64 = (0..256).map(likelihood).sum();
            assert!((reading.doubt - (1.0 - 1.0 / all)).abs() < 1e-9, "{n}: {} {}", reading.doubt, 1.0 - 1.0 / all);
        }
    }

    /// The counts of free and of forced tokens add up to the counts of all.
    #[test]
    fn forced_tokens_carry_nothing() {
        let text: Vec<TokenId> = (0..400).map(|i| philox4x32([i, 0, 0, 0], [1, 4])[0] % 500).collect();
        let free: Vec<u32> = text.iter().map(|token| 1 + token % 2).collect();
        let forced: Vec<u32> = free.iter().map(|ways| 3 - ways).collect();
        let counts = |choices: &[u32]| {
            let mut reader = PayloadReader::new(Arc::new(native(ContextFunction::All)), 16);
            text.chunks(37).zip(choices.chunks(37)).for_each(|(text, choices)| reader.push_choices(text, choices));
            reader.counts
        };
        let mut whole = PayloadReader::new(Arc::new(native(ContextFunction::All)), 16);
        whole.push(&text);
        let (free, forced) = (counts(&free), counts(&forced));
        for ((free, forced), whole) in
            free.iter().flatten().zip(forced.iter().flatten()).zip(whole.counts.iter().flatten())
        {
            assert_eq!(free + forced, *whole);
        }
        assert!(free.iter().flatten().sum::<u64>() > 100 && forced.iter().flatten().sum::<u64>() > 100);
    }

    /// In unmarked text the corrected p-value is rarely small, and the doubt is large.
    #[test]
    fn unmarked_text_carries_nothing() {
        let alarms = (0..300u32)
            .filter(|&seed| {
                let text: Vec<TokenId> = (0..200).map(|i| philox4x32([i, 0, 0, 0], [seed, 9])[0] % 500).collect();
                let mut reader = PayloadReader::new(Arc::new(native(ContextFunction::All)), 16);
                reader.push(&text);
                let reading = reader.read();
                assert!(reading.doubt > 0.01, "{reading:?}");
                reading.ln_p <= 0.1f64.ln()
            })
            .count();
        assert!(alarms <= 30, "{alarms}");
    }

    #[test]
    fn impossible_payloads_are_refused() {
        let scheme = |gamma, function, bits| {
            let (gamma, context) = (Gamma::new(gamma).unwrap(), Context::new(function, 2).unwrap());
            let dialect = Dialect::Native(native::Parameters { gamma, context, payload_bits: Some(bits) });
            dialect.scheme(&[3; 32], "", "", 500).map(|_| ())
        };
        assert_eq!(scheme(0.25, ContextFunction::All, 16), Ok(()));
        let refused = |bad: BadPayload| Err(BadDialect::Payload(bad));
        assert_eq!(scheme(0.25, ContextFunction::All, 7), refused(BadPayload::Bits(7)));
        assert_eq!(scheme(0.25, ContextFunction::All, 33), refused(BadPayload::Bits(33)));
        assert_eq!(scheme(0.5, ContextFunction::All, 16), refused(BadPayload::Gamma));
        assert_eq!(scheme(0.25, ContextFunction::SelfSalted, 16), refused(BadPayload::SelfSalted));
        assert!(Carrier::new(native(ContextFunction::All), 8, 256).is_err());
    }
}
