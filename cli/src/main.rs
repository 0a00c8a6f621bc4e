//! The program `verdigris`: the library's features on a command line.
#![forbid(unsafe_code)]

mod answer_id;
mod attack;
mod batch;
mod bench;
mod built_in;
mod chat;
mod choice;
mod completions;
#[cfg(feature = "serve")]
mod comply;
mod constraint;
mod convert;
mod demo;
mod detect;
mod doctor;
mod edits;
mod engine;
mod error;
mod generate;
#[cfg(test)]
mod help;
mod identify;
mod interrupt;
mod key;
mod label;
#[cfg(feature = "ledger")]
mod ledger;
#[cfg(not(all(feature = "ledger", feature = "mcp", feature = "serve", feature = "train")))]
mod left_out;
mod log;
mod man;
mod mark;
#[cfg(feature = "mcp")]
mod mcp;
mod model;
mod models;
mod number;
mod output;
mod payload;
mod peers;
mod program;
mod progress;
mod proof;
mod rank;
mod ranks;
mod reasoning;
mod recorder;
mod report;
mod request;
mod robustness;
mod run;
mod sampling;
mod scan;
#[cfg(feature = "serve")]
mod serve;
mod signer;
mod steering;
mod summary;
mod terminal;
mod text;
mod tokens;
#[cfg(feature = "train")]
mod train;
mod usage;
mod verify;
mod verify_report;

use std::ffi::OsString;
use std::io::Write;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};

use crate::error::Failure;

/// Write text with a language model, mark it with a keyed watermark, and prove the mark from the text alone.
#[derive(Parser)]
#[command(name = "verdigris", version, max_term_width = 100, after_help = EXAMPLES)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  verdigris demo                            see all of it in one screen
  verdigris doctor                          what to expect of this machine
  verdigris key new my.key                  make a key
  verdigris generate \"The captain\" --key my.key > tale.txt
  verdigris detect tale.txt --key my.key    is it marked, and how sure is that?

Exit status: 0 success, or marked; 1 not marked; 2 an error, or no verdict; 3 the output was cut short; 141 the reader \
of the output closed it.

Set RUST_LOG=debug for a log on standard error, and NO_COLOR=1 for no colour.";

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "there is one of them")]
enum Command {
    #[command(alias = "run")]
    Generate(generate::Generate),
    Chat(chat::Chat),
    Batch(batch::Batch),
    #[cfg(feature = "serve")]
    Serve(serve::Serve),
    #[cfg(not(feature = "serve"))]
    Serve(left_out::LeftOut),
    Detect(detect::Detect),
    Scan(scan::Scan),
    Verify(verify::Verify),
    VerifyReport(verify_report::VerifyReport),
    Identify(identify::Identify),
    Payload(payload::Payload),
    Mark(mark::Mark),
    Robustness(robustness::Robustness),
    #[command(hide = true)]
    Attack(attack::AttackCommand),
    #[command(subcommand)]
    Key(key::KeyCommand),
    #[cfg(feature = "ledger")]
    #[command(subcommand)]
    Ledger(ledger::LedgerCommand),
    #[cfg(not(feature = "ledger"))]
    Ledger(left_out::LeftOut),
    #[cfg(feature = "mcp")]
    Mcp(mcp::Mcp),
    #[cfg(not(feature = "mcp"))]
    Mcp(left_out::LeftOut),
    Models(models::Models),
    Convert(convert::Convert),
    Rank(rank::Rank),
    #[cfg(feature = "train")]
    #[command(subcommand)]
    Train(train::Train),
    #[cfg(not(feature = "train"))]
    Train(left_out::LeftOut),
    Demo(demo::Demo),
    Doctor(doctor::Doctor),
    #[cfg(feature = "serve")]
    Comply(comply::Comply),
    #[cfg(not(feature = "serve"))]
    Comply(left_out::LeftOut),
    #[command(subcommand)]
    Bench(bench::Bench),
    Completions(completions::Completions),
    Man(man::Man),
}

