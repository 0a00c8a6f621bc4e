//! `verdigris completions`: prints the completion script of a shell.

use std::io::Write;
use std::process::ExitCode;

use clap::Args;
use clap_complete::Shell;

use crate::error::Failure;
use crate::models::NAMES;

/// Print a script with which a shell completes commands and options
#[derive(Args)]
#[command(after_help = "\
Examples:
  verdigris completions bash > verdigris.bash   then: source verdigris.bash
  verdigris completions zsh > _verdigris        into a folder of $fpath
  verdigris completions fish > verdigris.fish   into ~/.config/fish/completions")]
pub(crate) struct Completions {
    /// The shell
    #[arg(value_enum)]
    shell: Shell,
}

impl Completions {
    /// Prints the script for the commands of the program.
    pub(crate) fn run(self, mut commands: clap::Command) -> Result<ExitCode, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut commands, "verdigris", &mut script);
        let script = String::from_utf8(script).expect("a script is text");
        std::io::stdout().write_all(with_models(self.shell, script).as_bytes())?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The options that take models.
const MODELS: [&str; 5] = ["model", "draft", "expert", "anti", "class-model"];

/// Lets a script also complete the names of models, which the program prints. Scripts of other shells stay as they are.
fn with_models(shell: Shell, script: String) -> String {
    match shell {
        Shell::Bash => in_bash(&script),
        Shell::Fish => in_fish(&script),
        Shell::Zsh => in_zsh(&script),
        _ => script,
    }
}

/// After `--model)`, or `-m)`, comes the command that lists files.
fn in_bash(script: &str) -> String {
    const FILES: &str = r#"COMPREPLY=($(compgen -f "${cur}"))"#;
    let names = format!(r#"COMPREPLY=($(compgen -f "${{cur}}") $(compgen -W "$({NAMES} 2>/dev/null)" -- "${{cur}}"))"#);
    let (mut changed, mut takes_model) = (String::with_capacity(script.len() * 2), false);
    for line in script.lines() {
        let option = line.trim().strip_suffix(')').and_then(|option| option.strip_prefix('-'));
        if let Some(option) = option {
            takes_model = option == "m" || MODELS.iter().any(|name| option.strip_prefix('-') == Some(name));
        }
        changed += &if takes_model { line.replace(FILES, &names) } else { line.to_owned() };
        changed.push('\n');
    }
    changed
}

/// An option that takes a value has `-r`.
fn in_fish(script: &str) -> String {
    let mut changed = String::with_capacity(script.len() * 2);
    for line in script.lines() {
        changed += line;
        let takes_model = |name: &str| line.contains(&format!(" -l {name} "));
        if line.contains(" -r") && MODELS.iter().any(|name| takes_model(name)) {
            changed += &format!(" -a '({NAMES} 2>/dev/null)'");
        }
        changed.push('\n');
    }
    changed
}

/// The action of an option comes after the name of its value.
fn in_zsh(script: &str) -> String {
    const ACTIONS: [&str; 2] = [":_files'", ":_default'"];
    let names = format!(r#":{{_files; compadd -- ${{(f)"$({NAMES} 2>/dev/null)"}}}}'"#);
    let mut changed = String::with_capacity(script.len() * 2);
    for line in script.lines() {
        let is_of = |name: &str| line.contains(&format!("--{name}=[")) || name == "model" && line.contains("'-m+[");
        match MODELS.iter().any(|name| is_of(name)) {
            true => changed += &ACTIONS.iter().fold(line.to_owned(), |line, action| line.replace(action, &names)),
            false => changed += line,
        }
        changed.push('\n');
    }
    changed
}
