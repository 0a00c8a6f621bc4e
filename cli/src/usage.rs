//! Reports errors in the arguments in one line.

use std::ffi::OsString;

use clap::Command;
use clap::error::{ContextKind, ContextValue, ErrorKind};

/// The most letters in which a name may differ from the one that was meant.
const NEAR: usize = 2;

/// Describes an error in the arguments: its cause, what was probably meant, and where to find help.
pub(crate) fn line(error: &clap::Error, given: &[OsString], commands: &Command) -> String {
    let rendered = error.render().to_string();
    let mut lines = rendered.lines();
    let first = lines.next().unwrap_or_default();
    // Missing arguments and possible values have their own lines.
    let rest: Vec<&str> = lines.map_while(|line| line.strip_prefix("  ")).map(|line| alone(line.trim())).collect();
    let mut said = clustered(error, given).unwrap_or_else(|| first.trim_start_matches("error: ").to_owned());
    if !rest.is_empty() {
        said = format!("{said} {}", rest.join(", "));
    }
    if let Some(meant) = meant(error) {
        said += &format!("; did you mean {meant}?");
    }
    let (command, path) = named(given, commands);
    let is_word = |value: &ContextValue| matches!(value, ContextValue::String(word) if !word.starts_with('-'));
    if error.kind() == ErrorKind::UnknownArgument
        && error.get(ContextKind::InvalidArg).is_some_and(is_word)
        && command.get_positionals().any(|positional| positional.get_id() == "prompt")
    {
        said += "; put quotes around a prompt of several words";
    }
    format!("{said} (see {path} --help)")
}

/// A group of one option, in angle brackets, as that option.
fn alone(missing: &str) -> &str {
    let option = missing.strip_prefix('<').and_then(|group| group.strip_suffix('>'));
    option.filter(|option| option.starts_with("--") && !option.contains("|--")).unwrap_or(missing)
}

/// The original argument, if its letters were taken for a short option and its value.
fn clustered(error: &clap::Error, given: &[OsString]) -> Option<String> {
    let Some(ContextValue::String(value)) = error.get(ContextKind::InvalidValue) else { return None };
    let is_it = |argument: &&str| {
        argument.starts_with('-')
            && !argument.starts_with("--")
            && argument.get(2..) == Some(value)
            && !value.is_empty()
    };
    let argument = given.iter().filter_map(|argument| argument.to_str()).find(is_it)?;
    value.starts_with(char::is_alphabetic).then(|| format!("unexpected argument '{argument}' found"))
}

/// The name that was probably meant, if one is near to the given one.
fn meant(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind)? {
        ContextValue::String(text) => Some(text.clone()),
        ContextValue::Strings(texts) => texts.first().cloned(),
        _ => None,
    };
    let pairs = [
        (ContextKind::InvalidArg, ContextKind::SuggestedArg),
        (ContextKind::InvalidSubcommand, ContextKind::SuggestedSubcommand),
        (ContextKind::InvalidValue, ContextKind::SuggestedValue),
    ];
    pairs.into_iter().find_map(|(given, suggested)| {
        let (given, suggested) = (text(given)?, text(suggested)?);
        is_near(&given, &suggested).then_some(suggested)
    })
}

/// Whether `given` was probably meant as `name`.
pub(crate) fn is_near(given: &str, name: &str) -> bool {
    strsim::osa_distance(given, name) <= NEAR
}

/// The command that the arguments name, and its full name.
fn named<'c>(given: &[OsString], commands: &'c Command) -> (&'c Command, String) {
    let (mut command, mut path) = (commands, commands.get_name().to_owned());
    for argument in given.iter().skip(1) {
        let Some(below) = argument.to_str().and_then(|name| command.find_subcommand(name)) else { break };
        command = below;
        path += &format!(" {}", below.get_name());
    }
    (command, path)
}
