//! JSON numbers within bounds, as automata over digits.
//!
//! Numbers are written without exponents, leading zeros or negative zero, and with no more digits than every parser
//! preserves: 15 if a fraction is allowed (an `f64` distinguishes all such decimals), and the range of an `i64` or
//! `u64` if not. If the bounds leave none of those, a number has zeros in addition to its 15 digits.

use std::cmp::Ordering;

use crate::automata::automaton::{Automaton, NoAutomaton};
use crate::automata::budget::Budget;

/// The significant digits of a number that may have a fraction.
const DIGITS: usize = 15;

/// The largest integer that is written unless a bound requires more: 18 digits fit an `i64`.
const MAX_INTEGER: i128 = 999_999_999_999_999_999;

/// A bound on a number.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Bound {
    pub(crate) value: Decimal,
    /// Whether the bound itself is included.
    pub(crate) inclusive: bool,
}

/// A decimal number: `negative` and the digits before and after the point, without superfluous zeros.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Decimal {
    negative: bool,
    whole: Vec<u8>,
    fraction: Vec<u8>,
}

impl Bound {
    /// Whether fewer numbers are above this bound than above another.
    pub(crate) fn is_tighter_below(&self, other: &Self) -> bool {
        self.value.cmp(&other.value).then(other.inclusive.cmp(&self.inclusive)) == Ordering::Greater
    }

    /// Whether fewer numbers are below this bound than below another.
    pub(crate) fn is_tighter_above(&self, other: &Self) -> bool {
        self.value.cmp(&other.value).then(self.inclusive.cmp(&other.inclusive)) == Ordering::Less
    }
}

impl Ord for Decimal {
    fn cmp(&self, other: &Self) -> Ordering {
        let size = self.whole.len().cmp(&other.whole.len()).then_with(|| self.whole.cmp(&other.whole));
        let size = size.then_with(|| self.fraction.cmp(&other.fraction));
        match (self.negative, other.negative) {
            (false, false) => size,
            (true, true) => size.reverse(),
            (negative, _) => {
                if negative {
                    Ordering::Less
                } else {
                    Ordering::Greater
                }
            }
        }
    }
}

impl PartialOrd for Decimal {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Decimal {
    /// Parses a JSON number as serde_json writes it.
    pub(crate) fn parse(text: &str) -> Self {
        let (negative, text) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let exponent: i64 = exponent.parse().expect("a JSON number has a whole exponent");
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let digits: Vec<u8> = whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0').collect();
        // The number of digits before the point.
        let point = whole.len() as i64 + exponent;
        let digit = |i: i64| usize::try_from(i).ok().and_then(|i| digits.get(i)).copied().unwrap_or(0);
        let mut whole: Vec<u8> = (0..point.max(0)).map(digit).skip_while(|&digit| digit == 0).collect();
        if whole.is_empty() {
            whole.push(0);
        }
        let mut fraction: Vec<u8> = (point.min(0)..digits.len() as i64).filter(|&i| i >= point).map(digit).collect();
        while fraction.last() == Some(&0) {
            fraction.pop();
        }
        let zero = whole == [0] && fraction.is_empty();
        Self { negative: negative && !zero, whole, fraction }
    }

    /// The number of digits.
    pub(crate) fn digits(&self) -> usize {
        self.whole.len() + self.fraction.len()
    }

    pub(crate) fn is_whole(&self) -> bool {
        self.fraction.is_empty()
    }

    pub(crate) fn is_positive(&self) -> bool {
        !self.negative && (self.whole != [0] || !self.fraction.is_empty())
    }

    /// Whether this is an integer multiple of another number, which is above zero.
    pub(crate) fn is_multiple_of(&self, of: &Self) -> bool {
        let Some((step, places)) = of.scaled() else { return false };
        // With as many digits after the point as the step has, it must be an integer.
        if self.fraction.len() > places {
            return false;
        }
        let zeros = std::iter::repeat_n(&0, places - self.fraction.len());
        let digits = self.whole.iter().chain(&self.fraction).chain(zeros);
        digits.fold(0, |rest, &digit| (rest * 10 + u64::from(digit)) % step) == 0
    }

