//! Variable-length integers.

/// Reads a number of seven bits per byte, the lowest first, and moves `at` past it. `None` if it does not end.
pub(super) fn varint(data: &[u8], at: &mut usize) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let byte = *data.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}
