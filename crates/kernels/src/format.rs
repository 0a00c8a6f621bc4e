//! Storage formats of weights. The block formats are GGML's (`ggml-common.h`): one scale for 32 weights, or one for 256
//! with finer ones inside. Numbers are little-endian.

use Numbers::{Excess, Least, Listed, Signed};

/// The values of the four bits of [`Format::Iq4Nl`] and [`Format::Iq4Xs`].
const NON_LINEAR: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];

/// The values of the four bits of [`Format::Mxfp4`], times two.
const MICRO_FLOATS: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

/// A block format as a type, for kernels compiled for it.
pub(crate) trait Blocks {
    const LAYOUT: Layout;
}

/// The contents of a block.
#[derive(Clone, Copy)]
pub(crate) struct Layout {
    /// The number of weights.
    pub(crate) block: usize,
    pub(crate) bytes: usize,
    pub(crate) scales: Scales,
    /// The offset of the scale in half precision, which minimums follow, or of the common factors of finer ones.
    pub(crate) coarse: usize,
    pub(crate) numbers: Numbers,
    /// The lowest bits of each `q`.
    pub(crate) low: Bits,
    /// The bits above them.
    pub(crate) high: Option<Bits>,
}

/// The scales of a block, and its minimums if it has any.
#[derive(Clone, Copy)]
pub(crate) enum Scales {
    /// A scale, and a minimum if there is one, in half precision.
    One,
    /// A byte with the exponent of a power of two.
    Power,
    /// For each 16 weights a byte, from offset 0: four bits of a scale, then four of a minimum.
    Q2K,
    /// For each 16 weights six bits, from offset 96: the lower four of the first eight in the lower halves of eight
    /// bytes, those of the others in the upper halves, and the upper two of all in four more bytes.
    Q3K,
    /// For each 32 weights six bits of a scale and six of a minimum, from offset 4. Those of the first four are the
    /// lower bits of four bytes each; the others have their lower four bits in the last four bytes, and their upper two
    /// bits above the first four.
    Q4K,
    /// For each 16 weights a signed byte, from offset 192.
    Q6K,
    /// For each 32 weights six bits, from offset 2: the upper two of all in two bytes, then the lower four.
    Iq4Xs,
}