    /// The number without its point, and the number of digits after the point; `None` if it is too large.
    fn scaled(&self) -> Option<(u64, usize)> {
        let digits = self.whole.iter().chain(&self.fraction);
        let step = digits.fold(0u64, |n, &digit| n.saturating_mul(10).saturating_add(digit.into()));
        (step < 1 << 60).then_some((step, self.fraction.len()))
    }

    /// The number as JSON, without an exponent.
    pub(crate) fn text(&self) -> String {
        let digits = |digits: &[u8]| digits.iter().map(|digit| char::from(b'0' + digit)).collect::<String>();
        let sign = if self.negative { "-" } else { "" };
        let point = if self.fraction.is_empty() { "" } else { "." };
        format!("{sign}{}{point}{}", digits(&self.whole), digits(&self.fraction))
    }

    /// The nearest integer on one side, clamped to what an `i128` easily holds.
    fn to_integer(&self, up: bool) -> i128 {
        let whole = self.whole.iter().try_fold(0i128, |n, &digit| {
            let n = n * 10 + i128::from(digit);
            (n < 1 << 100).then_some(n)
        });
        let whole = whole.unwrap_or(1 << 100);
        let signed = if self.negative { -whole } else { whole };
        match (self.fraction.is_empty(), up, self.negative) {
            (false, true, false) => signed + 1,
            (false, false, true) => signed - 1,
            _ => signed,
        }
    }
}

/// Limits on the number of digits.
#[derive(Clone, Copy)]
struct Digits {
    /// In total, and after the point.
    most: usize,
    after: usize,
    /// Counted from the first nonzero digit; beyond them there are zeros up to the point, and nothing after it. A
    /// number that begins like a bound may have all digits of that bound.
    significant: usize,
}

impl Digits {
    fn up_to(most: usize) -> Self {
        Self { most, after: most, significant: most }
    }

