//! Decoders without experts that differ from Llama in the position or the packing of their weights.

use serde_json::json;

use super::decoder::{Rotated, decoder};
use super::names::{ATTENTION, BEFORE, NETWORK, Names, QUERY_KEY_NORMS};
use super::values::{Described, Values};
use super::{Architecture, BARE};

pub(super) const OLMO2: Architecture = Architecture {
    name: "olmo2",
    describe: |of, to| {
        decoder(of, to, "olmo2", Rotated::Whole)?;
        of.refuse("attention.sliding_window", 0.0)
    },
    names: &[AFTER, ATTENTION, QUERY_KEY_NORMS, NETWORK],
    ..BARE
};

pub(super) const PHI3: Architecture = Architecture {
    name: "phi3",
    describe: |of, to| {
        decoder(of, to, "phi3", Rotated::Part)?;
        // 0 means none.
        to.put_some("sliding_window", of.size_or("attention.sliding_window")?.filter(|&window| window > 0));
        long_rope(of, to)
    },
    names: &[
        BEFORE,
        &[
            ("attn_qkv.weight", "self_attn.qkv_proj.weight"),
            ("attn_output.weight", "self_attn.o_proj.weight"),
            ("ffn_up.weight", "mlp.gate_up_proj.weight"),
            ("ffn_down.weight", "mlp.down_proj.weight"),
        ],
    ],
    outside: &[("rope_factors_long.weight", "rope_factors_long"), ("rope_factors_short.weight", "rope_factors_short")],
    ..BARE
};

/// Norms after each part.
const AFTER: Names = &[
    ("post_attention_norm.weight", "post_attention_layernorm.weight"),
    ("post_ffw_norm.weight", "post_feedforward_layernorm.weight"),
];

/// Describes LongRoPE, whose factors are tensors.
fn long_rope(of: &Values<'_>, to: &mut Described) -> Result<(), String> {
    let factors = ["rope_factors_short.weight", "rope_factors_long.weight"].map(|name| of.vector(name));
    let [short, long] = factors;
    let (Some(short), Some(long)) = (short?, long?) else { return Ok(()) };
    let context = of.size("rope.scaling.original_context_length")?;
    let scaling = json!({
        "type": "longrope",
        "short_factor": short,
        "long_factor": long,
        "original_max_position_embeddings": context,
        "attention_factor": of.number("rope.scaling.attn_factor")?.unwrap_or(1.0),
    });
    to.put("rope_scaling", scaling);
    Ok(())
}
