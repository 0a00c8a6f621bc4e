//! How JSON is written where a schema leaves that open.

pub use crate::terminal::escape::Escapes;

/// How JSON is written where a schema leaves that open. What is written obeys the schema in every style.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Style {
    /// Whether an object may have properties that its schema does not name, where the schema does not say so.
    pub objects: Extra,
    /// The order of properties.
    pub order: Order,
    /// White space between the signs.
    pub whitespace: Whitespace,
    /// The forms of numbers.
    pub numbers: NumberForms,
    /// The escapes in strings.
    pub escapes: Escapes,
}

impl Style {
    /// With objects that have no more properties than their schemas name.
    #[must_use]
    pub fn closed(self) -> Self {
        Self { objects: Extra::Closed, ..self }
    }

    /// With properties in any order.
    #[must_use]
    pub fn any_order(self) -> Self {
        Self { order: Order::Any, ..self }
    }

    /// With some white space.
    #[must_use]
    pub fn whitespace(self, whitespace: Whitespace) -> Self {
        Self { whitespace, ..self }
    }

    /// With numbers in some forms.
    #[must_use]
    pub fn numbers(self, numbers: NumberForms) -> Self {
        Self { numbers, ..self }
    }

    /// With some escapes.
    #[must_use]
    pub fn escapes(self, escapes: Escapes) -> Self {
        Self { escapes, ..self }
    }
}

/// Whether an object may have properties that its schema does not name, where the schema does not say so.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extra {
    /// It may, as JSON Schema has it.
    #[default]
    Open,
    /// It may not. What is written obeys the schema all the same.
    Closed,
}

/// The order of properties.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As in the schema, and then others, where they are allowed.
    #[default]
    Schema,
    /// Any.
    Any,
}

/// White space between the signs of JSON. None comes before the first sign and after the last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whitespace {
    /// None: `{"a":1,"b":2}`.
    Compact,
    /// One space after each comma and colon: `{"a": 1, "b": 2}`.
    Spaced,
    /// One space or none after each comma and colon.
    #[default]
    Optional,
    /// At each place up to so many spaces, tabs and line ends.
    Free {
        /// The most of them at one place.
        most: u8,
    },
}

/// The forms of numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NumberForms {
    /// As digits, without an exponent.
    #[default]
    Plain,
    /// As JSON has them: `1.0` for 1 too; and `1e2`, where a schema says no more than that it is a number or an
    /// integer.
    Full,
}
