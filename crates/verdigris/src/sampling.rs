//! How tokens are sampled: one value with the names, ranges and defaults of all options. The methods of
//! [`Request`](crate::Request), the command line, the fields of HTTP requests and the keyword arguments of Python are
//! views of it.

use std::fmt;

use serde::{Deserialize, Serialize};
use verdigris_logits::Dry;

/// An option of [`Sampling`].
#[derive(Debug)]
pub struct Field {
    /// Its name, in every front end.
    pub name: &'static str,
    /// What it does, in a sentence without its full stop.
    pub about: &'static str,
    /// The values that it can have.
    pub range: Range,
    /// The letter that stands for its value in help.
    pub letter: &'static str,
}

/// The values that an option can have, both ends included unless they are open.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// Whether only whole numbers are in it.
    pub whole: bool,
    /// The least value.
    pub least: f64,
    /// Whether the least value itself is left out.
    pub above_least: bool,
    /// The largest value; [`Range::ANY`] for whole numbers of any size.
    pub most: f64,
    /// Whether the largest value itself is left out.
    pub below_most: bool,
}

impl Range {
    /// The largest whole number that a 64-bit float holds with all smaller ones.
    pub const ANY: f64 = 9_007_199_254_740_992.0;

    const fn new(least: f64, most: f64) -> Self {
        Self { whole: false, least, above_least: false, most, below_most: false }
    }

    const fn above(least: f64, most: f64) -> Self {
        Self { above_least: true, ..Self::new(least, most) }
    }

    const fn below(least: f64, most: f64) -> Self {
        Self { below_most: true, ..Self::new(least, most) }
    }

    const fn whole(least: f64, most: f64) -> Self {
        Self { whole: true, ..Self::new(least, most) }
    }

    /// Whether a value is in it.
    pub fn contains(&self, value: f64) -> bool {
        let above = if self.above_least { value > self.least } else { value >= self.least };
        let below = if self.below_most { value < self.most } else { value <= self.most };
        value.is_finite() && above && below && (!self.whole || value.fract() == 0.0)
    }
}

/// Such as `above 0 and at most 1`.
impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.whole {
            f.write_str("a whole number, ")?;
        }
        match (self.above_least, self.below_most) {
            _ if self.most == Self::ANY => write!(f, "{} or more", self.least),
            (false, false) => write!(f, "from {} to {}", self.least, self.most),
            (true, false) => write!(f, "above {} and at most {}", self.least, self.most),
            (false, true) => write!(f, "at least {} and below {}", self.least, self.most),
            (true, true) => write!(f, "above {} and below {}", self.least, self.most),
        }
    }
}

/// A value that an option cannot have, or a name that is not an option.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BadSampling {
    /// A value out of range.
    #[error("{name} is {value}, but must be {range}")]
    Range {
        /// The name of the option.
        name: &'static str,
        /// The value.
        value: f64,
        /// The range.
        range: Range,
    },
    /// An unknown name.
    #[error("there is no sampling option {0}")]
    Name(String),
}

/// A number that may be absent.
trait Number: Clone {
    fn get(&self) -> Option<f64>;
    fn of(value: f64) -> Self;
}

impl Number for f64 {
    fn get(&self) -> Option<f64> {
        Some(*self)
    }

    fn of(value: f64) -> Self {
        value
    }
}

impl Number for usize {
    fn get(&self) -> Option<f64> {
        Some(*self as f64)
    }

    fn of(value: f64) -> Self {
        value as Self
    }
}

impl<T: Number> Number for Option<T> {
    fn get(&self) -> Option<f64> {
        self.as_ref().and_then(Number::get)
    }

    fn of(value: f64) -> Self {
        Some(T::of(value))
    }
}

