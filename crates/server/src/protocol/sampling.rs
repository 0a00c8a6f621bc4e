//! Sampling parameters: OpenAI's fields and those that vLLM adds.

use std::collections::BTreeMap;

use serde_json::Value;
use verdigris::logits::TokenId;
use verdigris::{Request, Sampling};

use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;

/// The maximum number of stop strings, the same as OpenAI's.
const STOPS: usize = 4;

/// Other servers' names of sampling options.
pub(crate) const ALIASES: [(&str, &str); 2] = [("repetition_penalty", "repeat_penalty"), ("typical_p", "typ_p")];

/// The surprise that mirostat aims at in llama.cpp and Ollama, in bits.
const MIROSTAT_TAU: f64 = 5.0;

/// Sampling parameters. The defaults are those of [`Sampling`].
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) options: Sampling,
    logit_bias: Vec<(TokenId, f64)>,
    ignore_eos: bool,
    /// Whether texts begin with the end of their prompts, in other tokens: see [`Request::heal`].
    pub(crate) token_healing: bool,
    pub(crate) seed: Option<u64>,
    stop: Vec<String>,
}

impl Sampled {
    /// Whether a stop string may end the text.
    pub(crate) fn has_stops(&self) -> bool {
        !self.stop.is_empty()
    }

    /// Takes its fields.
    pub(crate) fn take(body: &mut Fields) -> Result<Self, Refusal> {
        Self::take_with_stop(body, "stop", STOPS)
    }

    /// Takes its fields, of which the stop strings have this name, and are at most `most`.
    pub(crate) fn take_with_stop(body: &mut Fields, name: &str, most: usize) -> Result<Self, Refusal> {
        let mut options = Sampling::default();
        for field in Sampling::fields() {
            let Some((name, value)) = option(body, field.name)? else { continue };
            // vLLM's word for all tokens is 0 or -1.
            let value = if field.name == "top_k" && value == -1.0 { 0.0 } else { value };
            let path = body.path(name);
            options.set(field.name, value).map_err(|fault| Refusal::field(path, "invalid_value", fault.to_string()))?;
        }
        mirostat(body, &mut options)?;
        ranges(body, &options)?;
        Ok(Self {
            options,
            logit_bias: logit_bias(body)?,
            ignore_eos: body.take("ignore_eos")?.unwrap_or(false),
            token_healing: body.take("token_healing")?.unwrap_or(false),
            seed: seed(body)?,
            stop: stop(body, name, most)?,
        })
    }

    /// Adds the parameters to a request. Answer number `index` has the given seed plus `index`.
    pub(crate) fn onto<'a>(&self, request: Request<'a>, index: u64) -> Request<'a> {
        let mut request = request.sampling(self.options.clone());
        if self.ignore_eos {
            request = request.through_end();
        }
        if let Some(seed) = self.seed {
            request = request.seed(seed.wrapping_add(index));
        }
        request = self.logit_bias.iter().fold(request, |request, &(token, bias)| request.logit_bias(token, bias));
        self.stop.iter().fold(request, |request, stop| request.stop(stop))
    }
}

/// Takes an option by any of its names; returns the name too.
fn option(body: &mut Fields, name: &'static str) -> Result<Option<(&'static str, f64)>, Refusal> {
    let mut found: Option<(&str, f64)> = None;
    let others = ALIASES.iter().filter(|(own, _)| *own == name).map(|(_, other)| *other);
    for name in [name].into_iter().chain(others) {
        let Some(value) = body.take::<f64>(name)? else { continue };
        match found {
            Some((first, other)) if other != value => {
                let path = body.path(name);
                let message = format!("{path} is {value}, but {} is {other}: give only one", body.path(first));
                return Err(Refusal::field(path, "contradiction", message));
            }
            _ => found = Some((name, value)),
        }
    }
    Ok(found)
}

