//! The options of `serve` from a file and from the environment, with the same names as on the command line.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::parser::ValueSource;
use clap::{Arg, ArgAction, ArgMatches, Command};

use crate::error::Failure;

/// The prefix of the names of options in the environment.
const PREFIX: &str = "VERDIGRIS_SERVE_";

/// The command whose options these are.
const COMMAND: &str = "serve";

/// Options that are not settings.
const NO_SETTINGS: [&str; 4] = ["config", "print-config", "probe", "help"];

/// The least similarity at which an unknown name was probably meant as a known one; 1 is equality.
const ALIKE: f64 = 0.75;

/// The values of an option, and their source.
struct Setting {
    source: String,
    values: Vec<String>,
}

/// Settings by the names of options.
type Settings = BTreeMap<String, Setting>;

/// The arguments, preceded by options that only the file of `--config` or the environment sets.
///
/// # Errors
/// If the file cannot be read, or if it or the environment names an unknown option or sets an invalid value.
pub(crate) fn complete(arguments: Vec<OsString>, commands: &Command) -> Result<Vec<OsString>, Failure> {
    complete_from(arguments, commands, std::env::vars_os())
}

fn complete_from(
    arguments: Vec<OsString>,
    commands: &Command,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Vec<OsString>, Failure> {
    let Some(serve) = commands.find_subcommand(COMMAND) else { return Ok(arguments) };
    if arguments.get(1).is_none_or(|command| command != COMMAND) || serve.get_arguments().next().is_none() {
        return Ok(arguments);
    }
    // Errors in the arguments themselves are reported when all of them are parsed.
    let given = commands.clone().ignore_errors(true).try_get_matches_from(&arguments);
    let Some(given) = given.ok().and_then(|mut given| given.remove_subcommand()).map(|(_, given)| given) else {
        return Ok(arguments);
    };
    let mut settings = of_environment(serve, environment)?;
    let named = settings.remove("config").and_then(|mut setting| setting.values.pop()).map(PathBuf::from);
    if let Some(file) = given.get_one::<PathBuf>("config").cloned().or(named) {
        for (name, setting) in of_file(serve, &file)? {
            settings.entry(name).or_insert(setting);
        }
    }
    let mut all: Vec<OsString> = arguments[..2].to_vec();
    for option in options(serve) {
        let is_given = given.value_source(option.get_id().as_str()) == Some(ValueSource::CommandLine);
        let name = option.get_long().unwrap_or_default();
        if let Some(setting) = settings.get(name).filter(|_| !is_given) {
            all.extend(checked(serve, option, setting)?.into_iter().map(OsString::from));
        }
    }
    all.extend_from_slice(&arguments[2..]);
    Ok(all)
}

/// Prints the effective options.
pub(crate) fn print(arguments: Vec<OsString>, commands: Command) -> Result<ExitCode, Failure> {
    let matches = commands.clone().get_matches_from(arguments);
    if let (Some(serve), Some((_, matches))) = (commands.find_subcommand(COMMAND), matches.subcommand()) {
        write!(std::io::stdout(), "{}", shown(serve, matches))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// All effective options, as a file that `--config` reads.
fn shown(serve: &Command, matches: &ArgMatches) -> String {
    let mut shown = String::new();
    for option in options(serve) {
        let (name, id) = (option.get_long().unwrap_or_default(), option.get_id().as_str());
        let Some(raw) = matches.get_raw(id) else { continue };
        let values: Vec<toml::Value> = raw.map(|value| scalar(option, value)).collect();
        let value = match option.get_action() {
            ArgAction::Append => toml::Value::Array(values),
            _ => values.into_iter().next_back().unwrap_or(toml::Value::Boolean(false)),
        };
        shown.push_str(&format!("{name} = {value}\n"));
    }
    shown
}

fn scalar(option: &Arg, value: &OsStr) -> toml::Value {
    let text = value.to_string_lossy();
    match (option.get_action(), text.parse::<i64>()) {
        (ArgAction::SetTrue, _) => toml::Value::Boolean(text == "true"),
        // A name like 007 is not a number.
        (_, Ok(number)) if number.to_string() == text => toml::Value::Integer(number),
        _ => toml::Value::String(text.into()),
    }
}

fn options(serve: &Command) -> impl Iterator<Item = &Arg> {
    serve.get_arguments().filter(|option| option.get_long().is_some_and(|name| !NO_SETTINGS.contains(&name)))
}

fn of_environment(
    serve: &Command,
    environment: impl Iterator<Item = (OsString, OsString)>,
) -> Result<Settings, Failure> {
    let mut settings = Settings::new();
    for (variable, value) in environment {
        let Some(name) = variable.to_str().and_then(|variable| variable.strip_prefix(PREFIX)) else { continue };
        let (source, name) = (format!("the variable {PREFIX}{name}"), name.to_lowercase().replace('_', "-"));
        let Ok(value) = value.into_string() else {
            return Err(Failure::Usage(format!("{source} is not UTF-8 text")));
        };
        let is_list = match options(serve).find(|option| option.get_long() == Some(&name)) {
            Some(option) => matches!(option.get_action(), ArgAction::Append),
            None if name == "config" => false,
            None => {
                let near =
                    nearest(serve, &name).map(|near| format!("{PREFIX}{}", near.to_uppercase().replace('-', "_")));
                return Err(unknown(&source, near));
            }
        };
        let values = if is_list { value.split(',').map(|value| value.trim().into()).collect() } else { vec![value] };
        settings.insert(name, Setting { source, values });
    }
    Ok(settings)
}

fn of_file(serve: &Command, file: &Path) -> Result<Settings, Failure> {
    let text = std::fs::read_to_string(file).map_err(|source| Failure::Open { path: file.into(), source })?;
    let table: toml::Table = toml::from_str(&text).map_err(|error| {
        let line = 1 + error.span().map_or(0, |span| text[..span.start].matches('\n').count());
        Failure::Usage(format!("{}, line {line}: {}", file.display(), error.message()))
    })?;
    let mut settings = Settings::new();
    for (name, value) in table {
        let source = format!("{}: {name}", file.display());
        if !options(serve).any(|option| option.get_long() == Some(&name)) {
            return Err(unknown(&source, nearest(serve, &name.to_lowercase().replace('_', "-"))));
        }
        let values = match value {
            toml::Value::Array(values) => values,
            value => vec![value],
        };
        let values = values.into_iter().map(|value| match value {
            toml::Value::String(text) => Ok(text),
            toml::Value::Integer(number) => Ok(number.to_string()),
            toml::Value::Float(number) => Ok(number.to_string()),
            toml::Value::Boolean(is) => Ok(is.to_string()),
            other => Err(Failure::Usage(format!("{source} is a {}, which no option can be", other.type_str()))),
        });
        let values = values.collect::<Result<_, _>>()?;
        settings.insert(name, Setting { source, values });
    }
    Ok(settings)
}

fn unknown(source: &str, near: Option<String>) -> Failure {
    let cure = near.map_or_else(|| "see verdigris serve --help".into(), |near| format!("did you mean {near}?"));
    Failure::Usage(format!("{source} is not an option of verdigris serve: {cure}"))
}

/// The name of the option that is most similar to an unknown one.
fn nearest(serve: &Command, name: &str) -> Option<String> {
    let alike = options(serve).filter_map(Arg::get_long).map(|option| (strsim::jaro_winkler(option, name), option));
    let nearest = alike.max_by(|(a, _), (b, _)| a.total_cmp(b))?;
    (nearest.0 >= ALIKE).then(|| nearest.1.to_owned())
}

/// A setting as arguments, if the value is valid for its option.
fn checked(serve: &Command, option: &Arg, setting: &Setting) -> Result<Vec<String>, Failure> {
    use clap::error::ErrorKind;

    let name = option.get_long().unwrap_or_default();
    let bad = |what: String| Failure::Usage(format!("{}: {what}", setting.source));
    if matches!(option.get_action(), ArgAction::SetTrue) {
        return match setting.values.iter().map(String::as_str).collect::<Vec<_>>()[..] {
            ["true" | "1"] => Ok(vec![format!("--{name}")]),
            ["false" | "0"] => Ok(Vec::new()),
            _ => Err(bad("it must be true or false".into())),
        };
    }
    if setting.values.len() != 1 && !matches!(option.get_action(), ArgAction::Append) {
        return Err(bad(format!("it must be one value, not {}", setting.values.len())));
    }
    let arguments: Vec<String> = setting.values.iter().map(|value| format!("--{name}={value}")).collect();
    let alone = std::iter::once(COMMAND.to_owned()).chain(arguments.iter().cloned());
    match serve.clone().try_get_matches_from(alone) {
        // That it requires other options is reported when all are parsed.
        Err(error) if matches!(error.kind(), ErrorKind::InvalidValue | ErrorKind::ValueValidation) => {
            let line = error.to_string().lines().next().unwrap_or_default().to_owned();
            Err(bad(line.trim_start_matches("error: ").to_owned()))
        }
        _ => Ok(arguments),
    }
}