/// Passes the options to a macro. Of each: its name, the type of its value and that of its field, its default, the
/// letter that stands for its value in help, its range, what it does, and further lines of documentation.
// rustfmt would move the ends of texts at each run.
#[rustfmt::skip]
macro_rules! sampling_options {
    ($to:ident) => {
        $to! {
            temperature: f64 => f64 = 0.8, "T", Range::new(0.0, 100.0),
                "Above 1 for more surprise, below for less; 0 takes the most probable token every time";
            top_k: usize => Option<usize> = None, "K", Range::whole(0.0, Range::ANY),
                "Sample from the K most probable tokens; 0 for all";
            top_p: f64 => Option<f64> = None, "P", Range::above(0.0, 1.0),
                "Sample from the most probable tokens that together have this probability; 1 for all [default: 0.95, \
                 and 1 with mirostat_tau]";
            min_p: f64 => Option<f64> = None, "P", Range::new(0.0, 1.0),
                "Sample from the tokens with at least this share of the best token's probability";
            typical_p: f64 => Option<f64> = None, "P", Range::above(0.0, 1.0),
                "Sample from the tokens whose information is nearest to the entropy, of this probability together; 1 \
                 for all",
                "", "See [`TypicalP`](verdigris_logits::warp::TypicalP).";
            epsilon_cutoff: f64 => Option<f64> = None, "E", Range::below(0.0, 1.0),
                "Sample from the tokens of at least this probability, such as 0.0005",
                "", "See [`EpsilonCutoff`](verdigris_logits::warp::EpsilonCutoff).";
            eta_cutoff: f64 => Option<f64> = None, "E", Range::below(0.0, 1.0),
                "Sample from the tokens of at least this probability, or less where there is more choice, such as \
                 0.001",
                "", "See [`EtaCutoff`](verdigris_logits::warp::EtaCutoff).";
            top_a: f64 => Option<f64> = None, "A", Range::new(0.0, 1.0),
                "Sample from the tokens with at least A times the square of the best token's probability",
                "", "See [`TopA`](verdigris_logits::warp::TopA).";
            dynatemp_range: f64 => f64 = 0.0, "R", Range::new(0.0, 100.0),
                "Lower and raise the temperature by up to R, where there is less and more choice; 0 for none",
                "", "See [`DynamicTemperature`](verdigris_logits::warp::DynamicTemperature).";
            dynatemp_exponent: f64 => f64 = 1.0, "E", Range::new(0.01, 100.0),
                "For dynatemp_range: how it grows with the choice";
            xtc_probability: f64 => f64 = 0.0, "P", Range::new(0.0, 1.0),
                "With this probability, leave out the most probable tokens, all but the last of them; 0 for never",
                "", "See [`Xtc`](verdigris_logits::warp::Xtc).";
            xtc_threshold: f64 => f64 = 0.1, "P", Range::above(0.0, 1.0),
                "For xtc_probability: the least probability of the tokens that are left out";
            mirostat_tau: f64 => Option<f64> = None, "BITS", Range::above(0.0, 100.0),
                "Aim at this many bits of surprise per token, such as 5 (mirostat 2): leaves out tokens that are more \
                 surprising than a bound, which follows the text",
                "", "See [`Mirostat`](verdigris_logits::warp::Mirostat).";
            mirostat_eta: f64 => f64 = 0.1, "RATE", Range::new(0.0, 100.0),
                "For mirostat_tau: how fast the bound follows the text";
            repetition_penalty: f64 => f64 = 1.0, "R", Range::new(0.01, 100.0),
                "Divide the logits of tokens of the prompt and the text by this (multiply those below 0); 1 for none";
            presence_penalty: f64 => f64 = 0.0, "R", Range::new(-100.0, 100.0),
                "Subtract this from the logit of every token that is in the text";
            frequency_penalty: f64 => f64 = 0.0, "R", Range::new(-100.0, 100.0),
                "Subtract this from the logit of a token for each time that it is in the text";
            no_repeat_ngram_size: usize => Option<usize> = None, "N", Range::whole(1.0, Range::ANY),
                "Let no N tokens in a row appear twice in prompt and text";
            dry_multiplier: f64 => f64 = 0.0, "R", Range::new(0.0, 100.0),
                "Subtract this from the logit of a token that continues a repeated run of tokens, and more the longer \
                 the run; 0 for none, 0.8 is usual",
                "", "See [`Dry`](verdigris_logits::Dry).";
            dry_base: f64 => f64 = Dry::BASE, "R", Range::new(1.0, 10.0),
                "For dry_multiplier: the factor for each more token of the run";
            dry_allowed_length: usize => usize = Dry::ALLOWED_LENGTH, "N", Range::whole(1.0, 50.0),
                "For dry_multiplier: the shortest run that counts, in tokens";
            min_tokens: usize => usize = 0, "N", Range::whole(0.0, Range::ANY),
                "Do not end the text before it has this many tokens",
                "", "Where the constraint can only end by then, no token is allowed, which is an error.";
        }
    };
}
pub(crate) use sampling_options;

