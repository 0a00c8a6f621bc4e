//! Sampling parameters: OpenAI's fields and those that vLLM adds.

use std::collections::BTreeMap;

use serde_json::Value;
use verdigris::logits::TokenId;
use verdigris::{Request, Sampling};

use crate::protocol::fields::{Fields, read};
use crate::protocol::refusal::Refusal;

/// The maximum number of stop strings, the same as OpenAI's.
const STOPS: usize = 4;

/// Sampling parameters. The defaults are OpenAI's: temperature 1, top-p 1, no penalty.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Sampled {
    pub(crate) options: Sampling,
    logit_bias: Vec<(TokenId, f64)>,
    ignore_eos: bool,
    pub(crate) seed: Option<u64>,
    stop: Vec<String>,
}

impl Sampled {
    /// Takes its fields.
    pub(crate) fn take(body: &mut Fields) -> Result<Self, Refusal> {
        let mut options = Sampling::default();
        for field in Sampling::fields() {
            let Some(value) = body.take::<f64>(field.name)? else { continue };
            // vLLM's word for all tokens is 0 or -1.
            let value = if field.name == "top_k" && value == -1.0 { 0.0 } else { value };
            let path = body.path(field.name);
            options.set(field.name, value).map_err(|fault| Refusal::field(path, "invalid_value", fault.to_string()))?;
        }
        Ok(Self {
            options,
            logit_bias: logit_bias(body)?,
            ignore_eos: body.take("ignore_eos")?.unwrap_or(false),
            // OpenAI's seeds are signed.
            seed: body.take::<i64>("seed")?.map(|seed| seed as u64),
            stop: stop(body)?,
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

/// Takes one string, or up to [`STOPS`].
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
            (json!({"min_tokens": -1}), "min_tokens"),
            (json!({"best_of": 2}), "best_of"),
        ] {
            assert_eq!(taken(body.clone()).unwrap_err().param.as_deref(), Some(param), "{body}");
        }
    }
}
