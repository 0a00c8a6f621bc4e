//! Tests of the text that `--help` shows below the options: examples can be pasted, and terminals wrap paragraphs.

use crate::commands as all_commands;

/// The greatest width of an example, so that none wraps in a terminal of the usual width.
const COLUMNS: usize = 80;

/// All commands with the text below their options.
fn footers() -> Vec<(String, String)> {
    fn go(command: &clap::Command, path: &str, all: &mut Vec<(String, String)>) {
        let path = format!("{path} {}", command.get_name());
        if let Some(footer) = command.get_after_long_help().or(command.get_after_help()) {
            all.push((path.trim().to_owned(), footer.to_string()));
        }
        command.get_subcommands().for_each(|below| go(below, &path, all));
    }
    let mut all = Vec::new();
    go(&all_commands(), "", &mut all);
    all
}

/// The lines of a footer's examples. Lines that continue after a backslash are joined.
fn examples(footer: &str) -> Vec<String> {
    let lines = footer.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
    let mut all: Vec<String> = Vec::new();
    for line in lines.take_while(|line| line.starts_with("  ")) {
        match all.last_mut().filter(|last| last.ends_with('\\')) {
            Some(last) => {
                last.pop();
                last.push_str(line.trim_start());
            }
            None => all.push(line.trim_start().to_owned()),
        }
    }
    all
}

/// The commands of a line as a shell would split it: words, quotes, pipes, and files to write to. After a gap of two
/// spaces or more comes a remark on the command.
fn commands(line: &str) -> Vec<Vec<String>> {
    let (mut all, mut words, mut word): (Vec<Vec<String>>, Vec<String>, Option<String>) = Default::default();
    let mut rest = line.chars().peekable();
    while let Some(character) = rest.next() {
        match character {
            ' ' => {
                words.extend(word.take());
                if rest.peek() == Some(&' ') {
                    break;
                }
            }
            '|' => all.push(std::mem::take(&mut words)),
            '\'' => word.get_or_insert_default().extend(rest.by_ref().take_while(|&c| c != '\'')),
            '"' => {
                let word = word.get_or_insert_default();
                while let Some(c) = rest.next().filter(|&c| c != '"') {
                    word.extend(if c == '\\' { rest.next() } else { Some(c) });
                }
            }
            _ => word.get_or_insert_default().push(character),
        }
    }
    words.extend(word);
    all.push(words);
    for words in &mut all {
        if let Some(redirected) = words.iter().position(|word| word == ">") {
            words.truncate(redirected);
        }
    }
    all
}

#[test]
fn every_example_is_a_command_and_can_be_pasted() {
    let mut parsed = 0;
    for (path, footer) in footers() {
        for line in footer.lines().filter(|line| line.starts_with(' ')) {
            assert!(line.chars().count() <= COLUMNS, "{path}: {line:?} is wider than {COLUMNS} columns");
        }
        let examples = examples(&footer);
        assert_eq!(examples.is_empty(), !footer.contains("Example"), "{path}");
        for line in &examples {
            let commands = commands(line);
            let ours = commands.iter().filter(|words| words.first().is_some_and(|word| word == "verdigris"));
            assert!(ours.clone().count() > 0, "{path}: {line}");
            for words in ours {
                if let Err(error) = all_commands().try_get_matches_from(words) {
                    panic!("{path}: {line}\n{error}");
                }
                parsed += 1;
            }
        }
    }
    assert!(parsed > 30, "{parsed}");
}

/// On a narrower terminal, a line end within a paragraph would come in the middle of a line.
#[test]
fn paragraphs_are_wrapped_by_the_terminal() {
    for (path, footer) in footers() {
        let lines: Vec<&str> = footer.lines().collect();
        for pair in lines.windows(2) {
            let breaks = |line: &str| !line.is_empty() && !line.starts_with(' ') && !line.ends_with(':');
            assert!(!(breaks(pair[0]) && breaks(pair[1])), "{path}: {pair:?}");
        }
    }
}
