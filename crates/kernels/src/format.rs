//! Storage formats of weights. The block formats are GGML's (`ggml-common.h`): one scale for 32 weights, or one for 256
//! with finer ones inside. Numbers are little-endian.

/// The storage format of weights.
#[doc(alias = "ggml_type")]
#[doc(alias = "quantization")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Format {
    /// 32 bits each.
    F32,
    /// 16 bits, IEEE half precision.
    F16,
    /// 16 bits, the upper half of an `f32`.
    Bf16,
    /// Blocks of 32: a scale `d` in half precision, and signed `q` of 8 bits; `w = d * q`.
    Q8_0,
    /// Blocks of 32: a scale `d` in half precision, and `q` of 4 bits; `w = d * (q - 8)`.
    Q4_0,
    /// Blocks of 32: a scale `d` and a minimum `m` in half precision, and `q` of 4 bits; `w = d * q + m`.
    Q4_1,
    /// Blocks of 32: a scale `d` in half precision, and `q` of 5 bits; `w = d * (q - 16)`.
    Q5_0,
    /// Blocks of 32: a scale `d` and a minimum `m` in half precision, and `q` of 5 bits; `w = d * q + m`.
    Q5_1,
    /// Blocks of 256: scales `d` and `e` in half precision, `s` and `m` of 4 bits for each 16, and `q` of 2 bits;
    /// `w = d * s * q - e * m`.
    Q2K,
    /// Blocks of 256: a scale `d` in half precision, `s` of 6 bits for each 16, and `q` of 3 bits;
    /// `w = d * (s - 32) * (q - 4)`.
    Q3K,
    /// Blocks of 256: scales `d` and `e` in half precision, `s` and `m` of 6 bits for each 32, and `q` of 4 bits;
    /// `w = d * s * q - e * m`.
    Q4K,
    /// Like [`Format::Q4K`], with `q` of 5 bits.
    Q5K,
    /// Blocks of 256: a scale `d` in half precision, signed `s` of 8 bits for each 16, and `q` of 6 bits;
    /// `w = d * s * (q - 32)`.
    Q6K,
    /// Blocks of 32: a scale `d` in half precision, and `q` of 4 bits, an index into sixteen numbers that are closer
    /// together near zero; `w = d * NON_LINEAR[q]`.
    Iq4Nl,
    /// Blocks of 256: a scale `d` in half precision, `s` of 6 bits for each 32, and `q` as in [`Format::Iq4Nl`];
    /// `w = d * (s - 32) * NON_LINEAR[q]`.
    Iq4Xs,
    /// Blocks of 32: a power of two, and floats of 4 bits (sign, two bits of exponent, one of mantissa): 0, .5, 1, 1.5,
    /// 2, 3, 4, 6. Defined by the OCP Microscaling Formats specification 1.0.
    #[doc(alias = "microscaling")]
    Mxfp4,
}

/// The values of the four bits of [`Format::Iq4Nl`] and [`Format::Iq4Xs`].
pub(crate) const NON_LINEAR: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The values of the four bits of [`Format::Mxfp4`], times two.
pub(crate) const MICRO_FLOATS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

impl Format {
    /// All formats.
    pub const ALL: [Self; 16] = [
        Self::F32,
        Self::F16,
        Self::Bf16,
        Self::Q8_0,
        Self::Q4_0,
        Self::Q4_1,
        Self::Q5_0,
        Self::Q5_1,
        Self::Q2K,
        Self::Q3K,
        Self::Q4K,
        Self::Q5K,
        Self::Q6K,
        Self::Iq4Nl,
        Self::Iq4Xs,
        Self::Mxfp4,
    ];

    /// The number of weights in a block. A row is a whole number of blocks.
    pub const fn block(self) -> usize {
        match self {
            Self::F32 | Self::F16 | Self::Bf16 => 1,
            Self::Q8_0 | Self::Q4_0 | Self::Q4_1 | Self::Q5_0 | Self::Q5_1 | Self::Iq4Nl | Self::Mxfp4 => 32,
            Self::Q2K | Self::Q3K | Self::Q4K | Self::Q5K | Self::Q6K | Self::Iq4Xs => 256,
        }
    }

    /// The number of bytes in a block.
    pub const fn block_bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::F16 | Self::Bf16 => 2,
            Self::Q8_0 => 34,
            Self::Q4_0 => 18,
            Self::Q4_1 => 20,
            Self::Q5_0 => 22,
            Self::Q5_1 => 24,
            Self::Q2K => 84,
            Self::Q3K => 110,
            Self::Q4K => 144,
            Self::Q5K => 176,
            Self::Q6K => 210,
            Self::Iq4Nl => 18,
            Self::Iq4Xs => 136,
            Self::Mxfp4 => 17,
        }
    }

    /// The number of bytes of `k` weights, which must be whole blocks.
    pub const fn bytes(self, k: usize) -> usize {
        k / self.block() * self.block_bytes()
    }
}

/// The bytes of numbers in memory.
pub(crate) fn bytes(numbers: &[f32]) -> &[u8] {
    const { assert!(cfg!(target_endian = "little"), "stored numbers are little-endian") };
    // SAFETY: this is the slice's memory as bytes, which have no alignment and no invalid values.
    unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), size_of_val(numbers)) }
}
