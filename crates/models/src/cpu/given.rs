//! Keys and values that are computed from given rows, not from a text.

use verdigris_kernels::{rms_norm, rotate};

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

/// Appends tokens whose keys and values are, in each layer, the products of the same rows: `tokens x width`.
///
/// # Errors
/// [`ModelError::ContextFull`], and an error if there is not enough memory.
///
/// # Panics
/// If a layer has other attention than queries, keys and values of its own.
pub(crate) fn give(decoder: &CpuDecoder, state: &mut State, rows: &[f32], work: &mut Work) -> Result<(), ModelError> {
    let CpuDecoder { config, parts: all, .. } = decoder;
    for rows in rows.chunks(AT_A_TIME * config.width) {
        let (length, m) = (state.held.length(), rows.len() / config.width);
        state.held.check(m)?;
        state.pages.make_own(length, length + m)?;
        for (layer, (parts, block)) in all.layers.iter().zip(&config.blocks).enumerate() {
            let (MixerParts::Attention(parts), Mixer::Attention(of)) = (&parts.mixer, &block.mixer) else {
                panic!("a layer without attention")
            };
            let (key, value) = parts.key.as_ref().zip(parts.value.as_ref()).expect("own keys and values");
            project_each(rows, config.width, [(key, &mut work.key), (value, &mut work.value)]);
            if let Some(weight) = parts.key_norm.as_deref() {
                work.normed.resize(work.key.len(), 0.0);
                rms_norm(&work.key, weight, decoder.epsilon(), &mut work.normed);
                std::mem::swap(&mut work.key, &mut work.normed);
            }
            if let (Positions::Rotary(rotaries), Some(which)) = (&config.positions, of.rotary) {
                work.cos.clear();
                work.sin.clear();
                let angles = &state.angles[which];
                (length..length + m).for_each(|at| angles.extend(at as u32, &mut work.cos, &mut work.sin));
                rotate(&mut work.key, of.kv_heads, of.head_dim, &work.cos, &work.sin, rotaries[which].pairs);
            }
            state.pages.write(layer, Half::Keys, length, &work.key);
            state.pages.write(layer, Half::Values, length, &work.value);
        }
        state.held.extend(m);
    }
    Ok(())
}
