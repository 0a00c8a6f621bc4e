//! A tokenizer and a key, which judge texts.

use std::fmt;

use serde::Deserialize;
use serde_json::{Value, json};
use verdigris_detector::answer::{Answer, JudgedInput, MOST_TOKENS, POINTS};
use verdigris_detector::{Hint, Key, Level, Look, MAX_TEXT, Reader, Tokenizer};

use crate::error::DeskError;

const PASSAGES: &str = "only the text as a whole was judged: marked passages inside it can be looked for, too";

/// A tokenizer, and a key if there is one. The key's secret is wiped when it is dropped.
pub struct Desk {
    reader: Reader,
    key: Option<Key>,
}

/// The options for examining a text.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// The p-value at which the text is called marked.
    pub level: Level,
    /// Whether marked passages are searched for.
    #[serde(default)]
    pub windows: bool,
}

impl fmt::Debug for Desk {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Desk").field("key", &self.key).finish_non_exhaustive()
    }
}

impl Desk {
    /// Creates a desk from the contents of a `tokenizer.json`.
    ///
    /// # Errors
    /// [`DeskError::Tokenizer`].
    pub fn new(tokenizer: &[u8]) -> Result<Self, DeskError> {
        Ok(Self { reader: Reader::new(Tokenizer::from_json(tokenizer)?), key: None })
    }

    /// Replaces the key. On an error the previous one stays.
    ///
    /// # Errors
    /// [`DeskError::Key`] and [`DeskError::ForeignKey`].
    pub fn take_key(&mut self, file: &[u8]) -> Result<(), DeskError> {
        let key = Key::parse(file)?;
        self.reader.fits(&key)?;
        self.key = Some(key);
        Ok(())
    }

    /// Forgets the key.
    pub fn drop_key(&mut self) {
        self.key = None;
    }

    /// Returns the tokenizer, the key and the version, as JSON.
    pub fn about(&self) -> Value {
        let vocabulary = self.reader.tokenizer().vocabulary();
        let key = self.key.as_ref();
        let key = key.map(|key| json!({"id": key.id(), "dialect": key.dialect().name(), "scheme": key.describe()}));
        json!({
            "tokenizer": {"size": vocabulary.size(), "fingerprint": vocabulary.fingerprint()}, "key": key,
            "version": env!("CARGO_PKG_VERSION"),
        })
    }

    /// Judges a text and returns JSON in the format of `POST /detect`. Tokens are listed if there are not too many.
    ///
    /// # Errors
    /// [`DeskError::NoKey`], [`DeskError::LongText`] and [`DeskError::Text`].
    pub fn judge(&self, text: &str, wanted: Wanted) -> Result<String, DeskError> {
        if text.len() > MAX_TEXT {
            return Err(DeskError::LongText(text.len()));
        }
        let key = self.key.as_ref().ok_or(DeskError::NoKey)?;
        let Wanted { level, windows } = wanted;
        let look = Look { level, passages: windows, tokens: true, course: POINTS, ..Look::default() };
        let judgement = self.reader.judge(&[key], text, &look)?;
        let hint = Hint::of(text, &judgement).map(|hint| hint.advice(PASSAGES));
        let mut answer = Answer::new(&judgement, hint).with_course(&judgement);
        if judgement.evidence.tokens <= MOST_TOKENS {
            answer = answer.with_tokens(&self.reader, &judgement, JudgedInput::Text(text));
        }
        Ok(serde_json::to_string(&answer)?)
    }