macro_rules! sampling {
    ($(
        $name:ident: $value:ty => $kept:ty = $default:expr, $letter:literal, $range:expr, $about:literal
        $(, $more:literal)*;
    )*) => {
        /// How tokens are sampled. An option that is not given has its default.
        ///
        /// ```
        /// use verdigris::Sampling;
        ///
        /// let sampling: Sampling = serde_json::from_str(r#"{"temperature": 0.5, "top_k": 40}"#)?;
        /// assert_eq!((sampling.temperature, sampling.top_k, sampling.repetition_penalty), (0.5, Some(40), 1.0));
        /// assert!(sampling.check().is_ok());
        /// # Ok::<(), serde_json::Error>(())
        /// ```
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(default, deny_unknown_fields)]
        pub struct Sampling {
            $(
                #[doc = $about]
                pub $name: $kept,
            )*
        }

        impl Default for Sampling {
            fn default() -> Self {
                Self { $($name: $default,)* }
            }
        }

        impl Sampling {
            /// The value of an option; `None` if it has no effect.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => self.$name.get(),)*
                    _ => None,
                }
            }

            /// Sets an option.
            ///
            /// # Errors
            /// [`BadSampling`] for an unknown name, and for a value out of range.
            pub fn set(&mut self, name: &str, value: f64) -> Result<(), BadSampling> {
                let field = Self::field(name).ok_or_else(|| BadSampling::Name(name.to_owned()))?;
                field.check(value)?;
                match name {
                    $(stringify!($name) => self.$name = Number::of(value),)*
                    _ => unreachable!("every field is an option"),
                }
                Ok(())
            }
        }

        /// The options in the order in which front ends list them.
        const FIELDS: &[Field] = &[$(Field {
            name: stringify!($name),
            about: $about,
            letter: $letter,
            range: $range,
        },)*];
    };
}

sampling_options!(sampling);

impl Field {
    /// Its value where none is given; `None` for no effect.
    pub fn default(&self) -> Option<f64> {
        Sampling::default().get(self.name)
    }

    /// Checks a value.
    ///
    /// # Errors
    /// [`BadSampling::Range`] if it is out of range.
    pub fn check(&self, value: f64) -> Result<(), BadSampling> {
        let Self { name, range, .. } = *self;
        if range.contains(value) { Ok(()) } else { Err(BadSampling::Range { name, value, range }) }
    }
}

impl Sampling {
    /// The mass of `top_p` where none is given. With the default temperature it is that of llama.cpp, for the same
    /// reason: the tail of a small model's distribution holds few tokens that anyone wants. Every front end has the
    /// same defaults, so that a request has one distribution wherever it is made.
    pub const TOP_P: f64 = 0.95;

    /// The options, in the order in which front ends list them.
    pub fn fields() -> &'static [Field] {
        FIELDS
    }

    /// The option of a name.
    pub fn field(name: &str) -> Option<&'static Field> {
        FIELDS.iter().find(|field| field.name == name)
    }

    /// Checks all values.
    ///
    /// # Errors
    /// [`BadSampling::Range`] for the first value out of range.
    pub fn check(&self) -> Result<(), BadSampling> {
        FIELDS.iter().try_for_each(|field| self.get(field.name).map_or(Ok(()), |value| field.check(value)))
    }

    /// The mass of the tokens that are sampled from.
    pub fn mass(&self) -> f64 {
        self.top_p.unwrap_or(if self.mirostat_tau.is_some() { 1.0 } else { Self::TOP_P })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_set_and_read_by_name() {
        let mut sampling = Sampling::default();
        for field in Sampling::fields() {
            assert_eq!(sampling.get(field.name), field.default(), "{}", field.name);
            let value = if field.range.whole { 3.0 } else { 0.75 };
            let value = if field.range.contains(value) { value } else { field.range.least };
            sampling.set(field.name, value).unwrap();
            assert_eq!(sampling.get(field.name), Some(value), "{}", field.name);
            let outside = field.range.least - 1.0;
            let fault = sampling.set(field.name, outside).unwrap_err().to_string();
            assert!(fault.starts_with(&format!("{} is {outside}, but must be", field.name)), "{fault}");
            assert!(sampling.set(field.name, f64::NAN).is_err());
        }
        assert!(sampling.check().is_ok());
        assert!(sampling.set("temprature", 1.0).is_err());
        let json = serde_json::to_value(&sampling).unwrap();
        assert_eq!(json.as_object().unwrap().len(), Sampling::fields().len());
        assert_eq!(serde_json::from_value::<Sampling>(json).unwrap(), sampling);
    }

    #[test]
    fn ranges_are_named() {
        let name = |option| Sampling::field(option).unwrap().range.to_string();
        assert_eq!(name("temperature"), "from 0 to 100");
        assert_eq!(name("top_p"), "above 0 and at most 1");
        assert_eq!(name("epsilon_cutoff"), "at least 0 and below 1");
        assert_eq!(name("no_repeat_ngram_size"), "a whole number, 1 or more");
    }
}
