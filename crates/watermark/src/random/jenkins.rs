//! Jenkins' 32-bit integer mix, as SBW uses it.

/// The hash of `x + 1` as a signed 32-bit integer: right shifts keep the sign.
pub(crate) fn hash(x: i64) -> i64 {
    let mut i = x.wrapping_add(1) as i32;
    i = i.wrapping_sub(i << 6);
    i ^= i >> 17;
    i = i.wrapping_sub(i << 9);
    i ^= i << 4;
    i = i.wrapping_sub(i << 3);
    i ^= i << 10;
    i ^= i >> 15;
    i64::from(i)
}