    /// Returns the tokens of a text.
    ///
    /// # Errors
    /// [`DeskError::Text`].
    pub fn ids(&self, text: &str) -> Result<Vec<u32>, DeskError> {
        Ok(self.reader.tokenizer().encode_long(text)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use verdigris_detector::Marking;

    const TALE: &[u8] = include_bytes!("../../../fixtures/models/tale/tokenizer.json");
    const WANTED: Wanted = Wanted { level: Level::DEFAULT, windows: false };

    fn key_file(reader: &Reader) -> Vec<u8> {
        let folder = std::env::temp_dir().join(format!("verdigris-desk-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let path = folder.join(format!("{:?}.key", std::thread::current().id()));
        let _ = std::fs::remove_file(&path);
        Key::generate(Marking::lists(), reader.vocabulary()).save(&path).unwrap();
        std::fs::read(path).unwrap()
    }

    #[test]
    fn a_text_is_judged_in_the_shape_of_the_server() {
        let mut desk = Desk::new(TALE).unwrap();
        let text = "The captain stood on the deck of his ship and looked at the sea.";
        assert_eq!(desk.judge(text, WANTED).unwrap_err().code(), "no_key");
        desk.take_key(&key_file(&desk.reader)).unwrap();
        let answer: Value = serde_json::from_str(&desk.judge(text, WANTED).unwrap()).unwrap();
        assert_eq!(answer["format"], "verdigris-detect-1");
        let marks = answer["token_marks"].as_array().unwrap();
        assert_eq!(marks.len() as u64, answer["tokens"].as_u64().unwrap());
        assert_eq!(marks.len(), desk.ids(text).unwrap().len());
        assert_eq!(answer["course"].as_array().unwrap().last().unwrap()["log10_p"], answer["log10_p"]);
        assert!(desk.about()["key"]["id"].is_string());
        desk.drop_key();
        assert_eq!(desk.judge(text, WANTED).unwrap_err().code(), "no_key");
    }

    #[test]
    fn what_is_wrong_has_a_name_and_takes_nothing_away() {
        assert_eq!(Desk::new(b"Call me Ishmael.").unwrap_err().code(), "not_a_tokenizer");
        let mut desk = Desk::new(TALE).unwrap();
        let file = key_file(&desk.reader);
        desk.take_key(&file).unwrap();
        let id = desk.about()["key"]["id"].clone();
        let other =
            String::from_utf8(file).unwrap().replace(desk.reader.tokenizer().vocabulary().fingerprint(), "00ff");
        for (bad, code) in [(other.as_str(), "not_a_key"), ("{}", "not_a_key"), ("", "not_a_key")] {
            assert_eq!(desk.take_key(bad.as_bytes()).unwrap_err().code(), code);
        }
        let words = br#"{"version": "1.0", "added_tokens": [], "model": {"type": "WordLevel",
            "vocab": {"a": 0, "b": 1}, "unk_token": "a"}}"#;
        let stranger = Desk::new(words).unwrap();
        let fault = desk.take_key(&key_file(&stranger.reader)).unwrap_err();
        assert_eq!(fault.code(), "key_of_another_tokenizer");
        assert!(String::from(fault).contains("choose the model that goes with the key"));
        assert_eq!(desk.about()["key"]["id"], id);
        let long = "a ".repeat(MAX_TEXT / 2 + 1);
        assert_eq!(desk.judge(&long, WANTED).unwrap_err().code(), "text_too_long");
    }

    /// Each text of fixtures/verdicts has the same verdict here as everywhere, to the last digit.
    #[test]
    fn each_text_has_its_verdict() {
        let keys: Value = serde_json::from_str(include_str!("../../../fixtures/verdicts/keys.json")).unwrap();
        let mut judged = 0;
        for line in include_str!("../../../fixtures/verdicts/cases.jsonl").lines() {
            let case: Value = serde_json::from_str(line).unwrap();
            let options = case["options"].as_object().unwrap();
            let ([id], Some(text), None) =
                (&case["keys"].as_array().unwrap()[..], case["text"].as_str(), case.get("times"))
            else {
                continue;
            };
            if options.contains_key("offsets") {
                continue;
            }
            let mut desk = Desk::new(TALE).unwrap();
            desk.take_key(keys[id.as_str().unwrap()].to_string().as_bytes()).unwrap();
            let level = options.get("level").and_then(Value::as_f64).map_or(Level::DEFAULT, |x| Level::new(x).unwrap());
            let wanted = Wanted { level, windows: options.contains_key("windows") };
            let answer: Value = serde_json::from_str(&desk.judge(text, wanted).unwrap()).unwrap();
            for (field, expected) in case["verdict"].as_object().unwrap() {
                assert_eq!(&answer[field], expected, "{}: {field}", case["case"]);
            }
            judged += 1;
        }
        assert!(judged > 15);
    }
}