/// The commands. All options take negative numbers as values rather than as unknown options, so that errors are about
/// the value. An option that another one requires is in a group of its own, `with_NAME`, if it conflicts with a third:
/// clap waives what an option requires if that conflicts with a given option, unless it is a group.
fn commands() -> clap::Command {
    fn with_numbers_below_0(command: clap::Command) -> clap::Command {
        let command = command.mut_args(|option| match option.get_action().takes_values() {
            true => option.allow_negative_numbers(true),
            false => option,
        });
        command.mut_subcommands(with_numbers_below_0)
    }
    summary::shorten(with_numbers_below_0(Arguments::command()))
}

fn parsed(arguments: Vec<OsString>) -> Result<Arguments, clap::Error> {
    Arguments::from_arg_matches(&commands().try_get_matches_from(arguments)?)
}

fn main() -> ExitCode {
    let given = arguments();
    // Not a command of the user, so that no help, completion or suggestion has it.
    #[cfg(feature = "parquet")]
    if let [_, command, text, id] = &given[..]
        && command == detect::READ_PARQUET
    {
        return detect::read_parquet(&text.to_string_lossy(), &id.to_string_lossy());
    }
    #[cfg(feature = "serve")]
    let given = match serve::settings::complete(given, &commands()) {
        Ok(given) => given,
        Err(failure) => return failed(&failure),
    };
    let arguments = match parsed(given.clone()) {
        Ok(arguments) => arguments,
        Err(error) if error.use_stderr() && error.kind() != ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            return failed(&Failure::Usage(usage::line(&error, &given, &commands())));
        }
        // Help and version go to standard output, where writing can fail as for any output.
        Err(error) => match error.print().and_then(|()| std::io::stdout().flush()) {
            Ok(()) => return ExitCode::from(error.exit_code() as u8),
            Err(lost) => return failed(&lost.into()),
        },
    };
    match &arguments.command {
        #[cfg(feature = "serve")]
        Command::Serve(serve) => {
            let (format, usual) = serve.log();
            serve::unblocked_log::begin(format, usual);
        }
        _ => log::begin(log::LogFormat::Text, "error"),
    }
    if matches!(arguments.command, Command::Generate(_) | Command::Mark(_) | Command::Convert(_) | Command::Train(_)) {
        interrupt::clean_up(None);
    }
    let result = match arguments.command {
        Command::Generate(generate) => generate.run(),
        Command::Chat(chat) => chat.run(),
        Command::Batch(batch) => batch.run(),
        #[cfg(feature = "serve")]
        Command::Serve(serve) if serve.prints_config() => serve::settings::print(given, commands()),
        #[cfg(feature = "serve")]
        Command::Serve(serve) => serve.run(),
        #[cfg(not(feature = "serve"))]
        Command::Serve(serve) => serve.run("serve", "serve"),
        Command::Detect(detect) => detect.run(),
        Command::Scan(scan) => scan.run(),
        Command::Verify(verify) => verify.run(),
        Command::VerifyReport(verify) => verify.run(),
        Command::Identify(identify) => identify.run(),
        Command::Payload(payload) => payload.run(),
        Command::Mark(mark) => mark.run(),
        Command::Robustness(robustness) => robustness.run(),
        Command::Attack(attack) => attack.run(),
        Command::Key(key) => key.run(),
        #[cfg(feature = "ledger")]
        Command::Ledger(ledger) => ledger.run(),
        #[cfg(not(feature = "ledger"))]
        Command::Ledger(ledger) => ledger.run("ledger", "ledger"),
        #[cfg(feature = "mcp")]
        Command::Mcp(mcp) => mcp.run(),
        #[cfg(not(feature = "mcp"))]
        Command::Mcp(mcp) => mcp.run("mcp", "mcp"),
        Command::Models(models) => models.run(),
        Command::Convert(convert) => convert.run(),
        Command::Rank(rank) => rank.run(),
        #[cfg(feature = "train")]
        Command::Train(train) => train.run(),
        #[cfg(not(feature = "train"))]
        Command::Train(train) => train.run("train", "train"),
        Command::Demo(demo) => demo.run(),
        Command::Doctor(doctor) => doctor.run(),
        #[cfg(feature = "serve")]
        Command::Comply(comply) => comply.run(),
        #[cfg(not(feature = "serve"))]
        Command::Comply(comply) => comply.run("comply", "serve"),
        Command::Bench(bench) => bench.run(),
        Command::Completions(completions) => completions.run(commands()),
        Command::Man(man) => man.run(commands()),
    };
    #[cfg(feature = "serve")]
    serve::unblocked_log::flush();
    // Output without a final line end is written here, which can fail.
    match result.and_then(|code| Ok(std::io::stdout().flush().map(|()| code)?)) {
        Ok(code) => code,
        Err(failure) => failed(&failure),
    }
}

