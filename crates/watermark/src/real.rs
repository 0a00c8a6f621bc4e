//! Logarithms and exponentials whose bits are the same on every machine.
//!
//! Those of the standard library are the platform's own: glibc, musl, Apple and browsers differ in the last digits, and
//! so would p-values. These are Rust code that uses sums and products only, which every processor rounds alike. All
//! code that computes p-values uses them; `clippy.toml` in this crate refuses the others.

/// The natural logarithm.
#[inline]
pub fn ln(x: f64) -> f64 {
    libm::log(x)
}

/// `ln(1 + x)`, precise near zero.
#[inline]
pub fn ln_1p(x: f64) -> f64 {
    libm::log1p(x)
}

/// `e^x`.
#[inline]
pub fn exp(x: f64) -> f64 {
    libm::exp(x)
}

/// `e^x - 1`, precise near zero.
#[inline]
pub fn exp_m1(x: f64) -> f64 {
    libm::expm1(x)
}

/// `2^x`.
#[inline]
pub fn exp2(x: f64) -> f64 {
    libm::exp2(x)
}

/// The complementary error function: `1 - erf(x)`, precise where that is small.
#[inline]
pub fn erfc(x: f64) -> f64 {
    libm::erfc(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arguments over the whole range, on both sides of zero and near it.
    fn arguments() -> impl Iterator<Item = f64> {
        let word = |i: u32| verdigris_logits::random::philox4x32([i, 0, 0, 0], [26, 11]);
        (0..200_000).map(move |i| {
            let [a, b, ..] = word(i);
            let unit = f64::from(a) / f64::from(u32::MAX) - 0.5;
            unit * 2f64.powi((b % 80) as i32 - 60)
        })
    }

    /// The distance between two numbers, in units in the last place of the second.
    fn apart(a: f64, b: f64) -> u64 {
        if a == b { 0 } else { a.to_bits().abs_diff(b.to_bits()) }
    }

    #[test]
    fn they_are_the_platforms_own_but_for_the_last_digit() {
        type Function = fn(f64) -> f64;
        let pairs: [(Function, Function); 5] =
            [(ln, f64::ln), (ln_1p, f64::ln_1p), (exp, f64::exp), (exp_m1, f64::exp_m1), (exp2, f64::exp2)];
        let mut differ = 0;
        for x in arguments() {
            for (ours, theirs) in pairs {
                let (got, expected) = (ours(x), theirs(x));
                if expected.is_nan() {
                    assert!(got.is_nan(), "{x}: {got}");
                    continue;
                }
                assert!(apart(got, expected) <= 2, "{x}: {got} {expected}");
                differ += u64::from(got != expected);
            }
        }
        assert!(differ > 0, "where they never differ, nothing is gained");
    }

    #[test]
    fn the_error_function_is_another_librarys() {
        for x in arguments().filter(|x| x.abs() < 26.0) {
            let (got, expected) = (erfc(x), statrs::function::erf::erfc(x));
            // The polynomials of statrs are sometimes good to nine digits only.
            assert!((got - expected).abs() <= 1e-9 * expected, "{x}: {got} {expected}");
        }
    }

    /// Expected values from Python's `math.erfc`, which is glibc's.
    #[test]
    fn the_error_function_is_precise() {
        for (x, expected) in [(2.494130023404523, 0.00041992783486923424), (0.5, 0.4795001221869535)] {
            assert!(apart(erfc(x), expected) <= 1, "{x}: {} {expected}", erfc(x));
        }
    }

    /// Compares bits, so that a machine with other results fails here. The sum depends on every argument.
    #[test]
    fn bits_are_known() {
        let mut sums = [0u64; 6];
        for x in arguments() {
            let values = [ln(x.abs()), ln_1p(x.abs()), exp(x), exp_m1(x), exp2(x), erfc(x)];
            for (sum, value) in sums.iter_mut().zip(values) {
                *sum = sum.rotate_left(5) ^ value.to_bits();
            }
        }
        assert_eq!(sums, BITS, "{sums:#x?}");
    }

    const BITS: [u64; 6] = [
        0xa0264e35502a9fc3,
        0xe82852f344a52ab6,
        0x1127323323acba87,
        0xa4e2555e7e37af9e,
        0x595e5ad8ce36d811,
        0xaa3db72828c429db,
    ];
}