/// Takes the version of mirostat, which switches it on or off in llama.cpp and Ollama. Here its options do that.
fn mirostat(body: &mut Fields, options: &mut Sampling) -> Result<(), Refusal> {
    let path = body.path("mirostat");
    match body.count("mirostat", 0, 2)? {
        None => (),
        Some(0) => {
            let usual = Sampling::default();
            (options.mirostat_tau, options.mirostat_eta) = (usual.mirostat_tau, usual.mirostat_eta);
        }
        Some(2) => _ = options.mirostat_tau.get_or_insert(MIROSTAT_TAU),
        Some(_) => {
            let message = format!("{path} is 1, which this server does not support: set it to 2");
            return Err(Refusal::field(path, "unsupported_field", message));
        }
    }
    Ok(())
}

/// Takes the options of llama.cpp and Ollama that limit penalties to the last tokens, and strings that interrupt
/// repeated runs. They have no effect without penalties; here penalties count all tokens.
fn ranges(body: &mut Fields, options: &Sampling) -> Result<(), Refusal> {
    let penalties = (options.repetition_penalty, options.presence_penalty, options.frequency_penalty);
    let (is_flat, is_dry) = (penalties == (1.0, 0.0, 0.0), options.dry_multiplier != 0.0);
    let is_all = |value: &Value| value.as_f64() == Some(-1.0);
    let remedy = "set it to -1: penalties count all tokens of prompt and text";
    body.unsupported("repeat_last_n", |value| is_flat || is_all(value), remedy)?;
    body.unsupported("dry_penalty_last_n", |value| !is_dry || is_all(value), remedy)?;
    body.unsupported("dry_sequence_breakers", |_| !is_dry, "leave it out: no strings interrupt a run")
}

/// Takes a seed of 64 bits: OpenAI's are signed, and those of other servers and of the program are not.
fn seed(body: &mut Fields) -> Result<Option<u64>, Refusal> {
    let path = body.path("seed");
    let Some(value) = body.value("seed") else { return Ok(None) };
    value.as_u64().map_or_else(|| read::<i64>(value, path).map(|seed| seed as u64), Ok).map(Some)
}

/// Takes biases from -100 to 100, by token ids as strings.
fn logit_bias(body: &mut Fields) -> Result<Vec<(TokenId, f64)>, Refusal> {
    let path = body.path("logit_bias");
    let biases = body.take::<BTreeMap<String, f64>>("logit_bias")?.unwrap_or_default();
    biases
        .into_iter()
        .map(|(token, bias)| match token.parse() {
            Ok(token) if (-100.0..=100.0).contains(&bias) => Ok((token, bias)),
            Ok(_) => Err((token, format!("is {bias}, but must be -100 to 100"))),
            Err(_) => Err((token, "is not a token id, which is a whole number".into())),
        })
        .map(|entry| {
            entry.map_err(|(token, fault)| {
                let path = format!("{path}.{token}");
                Refusal::field(&path, "invalid_value", format!("{path} {fault}"))
            })
        })
        .collect()
}

