//! How JSON is written where a schema leaves that open.

pub use crate::terminal::escape::Escapes;

/// How JSON is written where a schema leaves that open. Texts obey the schema in every style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether objects may have properties that the schema does not name, if the schema does not decide that.
    pub objects: Extra,
    /// The order of properties.
    pub order: Order,
    /// White space around the signs.
    pub whitespace: Whitespace,
    /// The notations of numbers.
    pub numbers: NumberForms,
    /// The escapes in strings.
    pub escapes: Escapes,
}

impl Style {
    /// The same style with objects that have only the properties named in the schema.
    #[must_use]
    pub fn closed(self) -> Self {
        Self { objects: Extra::Closed, ..self }
    }

    /// The same style with properties in any order.
    #[must_use]
    pub fn any_order(self) -> Self {
        Self { order: Order::Any, ..self }
    }

    /// The same style with other white space.
    #[must_use]
    pub fn whitespace(self, whitespace: Whitespace) -> Self {
        Self { whitespace, ..self }
    }

    /// The same style with other notations of numbers.
    #[must_use]
    pub fn numbers(self, numbers: NumberForms) -> Self {
        Self { numbers, ..self }
    }

    /// The same style with other escapes.
    #[must_use]
    pub fn escapes(self, escapes: Escapes) -> Self {
        Self { escapes, ..self }
    }
}

/// Whether objects may have properties that the schema does not name, if the schema does not decide that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extra {
    /// They may, as JSON Schema specifies.
    #[default]
    Open,
    /// They may not. Texts still obey the schema.
    Closed,
}

/// The order of properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// The order in the schema, followed by other properties if they are allowed.
    #[default]
    Schema,
    /// Any order.
    Any,
}

/// White space around the signs of JSON. There is none before the first sign or after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whitespace {
    /// None: `{"a":1,"b":2}`.
    Compact,
    /// One space after each comma and colon: `{"a": 1, "b": 2}`.
    Spaced,
    /// One space or none after each comma and colon.
    #[default]
    Optional,
    /// At each position, at most a given number of spaces, tabs and line ends.
    Free {
        /// The maximum number at one position.
        most: u8,
    },
}

/// The notations of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberForms {
    /// Digits without an exponent.
    #[default]
    Plain,
    /// All that JSON has: `1.0` for 1 too; and `1e2`, if a schema demands no more than a number or an integer.
    Full,
}
