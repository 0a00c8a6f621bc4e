//! Masks of random regular expressions and random schemas equal those of the definition, bit for bit, by every
//! interface of the machine. Failing cases are shrunk before they are shown. `PROPTEST_CASES` sets the number of cases
//! of each (256 by default).

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};
use verdigris::constrain::{Machine, Whitespace};
use verdigris::{Grammar, Style};
use verdigris_tests::oracle::derivative::Derivatives;
use verdigris_tests::oracle::writing::Writings;
use verdigris_tests::oracle::{Language, SortedVocabulary};

static WORDS: LazyLock<(SortedVocabulary, Vec<Vec<u8>>)> = LazyLock::new(|| {
    let tokenizer = verdigris_tests::harness::tokenizer("tale");
    let vocabulary = tokenizer.vocabulary();
    let bytes = (0..vocabulary.size() as u32).map(|token| vocabulary.bytes(token).to_vec()).collect();
    (SortedVocabulary::new(vocabulary), bytes)
});

/// Compares along one text, token by token; `choices` select which of the allowed tokens follow.
fn follow<L: Language>(language: &L, grammar: impl Fn() -> Grammar, choices: &[usize]) -> Result<(), String> {
    let (words, bytes) = &*WORDS;
    let machine = Machine::new(grammar(), words.index().clone());
    // Without memory it computes everything again.
    let forgetful = Machine::with_memory(grammar(), words.index().clone(), 0);
    let Some(mut state) = language.start() else {
        return Err("the language has no texts, but there is a grammar".into());
    };
    let mut text = Vec::new();
    for choice in choices.iter().map(Some).chain([None]) {
        words.compare(language, &state, &machine, &grammar, &text)?;
        let [kept, made] = [&machine, &forgetful].map(|machine| machine.mask(machine.next(machine.start(), &text)));
        if kept != made {
            return Err(format!("without memory after {:?}", String::from_utf8_lossy(&text)));
        }
        let allowed: Vec<u32> = words.mask(language, &state).iter().collect();
        let Some(token) = choice.and_then(|choice| allowed.get(choice % allowed.len().max(1))) else { break };
        for &byte in &bytes[*token as usize] {
            state = language.next(&state, byte).expect("the token was allowed");
            text.push(byte);
        }
    }
    Ok(())
}

fn pattern() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        prop::sample::select(vec!["a", "b", "the ", "é", "1", "ab", "\\.", "\"", ""]).prop_map(str::to_owned),
        prop::sample::select(vec!["[a-c]", "\\d", "[^a]", "\\w", "[é-ü]", ".", "[ab1]", "\\p{Lu}"])
            .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| parts.concat()),
            prop::collection::vec(inner.clone(), 1..4).prop_map(|parts| format!("(?:{})", parts.join("|"))),
            (inner, prop::sample::select(vec!["*", "+", "?", "{2}", "{1,3}", "{0,2}", "{2,}"]))
                .prop_map(|(part, times)| format!("(?:{part}){times}")),
        ]
    })
}

fn name() -> impl Strategy<Value = String> + Clone {
    prop::sample::select(vec!["a", "b", "c", "ab", "é\""]).prop_map(str::to_owned)
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        prop::sample::select(vec![json!(null), json!(true), json!(false)]),
        prop::sample::select(vec![
            json!(0),
            json!(1),
            json!(2),
            json!(3),
            json!(12),
            json!(-1),
            json!(1.5),
            json!(0.25)
        ]),
        prop::sample::select(vec![json!(""), json!("a"), json!("ab"), json!("b"), json!("the"), json!("é\n")]),
    ];
    leaf.prop_recursive(2, 8, 3, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name(), inner), 0..4).prop_map(|list| Value::Object(list.into_iter().collect())),
        ]
    })
}

