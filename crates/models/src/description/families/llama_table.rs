//! Llama and related models as data: one row for each model type, which says how it differs from Llama.

use crate::description::config::{NormPlacement, Pairs, QueryKeyNorm};

/// The choices and the names of a model type.
pub(super) struct Row {
    pub(super) model_type: &'static str,
    /// Whether the file may say how large a head is.
    pub(super) own_head_dim: bool,
    /// The names of the activation's field, and its usual value.
    pub(super) activation: (&'static [&'static str], &'static str),
    /// Whether `gelu` means its approximation.
    pub(super) gelu_is_tanh: bool,
    pub(super) norm: NormField,
    pub(super) placement: NormPlacement,
    /// The norms before and after attention, and before and after the feed-forward part.
    pub(super) norms: [&'static str; 4],
    /// Whether the file has the difference of a norm's weights from one.
    pub(super) norms_add_one: bool,
    pub(super) query_bias: Bias,
    pub(super) output_bias: Bias,
    pub(super) network_bias: Bias,
    pub(super) query_key_norm: Option<QueryKeyNorm>,
    /// The field that says whether there are norms of queries and keys, if not all models of the type have them.
    pub(super) query_key_norm_if: Option<&'static str>,
    pub(super) query_key_norms: [&'static str; 2],
    pub(super) scale: Option<Scale>,
    /// Whether the file may cap attention scores (`attn_logit_softcapping`).
    pub(super) caps_attention: bool,
    /// Whether the file may cap logits (`final_logit_softcapping`).
    pub(super) caps_logits: bool,
    pub(super) sinks: bool,
    /// Whether queries grow with their position (`llama_4_scaling_beta`).
    pub(super) queries_grow: bool,
    pub(super) rotary: RotaryField,
    pub(super) windows: Windows,
    /// Whether there are windows only if the file says `use_sliding_window`.
    pub(super) windows_are_optional: bool,
    /// Whether a file without `sliding_window` is refused, unless it lists layers without windows.
    pub(super) windows_are_needed: bool,
    /// Whether `layer_types` says which layers have windows.
    pub(super) has_layer_types: bool,
    pub(super) positions: Layers,
    /// Whether attention and the feed-forward part read the same normalised rows.
    pub(super) parallel: bool,
    pub(super) embedding_scale: Option<EmbeddingScale>,
    /// The field of the scale of residuals.
    pub(super) residual_scale: Option<&'static str>,
    pub(super) logit_scale: Option<LogitScale>,
    /// Whether the output matrix is the embedding, if the file does not say so.
    pub(super) tied: bool,
    /// Whether queries, keys and values are one matrix.
    pub(super) fused_attention: bool,
    pub(super) network: Network,
    /// Whether attention is to latent vectors: see `latent`.
    pub(super) latent: bool,
}

/// Whether projections have biases.
#[derive(Clone, Copy)]
pub(super) enum Bias {
    Always,
    Never,
    /// A field says so; if it is missing, this is its value.
    Field(&'static str, bool),
}

/// The field with the number that is added in norms. `defaults` has its value if it is missing.
#[derive(Clone, Copy)]
pub(super) enum NormField {
    /// Root-mean-square norms.
    Rms(&'static str),
    /// Layer norms, and whether they have biases.
    Layer(&'static str, bool),
}

/// The scale of attention scores.
#[derive(Clone, Copy)]
pub(super) enum Scale {
    /// The root of the inverse of a field.
    InverseRoot(&'static str),
    /// A field, or 1.
    Field(&'static str),
}

/// The scale of embeddings.
#[derive(Clone, Copy)]
pub(super) enum EmbeddingScale {
    /// The root of the width.
    RootOfWidth,
    /// A field, or 1.
    Field(&'static str),
}

/// The scale of logits.
#[derive(Clone, Copy)]
pub(super) enum LogitScale {
    /// The inverse of a field, or 1.
    Inverse(&'static str),
    /// A field, or 1.
    Field(&'static str),
}

/// Rotary positions.
#[derive(Clone, Copy)]
pub(super) struct RotaryField {
    /// The usual base of the wavelengths. `defaults` has some others.
    pub(super) theta: f64,
    /// Layers with windows have their own base.
    pub(super) local: Option<LocalTheta>,
    /// The usual share of a head that is rotated, in models that may rotate less than all of it.
    pub(super) share: Option<f64>,
    /// The elements that are rotated together, if the file has them in the usual order.
    pub(super) pairs: Pairs,
    /// Whether `longrope` is the only scaling.
    pub(super) only_long_rope: bool,
    /// Whether `alpha` of `dynamic` scaling is a constant factor of the base.
    pub(super) has_alpha: bool,
}

/// The base of the wavelengths in layers with windows. Scaling is for the other layers, unless the file has parameters
/// for each kind.
#[derive(Clone, Copy)]
pub(super) enum LocalTheta {
    /// A field, or this number.
    Field(&'static str, f64),
    /// That of the other layers.
    Same,
}

/// The layers that have windows, if `layer_types` does not say so.
#[derive(Clone, Copy)]
pub(super) enum Windows {
    Never,
    All,
    /// The first, the third, and so on.
    EveryOther,
    /// All but every few; `sliding_window_pattern` says how few, or it is this number.
    AllButEvery(usize),
    /// All but every fourth.
    AllButFourth,
    /// Those after the first `max_window_layers`.
    AfterFirst,
    /// Those without positions.
    WithoutPositions,
}

/// The layers that have positions.
#[derive(Clone, Copy)]
pub(super) enum Layers {
    All,
    /// Those that `no_rope_layers` lists, or all but every few.
    Listed,
    /// Those with windows.
    Windows,
    /// Those with windows; all if `sliding_window` is missing.
    WindowsOrAll,
}

/// The names of a feed-forward network's matrices.
#[derive(Clone, Copy)]
pub(super) enum Network {
    /// `gate_proj`, `up_proj` and `down_proj`.
    Apart,
    /// The first two in one, `gate_up_proj`.
    Fused,
    /// Two without a gate, `c_fc` and `c_proj`.
    Ungated,
}

/// The name of a norm that a model does not have.
pub(super) const NO_NORM: &str = "";

const AFTER: [&str; 4] = [NO_NORM, "post_attention_layernorm", NO_NORM, "post_feedforward_layernorm"];

const LLAMA: Row = Row {
    model_type: "llama",
    own_head_dim: true,
    activation: (&["hidden_act"], "silu"),
    gelu_is_tanh: false,
    norm: NormField::Rms("rms_norm_eps"),
    placement: NormPlacement::Before,
    norms: ["input_layernorm", NO_NORM, "post_attention_layernorm", NO_NORM],
    norms_add_one: false,
    query_bias: Bias::Field("attention_bias", false),
    output_bias: Bias::Field("attention_bias", false),
    network_bias: Bias::Field("mlp_bias", false),
    query_key_norm: None,
    query_key_norm_if: None,
    query_key_norms: ["q_norm", "k_norm"],
    scale: None,
    caps_attention: false,
    caps_logits: false,
    sinks: false,
    queries_grow: false,
    rotary: RotaryField {
        theta: 10_000.0,
        local: None,
        share: None,
        pairs: Pairs::Halves,
        only_long_rope: false,
        has_alpha: false,
    },
    windows: Windows::Never,
    windows_are_optional: false,
    windows_are_needed: false,
    has_layer_types: false,
    positions: Layers::All,
    parallel: false,
    embedding_scale: None,
    residual_scale: None,
    logit_scale: None,
    tied: false,
    fused_attention: false,
    network: Network::Apart,
    latent: false,
};

const MISTRAL: Row = Row { model_type: "mistral", windows: Windows::All, ..LLAMA };

const QWEN2: Row = Row {
    model_type: "qwen2",
    query_bias: Bias::Always,
    output_bias: Bias::Never,
    windows: Windows::AfterFirst,
    windows_are_optional: true,
    has_layer_types: true,
    ..LLAMA
};

const QWEN3: Row = Row {
    model_type: "qwen3",
    query_bias: LLAMA.query_bias,
    output_bias: LLAMA.output_bias,
    query_key_norm: Some(QueryKeyNorm::Heads),
    ..QWEN2
};

const OLMO2: Row = Row {
    model_type: "olmo2",
    placement: NormPlacement::After,
    norms: AFTER,
    query_key_norm: Some(QueryKeyNorm::Tokens),
    ..LLAMA
};

const GEMMA: Row = Row {
    model_type: "gemma",
    activation: (&["hidden_activation", "hidden_act"], "gelu_pytorch_tanh"),
    gelu_is_tanh: true,
    norms_add_one: true,
    embedding_scale: Some(EmbeddingScale::RootOfWidth),
    tied: true,
    ..LLAMA
};

const GEMMA2: Row = Row {
    model_type: "gemma2",
    gelu_is_tanh: false,
    placement: NormPlacement::Around,
    norms: ["input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"],
    scale: Some(Scale::InverseRoot("query_pre_attn_scalar")),
    caps_attention: true,
    caps_logits: true,
    windows: Windows::EveryOther,
    has_layer_types: true,
    ..GEMMA
};

const GEMMA3: Row = Row {
    model_type: "gemma3",
    query_key_norm: Some(QueryKeyNorm::Heads),
    caps_attention: false,
    rotary: RotaryField {
        theta: 1_000_000.0,
        local: Some(LocalTheta::Field("rope_local_base_freq", 10_000.0)),
        ..LLAMA.rotary
    },
    windows: Windows::AllButEvery(6),
    ..GEMMA2
};

const DEEPSEEK_V3: Row =
    Row { model_type: "deepseek_v3", own_head_dim: false, network_bias: Bias::Never, latent: true, ..LLAMA };

const GLM4_MOE: Row = Row {
    model_type: "glm4_moe",
    output_bias: Bias::Never,
    network_bias: Bias::Never,
    query_key_norm: Some(QueryKeyNorm::Heads),
    query_key_norm_if: Some("use_qk_norm"),
    rotary: RotaryField { share: Some(0.5), ..LLAMA.rotary },
    ..LLAMA
};

/// All model types like Llama, in alphabetical order.
pub(super) const ROWS: &[Row] = &[
    Row {
        model_type: "cohere2",
        own_head_dim: false,
        norm: NormField::Layer("layer_norm_eps", false),
        norms: ["input_layernorm", NO_NORM, NO_NORM, NO_NORM],
        network_bias: Bias::Never,
        rotary: RotaryField { pairs: Pairs::Neighbours, ..LLAMA.rotary },
        windows: Windows::AllButEvery(4),
        windows_are_needed: true,
        has_layer_types: true,
        positions: Layers::Windows,
        parallel: true,
        logit_scale: Some(LogitScale::Field("logit_scale")),
        tied: true,
        ..LLAMA
    },
    DEEPSEEK_V3,
    Row {
        model_type: "exaone4",
        placement: NormPlacement::After,
        norms: AFTER,
        query_bias: Bias::Never,
        output_bias: Bias::Never,
        network_bias: Bias::Never,
        query_key_norm: Some(QueryKeyNorm::Heads),
        windows: Windows::AllButEvery(4),
        has_layer_types: true,
        positions: Layers::WindowsOrAll,
        ..LLAMA
    },
    GEMMA,
    GEMMA2,
    GEMMA3,
    Row { model_type: "gemma3_text", ..GEMMA3 },
    Row {
        model_type: "glm4",
        placement: NormPlacement::Around,
        norms: ["input_layernorm", "post_self_attn_layernorm", "post_attention_layernorm", "post_mlp_layernorm"],
        query_bias: Bias::Field("attention_bias", true),
        output_bias: Bias::Never,
        network_bias: Bias::Never,
        rotary: RotaryField { share: Some(0.5), pairs: Pairs::Neighbours, ..LLAMA.rotary },
        network: Network::Fused,
        ..LLAMA
    },
    GLM4_MOE,
    Row { model_type: "glm4_moe_lite", ..DEEPSEEK_V3 },
    Row { model_type: "gpt_oss", sinks: true, windows: Windows::EveryOther, has_layer_types: true, ..LLAMA },
    Row {
        model_type: "granite",
        scale: Some(Scale::Field("attention_multiplier")),
        embedding_scale: Some(EmbeddingScale::Field("embedding_multiplier")),
        residual_scale: Some("residual_multiplier"),
        logit_scale: Some(LogitScale::Inverse("logits_scaling")),
        ..LLAMA
    },
    Row {
        model_type: "hunyuan_v1_dense",
        network_bias: Bias::Never,
        query_key_norm: Some(QueryKeyNorm::RotatedHeads),
        query_key_norms: ["query_layernorm", "key_layernorm"],
        rotary: RotaryField { has_alpha: true, ..LLAMA.rotary },
        ..LLAMA
    },
    LLAMA,
    Row {
        model_type: "ministral3",
        query_bias: Bias::Never,
        output_bias: Bias::Never,
        network_bias: Bias::Never,
        queries_grow: true,
        ..MISTRAL
    },
    MISTRAL,
    Row { model_type: "mixtral", ..MISTRAL },
    OLMO2,
    Row {
        model_type: "olmo3",
        network_bias: Bias::Never,
        rotary: RotaryField { theta: 500_000.0, local: Some(LocalTheta::Same), ..LLAMA.rotary },
        windows: Windows::AllButFourth,
        windows_are_needed: true,
        has_layer_types: true,
        ..OLMO2
    },
    Row { model_type: "olmoe", query_key_norm: Some(QueryKeyNorm::Tokens), ..LLAMA },
    Row {
        model_type: "phi3",
        rotary: RotaryField { share: Some(1.0), only_long_rope: true, ..LLAMA.rotary },
        windows: Windows::All,
        fused_attention: true,
        network: Network::Fused,
        ..LLAMA
    },
    QWEN2,
    Row { model_type: "qwen2_moe", query_bias: Bias::Field("qkv_bias", true), ..QWEN2 },
    QWEN3,
    Row { model_type: "qwen3_moe", ..QWEN3 },
    Row {
        model_type: "seed_oss",
        query_bias: Bias::Field("attention_bias", true),
        output_bias: Bias::Field("attention_out_bias", false),
        ..LLAMA
    },
    Row {
        model_type: "smollm3",
        windows: Windows::WithoutPositions,
        windows_are_optional: true,
        has_layer_types: true,
        positions: Layers::Listed,
        ..LLAMA
    },
    Row {
        model_type: "starcoder2",
        activation: (&["hidden_act"], "gelu_pytorch_tanh"),
        norm: NormField::Layer("norm_epsilon", true),
        query_bias: Bias::Field("use_bias", true),
        output_bias: Bias::Field("use_bias", true),
        network_bias: Bias::Field("use_bias", true),
        windows: Windows::All,
        tied: true,
        network: Network::Ungated,
        ..LLAMA
    },
];

/// The row of a model type. Draft heads, which have their own, are like Llama.
pub(super) fn row(model_type: &str) -> &'static Row {
    ROWS.iter().find(|row| row.model_type == model_type).unwrap_or(&LLAMA)
}
