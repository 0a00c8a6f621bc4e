//! IEEE half precision, one number at a time.

/// The value of a little-endian half: exact, since `f32` can represent every half.
pub(crate) fn half(bytes: [u8; 2]) -> f32 {
    let bits = u32::from(u16::from_le_bytes(bytes));
    let (sign, magnitude) = (bits >> 15 << 31, bits & 0x7fff);
    let value = match magnitude {
        // Infinities and NaN.
        0x7c00.. => f32::from_bits(0x7f80_0000 | (magnitude & 0x3ff) << 13),
        // The exponent biases differ by 112; the product is exact for subnormal numbers too.
        _ => f32::from_bits(magnitude << 13) * f32::from_bits((127 + 112) << 23),
    };
    f32::from_bits(value.to_bits() | sign)
}

/// The nearest number in bf16, ties to even.
#[inline(always)]
pub(crate) fn to_bf16(x: f32) -> [u8; 2] {
    let bits = x.to_bits();
    let rounded = if x.is_nan() { bits >> 16 | 0x40 } else { (bits + 0x7fff + (bits >> 16 & 1)) >> 16 };
    (rounded as u16).to_le_bytes()
}

/// The nearest finite number in half precision, or NaN.
pub(crate) fn to_half_finite(x: f32) -> [u8; 2] {
    to_half(x.clamp(-65504.0, 65504.0))
}

/// The nearest number in half precision, ties to even.
pub(crate) fn to_half(x: f32) -> [u8; 2] {
    let (sign, magnitude) = ((x.to_bits() >> 16 & 0x8000) as u16, x.abs());
    let bits = if magnitude.is_nan() {
        0x7e00
    } else if magnitude >= 65520.0 {
        0x7c00
    } else if magnitude < 6.103_515_6e-5 {
        // Steps are 2^-24: added to a number whose own steps are that large, `magnitude` is rounded correctly.
        ((magnitude + 0.5).to_bits() - 0.5f32.to_bits()) as u16
    } else {
        let bits = magnitude.to_bits() - (112 << 23);
        ((bits + 0xfff + (bits >> 13 & 1)) >> 13) as u16
    };
    (sign | bits).to_le_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_precision_is_exact() {
        for bits in 0..=u16::MAX {
            let (sign, exponent, fraction) = (bits >> 15, i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
            let magnitude = match exponent {
                0 => fraction * 2f64.powi(-24),
                31 if fraction == 0.0 => f64::INFINITY,
                31 => f64::NAN,
                _ => (1024.0 + fraction) * 2f64.powi(exponent - 25),
            };
            let expected = if sign == 1 { -magnitude } else { magnitude };
            let got = f64::from(half(bits.to_le_bytes()));
            assert!(
                got == expected && got.is_sign_negative() == (sign == 1) || got.is_nan() && expected.is_nan(),
                "{bits:x}"
            );
        }
    }
}