fn schema() -> impl Strategy<Value = Value> {
    let all = vec!["null", "boolean", "integer", "number", "string", "array", "object"];
    let types = prop::sample::select(all.clone());
    // The names in a list must be different.
    let several = prop::sample::subsequence(all, 1..3);
    let names = prop::sample::subsequence(vec!["a", "b", "c", "ab", "é\""], 0..3);
    let small = 0u32..4;
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!({})),
        types.prop_map(|name| json!({"type": name})),
        several.prop_map(|names| json!({"type": names})),
        value().prop_map(|value| json!({"const": value})),
        prop::collection::vec(value(), 1..4).prop_map(|values| json!({"enum": values})),
        (small.clone(), 0u32..4).prop_map(|(a, b)| json!({"minimum": a, "exclusiveMaximum": a + b})),
        Just(json!({"multipleOf": 0.5})),
        small.clone().prop_map(|n| json!({"minLength": n})),
        small.clone().prop_map(|n| json!({"maxLength": n})),
        prop::sample::select(vec!["a", "^a", "b$", "^.$", "e"]).prop_map(|pattern| json!({"pattern": pattern})),
        small.clone().prop_map(|n| json!({"minItems": n})),
        small.clone().prop_map(|n| json!({"maxItems": n})),
        small.clone().prop_map(|n| json!({"minProperties": n})),
        small.prop_map(|n| json!({"maxProperties": n})),
        names.prop_map(|names| json!({"required": names})),
        (name(), name()).prop_map(|(a, b)| json!({"dependentRequired": {a: [b]}})),
        Just(json!({"uniqueItems": true, "items": {"type": ["string", "number", "null", "boolean"]}})),
        Just(json!({"uniqueItems": true})),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let some = prop::collection::vec(inner.clone(), 1..4);
        let named = prop::collection::vec((name(), inner.clone()), 1..3);
        prop_oneof![
            some.clone().prop_map(|schemas| json!({"allOf": schemas})),
            some.clone().prop_map(|schemas| json!({"anyOf": schemas})),
            some.clone().prop_map(|schemas| json!({"oneOf": schemas})),
            inner.clone().prop_map(|schema| json!({"not": schema})),
            (inner.clone(), inner.clone(), inner.clone())
                .prop_map(|(a, b, c)| json!({"if": a, "then": b, "else": c})),
            (some, inner.clone()).prop_map(|(first, rest)| json!({"prefixItems": first, "items": rest})),
            inner.clone().prop_map(|schema| json!({"items": schema})),
            (inner.clone(), 0u32..3).prop_map(|(schema, n)| json!({"contains": schema, "minContains": n})),
            (inner.clone(), 0u32..3).prop_map(|(schema, n)| json!({"contains": schema, "maxContains": n + 1})),
            named.clone().prop_map(|list| json!({"properties": Value::Object(list.into_iter().collect())})),
            (named.clone(), inner.clone()).prop_map(|(list, rest)| {
                json!({"properties": Value::Object(list.into_iter().collect()), "additionalProperties": rest})
            }),
            (inner.clone(), inner.clone())
                .prop_map(|(a, b)| json!({"patternProperties": {"a": a, "^.$": b}})),
            inner.clone().prop_map(|schema| json!({"propertyNames": schema})),
            (name(), inner.clone()).prop_map(|(name, schema)| json!({"dependentSchemas": {name: schema}})),
            (named, inner.clone(), inner.clone()).prop_map(|(list, some, rest)| {
                json!({"properties": Value::Object(list.into_iter().collect()), "anyOf": [some, true], "unevaluatedProperties": rest})
            }),
            (inner.clone(), inner)
                .prop_map(|(some, rest)| json!({"anyOf": [{"prefixItems": [some]}, true], "unevaluatedItems": rest})),
        ]
    })
}

