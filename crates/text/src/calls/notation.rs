//! Notations of arguments that are not JSON.

/// A notation of arguments. `S` is text, or the bytes that represent it in a grammar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notation<S = &'static str> {
    /// The signs around the parameters of a call.
    pub parameters: Signs<S>,
    /// The names of `null`, `false` and `true` in parameters; the first of each is preferred.
    pub words: Words,
    /// The notation of strings.
    pub strings: Strings<S>,
    /// The sign before a parameter that is not a string. If there is one, [`Strings::Raw`] has another sign before
    /// strings, which end with the parameter.
    pub before_others: S,
    /// The notation of the values in arrays and objects.
    pub nested: Nested<S>,
    /// Whether parameters come in the order of their names, instead of that of the schema.
    pub is_sorted: bool,
}

/// The names of `null`, `false` and `true`.
pub type Words = [&'static [&'static str]; 3];

/// The words of JSON.
pub(super) const JSON: Words = [&["null"], &["false"], &["true"]];

/// The signs around names and values: `<parameter=` NAME `>` VALUE `</parameter>`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signs<S = &'static str> {
    /// The sign that opens an object among values. The parameters of a call have none.
    pub open: S,
    /// Before each name.
    pub before_name: S,
    /// After each name. No name contains its first character.
    pub after_name: S,
    /// After each value.
    pub after_value: S,
    /// Between a value and the next name.
    pub between: S,
    /// After the last value.
    pub close: S,
}

/// The notation of strings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Strings<S = &'static str> {
    /// In quotation marks, with the escapes of JSON.
    Quoted,
    /// As they are, without escapes. A string does not contain the sign that ends it.
    Raw {
        /// The sign before a string. If there is none, a text that could be a value of another type that the schema
        /// allows is that value.
        open: S,
        /// The sign that ends it. If there is none, it is [`Signs::after_value`].
        close: S,
        /// Another text that no string contains: the mark in the sign that ends it.
        never: S,
    },
}

/// The notation of the values in arrays and objects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nested<S = &'static str> {
    /// JSON.
    Json,
    /// JSON, except that words and strings are those of parameters; and objects, if they have other signs.
    Same(Option<Signs<S>>),
}

/// The types that the schema of a parameter allows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds(u8);

impl Kinds {
    /// `null`.
    pub const NULL: Self = Self(1);
    /// `true` and `false`.
    pub const BOOLEAN: Self = Self(2);
    /// Numbers.
    pub const NUMBER: Self = Self(4);
    /// Strings.
    pub const STRING: Self = Self(8);
    /// Arrays.
    pub const ARRAY: Self = Self(16);
    /// Objects.
    pub const OBJECT: Self = Self(32);

    /// The types of either.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Whether all of some types are allowed.
    pub fn has(self, kind: Self) -> bool {
        self.0 & kind.0 == kind.0
    }

    /// Whether types other than strings are allowed.
    pub fn has_others(self) -> bool {
        self.0 & !Self::STRING.0 != 0
    }
}

impl<S> Signs<S> {
    /// Converts the texts.
    pub(super) fn map<T>(&self, change: &impl Fn(&S) -> T) -> Signs<T> {
        Signs {
            open: change(&self.open),
            before_name: change(&self.before_name),
            after_name: change(&self.after_name),
            after_value: change(&self.after_value),
            between: change(&self.between),
            close: change(&self.close),
        }
    }
}

impl<S> Notation<S> {
    /// Converts the texts.
    pub(super) fn map<T>(&self, change: &impl Fn(&S) -> T) -> Notation<T> {
        Notation {
            parameters: self.parameters.map(change),
            words: self.words,
            strings: match &self.strings {
                Strings::Quoted => Strings::Quoted,
                Strings::Raw { open, close, never } => {
                    Strings::Raw { open: change(open), close: change(close), never: change(never) }
                }
            },
            before_others: change(&self.before_others),
            nested: match &self.nested {
                Nested::Json => Nested::Json,
                Nested::Same(signs) => Nested::Same(signs.as_ref().map(|signs| signs.map(change))),
            },
            is_sorted: self.is_sorted,
        }
    }
}
