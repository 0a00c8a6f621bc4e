//! Keys and values that are computed from given rows, not from a text.

use verdigris_kernels::rotate;

use super::attention::norm_rows;
use super::decoder::CpuDecoder;
use super::pages::Half;
use super::projection::project_each;
use super::state::State;
use super::work::Work;
use crate::description::config::{Mixer, Positions};
use crate::description::parts::MixerParts;
use crate::error::ModelError;

/// The most rows that are taken at a time.
const AT_A_TIME: usize = 256;

/// The rows of which a layer's keys and values are products, and the layer of the state that stores them.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    pub(crate) to: usize,
    /// `tokens x width`.
    pub(crate) rows: &'a [f32],
}

/// Appends tokens with the keys and values that the layers of `source` compute from given rows: one item for each
/// layer, with the same number of rows. The state may be that of another decoder, with the same rotary embeddings.
///
/// # Errors
/// [`ModelError::ContextFull`], and an error if there is not enough memory.
///
/// # Panics
/// If a layer of the source has other attention than queries, keys and values of its own, or one of the state stores
/// keys and values of another width.
pub(crate) fn give(
    source: &CpuDecoder,
    state: &mut State,
    given: &[Given<'_>],
    work: &mut Work,
) -> Result<(), ModelError> {
    let CpuDecoder { config, parts: all, .. } = source;
    let count = given.first().map_or(0, |given| given.rows.len() / config.width);
    for from in (0..count).step_by(AT_A_TIME) {
        let (length, m) = (state.held.length(), AT_A_TIME.min(count - from));
        state.held.check(m)?;
        state.pages.make_own(length, length + m)?;
        for ((parts, block), &Given { to, rows }) in all.layers.iter().zip(&config.blocks).zip(given) {
            let (MixerParts::Attention(parts), Mixer::Attention(of)) = (&parts.mixer, &block.mixer) else {
                panic!("a layer without attention")
            };
            let rows = &rows[from * config.width..(from + m) * config.width];
            let key = parts.key.as_ref().expect("own keys");
            match &parts.value {
                Some(value) => project_each(rows, config.width, [(key, &mut work.key), (value, &mut work.value)]),
                None => {
                    project_each(rows, config.width, [(key, &mut work.key)]);
                    work.value.clone_from(&work.key);
                }
            }
            for (x, weight) in [(&mut work.key, &parts.key_norm), (&mut work.value, &parts.value_norm)] {
                let Some(weight) = weight.as_deref() else { continue };
                norm_rows(x, weight, source.epsilon(), &mut work.normed);
            }
            if let (Positions::Rotary(rotaries), Some(which)) = (&config.positions, of.rotary) {
                work.cos.clear();
                work.sin.clear();
                let angles = &state.angles[which];
                (length..length + m).for_each(|at| angles.extend(at as u32, &mut work.cos, &mut work.sin));
                rotate(&mut work.key, of.kv_heads, of.head_dim, &work.cos, &work.sin, rotaries[which].pairs);
            }
            state.pages.write(to, Half::Keys, length, &work.key);
            state.pages.write(to, Half::Values, length, &work.value);
        }
        state.held.extend(m);
    }
    Ok(())
}
