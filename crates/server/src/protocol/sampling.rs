//! How tokens are drawn: the fields of OpenAI and those that vLLM adds.

use std::collections::BTreeMap;

use serde_json::Value;
use verdigris::Request;
use verdigris::logits::TokenId;

use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;

/// The most stop strings, as many as OpenAI takes.
const STOPS: usize = 4;

/// How tokens are drawn. What is absent is OpenAI's default: temperature 1, top-p 1, no penalty.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sampling {
    pub(crate) temperature: f64,
    top_p: f64,
    top_k: Option<usize>,
    min_p: Option<f64>,
    presence_penalty: f64,
    frequency_penalty: f64,
    repetition_penalty: Option<f64>,
    logit_bias: Vec<(TokenId, f64)>,
    min_tokens: usize,
    ignore_eos: bool,
    pub(crate) seed: Option<u64>,
    stop: Vec<String>,
}

impl Sampling {
    /// Takes its fields.
    pub(crate) fn take(body: &mut Fields) -> Result<Self, Refusal> {
        // vLLM's word for all tokens is 0 or -1.
        let top_k = match body.take::<i64>("top_k")? {
            None | Some(-1 | 0) => None,
            Some(k) => Some(usize::try_from(k).map_err(|_| {
                Refusal::field(body.path("top_k"), "invalid_value", format!("top_k is {k}, but must be 1 or more"))
            })?),
        };
        let repetition_penalty = body.number("repetition_penalty", 0.01, 10.0)?;
        Ok(Self {
            temperature: body.number("temperature", 0.0, 2.0)?.unwrap_or(1.0),
            top_p: body.number("top_p", f64::MIN_POSITIVE, 1.0)?.unwrap_or(1.0),
            top_k,
            min_p: body.number("min_p", 0.0, 1.0)?,
            presence_penalty: body.number("presence_penalty", -2.0, 2.0)?.unwrap_or(0.0),
            frequency_penalty: body.number("frequency_penalty", -2.0, 2.0)?.unwrap_or(0.0),
            repetition_penalty,
            logit_bias: logit_bias(body)?,
            min_tokens: body.count("min_tokens", 0, usize::MAX)?.unwrap_or(0),
            ignore_eos: body.take("ignore_eos")?.unwrap_or(false),
            // OpenAI's seeds are signed.
            seed: body.take::<i64>("seed")?.map(|seed| seed as u64),
            stop: stop(body)?,
        })
    }

    /// A request that draws so. Its answer of number `index` has a seed of its own, the first the one that was given.
    pub(crate) fn onto<'a>(&self, mut request: Request<'a>, index: u64) -> Request<'a> {
        request = request
            .temperature(self.temperature)
            .top_p(self.top_p)
            .presence_penalty(self.presence_penalty)
            .frequency_penalty(self.frequency_penalty);
        if let Some(k) = self.top_k {
            request = request.top_k(k);
        }
        if let Some(p) = self.min_p {
            request = request.min_p(p);
        }
        if let Some(penalty) = self.repetition_penalty {
            request = request.repetition_penalty(penalty);
        }
        if self.min_tokens > 0 {
            request = request.min_tokens(self.min_tokens);
        }
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

/// Ids of tokens, as strings, with -100 to 100 for each.
fn logit_bias(body: &mut Fields) -> Result<Vec<(TokenId, f64)>, Refusal> {
    let path = body.path("logit_bias");
    let biases = body.take::<BTreeMap<String, f64>>("logit_bias")?.unwrap_or_default();
    biases
        .into_iter()
        .map(|(token, bias)| match token.parse() {
            Ok(token) if (-100.0..=100.0).contains(&bias) => Ok((token, bias)),
            Ok(_) => Err((token, format!("is {bias}, but must be -100 to 100"))),
            Err(_) => Err((token, "is no id of a token: name tokens by their numbers".into())),
        })
        .map(|entry| {
            entry.map_err(|(token, fault)| {
                let path = format!("{path}.{token}");
                Refusal::field(&path, "invalid_value", format!("{path} {fault}"))
            })
        })
        .collect()
}

/// One string, or up to [`STOPS`].
fn stop(body: &mut Fields) -> Result<Vec<String>, Refusal> {
    let path = body.path("stop");
    let stops = match body.value("stop") {
        None => return Ok(Vec::new()),
        Some(Value::String(stop)) => vec![stop],
        Some(other) => read::<Vec<String>>(other, path.clone())?,
    };
    if stops.len() > STOPS {
        let message = format!("{path} has {} strings, but must have at most {STOPS}", stops.len());
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

    fn taken(body: Value) -> Result<Sampling, Refusal> {
        let mut fields = Fields::of(body, "").unwrap();
        let sampling = Sampling::take(&mut fields)?;
        fields.end()?;
        Ok(sampling)
    }

    #[test]
    fn what_is_absent_is_the_default() {
        let plain = taken(json!({})).unwrap();
        assert_eq!((plain.temperature, plain.top_p, plain.top_k), (1.0, 1.0, None));
        let all = taken(json!({"top_k": -1, "stop": "\n", "seed": -1, "logit_bias": {"3": -100}})).unwrap();
        let expected =
            Sampling { stop: vec!["\n".into()], seed: Some(u64::MAX), logit_bias: vec![(3, -100.0)], ..plain };
        assert_eq!(all, expected);
    }

    #[test]
    fn what_is_out_of_range_is_named() {
        for (body, param) in [
            (json!({"temperature": 2.5}), "temperature"),
            (json!({"temperature": "hot"}), "temperature"),
            (json!({"top_p": 0}), "top_p"),
            (json!({"top_k": -7}), "top_k"),
            (json!({"presence_penalty": -3}), "presence_penalty"),
            (json!({"logit_bias": {"x": 1}}), "logit_bias.x"),
            (json!({"logit_bias": {"5": 101}}), "logit_bias.5"),
            (json!({"logit_bias": [5]}), "logit_bias"),
            (json!({"stop": ["a", ""]}), "stop"),
            (json!({"stop": ["a", "b", "c", "d", "e"]}), "stop"),
            (json!({"stop": [1]}), "stop"),
            (json!({"seed": 0.5}), "seed"),
            (json!({"min_tokens": -1}), "min_tokens"),
            (json!({"best_of": 2}), "best_of"),
        ] {
            assert_eq!(taken(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
    }
}
