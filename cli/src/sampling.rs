//! Options for how tokens are sampled.

use clap::builder::ValueParser;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use verdigris::{BadSampling, Field, Request, Sampling};

use crate::number::{or_all, whole};

/// Earlier names of options, and their names in other programs.
const ALIASES: &[(&str, &str)] =
    &[("dynatemp_exponent", "dynatemp-exp"), ("temperature", "temp"), ("repetition_penalty", "repeat-penalty")];

#[derive(Clone)]
pub(crate) struct SamplingOptions(Sampling);

impl SamplingOptions {
    /// Whether the most probable token is taken every time.
    pub(crate) fn is_greedy(&self) -> bool {
        self.0.temperature == 0.0
    }

    pub(crate) fn apply<'a>(&self, request: Request<'a>) -> Request<'a> {
        request.sampling(self.0.clone())
    }
}

/// The help of an option, with names of options as the command line has them.
fn help(field: &Field) -> String {
    let mut help = field.about.to_owned();
    for other in Sampling::fields() {
        // Words such as temperature are options too.
        if other.name.contains('_') {
            help = help.replace(other.name, &format!("--{}", kebab(other.name)));
        }
    }
    help
}

fn kebab(name: &str) -> String {
    name.replace('_', "-")
}

/// A number: a whole one as the others of the program, with -1 for all tokens.
fn parser(field: &Field) -> ValueParser {
    fn as_number(count: Result<usize, String>) -> Result<f64, String> {
        count.map(|count| count as f64)
    }
    match field.name {
        "top_k" => ValueParser::new(|text: &str| as_number(or_all(text))),
        _ if field.range.whole => ValueParser::new(|text: &str| as_number(whole(text))),
        _ => clap::value_parser!(f64).into(),
    }
}

impl Args for SamplingOptions {
    fn augment_args(command: Command) -> Command {
        Sampling::fields().iter().fold(command, |command, field| {
            let mut option = Arg::new(field.name)
                .long(kebab(field.name))
                .value_name(field.letter)
                .help(help(field))
                .value_parser(parser(field))
                .allow_hyphen_values(field.name == "top_k");
            // A default without effect is not worth a word.
            let is_off = |default: &f64| *default == 0.0 || *default == 1.0;
            if let Some(default) = field.default().filter(|default| !is_off(default)) {
                option = option.default_value(default.to_string());
            }
            for (_, alias) in ALIASES.iter().filter(|(name, _)| *name == field.name) {
                option = option.alias(*alias);
            }
            command.arg(option)
        })
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

impl FromArgMatches for SamplingOptions {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut options = Self(Sampling::default());
        options.update_from_arg_matches(matches)?;
        Ok(options)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        for field in Sampling::fields() {
            if let Some(&value) = matches.get_one::<f64>(field.name) {
                let fault = |fault: BadSampling| {
                    // The option's name as the command line has it.
                    let said = fault.to_string().replacen(field.name, &format!("--{}", kebab(field.name)), 1);
                    clap::Error::raw(clap::error::ErrorKind::ValueValidation, format!("{said}\n"))
                };
                self.0.set(field.name, value).map_err(fault)?;
            }
        }
        Ok(())
    }
}
