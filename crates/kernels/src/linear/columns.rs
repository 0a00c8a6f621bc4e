//! Products of every row with some columns of the weights, by their format.

use std::cell::Cell;
use std::ops::Range;

use super::prepared::Input;
use super::tiles::of_rows;
#[cfg(amx)]
use crate::bf16_dot::dot_bf16;
use crate::block_dot::dot_blocks;
use crate::bytewise::Bytewise;
use crate::decode::{self, Decode};
use crate::dispatch::dispatch;
use crate::format::{Format, with_blocks};
use crate::out::Out;
use crate::weights::{Weights, decode_row};

/// The number of rows above which weights are decoded into memory before they are used.
const MANY: usize = 16;

/// The number of columns that are decoded at a time then.
pub(super) const PANEL: usize = 16;

dispatch! {
    /// Multiplies every row by some columns, on this thread.
    ///
    /// # Safety
    /// No other thread writes these columns.
    pub(super) unsafe fn of_columns(x: Input<'_>, w: Weights<'_>, columns: Range<usize>, out: &Out<'_>) =
        of_columns_body
}

/// # Safety
/// No other thread writes these columns.
#[inline(always)]
pub(super) unsafe fn of_columns_body<S: Bytewise>(
    unit: S,
    x: Input<'_>,
    w: Weights<'_>,
    columns: Range<usize>,
    out: &Out<'_>,
) {
    // SAFETY: upheld by the caller.
    unsafe {
        match (w.format(), x) {
            (Format::F32, Input::Floats(x)) => of_format::<S, decode::F32>(unit, x, w, columns, out),
            (Format::F16, Input::Floats(x)) => of_format::<S, decode::F16>(unit, x, w, columns, out),
            (Format::Bf16, Input::Floats(x)) => of_format::<S, decode::Bf16>(unit, x, w, columns, out),
            (format, Input::Quantized(x)) => {
                with_blocks!(format, F => dot_blocks::<S, F>(unit, x, w, columns, out))
            }
            #[cfg(amx)]
            (Format::Bf16, Input::Split(x)) => dot_bf16(unit, x, w, columns, out),
            (format, _) => unreachable!("rows for {format:?}"),
        }
    }
}

/// # Safety
/// No other thread writes these columns.
#[inline(always)]
unsafe fn of_format<S: Bytewise, F: Decode>(unit: S, x: &[f32], w: Weights<'_>, columns: Range<usize>, out: &Out<'_>) {
    let k = w.columns();
    if x.len() / k <= MANY {
        // SAFETY: upheld by the caller.
        return unsafe { of_rows::<S, F>(unit, x, w, columns, 0, out) };
    }
    thread_local!(static DECODED: Cell<Vec<f32>> = const { Cell::new(Vec::new()) });
    // A closure (as for `LocalKey::with`) would not be compiled for the unit.
    let mut decoded = DECODED.take();
    decoded.resize(PANEL * k, 0.0);
    for from in columns.clone().step_by(PANEL) {
        let count = PANEL.min(columns.end - from);
        for (j, row) in decoded.chunks_mut(k).enumerate().take(count) {
            decode_row::<S, F>(unit, w.rows_from(from + j, 1), row);
        }
        let w = Weights::of(&decoded[..count * k], k);
        // SAFETY: upheld by the caller.
        unsafe { of_rows::<S, decode::F32>(unit, x, w, 0..count, from, out) };
    }
    DECODED.set(decoded);
}
