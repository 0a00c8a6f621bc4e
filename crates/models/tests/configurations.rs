//! Configurations of other programs: which fields they omit, which are applied, and which are refused by name.

use serde_json::{Value, json};
use verdigris_models::config::{Attention, Positions, Rotary, Scaling};
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

/// The attention of the first layer.
fn of_first(config: &DecoderConfig) -> &Attention {
    config.attention(0).unwrap()
}

/// The width of the feed-forward network of all layers.
fn inner(config: &DecoderConfig) -> usize {
    config.alike().unwrap().1.width
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

/// For every family with rotary positions, with the field names of transformers 5 and with the older ones.
#[test]
fn rotary_positions_are_scaled_in_every_family() {
    let yarn = json!({"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 16});
    for name in ["llama", "mistral", "qwen2", "qwen3", "smollm3", "gemma", "olmo2", "falcon", "falcon-new", "gpt_neox"]
    {
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
        ("opt", "/enable_bias", json!(0), "enable_bias is 0, which is not a truth value"),
        ("gpt2", "/activation_function", json!({}), "activation_function is {}, which is not a text"),
    ] {
        let mut config = golden(name);
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
    for name in ["bloom", "falcon", "gpt2", "llama", "mpt", "phi3"] {
        let fields: Vec<String> = golden(name).as_object().unwrap().keys().cloned().collect();
        for field in fields {
            for value in [json!(0), json!(-1), json!(u64::MAX), json!(1e308), json!(""), json!([]), json!({})] {
                let mut config = golden(name);
                config[&field] = value;
                if let Ok(config) = read(&config) {
                    assert!(inner(&config) < 1 << 30);
                }
            }
        }
    }
}
