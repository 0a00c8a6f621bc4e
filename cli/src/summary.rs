//! Limits the options that `-h` shows of commands that have many; `--help` shows all.

use clap::Command;

/// The options that most people need, for all commands that write texts.
#[rustfmt::skip]
const WRITING: &[&str] = &[
    "model", "chat", "system", "key", "ring", "max-tokens", "temperature", "top-p", "top-k", "seed", "stop", "regex",
    "choice", "json-schema", "grammar", "lookup", "draft", "device", "quiet",
];

/// The options that most people need, by command.
#[rustfmt::skip]
const SHOWN: [(&str, &[&[&str]]); 5] = [
    ("generate", &[WRITING, &["prompt-file", "texts", "output", "json"]]),
    (
        "chat",
        &[&[
            "model", "system", "chat-template", "tokens", "key", "max-tokens", "ctx-size", "seed", "temperature", "top-p",
            "top-k", "min-p", "reasoning-effort", "reasoning-format", "thinking-token-budget", "expert", "anti", "device",
            "threads", "quiet",
        ]],
    ),
    ("batch", &[WRITING, &["force"]]),
    (
        "serve",
        &[&[
            "model", "key", "ring", "enforce-all", "unmarkable", "audit-log", "report-key", "host", "port",
            "served-model-name", "allowed-host", "api-key-file", "max-tokens", "max-requests", "kv-cache-tokens",
            "draft", "lookup", "device", "config", "log-format", "quiet",
        ]],
    ),
    (
        "detect",
        &[&[
            "key", "ring", "model", "level", "format", "column", "windows", "weigh", "no-repair", "color", "html",
            "report", "report-key", "force", "json", "regex", "choice", "json-schema", "grammar",
        ]],
    ),
];

/// The most lines of examples that `-h` shows.
const EXAMPLES: usize = 8;

/// Makes `-h` show only these options, and say where the others are.
pub(crate) fn shorten(commands: Command) -> Command {
    commands.mut_subcommands(|command| match SHOWN.iter().find(|(name, _)| command.get_name() == *name) {
        None => command,
        Some((name, shown)) => {
            let shown = shown.concat();
            let is_shown = |option: &clap::Arg| {
                option.is_positional() || option.get_long().is_some_and(|long| long == "help" || shown.contains(&long))
            };
            let hidden = command.get_arguments().filter(|option| !is_shown(option)).count();
            let command = command.mut_args(|option| {
                let hides = !is_shown(&option);
                option.hide_short_help(hides)
            });
            let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let examples = examples.split_once("Example").map_or("", |(_, rest)| rest);
            let mut lines: Vec<&str> = examples.split("\n\n").next().unwrap_or_default().lines().collect();
            // The heading and the first examples, without one that is cut.
            lines.truncate(EXAMPLES);
            while lines.last().is_some_and(|line| line.ends_with('\\')) {
                lines.pop();
            }
            let examples = lines.join("\n");
            let more = format!("{hidden} more options are in `verdigris {name} --help`.");
            let long = command.get_after_help().cloned().unwrap_or_default();
            let command = command.after_long_help(long);
            match &*examples {
                "" => command.after_help(more),
                examples => command.after_help(format!("{more}\n\nExample{examples}")),
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_option_that_is_shown_exists() {
        let commands = crate::Arguments::command();
        for (name, shown) in SHOWN {
            let command = commands.find_subcommand(name).expect("a command");
            let longs: Vec<&str> = command.get_arguments().filter_map(clap::Arg::get_long).collect();
            for option in shown.concat() {
                assert!(longs.contains(&option), "{name} has no --{option}");
            }
        }
    }
}