    /// The digits needed for numbers near these bounds.
    fn near(low: Option<&Bound>, high: Option<&Bound>) -> Self {
        let bounds = || low.into_iter().chain(high).map(|bound| &bound.value);
        let whole = bounds().map(|value| value.whole.len()).max().unwrap_or(0).max(DIGITS) + 1;
        let after = bounds().map(|value| value.fraction.len()).max().unwrap_or(0) + 1;
        Self { most: whole + after, after, significant: DIGITS }
    }
}

/// Integers within bounds.
pub(crate) fn integer(low: Option<&Bound>, high: Option<&Bound>) -> Result<Automaton, NoAutomaton> {
    let mut least = low.map(|bound| {
        let n = bound.value.to_integer(true);
        if bound.inclusive || !bound.value.fraction.is_empty() { n } else { n + 1 }
    });
    let mut most = high.map(|bound| {
        let n = bound.value.to_integer(false);
        if bound.inclusive || !bound.value.fraction.is_empty() { n } else { n - 1 }
    });
    // A bound may require larger numbers than are written without one, within the limits of parsers.
    let (i64_min, u64_max) = (i128::from(i64::MIN), i128::from(u64::MAX));
    least = least.map(|n| n.max(i64_min));
    most = most.map(|n| n.min(u64_max));
    let highest = if least.is_some_and(|n| n > MAX_INTEGER) { u64_max } else { MAX_INTEGER };
    let lowest = if most.is_some_and(|n| n < -MAX_INTEGER) { i64_min } else { -MAX_INTEGER };
    let (least, most) = (least.unwrap_or(lowest), most.unwrap_or(highest));
    let bound = |n: i128| Bound { value: Decimal::parse(&n.to_string()), inclusive: true };
    numbers(Some(&bound(least)), Some(&bound(most)), Digits::up_to(20), false)
}

/// Numbers within bounds, with or without a fraction.
pub(crate) fn number(low: Option<&Bound>, high: Option<&Bound>) -> Result<Automaton, NoAutomaton> {
    numbers(low, high, Digits::up_to(DIGITS), true)
}

/// Numbers within bounds that exclude all of the above, such as `1e20`: they have more digits, of which the last are
/// zeros.
pub(crate) fn far(low: Option<&Bound>, high: Option<&Bound>, whole: bool) -> Result<Automaton, NoAutomaton> {
    numbers(low, high, Digits::near(low, high), !whole)
}

/// The maximum step, without its point and trailing zeros, for which multiples are supported.
pub(crate) const MAX_STEP: u64 = 1 << 12;

/// All multiples of a number above zero.
pub(crate) fn multiples(budget: &Budget, of: &Decimal) -> Result<Automaton, NoAutomaton> {
    let Some((mut step, places)) = of.scaled() else { return Err(NoAutomaton::TooLarge) };
    // A multiple of an integer step has at least the trailing zeros of the step; these are counted, not divided by.
    let mut zeros = 0u32;
    while places == 0 && step.is_multiple_of(10) {
        (step, zeros) = (step / 10, zeros + 1);
    }
    if step > MAX_STEP {
        return Err(NoAutomaton::TooLarge);
    }
    /// The digits so far, without those trailing zeros that the step has too.
    #[derive(Clone, PartialEq, Eq, Hash)]
    struct MultipleState {
        begun: bool,
        /// Their remainder modulo the step.
        left: u64,
        /// The number of zeros after them, as far as it matters. Zero itself has enough.
        zeros: u32,
        /// The number of digits after the point; `None` before it.
        after: Option<usize>,
    }
    let digit = |at: &MultipleState, digit: u64, after| match digit {
        0 if at.zeros < zeros => MultipleState { begun: true, zeros: at.zeros + 1, after, ..*at },
        0 => MultipleState { begun: true, left: at.left * 10 % step, after, ..*at },
        _ => {
            let left = (0..=at.zeros).fold(at.left, |left, _| left * 10 % step);
            MultipleState { begun: true, left: (left + digit) % step, zeros: 0, after }
        }
    };
    Automaton::explore_within(
        budget,
        MultipleState { begun: false, left: 0, zeros, after: None },
        |byte| matches!(byte, b'0'..=b'9' | b'-' | b'.').then_some(byte),
        |at, byte| match (byte, at.after) {
            (b'-', None) if !at.begun => Some(MultipleState { begun: true, ..*at }),
            (b'0'..=b'9', None) => Some(digit(at, u64::from(byte - b'0'), None)),
            (b'.', None) if at.begun => Some(MultipleState { after: Some(0), ..*at }),
            (b'0'..=b'9', Some(after)) if after < places => Some(digit(at, u64::from(byte - b'0'), Some(after + 1))),
            // Digits finer than the step must be zero.
            (b'0', Some(_)) => Some(at.clone()),
            _ => None,
        },
        |at| {
            let left = (at.after.unwrap_or(0)..places).fold(at.left, |left, _| left * 10 % step);
            at.begun && at.zeros == zeros && left == 0
        },
    )
}

/// The numbers without a zero at the end of a fraction, so that each has one notation.
pub(crate) fn one_form() -> Automaton {
    // `None` before the point, then whether the last digit is nonzero.
    Automaton::explore(
        None,
        |byte| if byte.is_ascii_digit() { byte.min(b'1') } else { byte },
        |&state, byte| match (state, byte) {
            (None, b'-' | b'0'..=b'9') => Some(None),
            (None, b'.') => Some(Some(false)),
            (Some(_), b'0'..=b'9') => Some(Some(byte != b'0')),
            _ => None,
        },
        |&state| state != Some(false),
    )
    .expect("it is small")
}

/// The maximum number of redundant zeros in a fraction, and of digits of an exponent.
const MAX_ZEROS: u8 = 3;
const MAX_EXPONENT: u8 = 2;

/// The numbers of an automaton in more notations: after an integer of up to 15 digits, which parsers to floating point
/// preserve, a fraction of zeros; and, if their size does not matter, an exponent, which keeps an integer an integer.
pub(crate) fn in_more_forms(plain: &Automaton, with_exponent: bool) -> Result<Automaton, NoAutomaton> {
    #[derive(Clone, PartialEq, Eq, Hash)]
    enum NotationState {
        /// With the number of digits, as far as it matters.
        Plain {
            state: u32,
            point: bool,
            digits: usize,
        },
        Zeros(u8),
        Exponent {
            digits: u8,
            sign: bool,
            whole: bool,
        },
    }
    // An automaton without fractions is one of integers.
    let fractions = (0..plain.states() as u32).any(|state| plain.next(state, b'.').is_some());
    Automaton::explore(
        NotationState::Plain { state: Automaton::START, point: false, digits: 0 },
        |byte| (plain.class(byte), matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-').then_some(byte)),
        |at, byte| {
            let begin_exponent =
                || with_exponent.then_some(NotationState::Exponent { digits: 0, sign: false, whole: !fractions });
            match (at, byte) {
                (&NotationState::Plain { state, point, digits }, _) => match plain.next(state, byte) {
                    Some(next) => Some(NotationState::Plain {
                        state: next,
                        point: point || byte == b'.',
                        digits: (digits + usize::from(byte.is_ascii_digit())).min(DIGITS + 1),
                    }),
                    None if !plain.accepts(state) => None,
                    None if byte == b'.' && !point && digits <= DIGITS => Some(NotationState::Zeros(0)),
                    None if matches!(byte, b'e' | b'E') => begin_exponent(),
                    None => None,
                },
                (&NotationState::Zeros(zeros), b'0') if zeros < MAX_ZEROS => Some(NotationState::Zeros(zeros + 1)),
                (&NotationState::Zeros(1..), b'e' | b'E') => begin_exponent(),
                (&NotationState::Exponent { digits: 0, sign: false, whole }, b'+' | b'-') if byte == b'+' || !whole => {
                    Some(NotationState::Exponent { digits: 0, sign: true, whole })
                }
                (&NotationState::Exponent { digits, whole, .. }, b'0'..=b'9') if digits < MAX_EXPONENT => {
                    Some(NotationState::Exponent { digits: digits + 1, sign: true, whole })
                }
                _ => None,
            }
        },
        |at| match at {
            NotationState::Plain { state, .. } => plain.accepts(*state),
            NotationState::Zeros(zeros) => *zeros > 0,
            NotationState::Exponent { digits, .. } => *digits > 0,
        },
    )
}

/// The position in a number.
#[derive(Clone, PartialEq, Eq, Hash)]
enum NumberState {
    Start,
    Minus,
    /// In the digits before the point, compared with the same number of leading digits of each bound.
    Whole(DigitState),
    /// Right after the point, where a digit must follow; the integer part has been compared with each bound.
    Point(DigitState),
    Fraction(DigitState),
}

#[derive(Clone, PartialEq, Eq, Hash)]
struct DigitState {
    negative: bool,
    is_zero: bool,
    /// The number of digits in total, after the point, and from the first nonzero digit, as far as it matters.
    digits: usize,
    after: usize,
    significant: usize,
    low: Ordering,
    high: Ordering,
}

fn numbers(
    low: Option<&Bound>,
    high: Option<&Bound>,
    digits: Digits,
    fraction: bool,
) -> Result<Automaton, NoAutomaton> {
    // The state after one more digit, if it is allowed.
    let longer = |part: &DigitState, byte: u8, new: DigitState| {
        let follows = |bound: Option<&Bound>, so_far| bound.is_some() && so_far == Ordering::Equal;
        let begins_as_bound = follows(low, new.low) || follows(high, new.high);
        let fits = part.significant < digits.significant || begins_as_bound || byte == b'0' && new.after == 0;
        let some = new.significant > 0 || byte != b'0';
        let significant = if some { (part.significant + 1).min(digits.significant) } else { 0 };
        (fits && part.digits < digits.most && new.after <= digits.after).then_some(DigitState {
            digits: part.digits + 1,
            significant,
            ..new
        })
    };
    Automaton::explore(
        NumberState::Start,
        |byte| matches!(byte, b'0'..=b'9' | b'-' | b'.').then_some(byte),
        |place, byte| match (place, byte) {
            (NumberState::Start, b'-') => Some(NumberState::Minus),
            (NumberState::Start, b'0'..=b'9') => Some(NumberState::Whole(first(byte, false, low, high))),
            (NumberState::Minus, b'0'..=b'9') => Some(NumberState::Whole(first(byte, true, low, high))),
            // A leading zero must be the only digit.
            (NumberState::Whole(part), b'0'..=b'9') if !(part.is_zero && part.digits == 1) => {
                let compare = |so_far: Ordering, bound: Option<&Bound>| {
                    bound.map_or(so_far, |bound| so_far.then(digit_at(byte, &bound.value.whole, part.digits)))
                };
                let (low, high) = (compare(part.low, low), compare(part.high, high));
                longer(part, byte, DigitState { is_zero: false, low, high, ..*part }).map(NumberState::Whole)
            }
            (NumberState::Whole(part), b'.') if fraction && part.digits < digits.most => {
                Some(NumberState::Point(DigitState {
                    low: whole(part, part.low, low),
                    high: whole(part, part.high, high),
                    ..*part
                }))
            }
            (NumberState::Point(part) | NumberState::Fraction(part), b'0'..=b'9') => {
                let compare = |so_far: Ordering, bound: Option<&Bound>| {
                    bound.map_or(so_far, |bound| so_far.then(digit_at(byte, &bound.value.fraction, part.after)))
                };
                let (low, high) = (compare(part.low, low), compare(part.high, high));
                let is_zero = part.is_zero && byte == b'0';
                longer(part, byte, DigitState { after: part.after + 1, is_zero, low, high, ..*part })
                    .map(NumberState::Fraction)
            }
            _ => None,
        },
        |place| match place {
            NumberState::Whole(part) => {
                let part = DigitState { low: whole(part, part.low, low), high: whole(part, part.high, high), ..*part };
                within(&part, low, high)
            }
            NumberState::Fraction(part) => within(part, low, high),
            NumberState::Start | NumberState::Minus | NumberState::Point(_) => false,
        },
    )
}

fn first(byte: u8, negative: bool, low: Option<&Bound>, high: Option<&Bound>) -> DigitState {
    let compare = |bound: Option<&Bound>| bound.map_or(Ordering::Equal, |bound| digit_at(byte, &bound.value.whole, 0));
    let (is_zero, significant) = (byte == b'0', usize::from(byte != b'0'));
    DigitState { negative, is_zero, digits: 1, after: 0, significant, low: compare(low), high: compare(high) }
}

/// Compares a digit with the one at the same position of a bound.
fn digit_at(byte: u8, bound: &[u8], at: usize) -> Ordering {
    (byte - b'0').cmp(bound.get(at).unwrap_or(&0))
}

/// Compares the integer part with that of a bound, given how its digits compare with the leading ones of the bound.
fn whole(part: &DigitState, digits: Ordering, bound: Option<&Bound>) -> Ordering {
    bound.map_or(Ordering::Equal, |bound| part.digits.cmp(&bound.value.whole.len()).then(digits))
}

/// Whether a complete number lies within the bounds. `low` and `high` of the part compare absolute values, up to the
/// digits that were read.
fn within(part: &DigitState, low: Option<&Bound>, high: Option<&Bound>) -> bool {
    if part.is_zero && part.negative {
        return false;
    }
    let compare = |so_far: Ordering, bound: &Bound| {
        let Decimal { negative, fraction, .. } = &bound.value;
        match (part.negative, *negative) {
            (true, false) => Ordering::Less,
            (false, true) => Ordering::Greater,
            (both_negative, _) => {
                // Further digits of the bound make it larger.
                let size = so_far.then(if part.after < fraction.len() { Ordering::Less } else { Ordering::Equal });
                if both_negative { size.reverse() } else { size }
            }
        }
    };
    let fits = |bound: Option<&Bound>, so_far, wanted| {
        bound.is_none_or(|bound| {
            let order = compare(so_far, bound);
            order == wanted || bound.inclusive && order == Ordering::Equal
        })
    };
    fits(low, part.low, Ordering::Greater) && fits(high, part.high, Ordering::Less)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automata::automaton::accepts;

    fn bound(text: &str, inclusive: bool) -> Bound {
        Bound { value: Decimal::parse(text), inclusive }
    }

    #[test]
    fn decimals_are_read_whatever_their_exponent() {
        let decimal = |text| {
            let Decimal { negative, whole, fraction } = Decimal::parse(text);
            let digits = |part: Vec<u8>| part.iter().map(u8::to_string).collect::<String>();
            format!("{}{}.{}", if negative { "-" } else { "" }, digits(whole), digits(fraction))
        };
        for (text, expected) in [
            ("12", "12."),
            ("-0.0", "0."),
            ("1.50", "1.5"),
            ("1e3", "1000."),
            ("1.25e1", "12.5"),
            ("125e-4", "0.0125"),
            ("-1.5e-7", "-0.00000015"),
            ("1e-3", "0.001"),
            ("0.1e1", "1."),
        ] {
            assert_eq!(decimal(text), expected, "{text}");
        }
    }

    /// Compares with numeric comparison, for every pair of bounds and every integer around them.
    #[test]
    fn integers_are_those_within_the_bounds() {
        let bounds = ["-120", "-100.5", "-19", "-1", "0", "0.5", "1", "9", "10", "99.9", "100", "1e2", "119"];
        for low in bounds {
            for high in bounds {
                for (low_in, high_in) in [(true, true), (false, true), (true, false), (false, false)] {
                    let automaton = integer(Some(&bound(low, low_in)), Some(&bound(high, high_in)));
                    let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
                    let fits = |n: i32| {
                        let n = f64::from(n);
                        (n > low || low_in && n == low) && (n < high || high_in && n == high)
                    };
                    match automaton {
                        Err(fault) => {
                            assert_eq!(fault, NoAutomaton::Empty);
                            assert!(!(-130..130).any(fits), "{low} {high}");
                        }
                        Ok(automaton) => (-130..130).for_each(|n| {
                            assert_eq!(accepts(&automaton, &n.to_string()), fits(n), "{low} {n} {high}");
                        }),
                    }
                }
            }
        }
    }

    #[test]
    fn numbers_are_those_within_the_bounds() {
        let bounds = ["-1.5", "-1", "-0.05", "0", "0.1", "0.125", "1", "1.01", "12.5"];
        let texts = [
            "-2", "-1.6", "-1.50", "-1.5", "-1.4999", "-1.0", "-1", "-0.06", "-0.05", "-0.04", "0", "0.0", "0.099",
            "0.1", "0.10", "0.11", "0.124", "0.125", "0.12500", "0.1251", "0.9", "1", "1.00", "1.001", "1.01", "1.02",
            "2", "12", "12.4", "12.5", "12.50", "12.51", "13", "120",
        ];
        for low in bounds {
            for high in bounds {
                for inclusive in [true, false] {
                    let automaton = number(Some(&bound(low, inclusive)), Some(&bound(high, inclusive)));
                    let (low, high): (f64, f64) = (low.parse().unwrap(), high.parse().unwrap());
                    for text in texts {
                        let n: f64 = text.parse().unwrap();
                        let fits = if inclusive { low <= n && n <= high } else { low < n && n < high };
                        let got = automaton.as_ref().is_ok_and(|automaton| accepts(automaton, text));
                        assert_eq!(got, fits, "{low} {text} {high} {inclusive}");
                    }
                }
            }
        }
    }

    #[test]
    fn forms_and_sizes() {
        let any = number(None, None).unwrap();
        for text in ["0", "-1", "10", "0.5", "-0.25", "123456789012345", "1.00000000000001"] {
            assert!(accepts(&any, text), "{text}");
        }
        for text in
            ["", "-", "-0", "-0.0", "00", "01", "1.", ".5", "+1", "1e3", "1234567890123456", "1.000000000000001"]
        {
            assert!(!accepts(&any, text), "{text}");
        }
        let whole = integer(None, None).unwrap();
        assert!(accepts(&whole, "999999999999999999") && !accepts(&whole, "1000000000000000000"));
        assert!(!accepts(&whole, "1.0") && !accepts(&whole, "-0") && accepts(&whole, "0"));
        let wide = integer(Some(&bound("0", true)), Some(&bound("18446744073709551615", true))).unwrap();
        assert!(accepts(&wide, "18446744073709551615") && !accepts(&wide, "18446744073709551616"));
        let far = integer(Some(&bound("1e18", true)), None).unwrap();
        assert!(accepts(&far, "1000000000000000000") && !accepts(&far, "999999999999999999"));
        assert_eq!(integer(Some(&bound("1e20", true)), None).err(), Some(NoAutomaton::Empty));
        let small = number(Some(&bound("1e-300", false)), None).unwrap();
        assert!(accepts(&small, "0.00000000000001") && !accepts(&small, "0"));
    }
}
