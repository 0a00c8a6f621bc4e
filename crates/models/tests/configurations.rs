//! Configurations of other programs: which fields they omit, which are applied, and which are refused by name.

use serde_json::{Value, json};
use verdigris_models::config::{
    Attention, Block, FeedForward, Groups, Mixer, Norm, Pairs, Positions, QueryGrowth, QueryKeyNorm, Rotary, Scaling,
    Score,
};
use verdigris_models::{DecoderConfig, ModelFolder};

fn read(config: &Value) -> Result<DecoderConfig, String> {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("config.json"), config.to_string()).unwrap();
    ModelFolder::at(folder.path()).config().map_err(|error| error.to_string())
}

fn golden(name: &str) -> Value {
    let path = format!("{}/../../fixtures/golden/architectures/{name}/config.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// The fields of the text part of a multimodal model.
fn text_part(name: &str) -> Value {
    golden(name)["text_config"].take()
}

/// The attention of the first layer.
fn of_first(config: &DecoderConfig) -> &Attention {
    config.attention(0).unwrap()
}

/// The width of the feed-forward network of all layers.
fn inner(config: &DecoderConfig) -> usize {
    config.alike().unwrap().1.width
}

/// The widths of a layer's feed-forward networks.
fn widths(block: &Block) -> impl Iterator<Item = usize> {
    let (dense, mixture) = match block.feed_forward {
        FeedForward::Dense(dense) => (Some(dense), None),
        FeedForward::Mixture(mixture) => (None, Some(mixture)),
        FeedForward::Sparse(sparse) => (Some(sparse.network), None),
        FeedForward::Both(both) => (Some(both.dense), Some(both.mixture)),
        FeedForward::None => (None, None),
    };
    let shared = mixture.and_then(|mixture| mixture.shared).map(|shared| shared.network);
    let all = dense.into_iter().chain(mixture.map(|mixture| mixture.expert)).chain(shared);
    all.map(|network| network.width)
}

fn rotary(config: &DecoderConfig) -> &[Rotary] {
    if let Positions::Rotary(all) = &config.positions { all } else { &[] }
}

/// The file of a multimodal Gemma 3 only has the unusual fields of its language model.
#[test]
fn what_gemma_3_leaves_out_is_as_transformers_has_it() {
    let config = read(&json!({
        "model_type": "gemma3",
        "text_config": {
            "hidden_size": 2560, "intermediate_size": 10240, "model_type": "gemma3_text", "num_hidden_layers": 34,
            "rope_scaling": {"factor": 8.0, "rope_type": "linear"}, "sliding_window": 1024,
        },
        "vision_config": {"hidden_size": 1152, "num_attention_heads": 16},
    }));
    let config = config.unwrap();
    let of = of_first(&config);
    assert_eq!((of.heads, of.kv_heads, of.head_dim), (8, 4, 256));
    assert_eq!((config.vocabulary, config.context, config.width), (262_208, 131_072, 2560));
    assert_eq!((of.scale, config.tied), (Some(1.0 / 16.0), true));
    let [global, local] = rotary(&config) else { panic!("{config:?}") };
    assert_eq!((global.theta, &global.scaling), (1e6, &Scaling::Linear(8.0)));
    assert_eq!((local.theta, &local.scaling), (1e4, &Scaling::None));
    let windows: Vec<_> = (0..12).map(|layer| config.attention(layer).unwrap().window).collect();
    let usual: Vec<_> = (1..=12).map(|layer| (layer % 6 != 0).then_some(1024)).collect();
    assert_eq!(windows, usual);
}

/// Gemma 4 lists what is different in full layers, in one of two ways, or relies on defaults.
#[test]
fn what_gemma_4_leaves_out_is_as_transformers_has_it() {
    let of = |outer: &str, fields: Value| {
        read(&json!({"model_type": outer, "text_config": fields, "vision_config": {"hidden_size": 768}})).unwrap()
    };
    let config = of("gemma4", json!({"num_kv_shared_layers": 18, "use_double_wide_mlp": true}));
    assert_eq!((config.vocabulary, config.context, config.width), (262_144, 131_072, 2304));
    assert_eq!((config.blocks.len(), config.tied, config.logit_cap), (30, true, None));
    let per_layer = config.per_layer.unwrap();
    assert_eq!((per_layer.vocabulary, per_layer.width), (262_144, 256));
    let [global, local] = rotary(&config) else { panic!("{config:?}") };
    assert_eq!((global.theta, &global.scaling), (1e6, &Scaling::Proportional { pairs: 64, factor: 1.0 }));
    assert_eq!((local.theta, &local.scaling), (1e4, &Scaling::None));
    for (i, block) in config.blocks.iter().enumerate() {
        let (attention, is_full) = (block.mixer.attention().unwrap(), i % 6 == 5);
        assert_eq!(attention.window, (!is_full).then_some(512), "{i}");
        assert_eq!((attention.heads, attention.kv_heads, attention.scale), (8, 4, Some(1.0)), "{i}");
        assert_eq!(attention.head_dim, if is_full { 512 } else { 256 }, "{i}");
        assert_eq!(attention.reads, (i >= 12).then_some(if is_full { 11 } else { 10 }), "{i}");
        assert_eq!(block.feed_forward.dense().unwrap().width, if i >= 12 { 18_432 } else { 9216 }, "{i}");
    }
    let unified = json!({"attention_k_eq_v": true, "num_global_key_value_heads": 1, "hidden_size_per_layer_input": 8});
    let config = of("gemma4_unified", unified.clone());
    assert_eq!((config.context, config.per_layer, config.layer_scales), (262_144, None, true));
    let kinds: Vec<_> = config.attentions().map(|one| (one.kv_heads, one.values_of_keys, one.window)).collect();
    assert_eq!(kinds[..6], [vec![(4, false, Some(1024)); 5], vec![(1, true, None)]].concat());
    // Without `attention_k_eq_v` the number of heads is not read.
    let mut other = unified.clone();
    other["attention_k_eq_v"] = json!(false);
    assert_eq!(of("gemma4_unified", other).attention(5).unwrap().kv_heads, 4);
    // A list of layers replaces the fields for full layers, whose indices may begin with zeros.
    let mut listed = unified;
    listed["per_layer_config"] = json!({"05": {"head_dim": 128}});
    listed["layer_types"] = vec!["sliding_attention"; 6].into();
    listed["num_hidden_layers"] = json!(6);
    let config = of("gemma4_unified", listed);
    let last = config.attention(5).unwrap();
    assert_eq!((last.head_dim, last.kv_heads, last.window), (128, 4, None), "the last layer is a full one");
    assert_eq!(rotary(&config)[0].scaling, Scaling::Proportional { pairs: 16, factor: 1.0 });
}

/// Each field of Gemma 4 that cannot be what it is, by its name.
#[test]
fn what_is_wrong_with_gemma_4() {
    let full = "full_attention";
    for (path, value, said) in [
        ("/use_bidirectional_attention", json!("all"), "use_bidirectional_attention = \"all\" is not supported"),
        ("/layer_types", vec![full; 4].into(), "layer_types has 4 of 5 layers"),
        ("/layer_types", json!([full, full, full, "linear_attention", full]), "layer_types has \"linear_attention\""),
        ("/sliding_window", json!(null), "sliding_window is missing"),
        ("/num_kv_shared_layers", json!(5), "num_kv_shared_layers is 5, but at least one of 5 layers has keys"),
        ("/num_kv_shared_layers", json!(3), "layer 2 reads the keys of an earlier layer of full_attention"),
        ("/per_layer_config", json!({"5": {}}), "per_layer_config has \"5\", which is not one of 5 layers"),
        ("/per_layer_config", json!({"2": {"sliding_window": 4}}), "per_layer_config with sliding_window"),
        ("/per_layer_config", json!({"0": {"head_dim": 32}}), "heads of 32 and of 16 elements"),
        (
            "/per_layer_config",
            json!({"2": {"num_key_value_heads": 2}}),
            "layer 4 reads the keys and values of layer 2, which has none of its shape",
        ),
        ("/vocab_size_per_layer_input", json!(60), "vocab_size_per_layer_input is 60, but there are 61 tokens"),
        ("/hidden_size_per_layer_input", json!(u64::MAX), "width of a layer's part of the embedding is"),
        ("/rope_parameters", json!({"full_attention": {}}), "rope_parameters has no sliding_attention"),
        ("/rope_parameters/full_attention/partial_rotary_factor", json!(1.5), "partial_rotary_factor is 1.5"),
        ("/rope_parameters/full_attention/factor", json!(0), "rotary wavelengths are scaled by 0"),
        ("/rope_parameters/sliding_attention/rope_type", json!("axial"), "\"axial\" are not supported"),
        ("/hidden_activation", json!("quick_gelu"), "quick_gelu"),
        ("/enable_moe_block", json!(true), "moe_intermediate_size is missing"),
    ] {
        let mut config = text_part("gemma4");
        let (inner, field) = path.rsplit_once('/').unwrap();
        config.pointer_mut(inner).unwrap()[field] = value;
        let fault = read(&config).expect_err(path);
        assert!(fault.contains(said) && !fault.contains('\n'), "{fault:?} should say {said:?}");
    }
}

/// Gemma 3n has the older names of rotary positions, and tokens of pictures and sounds without a row of their own in
/// the second embedding.
#[test]
fn what_gemma_3n_leaves_out_is_as_transformers_has_it() {
    let fields =
        json!({"rope_theta": 1e5, "rope_local_base_freq": 1e3, "rope_scaling": {"type": "linear", "factor": 2}});
    let config = read(&json!({"model_type": "gemma3n", "text_config": fields})).unwrap();
    assert_eq!((config.vocabulary, config.context, config.width), (262_400, 32_768, 2048));
    assert_eq!(config.per_layer.unwrap().vocabulary, 262_144);
    assert_eq!((config.alternating.unwrap().streams, config.logit_cap, config.layer_scales), (4, Some(30.0), false));
    let [global, local] = rotary(&config) else { panic!("{config:?}") };
    assert_eq!((global.theta, &global.scaling), (1e5, &Scaling::Linear(2.0)));
    assert_eq!((local.theta, &local.scaling), (1e3, &Scaling::None));
    for (i, block) in config.blocks.iter().enumerate() {
        let (attention, is_full) = (block.mixer.attention().unwrap(), i % 5 == 4);
        assert_eq!((attention.window, attention.head_dim), ((!is_full).then_some(512), 256), "{i}");
        assert_eq!(attention.reads, (i >= 20).then_some(if is_full { 19 } else { 18 }), "{i}");
        let deviations = if let FeedForward::Sparse(sparse) = block.feed_forward { sparse.deviations } else { 0.0 };
        // The quantile of the normal distribution at 95 percent.
        let expected = if i < 10 { 1.644_853_626_951_472_7 } else { 0.0 };
        assert!((deviations - expected).abs() < 1e-14, "{i}: {deviations}");
        assert_eq!(widths(block).next(), Some(16_384), "{i}");
    }
    for (field, value, said) in [
        ("intermediate_size", vec![32; 4].into(), "intermediate_size is not a list of 5 numbers"),
        ("activation_sparsity_pattern", vec![0.9; 4].into(), "activation_sparsity_pattern is not a list of 5 numbers"),
        ("activation_sparsity_pattern", json!([0.9, 1.0, 0.0, 0.0, 0.0]), "a list of 5 numbers below 1"),
        ("altup_num_inputs", json!(65), "layers compute stream 0 of 65, but there must be 1 to 64"),
        ("altup_active_idx", json!(4), "layers compute stream 4 of 4"),
        ("laurel_rank", json!(0), "the rank past attention is 0"),
        ("num_kv_shared_layers", json!(15), "num_kv_shared_layers is 15, but at least one of 5 layers has keys"),
    ] {
        let mut config = golden("gemma3n");
        config[field] = value;
        let fault = read(&config).expect_err(field);
        assert!(fault.contains(said) && !fault.contains('\n'), "{fault:?} should say {said:?}");
    }
}

/// LLaVA 1.5 only lists how its language model differs from Llama 7B; the outer model type decides what is tied.
#[test]
fn what_wrappers_leave_out_is_as_transformers_has_it() {
    let of = |outer: &str, text: Value, tied: Option<bool>| {
        let mut config = json!({"model_type": outer, "text_config": text, "vision_config": {"hidden_size": 1024}});
        config.as_object_mut().unwrap().extend(tied.map(|tied| ("tie_word_embeddings".to_owned(), json!(tied))));
        read(&config).unwrap()
    };
    let vicuna = json!({"max_position_embeddings": 4096, "rms_norm_eps": 1e-5, "vocab_size": 32064});
    let llava = of("llava", vicuna.clone(), None);
    assert_eq!((llava.vocabulary, llava.context, llava.width), (32_064, 4096, 4096));
    assert_eq!(
        (llava.blocks.len(), of_first(&llava).heads, of_first(&llava).kv_heads, inner(&llava)),
        (32, 32, 32, 11_008)
    );
    let tied = |outer: &str, inner: Value, tied: Option<bool>| {
        let mut text = vicuna.clone();
        text["tie_word_embeddings"] = inner;
        of(outer, text, tied).tied
    };
    // The text part's own field only counts for LLaVA.
    assert!(tied("llava", json!(true), Some(false)) && tied("llava_next", json!(true), None));
    assert!(!tied("llava", json!(false), None) && !tied("smolvlm", json!(true), None));
    assert!(tied("mistral3", json!(false), None) && tied("internvl", json!(false), Some(true)));
    assert!(!tied("internvl", json!(true), Some(false)) && tied("idefics3", json!(false), Some(true)));
    let mistral = of("mistral3", json!({"sliding_window": null}), None);
    assert_eq!((of_first(&mistral).kv_heads, inner(&mistral), mistral.context), (8, 14_336, 131_072));
    assert_eq!(of("internvl", json!({}), None).vocabulary, 151_936);
}

/// If a field is missing, the default of the model type applies.
#[test]
fn what_a_file_may_leave_out() {
    let without = |name: &str, fields: &[&str]| {
        let mut config = golden(name);
        fields.iter().for_each(|field| drop(config.as_object_mut().unwrap().remove(*field)));
        read(&config).unwrap()
    };
    assert_eq!(of_first(&without("gemma2", &["attn_logit_softcapping"])).cap, Some(50.0));
    assert_eq!(without("gemma2", &["final_logit_softcapping"]).logit_cap, Some(30.0));
    let smollm3 = without("smollm3", &["no_rope_layers"]);
    assert_eq!(
        (0..5).map(|i| smollm3.attention(i).unwrap().rotary.is_some()).collect::<Vec<_>>(),
        [true, true, true, false, true]
    );
    assert_eq!(rotary(&without("smollm3", &["rope_parameters"]))[0].theta, 2e6);
    assert_eq!(without("mpt", &["attn_config"]), read(&golden("mpt")).unwrap());
    let seed = without("seed_oss", &["attention_bias", "attention_out_bias", "head_dim"]);
    let of = of_first(&seed);
    assert_eq!((of.bias, of.output_bias, of.head_dim), (true, false, 128));
    let null = |field: &str| {
        let mut config = golden("gemma2");
        config[field] = Value::Null;
        read(&config).unwrap()
    };
    assert_eq!(
        (of_first(&null("attn_logit_softcapping")).cap, null("final_logit_softcapping").logit_cap),
        (None, None)
    );
}

/// The same for later relatives of Llama.
#[test]
fn what_later_files_may_leave_out() {
    let with = |name: &str, removed: &[&str], fields: Value| {
        let mut config = golden(name);
        removed.iter().for_each(|field| drop(config.as_object_mut().unwrap().remove(*field)));
        config.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
        read(&config).unwrap()
    };
    let ministral = with("ministral3", &["rope_parameters", "head_dim"], json!({"num_key_value_heads": null}));
    let of = of_first(&ministral);
    assert_eq!((of.head_dim, of.kv_heads), (128, 4));
    assert_eq!(of.query_growth, Some(QueryGrowth { rate: 0.1, context: 16_384 }));
    let Scaling::Yarn { factor: 16.0, context: 16_384.0, magnitude: 1.0, .. } = rotary(&ministral)[0].scaling else {
        panic!("{ministral:?}")
    };
    assert_eq!(rotary(&ministral)[0].theta, 1e6);
    let outer = json!({"text_config": {"model_type": "ministral3"}});
    let wrapped = with("mistral3-ministral3", &["text_config"], outer);
    assert_eq!((wrapped.blocks.len(), wrapped.vocabulary, wrapped.context), (34, 131_072, 262_144));

    let granite = ["attention_multiplier", "embedding_multiplier", "residual_multiplier", "logits_scaling"];
    let granite = with("granite", &granite, json!({}));
    assert_eq!((of_first(&granite).scale, granite.embedding_scale), (Some(1.0), None));
    assert_eq!((granite.residual_scale, granite.logit_scale), (None, None));

    let olmo = ["layer_types", "sliding_window", "rope_parameters"];
    let olmo = with("olmo3", &olmo, json!({"num_hidden_layers": 5, "rope_theta": 3e5}));
    let windows: Vec<_> = olmo.attentions().map(|attention| attention.window).collect();
    assert_eq!(windows, [Some(4096), Some(4096), Some(4096), None, Some(4096)]);
    assert_eq!(rotary(&olmo).iter().map(|rotary| rotary.theta).collect::<Vec<_>>(), [3e5, 3e5]);

    let kinds = |config: &DecoderConfig| -> Vec<(bool, bool)> {
        config.attentions().map(|attention| (attention.window.is_some(), attention.rotary.is_some())).collect()
    };
    let cohere = ["layer_types", "sliding_window", "logit_scale", "tie_word_embeddings"];
    // The size of a head is not read.
    let cohere = with("cohere2", &cohere, json!({"head_dim": 5, "sliding_window_pattern": 2}));
    assert_eq!((cohere.logit_scale, cohere.tied, of_first(&cohere).head_dim), (Some(0.0625), true, 8));
    assert_eq!(of_first(&cohere).window, Some(4096));
    assert_eq!(kinds(&cohere), [(true, true), (false, false), (true, true), (false, false)]);
    let full = json!({"layer_types": vec!["full_attention"; 4], "sliding_window": null});
    assert_eq!(kinds(&with("cohere2", &[], full)), [(false, false); 4]);
    // Published files have letters here, next to `layer_types`.
    let exaone = with("exaone4", &[], json!({"sliding_window_pattern": "LLG"}));
    assert_eq!(kinds(&exaone), [(true, true), (true, true), (false, false)]);
    assert_eq!(kinds(&with("exaone4", &["layer_types"], json!({"sliding_window": null}))), [(false, true); 3]);

    let glm = with("glm4", &["rope_parameters", "attention_bias"], json!({}));
    let of = of_first(&glm);
    assert_eq!((rotary(&glm)[0].elements, rotary(&glm)[0].pairs), (Some(8), Pairs::Neighbours));
    assert_eq!((of.bias, of.output_bias), (true, false));
    let glm = ["use_qk_norm", "attention_bias", "n_group", "topk_group", "norm_topk_prob", "n_shared_experts"];
    let glm = with("glm4_moe", &glm, json!({"num_hidden_layers": 3, "first_k_dense_replace": 2}));
    assert_eq!((of_first(&glm).query_key_norm, of_first(&glm).bias), (None, false));
    let [FeedForward::Dense(_), FeedForward::Dense(_), FeedForward::Mixture(mixture)] =
        [0, 1, 2].map(|layer| glm.blocks[layer].feed_forward)
    else {
        panic!("{glm:?}")
    };
    let router = mixture.router;
    assert_eq!((router.score, router.choice_bias, router.groups), (Score::Sigmoid, true, None));
    assert_eq!((router.normalized, mixture.shared.unwrap().network.width), (Some(1e-20), 8));
    let glm = with("glm4_moe", &[], json!({"n_group": 3, "topk_group": 2}));
    let FeedForward::Mixture(mixture) = glm.blocks[1].feed_forward else { panic!("{glm:?}") };
    assert_eq!(mixture.router.groups, Some(Groups { count: 3, kept: 2 }));

    let deepseek = ["kv_lora_rank", "qk_nope_head_dim", "qk_rope_head_dim", "v_head_dim", "rope_interleave"];
    let deepseek = with("deepseek_v3", &deepseek, json!({"num_hidden_layers": 3, "first_k_dense_replace": 2}));
    let Mixer::Latent(latent) = &deepseek.blocks[2].mixer else { panic!("{deepseek:?}") };
    assert_eq!((latent.query_rank, latent.rank, latent.value_dim), (Some(16), 512, 128));
    assert_eq!((latent.unrotated, latent.rotated, rotary(&deepseek)[0].pairs), (128, 64, Pairs::Neighbours));
    let magnitude = 0.1 * 0.7 * 4f64.ln() + 1.0;
    assert!((latent.scale - magnitude * magnitude / 192f64.sqrt()).abs() < 1e-12, "{}", latent.scale);
    assert!(deepseek.blocks[1].feed_forward.dense().is_some() && deepseek.blocks[2].feed_forward.dense().is_none());
    let plain = json!({"rope_scaling": null, "q_lora_rank": null, "rope_interleave": false});
    let plain = with("deepseek_v3", &["attention_bias"], plain);
    let Mixer::Latent(latent) = &plain.blocks[1].mixer else { panic!("{plain:?}") };
    assert_eq!((latent.query_rank, latent.scale, rotary(&plain)[0].pairs), (None, 24f64.powf(-0.5), Pairs::Halves));
    let lite = ["mlp_layer_types", "q_lora_rank", "routed_scaling_factor", "rms_norm_eps"];
    // Not read for this type.
    let lite = with("glm4_moe_lite", &lite, json!({"num_hidden_layers": 3, "first_k_dense_replace": 3}));
    let Mixer::Latent(latent) = &lite.blocks[0].mixer else { panic!("{lite:?}") };
    assert_eq!((latent.query_rank, latent.epsilon, lite.norm), (Some(768), 1e-6, Norm::Rms { epsilon: 1e-5 }));
    let [FeedForward::Dense(_), FeedForward::Mixture(_), FeedForward::Mixture(mixture)] =
        [0, 1, 2].map(|layer| lite.blocks[layer].feed_forward)
    else {
        panic!("{lite:?}")
    };
    assert_eq!((mixture.router.scale, mixture.router.groups), (1.8, None));

    let hunyuan = with("hunyuan_v1_dense", &[], json!({}));
    assert_eq!(of_first(&hunyuan).query_key_norm, Some(QueryKeyNorm::RotatedHeads));
    let theta = 10_000.0 * 1000f64.powf(16.0 / 14.0);
    assert!((rotary(&hunyuan)[0].theta / theta - 1.0).abs() < 1e-12 && rotary(&hunyuan)[0].scaling == Scaling::None);
    let dynamic = json!({"rope_parameters": {"rope_type": "dynamic", "factor": 2.0, "alpha": 0}});
    let dynamic = with("hunyuan_v1_dense", &[], dynamic);
    assert_eq!(rotary(&dynamic)[0].scaling, Scaling::Dynamic { factor: 2.0, context: 32_768 });
    let starcoder = with("starcoder2", &["use_bias", "tie_word_embeddings", "hidden_act", "norm_epsilon"], json!({}));
    assert_eq!(starcoder, read(&golden("starcoder2")).unwrap());
}

/// For every family with rotary positions, with the field names of transformers 5 and with the older ones.
#[test]
fn rotary_positions_are_scaled_in_every_family() {
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16});
    let all = ["llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "olmo2", "falcon", "falcon-new", "gpt_neox"];
    let later = ["granite", "glm4", "glm4_moe", "seed_oss", "exaone4", "starcoder2", "hunyuan_v1_dense", "cohere2"];
    for name in all.into_iter().chain(later) {
        let plain = read(&golden(name)).unwrap();
        for (kind, parameters) in [("linear", json!({"type": "linear", "factor": 2.0})), ("yarn", yarn.clone())] {
            for field in ["rope_parameters", "rope_scaling"] {
                let mut config = golden(name);
                config.as_object_mut().unwrap().remove("rope_parameters");
                config[field] = parameters.clone();
                let config = read(&config).unwrap();
                let [Rotary { scaling, elements, .. }] = rotary(&config) else { panic!("{name}: {config:?}") };
                match scaling {
                    Scaling::Linear(2.0) if kind == "linear" => {}
                    Scaling::Yarn { factor: 4.0, context: 16.0, .. } if kind == "yarn" => {}
                    other => panic!("{name} {field} {kind}: {other:?}"),
                }
                assert_eq!(*elements, rotary(&plain)[0].elements, "{name}");
            }
        }
    }
    let mut config = golden("falcon");
    config["rope_parameters"] = json!({"rope_type": "proportional", "factor": 2.0});
    assert!(read(&config).unwrap_err().contains("\"proportional\" are not supported"));
}

/// Fields that transformers ignores or treats differently, and fields that it does not have.
#[test]
fn what_is_not_applied_is_refused() {
    for (name, path, value, said) in [
        ("gemma3", "/attn_logit_softcapping", json!(50.0), "attn_logit_softcapping = 50.0"),
        ("gemma3", "/use_bidirectional_attention", json!(true), "use_bidirectional_attention = true"),
        ("mistral", "/layer_types", json!(["full_attention", "sliding_attention"]), "layer_types is not supported"),
        ("qwen2", "/layer_types", json!(["full_attention", "chunked_attention"]), "chunked_attention"),
        ("qwen2", "/layer_types", json!(["full_attention"]), "layer_types has 1 of 2 layers"),
        ("smollm3", "/no_rope_layers", json!([1, 0]), "no_rope_layers is not a list of 5 numbers"),
        ("mpt", "/attn_config/alibi_bias_max", json!(16), "alibi_bias_max = 16"),
        ("mpt", "/attn_config/attn_type", json!("multiquery_attention"), "attn_type"),
        ("mpt", "/attn_config/alibi", json!("no"), "alibi is \"no\", which is not a truth value"),
        ("mpt", "/expansion_ratio", json!(3), "expansion_ratio = 3"),
        ("mpt", "/norm_type", json!("rmsnorm"), "norm_type = \"rmsnorm\""),
        ("falcon", "/alibi", json!(1), "alibi is 1, which is not a truth value"),
        ("gpt_neox", "/rope_parameters/partial_rotary_factor", json!(0.3125), "an even number of elements"),
        ("gpt_neox", "/rope_parameters/partial_rotary_factor", json!(1.5), "partial_rotary_factor is 1.5"),
        (
            "phi3",
            "/rope_parameters",
            json!({"rope_type": "linear", "factor": 2.0}),
            "not supported for model_type \"phi3\"",
        ),
        ("phi3-long", "/original_max_position_embeddings", json!(17), "original_max_position_embeddings is 17, but 16"),
        ("falcon-new", "/num_ln_in_parallel_attn", json!(7), "num_ln_in_parallel_attn = 7"),
        ("llama-long", "/rope_parameters/low_freq_factor", json!(4.0), "low_freq_factor is 4, but must be below"),
        ("olmo2", "/partial_rotary_factor", json!(0.5), "partial_rotary_factor = 0.5"),
        ("ministral3", "/rope_parameters/llama_4_scaling_beta", json!(null), "have no llama_4_scaling_beta"),
        ("ministral3", "/rope_parameters/llama_4_scaling_beta", json!(-1), "the growth of queries is -1"),
        ("ministral3", "/rope_parameters/original_max_position_embeddings", json!(0), "original context length is 0"),
        ("ministral3", "/layer_types", json!(vec!["sliding_attention"; 2]), "layer_types has layers with a window"),
        ("granite", "/residual_multiplier", json!(0), "the scale of residuals is 0"),
        ("granite", "/logits_scaling", json!(0), "the scale of logits is inf"),
        ("granite", "/embedding_multiplier", json!(-1), "the scale of embeddings is -1"),
        ("granite", "/attention_multiplier", json!("x"), "attention_multiplier is \"x\", which is not a number"),
        ("olmo3-older", "/sliding_window", json!(null), "sliding_window is missing"),
        ("cohere2", "/logit_scale", json!([]), "logit_scale is [], which is not a number"),
        ("cohere2", "/layer_types", json!(null), "sliding_window is missing"),
        ("exaone4", "/sliding_window", json!(0), "sliding_window is 0"),
        ("hunyuan_v1_dense", "/rope_parameters/alpha", json!(-1), "rope_theta) is NaN"),
        ("glm4", "/rope_parameters/partial_rotary_factor", json!(0.35), "an even number of elements"),
        ("glm4_moe", "/n_group", json!(4), "6 experts cannot be 4 equal groups"),
        ("glm4_moe", "/topk_group", json!(2), "6 experts cannot be 1 equal groups"),
        ("glm4_moe", "/n_shared_experts", json!(0), "intermediate size of the shared expert is 0"),
        ("glm4_moe", "/num_experts_per_tok", json!(7), "a token cannot use 7 of 6 experts"),
        ("glm4_moe", "/use_qk_norm", json!(1), "use_qk_norm is 1, which is not a truth value"),
        ("deepseek_v3", "/n_group", json!(null), "n_group is missing"),
        ("deepseek_v3", "/n_group", json!(8), "8 experts cannot be 8 equal groups"),
        ("deepseek_v3", "/num_key_value_heads", json!(2), "num_key_value_heads is 2, but must be num_attention_heads"),
        ("deepseek_v3", "/kv_lora_rank", json!(0), "the rank of keys and values is 0"),
        ("deepseek_v3", "/q_lora_rank", json!("16"), "q_lora_rank is \"16\", which is not a number"),
        ("deepseek_v3", "/qk_rope_head_dim", json!(7), "an even number of elements of a head of 7"),
        ("deepseek_v3", "/rope_interleave", json!(1), "rope_interleave is 1, which is not a truth value"),
        ("deepseek_v3", "/rope_scaling/mscale_all_dim", json!(-1e9), "rotary wavelengths are scaled by"),
        ("deepseek_v3", "/quantization_config", json!({"quant_method": "fp8"}), "in fewer bits by fp8"),
        ("glm4_moe_lite", "/mlp_layer_types", json!(["dense"]), "mlp_layer_types has 1 layers"),
        ("glm4_moe_lite", "/mlp_layer_types", json!(["dense", "both"]), "mlp_layer_types has \"both\""),
        ("glm4_moe_lite", "/v_head_dim", json!(1 << 30), "elements of a head's values is 1073741824"),
        ("seed_oss", "/attention_out_bias", json!(0), "attention_out_bias is 0, which is not a truth value"),
        ("starcoder2", "/hidden_act", json!("tanh"), "the activation \"tanh\" is not supported"),
        ("opt", "/enable_bias", json!(0), "enable_bias is 0, which is not a truth value"),
        ("gpt2", "/activation_function", json!({}), "activation_function is {}, which is not a text"),
    ] {
        let mut config = golden(name);
        if name == "cohere2" && path == "/layer_types" {
            config["sliding_window"] = Value::Null;
        }
        match path.rsplit_once('/').unwrap() {
            ("", field) => config[field] = value,
            (inner, field) => config.pointer_mut(inner).unwrap()[field] = value,
        }
        let fault = read(&config).expect_err(path);
        assert!(fault.contains(said) && !fault.contains('\n'), "{fault:?} should say {said:?}");
    }
}

/// In every family: if the width is not a multiple of the number of heads, a number is wrong.
#[test]
fn heads_that_do_not_divide_the_width_are_refused() {
    let all = [
        ("bloom", "n_head"),
        ("falcon", "num_attention_heads"),
        ("gpt2", "n_head"),
        ("gpt_neox", "num_attention_heads"),
        ("llama", "num_attention_heads"),
        ("mpt", "n_heads"),
        ("opt", "num_attention_heads"),
        ("phi3", "num_attention_heads"),
    ];
    for (name, field) in all {
        let mut config = golden(name);
        config[field] = json!(7);
        config.as_object_mut().unwrap().retain(|field, _| field != "head_dim" && field != "num_key_value_heads");
        let fault = read(&config).expect_err(name);
        assert!(fault.contains("cannot be shared out to 7 attention heads"), "{name}: {fault}");
    }
}

/// Numbers that overflow in a product are refused as too large, without a panic.
#[test]
fn numbers_that_no_model_has() {
    let all = ["bloom", "falcon", "gpt2", "llama", "mpt", "phi3", "phi3-partial", "ministral3", "olmo3", "granite"];
    let later = ["glm4", "glm4_moe", "seed_oss", "exaone4", "starcoder2", "hunyuan_v1_dense", "cohere2"];
    let mixtures =
        ["gpt_oss", "qwen2_moe", "gemma3n", "gemma4-mixture", "deepseek_v3", "deepseek_v3-whole", "glm4_moe_lite"];
    let recurrent = [
        "granitemoehybrid-experts",
        "lfm2",
        "lfm2_moe",
        "nemotron_h",
        "nemotron_h-experts",
        "nemotron_h-latent",
        "qwen3_next",
    ];
    let all = all.into_iter().chain(later).chain(mixtures).chain(recurrent).map(|name| (name, golden(name)));
    for (name, whole) in all.chain([("gemma4", text_part("gemma4"))]) {
        let mut paths: Vec<String> = whole.as_object().unwrap().keys().map(|field| format!("/{field}")).collect();
        for object in ["rope_parameters", "rope_scaling"] {
            let parameters = whole.get(object).and_then(Value::as_object).cloned().unwrap_or_default();
            paths.extend(parameters.keys().map(|field| format!("/{object}/{field}")));
        }
        for path in paths {
            for value in [json!(0), json!(-1), json!(u64::MAX), json!(1e308), json!(""), json!([]), json!({})] {
                let mut config = whole.clone();
                *config.pointer_mut(&path).unwrap() = value;
                if let Ok(config) = read(&config) {
                    let all = config.blocks.iter().flat_map(widths);
                    assert!(all.max().is_none_or(|width| width < 1 << 30), "{name} {path}");
                }
            }
        }
    }
}

/// Layers with a state: each choice is understood, or refused by its name.
#[test]
fn layers_with_states_are_described() {
    let kinds = |name: &str| -> Vec<bool> {
        read(&golden(name)).unwrap().blocks.iter().map(|block| block.mixer.is_recurrent()).collect()
    };
    assert_eq!(kinds("lfm2"), [true, false, true]);
    assert_eq!(kinds("qwen3_next"), [true, true, false]);
    assert_eq!(kinds("qwen3_5_text"), kinds("qwen3_5_moe"));
    assert_eq!(kinds("granitemoehybrid"), [true, false, true]);
    assert_eq!(kinds("nemotron_h-experts"), [true, false]);
    let without = |name: &str, field: &str| {
        let mut config = golden(name);
        config.as_object_mut().unwrap().remove(field);
        read(&config).unwrap()
    };
    // The usual period is four.
    let every_fourth = without("qwen3_next", "full_attention_interval");
    assert!(every_fourth.blocks.iter().all(|block| block.mixer.is_recurrent()));
    let Mixer::DeltaNet(net) = &without("qwen3_next", "linear_num_value_heads").blocks[0].mixer else {
        panic!("a net")
    };
    assert_eq!((net.heads.heads, net.heads.key_heads), (32, 2));
    for (name, field, value, said) in [
        ("lfm2", "full_attn_idxs", json!("1"), "full_attn_idxs is \"1\", which is not a list"),
        ("lfm2_moe", "layer_types", json!(["conv", "mamba", "conv"]), "\"mamba\", which is not supported; conv"),
        ("lfm2", "conv_L_cache", json!(0), "the length of convolutions is 0"),
        ("qwen3_next", "linear_num_key_heads", json!(3), "4 attention heads cannot share 3 key-value heads"),
        ("qwen3_next", "linear_value_head_dim", json!(1 << 23), "the size of a recurrent state is"),
        ("qwen3_5_text", "layer_types", json!(["full_attention"]), "layer_types has 1 of"),
        ("qwen3_5_text", "attn_output_gate", json!(false), "attn_output_gate = false is not supported"),
        ("granitemoehybrid", "layer_types", json!(["conv", "mamba", "mamba"]), "attention and mamba are"),
        ("granitemoehybrid", "time_step_limit", json!([0.0, 0.1]), "time_step_limit = [0.0,0.1] is not supported"),
        ("granitemoehybrid", "mamba_d_state", json!(0), "the recurrent key dimension is 0"),
        ("nemotron_h", "hybrid_override_pattern", json!("-M*"), "layer 0 is a feed-forward part and does not follow"),
        ("nemotron_h", "hybrid_override_pattern", json!("M-E"), "layer 2 is a feed-forward part and does not follow"),
        ("nemotron_h", "hybrid_override_pattern", json!("M?"), "has '?', which is not supported; M, *, - and E are"),
        ("nemotron_h", "hybrid_override_pattern", json!(null), "hybrid_override_pattern is missing"),
        ("nemotron_h", "hybrid_override_pattern", json!(""), "the number of layers is 0"),
        ("nemotron_h", "mlp_hidden_act", json!("relu3"), "the activation \"relu3\" is not supported"),
        ("nemotron_h", "mamba_hidden_act", json!("gelu"), "mamba_hidden_act = \"gelu\" is not supported"),
        ("nemotron_h", "sliding_window", json!(8), "sliding_window = 8 is not supported"),
        ("nemotron_h-experts", "layers_block_type", json!(["mamba", "dense"]), "linear_attention, full_attention, mlp"),
        ("nemotron_h-latent", "moe_latent_size", json!(0), "the width of experts' rows is 0"),
    ] {
        let mut config = golden(name);
        config[field] = value;
        let fault = read(&config).expect_err(field);
        assert!(fault.contains(said) && !fault.contains('\n'), "{name} {field}: {fault}");
    }
}
