//! Fields that clients send because other servers have them: those that change nothing here, and those that would
//! change the answer, which are refused by name.

use serde_json::{Value, json};

use crate::protocol::fields::Fields;
use crate::protocol::refusal::Refusal;

/// Fields of requests for texts that have no effect.
pub(crate) const NO_EFFECT: &[&str] = &[
    // Ids of the user, storage, caches and priorities of a service.
    "user",
    "safety_identifier",
    "prompt_cache_key",
    "prompt_cache_retention",
    "prompt_cache_options",
    "cache_salt",
    "cache_prompt",
    "service_tier",
    "priority",
    "request_id",
    "rid",
    "metadata",
    "store",
    "context_management",
    // The same text, sooner: predicted outputs.
    "prediction",
    // Options of models that this server does not have, or of data that is always there or never.
    "verbosity",
    "include",
    "truncation",
    "mm_processor_kwargs",
    "timings_per_token",
    "return_progress",
    // Where and how other servers run a model. A prompt is never cut to a context.
    "keep_alive",
    "num_ctx",
    "num_keep",
    "n_keep",
    "id_slot",
    "slot_id",
    "guided_decoding_backend",
    "spaces_between_special_tokens",
];

/// A field that would change the answer unless it has a neutral value, and the remedy.
type Unsupported = (&'static str, fn(&Value) -> bool, &'static str);

const LEAVE_OUT: &str = "leave it out";
const NO_BEAMS: &str = "leave it out: texts are sampled, without beams";
const CONSTRAIN: &str = "use response_format or structured_outputs with a JSON Schema, a regular expression or choices";
const OPERATOR: &str = "leave it out: the operator chooses the model, its adapters and its chat template";
const KEY: &str = "leave it out: the operator chooses the key, which decides what a mark is and which tokens have it";
const BIAS: &str = "use logit_bias";
const REPETITION: &str = "use repetition_penalty or dry_multiplier";

/// Fields that are refused unless they have a neutral value.
const UNSUPPORTED: &[Unsupported] = &[
    ("best_of", is_one, "leave it out, and use n"),
    ("num_return_sequences", is_one, "use n"),
    ("use_beam_search", is_empty, NO_BEAMS),
    ("num_beams", is_one, NO_BEAMS),
    ("length_penalty", is_one, NO_BEAMS),
    ("early_stopping", is_empty, NO_BEAMS),
    ("do_sample", is_true, "use temperature 0 for the most probable tokens"),
    ("suffix", is_empty, "leave it out: texts only continue prompts"),
    ("bad_words", is_empty, BIAS),
    ("suppress_tokens", is_empty, BIAS),
    ("begin_suppress_tokens", is_empty, BIAS),
    ("sequence_bias", is_empty, BIAS),
    ("forced_bos_token_id", is_empty, "use structured_outputs"),
    ("forced_eos_token_id", is_empty, "use structured_outputs"),
    ("encoder_no_repeat_ngram_size", is_empty, REPETITION),
    ("encoder_repetition_penalty", is_one, REPETITION),
    ("exponential_decay_length_penalty", is_empty, "use max_tokens"),
    ("prompt_embeds", is_empty, "send the prompt as text"),
    ("allowed_token_ids", is_empty, "use logit_bias or structured_outputs"),
    ("stop_token_ids", is_empty, "use stop, with strings"),
    ("stop_regex", is_empty, "use stop, with strings"),
    ("include_stop_str_in_output", is_empty, "leave it out: texts end before a stop string"),
    ("no_stop_trim", is_empty, "leave it out: texts end before a stop string"),
    ("skip_special_tokens", is_true, "leave it out: control tokens are not part of texts"),
    ("truncate_prompt_tokens", is_negative, "leave it out, and shorten the prompt: it is never cut"),
    ("prompt_logprobs", is_empty, LEAVE_OUT),
    ("n_probs", is_empty, "use logprobs"),
    ("top_n_tokens", is_empty, "use logprobs"),
    ("post_sampling_probs", is_empty, "use logprobs: they are of the model"),
    ("decoder_input_details", is_empty, "use echo and logprobs, in completions"),
    ("return_full_text", is_empty, "use echo, in completions"),
    ("return_hidden_states", is_empty, LEAVE_OUT),
    ("logits_processors", is_empty, LEAVE_OUT),
    ("custom_logit_processor", is_empty, LEAVE_OUT),
    ("lora", is_empty, OPERATOR),
    ("lora_path", is_empty, OPERATOR),
    ("chat_template", is_empty, OPERATOR),
    ("documents", is_empty, "put documents into messages"),
    ("modalities", is_text, "leave it out: this server only writes text"),
    ("audio", never, "leave it out: this server only writes text"),
    ("web_search_options", never, "leave it out: this server searches nothing; give the model a tool for that"),
    ("guided_whitespace_pattern", never, CONSTRAIN),
    ("samplers", is_empty, "leave it out: the order of samplers is fixed"),
    ("top_n_sigma", is_negative, "use min_p"),
    ("tfs_z", is_one, "use min_p or typical_p"),
    ("smoothing_factor", is_empty, "use temperature"),
    ("penalty_alpha", is_empty, "leave it out: texts are sampled, without contrastive search"),
    ("guidance_scale", is_one, "use alpha, on a server with --expert or --anti"),
    ("negative_prompt", is_empty, "use alpha, on a server with --expert or --anti"),
    ("min_keep", is_empty, LEAVE_OUT),
    ("penalize_nl", is_true, LEAVE_OUT),
    ("penalize_newline", is_true, LEAVE_OUT),
    ("t_max_predict_ms", is_negative, "use max_tokens"),
    ("n_indent", is_empty, "use structured_outputs"),
    ("mark_after", is_empty, KEY),
    ("entropy_threshold", is_empty, KEY),
    ("payload", never, KEY),
];

