//! Llama and the decoders that differ from it in a few choices.

use super::decoder::{Rotated, decoder, head_dim};
use super::experts::{Routers, experts};
use super::names::{AROUND, ATTENTION, BEFORE, BIASES, NETWORK, Names, QUERY_KEY_NORMS};
use super::values::{Described, Values};
use super::{Architecture, BARE};

pub(super) const LLAMA: Architecture = Architecture {
    name: "llama",
    describe: |of, to| {
        // A file of Mixtral says that it is a Llama with experts.
        if of.size_or("expert_count")?.unwrap_or(0) > 0 {
            dense(of, to, "mixtral")?;
            experts(of, to, &Routers::softmax(None))?;
        } else {
            dense(of, to, "llama")?;
        }
        neighbours(to);
        Ok(())
    },
    names: &[BEFORE, ATTENTION, NETWORK],
    of_experts: &[MIXTRAL],
    ..BARE
};

pub(super) const QWEN2: Architecture = Architecture {
    name: "qwen2",
    describe: |of, to| dense(of, to, "qwen2"),
    names: &[BEFORE, ATTENTION, BIASES, NETWORK],
    ..BARE
};

pub(super) const QWEN3: Architecture = Architecture {
    name: "qwen3",
    describe: |of, to| dense(of, to, "qwen3"),
    names: &[BEFORE, ATTENTION, QUERY_KEY_NORMS, NETWORK],
    ..BARE
};

pub(super) const SMOLLM3: Architecture = Architecture {
    name: "smollm3",
    describe: |of, to| {
        // The file does not list the layers without positions; the default applies: every fourth.
        dense(of, to, "smollm3")?;
        neighbours(to);
        Ok(())
    },
    names: &[BEFORE, ATTENTION, NETWORK],
    ..BARE
};

pub(super) const GEMMA: Architecture = Architecture {
    name: "gemma",
    describe: |of, to| {
        dense(of, to, "gemma")?;
        to.put("norms_are_whole", true);
        Ok(())
    },
    names: &[BEFORE, ATTENTION, NETWORK],
    ..BARE
};

pub(super) const GEMMA2: Architecture = Architecture {
    name: "gemma2",
    describe: |of, to| gemma(of, to, "gemma2"),
    names: &[AROUND, ATTENTION, NETWORK],
    ..BARE
};

pub(super) const GEMMA3: Architecture = Architecture {
    name: "gemma3",
    describe: |of, to| gemma(of, to, "gemma3"),
    names: &[AROUND, ATTENTION, QUERY_KEY_NORMS, NETWORK],
    ..BARE
};

/// Mixtral's router and experts.
const MIXTRAL: Names = &[
    ("ffn_gate_inp.weight", "block_sparse_moe.gate.weight"),
    ("ffn_gate_exps.weight", "block_sparse_moe.experts.gate_exps.weight"),
    ("ffn_up_exps.weight", "block_sparse_moe.experts.up_exps.weight"),
    ("ffn_down_exps.weight", "block_sparse_moe.experts.down_exps.weight"),
];

fn dense(of: &Values<'_>, to: &mut Described, model_type: &str) -> Result<(), String> {
    decoder(of, to, model_type, Rotated::Whole)?;
    to.put_some("rope_local_base_freq", of.number("rope.freq_base_swa")?);
    to.put_some("sliding_window", of.size_or("attention.sliding_window")?);
    to.put_some("sliding_window_pattern", of.size_or("attention.sliding_window_pattern")?);
    for name in ["attn_logit_softcapping", "final_logit_softcapping"] {
        to.put_some(name, of.number(name)?);
    }
    Ok(())
}

/// These files have the elements of heads in another order.
fn neighbours(to: &mut Described) {
    to.put("rope_neighbours", true);
}

fn gemma(of: &Values<'_>, to: &mut Described, model_type: &str) -> Result<(), String> {
    dense(of, to, model_type)?;
    // The file does not say; except for the largest models it is the size of a head.
    to.put("query_pre_attn_scalar", head_dim(of)?);
    to.put("norms_are_whole", true);
    Ok(())
}
