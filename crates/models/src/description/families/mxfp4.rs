//! Weights in MXFP4 as gpt-oss publishes them: blocks of 32 numbers of 4 bits (`.., blocks, 16` bytes) in one tensor,
//! and the power of two of each block in another (OCP Microscaling Formats 1.0).

use std::sync::Arc;

use verdigris_kernels::{Bytes, Format};

use super::prefixed::Prefixed;
use crate::description::matrix::Matrix;
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The numbers of a block.
const BLOCK: usize = 32;

/// The bytes of a block's numbers.
const HALF: usize = BLOCK / 2;

/// The matrices (`out x in`) in `NAME_blocks` and `NAME_scales`, each with its rows in an order. Copies them, because
/// both tensors, and two numbers of a byte, are arranged differently in [`Format::Mxfp4`].
pub(super) fn matrices(
    names: &Prefixed<'_>,
    name: &str,
    [count, rows, columns]: [usize; 3],
    orders: &[&dyn Fn(usize) -> usize],
) -> Result<Vec<Vec<Weight>>, ModelError> {
    let wrong = |fault: String| ModelError::Weight { name: names.name(name), fault };
    if !columns.is_multiple_of(BLOCK) {
        return Err(wrong(format!("has rows of {columns} numbers, which are not whole blocks of {BLOCK}")));
    }
    let blocks = names.bytes(&format!("{name}_blocks"), &[count, rows, columns / BLOCK, HALF])?;
    let scales = names.bytes(&format!("{name}_scales"), &[count, rows, columns / BLOCK])?;
    let (blocks, scales) = (blocks.get(), scales.get());
    let per_row = columns / BLOCK;
    let matrix = |expert: usize, order: &dyn Fn(usize) -> usize| {
        let own = rows / orders.len();
        let mut bytes = Vec::with_capacity(own * Format::Mxfp4.bytes(columns));
        for row in (0..own).map(|row| expert * rows + order(row)) {
            for block in row * per_row..(row + 1) * per_row {
                bytes.push(scales[block]);
                let packed = &blocks[block * HALF..(block + 1) * HALF];
                // Two neighbours share a byte in the tensor, and two numbers that are half a block apart here.
                let number = |i: usize| packed[i / 2] >> (4 * (i % 2)) & 15;
                bytes.extend((0..HALF).map(|i| number(i) | number(i + HALF) << 4));
            }
        }
        Matrix::new(Format::Mxfp4, Bytes::new(Arc::new(bytes)), columns).expect("whole rows").into()
    };
    Ok((0..count).map(|expert| orders.iter().map(|order| matrix(expert, order)).collect()).collect())
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;
    use crate::description::checkpoint::Checkpoint;
    use crate::description::stored_tensor::StoredTensor;

    #[test]
    fn numbers_are_those_of_the_format() {
        const VALUES: [f32; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
        let (count, rows, columns) = (2, 4, 64);
        let packed: Vec<u8> = (0..count * rows * columns / 2).map(|i| (i * 37 % 251) as u8).collect();
        let scales: Vec<u8> = (0..count * rows * columns / BLOCK).map(|i| (120 + i % 15) as u8).collect();
        let tensor = |bytes: &[u8], shape: &[usize]| StoredTensor {
            format: Err("U8".into()),
            shape: shape.to_vec(),
            bytes: Bytes::new(Arc::new(bytes.to_vec())),
        };
        let tensors = HashMap::from([
            ("a.x_blocks".to_owned(), tensor(&packed, &[count, rows, 2, HALF])),
            ("a.x_scales".to_owned(), tensor(&scales, &[count, rows, 2])),
        ]);
        let checkpoint = Checkpoint::of(tensors);
        let names = Prefixed::new(&checkpoint, &["a."], "x_blocks");
        let apart = matrices(&names, "x", [count, rows, columns], &[&|row| 2 * row, &|row| 2 * row + 1]).unwrap();
        for (expert, apart) in apart.iter().enumerate() {
            for (from, matrix) in apart.iter().enumerate() {
                let expected = (0..rows / 2 * columns).map(|i| {
                    let at = (expert * rows + 2 * (i / columns) + from) * columns + i % columns;
                    let number = packed[at / 2] >> (4 * (at % 2)) & 15;
                    let sign = if number > 7 { -1.0 } else { 1.0 };
                    sign * VALUES[usize::from(number % 8)] * f32::from(scales[at / BLOCK]).mul_add(1.0, -127.0).exp2()
                });
                assert_eq!(matrix.matrix().numbers(), expected.collect::<Vec<f32>>(), "{expert} {from}");
            }
        }
        for (shape, said) in [([count, rows, 32], "has shape"), ([count, rows, 63], "not whole blocks")] {
            let fault = matrices(&names, "x", shape, &[&|row| row]).unwrap_err().to_string();
            assert!(fault.contains(said) && !fault.contains('\n'), "{fault}");
        }
    }
}
