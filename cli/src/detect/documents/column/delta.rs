//! Counts the lengths that a page of delta-encoded strings declares, for which the library allocates without a check.
//!
//! The encodings are those of <https://parquet.apache.org/docs/file-format/data-pages/encodings/>.

use super::varint::varint;

/// The number of values at the start of `data`, packed as `DELTA_BINARY_PACKED`, and the offset of their end. `None` if
/// they are damaged.
pub(super) fn packed_numbers(data: &[u8]) -> Option<(u64, usize)> {
    let mut at = 0;
    let block = varint(data, &mut at)?;
    let miniblocks = varint(data, &mut at)?;
    let count = varint(data, &mut at)?;
    // The first of the numbers.
    varint(data, &mut at)?;
    let a_miniblock = block.checked_div(miniblocks).filter(|&numbers| numbers > 0)?;
    let mut left = count.saturating_sub(1);
    while left > 0 {
        // The least difference in the block.
        varint(data, &mut at)?;
        let widths = data.get(at..at.checked_add(usize::try_from(miniblocks).ok()?)?)?;
        at += widths.len();
        for &width in widths {
            // After the last number, miniblocks have widths but no bytes.
            if left == 0 {
                break;
            }
            at = at.checked_add(usize::try_from(u64::from(width).checked_mul(a_miniblock)? / 8).ok()?)?;
            left = left.saturating_sub(a_miniblock);
        }
    }
    (at <= data.len()).then_some((count, at))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Blocks of 128 numbers in four miniblocks.
    const HEAD: [u8; 3] = [0x80, 0x01, 4];

    #[test]
    fn numbers_end_behind_their_last_miniblock() {
        assert_eq!(packed_numbers(&[&HEAD[..], &[0, 0]].concat()), Some((0, 5)));
        assert_eq!(packed_numbers(&[&HEAD[..], &[1, 7, 9]].concat()), Some((1, 5)));
        // Forty numbers: two miniblocks of 32 with 3 and 1 bits, and two that are absent, whatever their widths.
        let block = [&HEAD[..], &[40, 7], &[2, 3, 1, 9, 9], &[0; 12], &[0; 4], b"text"].concat();
        assert_eq!(packed_numbers(&block), Some((40, 5 + 5 + 16)));
        assert_eq!(packed_numbers(&block[..20]), None);
    }

    #[test]
    fn a_count_is_told_however_large() {
        let all = [&[0x80, 0x80, 0x80, 0x80, 0x08, 1][..], &[0xff, 0xff, 0xff, 0xff, 0x07, 0], &[0, 0]].concat();
        assert_eq!(packed_numbers(&all), Some((i32::MAX as u64, all.len())));
        assert_eq!(packed_numbers(&[0, 0, 5, 0]), None, "no miniblocks");
        assert_eq!(packed_numbers(&[0xff; 20]), None, "a number without end");
        assert_eq!(packed_numbers(&[]), None);
    }
}