/// Takes one string, or up to `most`.
fn stop(body: &mut Fields, name: &str, most: usize) -> Result<Vec<String>, Refusal> {
    let path = body.path(name);
    let stops = match body.value(name) {
        None => return Ok(Vec::new()),
        Some(Value::String(stop)) => vec![stop],
        Some(other) => read::<Vec<String>>(other, path.clone())?,
    };
    if stops.len() > most {
        let message = format!("{path} has {} strings, but must have at most {most}", stops.len());
        return Err(Refusal::field(path, "invalid_value", message));
    }
    let fits = |stop: &String| (1..=Request::LONGEST_STOP).contains(&stop.len());
    if let Some(bad) = stops.iter().find(|stop| !fits(stop)) {
        let message = format!("a stop string is {} bytes long, but must be 1 to {}", bad.len(), Request::LONGEST_STOP);
        return Err(Refusal::field(path, "invalid_value", message));
    }
    Ok(stops)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn taken(body: Value) -> Result<Sampled, Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        let sampling = Sampled::take(&mut fields)?;
        fields.end()?;
        Ok(sampling)
    }

    #[test]
    fn what_is_absent_is_the_default() {
        let plain = taken(json!({})).unwrap();
        assert_eq!(plain.options, Sampling::default());
        let all = taken(json!({"top_k": -1, "stop": "\n", "seed": -1, "logit_bias": {"3": -100}})).unwrap();
        let options = Sampling { top_k: Some(0), ..Sampling::default() };
        let expected =
            Sampled { options, stop: vec!["\n".into()], seed: Some(u64::MAX), logit_bias: vec![(3, -100.0)], ..plain };
        assert_eq!(all, expected);
        assert_eq!(taken(json!({"seed": u64::MAX})).unwrap().seed, Some(u64::MAX));
        assert_eq!(taken(json!({"seed": i64::MIN})).unwrap().seed, Some(1 << 63));
    }

    #[test]
    fn names_of_other_servers_are_read() {
        let options = |body: Value| taken(body).unwrap().options;
        let plain = Sampling::default();
        let penalty = Sampling { repetition_penalty: 1.1, ..plain.clone() };
        assert_eq!(options(json!({"repeat_penalty": 1.1, "repeat_last_n": -1})), penalty);
        assert_eq!(options(json!({"repeat_penalty": 1.1, "repetition_penalty": 1.1})), penalty);
        assert_eq!(options(json!({"typ_p": 0.5})), Sampling { typical_p: Some(0.5), ..plain.clone() });
        assert_eq!(options(json!({"repeat_last_n": 64, "dry_sequence_breakers": ["\n"]})), plain);
        let off = json!({"mirostat": 0, "mirostat_tau": 4, "mirostat_eta": 0.2});
        assert_eq!(options(off), plain);
        assert_eq!(options(json!({"mirostat": 2})), Sampling { mirostat_tau: Some(5.0), ..plain.clone() });
        assert_eq!(options(json!({"mirostat": 2, "mirostat_tau": 3})).mirostat_tau, Some(3.0));
        assert_eq!(options(json!({"mirostat_tau": 3})).mirostat_tau, Some(3.0));
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for (body, param) in [
            (json!({"temperature": 101}), "temperature"),
            (json!({"temperature": "hot"}), "temperature"),
            (json!({"top_p": 0}), "top_p"),
            (json!({"top_k": -7}), "top_k"),
            (json!({"presence_penalty": -101}), "presence_penalty"),
            (json!({"dry_base": 11}), "dry_base"),
            (json!({"logit_bias": {"x": 1}}), "logit_bias.x"),
            (json!({"logit_bias": {"5": 101}}), "logit_bias.5"),
            (json!({"logit_bias": [5]}), "logit_bias"),
            (json!({"stop": ["a", ""]}), "stop"),
            (json!({"stop": ["a", "b", "c", "d", "e"]}), "stop"),
            (json!({"stop": [1]}), "stop"),
            (json!({"seed": 0.5}), "seed"),
            (json!({"seed": 1.9e19}), "seed"),
            (json!({"min_tokens": -1}), "min_tokens"),
            (json!({"best_of": 2}), "best_of"),
            (json!({"repeat_penalty": 0}), "repeat_penalty"),
            (json!({"repeat_penalty": 1.1, "repetition_penalty": 1.2}), "repeat_penalty"),
            (json!({"repeat_penalty": 1.1, "repeat_last_n": 64}), "repeat_last_n"),
            (json!({"dry_multiplier": 0.8, "dry_penalty_last_n": 0}), "dry_penalty_last_n"),
            (json!({"mirostat": 1}), "mirostat"),
            (json!({"mirostat": 3}), "mirostat"),
        ] {
            assert_eq!(taken(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
    }
}
