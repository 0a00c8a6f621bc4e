//! Values of Rust types, written by a model.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::LazyLock;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use verdigris::{Engine, Error};

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    Engine::load(Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models/tale-small")).unwrap()
});

/// Something of everything that serde and schemars have.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct Log {
    ship_name: String,
    miles: f64,
    crew: u8,
    depth: Option<i64>,
    place: (f32, f32),
    weather: Weather,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    events: Vec<Event>,
    stores: BTreeMap<String, u16>,
    next: Option<Box<Log>>,
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
enum Weather {
    Calm,
    /// Wind of a force.
    Wind(#[schemars(range(min = 1, max = 12))] u8),
}

#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Event {
    Sighted { what: String },
    Lost { men: u32 },
}

/// A value whose tokens ran out is an error, unless the caller looks at the text itself.
#[test]
fn a_value_that_was_closed_is_no_answer() {
    let mut closed = 0;
    for seed in 0..8 {
        let request = || ENGINE.request("The log of the ship. ").max_tokens(150).temperature(1.0).top_p(1.0).seed(seed);
        let (value, written) = request().json_stream::<Log>(|_| ControlFlow::Continue(())).unwrap();
        match request().json::<Log>() {
            Ok(again) => assert!(!written.closed && format!("{again:?}") == format!("{value:?}")),
            Err(Error::CutShort { tokens }) => assert!(written.closed && tokens == written.tokens.len()),
            Err(fault) => panic!("seed {seed}: {fault}"),
        }
        closed += usize::from(written.closed);
    }
    assert!(closed > 0, "this model would write on for ever");
}

/// The model would write on for ever: strings and lists without end, and logs in logs.
#[test]
fn a_value_is_whole_within_its_tokens() {
    for seed in 0..40 {
        let mut streamed = String::new();
        let (log, written) = ENGINE
            .request("The log of the ship. ")
            .max_tokens(150)
            .temperature(1.0)
            .top_p(1.0)
            .seed(seed)
            .json_stream::<Log>(|piece| {
                streamed.push_str(piece);
                ControlFlow::Continue(())
            })
            .unwrap_or_else(|fault| panic!("seed {seed}: {fault}"));
        assert_eq!(streamed, written.text);
        // What serde writes of the value is what was read, as far as `null` and what is left out are one.
        let again: Log = serde_json::from_value(serde_json::to_value(&log).unwrap()).unwrap();
        assert_eq!(format!("{again:?}"), format!("{log:?}"));
    }
}

#[test]
fn too_few_tokens_are_an_error() {
    let fault = ENGINE.request("").max_tokens(3).seed(0).json::<Log>().unwrap_err();
    assert!(matches!(fault, Error::NoRoom(_)), "{fault}");
    assert!(fault.to_string().contains("raise max_tokens"), "{fault}");
}

#[test]
fn a_type_whose_schema_is_not_understood_is_named() {
    #[derive(Debug, Deserialize, JsonSchema)]
    struct Mirrored {
        #[allow(dead_code, reason = "never written")]
        #[schemars(extend("pattern" = "^(a+)\\1$"))]
        twice: String,
    }
    let fault = ENGINE.request("").json::<Mirrored>().unwrap_err().to_string();
    assert!(fault.contains("#/properties/twice") && fault.contains("refers back"), "{fault}");
}

/// A type whose schema allows more than its reader does.
#[test]
fn a_type_that_refuses_its_own_schema_shows_the_json() {
    #[derive(Debug, Deserialize, JsonSchema)]
    #[serde(try_from = "u8")]
    #[schemars(with = "u8", extend("maximum" = 9))]
    struct Even;
    impl TryFrom<u8> for Even {
        type Error = &'static str;
        fn try_from(_: u8) -> Result<Self, &'static str> {
            Err("it is never even")
        }
    }
    let fault = ENGINE.request("").seed(0).json::<Even>().unwrap_err();
    assert!(matches!(&fault, Error::Value { json, .. } if json.len() == 1), "{fault}");
    assert!(fault.to_string().contains("it is never even"), "{fault}");
}