/// A schema whose texts are a regular language: nothing contains itself.
#[derive(Clone, Debug)]
enum Shape {
    Text {
        least: u32,
        most: Option<u32>,
    },
    /// Characters of a class.
    Signs {
        of: &'static str,
        least: u32,
        most: Option<u32>,
    },
    Whole {
        least: i32,
        most: i32,
    },
    OneOf(Vec<&'static str>),
    List {
        item: Box<Shape>,
        least: u32,
        most: Option<u32>,
    },
    /// Properties with their names and whether they are required; the schema of others.
    Object {
        named: Vec<(char, Shape, bool)>,
        others: Option<Box<Shape>>,
    },
}

/// One character of a JSON string, in its only serialization.
const CHARACTER: &str = r#"(?:[^"\\\x00-\x1f]|\\["\\bfnrt]|\\u00(?:0[0-7bef]|1[0-9a-f]))"#;

fn times(least: u32, most: Option<u32>) -> String {
    most.map_or(format!("{{{least},}}"), |most| format!("{{{least},{most}}}"))
}

impl Shape {
    fn schema(&self) -> Value {
        let mut schema = match self {
            Self::Text { least, .. } => json!({"type": "string", "minLength": least}),
            Self::Signs { of, least, .. } => {
                json!({"type": "string", "minLength": least, "pattern": format!("^{of}*$")})
            }
            Self::Whole { least, most } => json!({"type": "integer", "minimum": least, "maximum": most}),
            Self::OneOf(texts) => json!({"enum": texts}),
            Self::List { item, least, .. } => json!({"type": "array", "items": item.schema(), "minItems": least}),
            Self::Object { named, others } => {
                let properties = named.iter().map(|(name, shape, _)| (name.to_string(), shape.schema()));
                let required = named.iter().filter(|(.., required)| *required).map(|(name, ..)| name.to_string());
                let others = others.as_ref().map_or(json!(false), |shape| shape.schema());
                json!({"type": "object", "properties": Value::Object(properties.collect()),
                    "required": required.collect::<Vec<_>>(), "additionalProperties": others})
            }
        };
        match self {
            Self::Text { most: Some(most), .. } | Self::Signs { most: Some(most), .. } => {
                schema["maxLength"] = json!(most)
            }
            Self::List { most: Some(most), .. } => schema["maxItems"] = json!(most),
            _ => {}
        }
        schema
    }

