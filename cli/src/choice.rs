//! Options that take one of several names.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use clap::{Arg, Command, Error};

/// A name on the command line, its value, and its help, which may be empty.
pub(crate) type Choice<T> = (&'static str, T, &'static str);

/// Parses the name of one of these choices.
#[derive(Clone)]
pub(crate) struct OneOf<T: 'static>(pub(crate) &'static [Choice<T>]);

impl<T: Clone + Send + Sync + 'static> TypedValueParser for OneOf<T> {
    type Value = T;

    fn parse_ref(&self, command: &Command, option: Option<&Arg>, given: &OsStr) -> Result<T, Error> {
        let names = PossibleValuesParser::new(self.0.iter().map(|(name, ..)| *name));
        // A name that is not UTF-8 is reported like any other unknown name.
        let given = names.parse_ref(command, option, OsStr::new(&*given.to_string_lossy()))?;
        let (_, value, _) = self.0.iter().find(|(name, ..)| *name == given).expect("the name of a choice");
        Ok(value.clone())
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        Some(Box::new(self.0.iter().map(|(name, _, help)| match *help {
            "" => PossibleValue::new(*name),
            help => PossibleValue::new(*name).help(help),
        })))
    }
}