/// The meaning of a `q`, before it is multiplied by its scale.
#[derive(Clone, Copy)]
pub(crate) enum Numbers {
    /// A signed byte.
    Signed,
    /// A number that is larger by this than the one it represents.
    Excess(u8),
    /// A number; after scaling a minimum is added, or subtracted in blocks of 256.
    Least,
    /// An index into a list.
    Listed(&'static [i8; 16]),
}

/// Some bits of each `q` of a block. Each `span` bytes hold the lowest of their bits for `span` weights, the next bits
/// for the next `span`, and so on.
#[derive(Clone, Copy)]
pub(crate) struct Bits {
    /// The number of bits of each `q`.
    pub(crate) count: u32,
    /// The offset of the first byte.
    pub(crate) at: usize,
    pub(crate) span: usize,
}

/// `count` bits of each `q`, from offset `at`.
pub(crate) const fn bits(count: u32, at: usize, span: usize) -> Bits {
    Bits { count, at, span }
}

impl Bits {
    /// The offset of the byte with the bits of weight `i`, and the number of bits below them.
    #[inline(always)]
    pub(crate) const fn find(self, i: usize) -> (usize, u32) {
        let run = self.span * 8 / self.count as usize;
        (self.at + i / run * self.span + i % self.span, (i % run / self.span) as u32 * self.count)
    }
}

impl Scales {
    /// Whether there is a scale for each 16 weights, instead of for each 32.
    #[inline(always)]
    pub(crate) const fn has_halves(self) -> bool {
        matches!(self, Self::Q2K | Self::Q3K | Self::Q6K)
    }
}

/// Defines [`Format`]: names of floats with their sizes in bytes, and of blocks with their sizes and [`Layout`].
macro_rules! formats {
    (
        floats { $($(#[$about_float:meta])* $float:ident: $size:literal bytes,)* }
        blocks { $($(#[$about:meta])* $name:ident: $block:literal in $bytes:literal bytes, { $($layout:tt)* },)* }
    ) => {
        /// The storage format of weights.
        #[doc(alias = "ggml_type")]
        #[doc(alias = "quantization")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Format {
            $($(#[$about_float])* $float,)*
            $($(#[$about])* $name,)*
        }

        impl Format {
            /// All formats.
            pub const ALL: [Self; [$(Self::$float,)* $(Self::$name,)*].len()] =
                [$(Self::$float,)* $(Self::$name,)*];

            /// The number of bytes in a block.
            pub const fn block_bytes(self) -> usize {
                match self {
                    $(Self::$float => $size,)*
                    $(Self::$name => $bytes,)*
                }
            }

            /// The contents of a block; `None` for formats without blocks.
            pub(crate) const fn layout(self) -> Option<Layout> {
                match self {
                    $(Self::$float => None,)*
                    $(Self::$name => Some($name::LAYOUT),)*
                }
            }
        }

        $(
            #[derive(Clone, Copy)]
            pub(crate) struct $name;

            impl Blocks for $name {
                const LAYOUT: Layout = Layout { block: $block, bytes: $bytes, $($layout)* };
            }
        )*

        /// Evaluates an expression with `$kind` as the type of a block format.
        macro_rules! with_blocks {
            ($format:expr, $kind:ident => $call:expr) => {
                match $format {
                    $(crate::format::Format::$name => {
                        type $kind = crate::format::$name;
                        $call
                    })*
                    format => unreachable!("{format:?} has no blocks"),
                }
            };
        }
    };
}

formats! {
    floats {
        /// 32 bits each.
        F32: 4 bytes,
        /// 16 bits, IEEE half precision.
        F16: 2 bytes,
        /// 16 bits, the upper half of an `f32`.
        Bf16: 2 bytes,
    }
    blocks {
        /// Blocks of 32: a scale `d` in half precision, and signed `q` of 8 bits; `w = d * q`.
        Q8_0: 32 in 34 bytes, { scales: Scales::One, coarse: 0, numbers: Signed, low: bits(8, 2, 1), high: None },
        /// Blocks of 32: a scale `d` in half precision, and `q` of 4 bits; `w = d * (q - 8)`.
        Q4_0: 32 in 18 bytes, { scales: Scales::One, coarse: 0, numbers: Excess(8), low: bits(4, 2, 16), high: None },
        /// Blocks of 32: a scale `d` and a minimum `m` in half precision, and `q` of 4 bits; `w = d * q + m`.
        Q4_1: 32 in 20 bytes, { scales: Scales::One, coarse: 0, numbers: Least, low: bits(4, 4, 16), high: None },
        /// Blocks of 32: a scale `d` in half precision, and `q` of 5 bits; `w = d * (q - 16)`.
        Q5_0: 32 in 22 bytes, {
            scales: Scales::One, coarse: 0, numbers: Excess(16), low: bits(4, 6, 16), high: Some(bits(1, 2, 1))
        },
        /// Blocks of 32: a scale `d` and a minimum `m` in half precision, and `q` of 5 bits; `w = d * q + m`.
        Q5_1: 32 in 24 bytes, {
            scales: Scales::One, coarse: 0, numbers: Least, low: bits(4, 8, 16), high: Some(bits(1, 4, 1))
        },
        /// Blocks of 256: scales `d` and `e` in half precision, `s` and `m` of 4 bits for each 16, and `q` of 2 bits;
        /// `w = d * s * q - e * m`.
        Q2K: 256 in 84 bytes, { scales: Scales::Q2K, coarse: 80, numbers: Least, low: bits(2, 16, 32), high: None },
        /// Blocks of 256: a scale `d` in half precision, `s` of 6 bits for each 16, and `q` of 3 bits;
        /// `w = d * (s - 32) * (q - 4)`.
        Q3K: 256 in 110 bytes, {
            scales: Scales::Q3K, coarse: 108, numbers: Excess(4), low: bits(2, 32, 32), high: Some(bits(1, 0, 32))
        },
        /// Blocks of 256: scales `d` and `e` in half precision, `s` and `m` of 6 bits for each 32, and `q` of 4 bits;
        /// `w = d * s * q - e * m`.
        Q4K: 256 in 144 bytes, { scales: Scales::Q4K, coarse: 0, numbers: Least, low: bits(4, 16, 32), high: None },
        /// Like [`Format::Q4K`], with `q` of 5 bits.
        Q5K: 256 in 176 bytes, {
            scales: Scales::Q4K, coarse: 0, numbers: Least, low: bits(4, 48, 32), high: Some(bits(1, 16, 32))
        },
        /// Blocks of 256: a scale `d` in half precision, signed `s` of 8 bits for each 16, and `q` of 6 bits;
        /// `w = d * s * (q - 32)`.
        Q6K: 256 in 210 bytes, {
            scales: Scales::Q6K, coarse: 208, numbers: Excess(32), low: bits(4, 0, 64), high: Some(bits(2, 128, 32))
        },
        /// Blocks of 32: a scale `d` in half precision, and `q` of 4 bits, an index into sixteen numbers that are
        /// closer together near zero; `w = d * NON_LINEAR[q]`.
        Iq4Nl: 32 in 18 bytes, {
            scales: Scales::One, coarse: 0, numbers: Listed(&NON_LINEAR), low: bits(4, 2, 16), high: None
        },
        /// Blocks of 256: a scale `d` in half precision, `s` of 6 bits for each 32, and `q` as in [`Format::Iq4Nl`];
        /// `w = d * (s - 32) * NON_LINEAR[q]`.
        Iq4Xs: 256 in 136 bytes, {
            scales: Scales::Iq4Xs, coarse: 0, numbers: Listed(&NON_LINEAR), low: bits(4, 8, 16), high: None
        },
        /// Blocks of 32: a power of two, and floats of 4 bits (sign, two bits of exponent, one of mantissa): 0, .5, 1,
        /// 1.5, 2, 3, 4, 6. Defined by the OCP Microscaling Formats specification 1.0.
        #[doc(alias = "microscaling")]
        Mxfp4: 32 in 17 bytes, {
            scales: Scales::Power, coarse: 0, numbers: Listed(&MICRO_FLOATS), low: bits(4, 1, 16), high: None
        },
    }
}

#[allow(clippy::single_component_path_imports, reason = "a macro makes it, which the lint does not see")]
pub(crate) use with_blocks;

impl Format {
    /// The number of weights in a block. A row is a whole number of blocks.
    pub const fn block(self) -> usize {
        match self.layout() {
            Some(layout) => layout.block,
            None => 1,
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