/// The arguments, with `help --help` changed to `help help`, and with other programs' spellings of options.
fn arguments() -> Vec<OsString> {
    let mut arguments: Vec<OsString> = std::env::args_os().collect();
    let groups = ["key", "ledger", "train", "bench", "models"];
    let at = 1 + usize::from(arguments.get(1).is_some_and(|first| groups.iter().any(|group| first == group)));
    if let Some([help, asked]) = arguments.get_mut(at..at + 2)
        && *help == *"help"
        && (*asked == *"--help" || *asked == *"-h")
    {
        *asked = "help".into();
    }
    peers::respell(&mut arguments);
    arguments
}

/// Prints a failure on standard error, if that is possible. The status is 2.
fn failed(failure: &Failure) -> ExitCode {
    if let Failure::Output(error) = failure
        && error.kind() == std::io::ErrorKind::BrokenPipe
    {
        // The reader of the output has closed it. The status is that of a program that is ended by SIGPIPE, since 0
        // would be a verdict.
        return ExitCode::from(128 + 13);
    }
    let red = terminal::style(anstyle::AnsiColor::Red).bold();
    let line = failure.to_string();
    let _ = writeln!(anstream::stderr(), "{red}error:{red:#} {}", terminal::shown_line(&line));
    ExitCode::from(2)
}

#[cfg(test)]
mod tests {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    use clap::{Arg, Command};

    /// An option with a value of every type that one has.
    fn given(option: &Arg) -> Vec<Vec<String>> {
        let name = format!("--{}", option.get_long().unwrap_or_default());
        if !option.get_action().takes_values() {
            return vec![vec![name]];
        }
        let named: Vec<String> = option.get_possible_values().iter().map(|value| value.get_name().to_owned()).collect();
        let values = named.into_iter().chain(["1", ".5", "a", "a=1"].map(str::to_owned));
        values.map(|value| vec![format!("{name}={value}")]).collect()
    }

    /// Parses options of a command; the kind of the error, and the options that are missing.
    fn refused(command: &Command, options: &[String]) -> Option<(ErrorKind, String)> {
        let arguments = std::iter::once(command.get_name().to_owned()).chain(options.iter().cloned());
        let error = command.clone().try_get_matches_from(arguments).err()?;
        let missing = match error.get(ContextKind::InvalidArg) {
            Some(ContextValue::Strings(missing)) => missing.join(" "),
            _ => String::new(),
        };
        Some((error.kind(), missing))
    }

    #[test]
    fn what_an_option_requires_is_required_whatever_else_is_given() {
        let commands = super::commands();
        let mut checked = 0;
        for command in commands.get_subcommands().filter(|command| !command.has_subcommands()) {
            let options: Vec<&Arg> = command.get_arguments().filter(|option| option.get_long().is_some()).collect();
            let is_missing = |with: &[String]| match refused(command, with) {
                Some((ErrorKind::MissingRequiredArgument, missing)) => Some(missing),
                _ => None,
            };
            let without = is_missing(&[]).unwrap_or_default();
            for option in &options {
                for with in given(option) {
                    let Some(missing) = is_missing(&with) else { continue };
                    let needed = options.iter().filter(|needed| {
                        let name = format!("--{}", needed.get_long().unwrap_or_default());
                        let is_named = |said: &str| said.split([' ', '<', '>', '|']).any(|word| word == name);
                        is_named(&missing) && !is_named(&without)
                    });
                    for third in needed.flat_map(|needed| command.get_arg_conflicts_with(needed)) {
                        let all = given(third).into_iter().map(|third| [&with[..], &third].concat());
                        for all in all {
                            let refused = refused(command, &all);
                            assert!(refused.is_some(), "{} {all:?} lacks {missing}", command.get_name());
                            checked += usize::from(refused.is_some_and(|(kind, _)| kind != ErrorKind::InvalidValue));
                        }
                    }
                    break;
                }
            }
        }
        assert!(checked > 20, "{checked}");
    }
}
