//! Conversion of numbers between types.

use safetensors::Dtype;
use verdigris_kernels::{Format, Weights};

/// Whether numbers of a type are converted: integers and 8-bit floats are not.
pub(super) fn floats(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::F64 | Dtype::F32 | Dtype::F16 | Dtype::BF16)
}

fn format(dtype: Dtype) -> Format {
    match dtype {
        Dtype::F16 => Format::F16,
        Dtype::BF16 => Format::Bf16,
        // 64-bit floats are rounded to 32 bits first.
        _ => Format::F32,
    }
}

/// Converts floats to another type, each rounded to the nearest.
///
/// # Errors
/// The first number that is too large for the other type and would become infinite.
pub(super) fn convert(from: Dtype, to: Dtype, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), f64> {
    let numbers = numbers(from, bytes)?;
    let most = match to {
        Dtype::F16 => 65504.0,
        // Half a step above the largest, a number is rounded to infinity.
        Dtype::BF16 => f32::from_bits(0x7f7f_7fff),
        _ => f32::MAX,
    };
    if let Some(&large) = numbers.iter().find(|x| x.is_finite() && x.abs() > most) {
        return Err(large.into());
    }
    out.resize(format(to).bytes(numbers.len()), 0);
    format(to).encode(&numbers, out);
    Ok(())
}

fn numbers(from: Dtype, bytes: &[u8]) -> Result<Vec<f32>, f64> {
    if from == Dtype::F64 {
        let narrow = |&bytes: &[u8; 8]| {
            let wide = f64::from_le_bytes(bytes);
            let narrow = wide as f32;
            if wide.is_finite() && narrow.is_infinite() { Err(wide) } else { Ok(narrow) }
        };
        return bytes.as_chunks().0.iter().map(narrow).collect();
    }
    let mut numbers = vec![0.0; bytes.len() / format(from).block_bytes()];
    if !numbers.is_empty() {
        Weights::new(format(from), bytes, numbers.len()).decode(0, &mut numbers);
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_every_type() {
        let numbers = [1.0f32, -0.5, 3.0e-5, 65504.0];
        let f64s: Vec<u8> = numbers.iter().flat_map(|&x| f64::from(x).to_le_bytes()).collect();
        let mut f32s = Vec::new();
        convert(Dtype::F64, Dtype::F32, &f64s, &mut f32s).unwrap();
        assert_eq!(f32s, numbers.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>());
        let (mut halves, mut bf16s, mut back) = (Vec::new(), Vec::new(), Vec::new());
        convert(Dtype::F32, Dtype::F16, &f32s, &mut halves).unwrap();
        assert_eq!(halves, [0x3c00u16, 0xb800, 0x01f7, 0x7bff].map(u16::to_le_bytes).concat());
        convert(Dtype::F32, Dtype::BF16, &f32s, &mut bf16s).unwrap();
        assert_eq!(bf16s, [0x3f80u16, 0xbf00, 0x37fc, 0x4780].map(u16::to_le_bytes).concat());
        convert(Dtype::BF16, Dtype::F32, &bf16s[..4], &mut back).unwrap();
        assert_eq!(back, f32s[..8]);
        assert_eq!(convert(Dtype::BF16, Dtype::F16, &bf16s, &mut halves), Err(65536.0), "rounded up to it");
        // Finite numbers stay finite.
        let (f32s, mut out) = (f32::MAX.to_le_bytes(), Vec::new());
        assert_eq!(convert(Dtype::F32, Dtype::BF16, &f32s, &mut out), Err(f32::MAX.into()));
        assert_eq!(convert(Dtype::F64, Dtype::F32, &(-1e300f64).to_le_bytes(), &mut out), Err(-1e300));
        convert(Dtype::F64, Dtype::F32, &f64::INFINITY.to_le_bytes(), &mut out).unwrap();
        assert_eq!(out, f32::INFINITY.to_le_bytes());
        let largest = f32::from_bits(0x7f7f_7fff).to_le_bytes();
        convert(Dtype::F32, Dtype::BF16, &largest, &mut out).unwrap();
        assert_eq!(out, 0x7f7fu16.to_le_bytes());
    }
}