    fn pattern(&self) -> String {
        match self {
            Self::Text { least, most } => format!("\"{CHARACTER}{}\"", times(*least, *most)),
            Self::Signs { of, least, most } => format!("\"{of}{}\"", times(*least, *most)),
            Self::Whole { least, most } => {
                format!("(?:{})", (*least..=*most).map(|n| n.to_string()).collect::<Vec<_>>().join("|"))
            }
            Self::OneOf(texts) => {
                format!("(?:{})", texts.iter().map(|text| format!("\"{text}\"")).collect::<Vec<_>>().join("|"))
            }
            Self::List { item, least, most } => {
                let item = item.pattern();
                let more = times(least.saturating_sub(1), most.map(|most| most.saturating_sub(1)));
                let some = if *most == Some(0) { "[^\\s\\S]".to_owned() } else { format!("{item}(?:, ?{item}){more}") };
                format!("\\[(?:{some}{})\\]", if *least == 0 { "|" } else { "" })
            }
            Self::Object { named, others } => {
                let known: String = named.iter().map(|(name, ..)| *name).collect();
                let others = others.as_ref().map(|shape| {
                    // Every name of the schema has one character.
                    let one = CHARACTER.replace(r#"[^"#, &format!("[^{known}"));
                    format!("\"(?:|{one}|{CHARACTER}{{2,}})\": ?{}", shape.pattern())
                });
                format!("\\{{{}\\}}", properties(named, others.as_deref(), false))
            }
        }
    }
}

/// The pattern of the rest of an object; with `begun` a comma comes first.
fn properties(named: &[(char, Shape, bool)], others: Option<&str>, begun: bool) -> String {
    let comma = if begun { ", ?" } else { "" };
    let Some(((name, shape, required), rest)) = named.split_first() else {
        return others.map_or(String::new(), |other| format!("(?:{comma}{other}(?:, ?{other})*)?"));
    };
    let with = format!("{comma}\"{name}\": ?{}{}", shape.pattern(), properties(rest, others, true));
    if *required { with } else { format!("(?:{with}|{})", properties(rest, others, begun)) }
}

fn shape() -> impl Strategy<Value = Shape> {
    let most = prop::option::of(0u32..4);
    let leaf = prop_oneof![
        (0u32..4, most.clone()).prop_map(|(least, more)| Shape::Text { least, most: more.map(|more| least + more) }),
        (prop::sample::select(vec!["[a-z]", "[a-z0-9 ,.-]", "[a-cé]", "[!-!#-Z ]"]), 0u32..4, most.clone())
            .prop_map(|(of, least, more)| Shape::Signs { of, least, most: more.map(|more| least + more) }),
        (-12i32..12, 0i32..15).prop_map(|(least, more)| Shape::Whole { least, most: least + more }),
        prop::sample::subsequence(vec!["a", "ab", "the", "é"], 1..4).prop_map(Shape::OneOf),
    ];
    leaf.prop_recursive(2, 6, 3, move |inner| {
        let named = (inner.clone(), any::<bool>());
        let named = prop::collection::vec(named, 0..3);
        let named = (prop::sample::subsequence(vec!['a', 'b', 't', 'é'], 3), named).prop_map(|(names, shapes)| {
            names.into_iter().zip(shapes).map(|(name, (shape, required))| (name, shape, required)).collect()
        });
        prop_oneof![
            (inner.clone(), 0u32..3, most.clone()).prop_map(|(item, least, more)| {
                Shape::List { item: item.into(), least, most: more.map(|more| least + more) }
            }),
            (named, prop::option::of(inner))
                .prop_map(|(named, others)| Shape::Object { named, others: others.map(Box::new) }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig {
        max_shrink_iters: 2000,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn masks_of_regular_expressions(pattern in pattern(), choices in prop::collection::vec(0usize..10_000, 0..4)) {
        let language = Derivatives::new(&pattern).expect("a pattern without looks");
        let grammar = || Grammar::regex(&pattern).unwrap();
        if let Err(difference) = follow(&language, grammar, &choices) {
            prop_assert!(false, "{pattern:?}: {difference}");
        }
    }

    /// Strings with any characters, names that are not in the schema, and counts.
    #[test]
    fn masks_of_free_texts(shape in shape(), choices in prop::collection::vec(0usize..10_000, 0..6)) {
        let language = Derivatives::new(&shape.pattern()).expect("a pattern without looks");
        let grammar = || Grammar::json_schema(&shape.schema(), Style::default()).unwrap();
        if let Err(difference) = follow(&language, grammar, &choices) {
            prop_assert!(false, "{}\n{}: {difference}", shape.schema(), shape.pattern());
        }
    }

    /// A schema restricted to some values has the serializations of those that another validator accepts.
    #[test]
    fn masks_of_schemas(
        schema in schema(),
        values in prop::collection::vec(value(), 1..12),
        choices in prop::collection::vec(0usize..10_000, 0..5),
    ) {
        let judge = jsonschema::validator_for(&schema).unwrap_or_else(|fault| panic!("{schema}: {fault}"));
        let language = Writings::new(values.iter().filter(|value| judge.is_valid(value)));
        let narrowed = json!({"enum": values, "allOf": [schema]});
        let style = Style::default().any_order().whitespace(Whitespace::Compact);
        match Grammar::json_schema(&narrowed, style) {
            Err(fault) if fault.fault.contains("no finite text") => {
                prop_assert!(language.start().is_none(), "{narrowed}: it is said to be empty");
            }
            Err(fault) => prop_assert!(fault.fault.contains("not supported") || fault.fault.contains("too many"), "{fault}"),
            Ok(_) => {
                let grammar = || Grammar::json_schema(&narrowed, style).unwrap();
                if let Err(difference) = follow(&language, grammar, &choices) {
                    prop_assert!(false, "{narrowed}: {difference}");
                }
            }
        }
    }
}