/// Takes the fields of other servers.
///
/// # Errors
/// If one would change the answer: status 400 and code `unsupported_field`, with a remedy.
pub(crate) fn take(body: &mut Fields) -> Result<(), Refusal> {
    body.ignore(NO_EFFECT);
    UNSUPPORTED.iter().try_for_each(|(name, is_neutral, remedy)| body.unsupported(name, is_neutral, remedy))
}

fn never(_: &Value) -> bool {
    false
}

fn is_true(value: &Value) -> bool {
    *value == json!(true)
}

fn is_one(value: &Value) -> bool {
    value.as_f64() == Some(1.0)
}

/// A number that means "off" in other servers: below 0, or 0.
fn is_negative(value: &Value) -> bool {
    value.as_f64().is_some_and(|number| number <= 0.0)
}

/// False, 0, or nothing: an empty text, array or object.
fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Bool(true) => false,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
    }
}

fn is_text(value: &Value) -> bool {
    *value == json!(["text"]) || is_empty(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(body: Value) -> Result<(), Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        take(&mut fields)?;
        fields.end()
    }

    #[test]
    fn fields_that_change_nothing_are_accepted() {
        for name in NO_EFFECT {
            taken(json!({*name: {"any": ["thing"]}})).unwrap();
        }
        taken(json!({
            "best_of": 1, "modalities": ["text"], "use_beam_search": false, "length_penalty": 1.0, "tfs_z": 1,
            "top_n_sigma": -1, "skip_special_tokens": true, "stop_token_ids": [],
            "suffix": "", "audio": null,
        }))
        .unwrap();
    }

    #[test]
    fn fields_that_would_change_the_answer_are_refused_with_a_remedy() {
        for (name, is_neutral, remedy) in UNSUPPORTED {
            let bad = [json!(3), json!(0.5), json!(true), json!("x")].into_iter().find(|value| !is_neutral(value));
            let refusal = taken(json!({*name: bad})).unwrap_err();
            assert_eq!((refusal.status, refusal.code), (400, Some("unsupported_field")), "{name}");
            assert_eq!(refusal.param.as_deref(), Some(*name));
            assert!(refusal.message.ends_with(remedy), "{}", refusal.message);
        }
        let ours = |name: &str| verdigris::Sampling::fields().iter().any(|field| field.name == name);
        assert!(UNSUPPORTED.iter().all(|(name, ..)| !ours(name)), "an option of ours is supported");
        let names = UNSUPPORTED.iter().map(|(name, ..)| format!("`{name}`")).collect::<Vec<_>>().join(", ");
        assert!(include_str!("../../../../docs/serve.md").contains(&format!("| {names} | refused")), "{names}");
        let refusal = taken(json!({"best_of": 3})).unwrap_err();
        assert_eq!(refusal.message, "best_of is 3, which this server does not support: leave it out, and use n");
        let refusal = taken(json!({"modalities": ["text", "audio"]})).unwrap_err();
        assert_eq!(refusal.param.as_deref(), Some("modalities"));
    }
}
