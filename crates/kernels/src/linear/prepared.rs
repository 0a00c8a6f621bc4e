//! Rows in the form that a format of weights requires.

#[cfg(amx)]
use crate::amx::Amx;
#[cfg(amx)]
use crate::bf16_dot::SplitRows;
use crate::block_dot::QuantizedRows;
use crate::format::Format;

/// Rows as a format of weights requires them.
#[derive(Clone, Copy)]
pub(super) enum Input<'a> {
    Floats(&'a [f32]),
    Quantized(&'a QuantizedRows),
    /// For weights in bf16, with AMX.
    #[cfg(amx)]
    Split(&'a SplitRows),
}

/// Rows converted for products, in memory that a thread reuses.
#[derive(Default)]
pub(super) struct Prepared {
    quantized: QuantizedRows,
    #[cfg(amx)]
    split: Option<SplitRows>,
}

impl Prepared {
    pub(super) fn set(&mut self, x: &[f32], k: usize, format: Format) {
        if format.block() > 1 {
            self.quantized.set(x, k, format);
        }
        #[cfg(amx)]
        if format == Format::Bf16 {
            self.split = Amx::detect().map(|amx| self.split.take().unwrap_or_else(|| SplitRows::new(amx)));
            self.split.iter_mut().for_each(|split| split.set(x, k));
        }
    }

    /// The rows, which must have been prepared for this format.
    pub(super) fn input<'a>(&'a self, x: &'a [f32], format: Format) -> Input<'a> {
        #[cfg(amx)]
        if let Some(split) = self.split.as_ref().filter(|_| format == Format::Bf16) {
            return Input::Split(split);
        }
        if format.block() > 1 { Input::Quantized(&self.quantized) } else { Input::Floats(x) }
    }
}
