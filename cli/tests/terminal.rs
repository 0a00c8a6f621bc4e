//! Complete terminal output: a page of `cli/tests/terminal` for each command. `VERDIGRIS_UPDATE=1` rewrites the pages,
//! so that `git diff` shows what has changed.

mod support;

use std::fs;
use std::path::{Path, PathBuf};

use support::{Folder, Run};

fn page(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/terminal").join(format!("{name}.txt"))
}

/// Compares the output of a command with its page.
#[track_caller]
fn is_page(name: &str, command: &str, run: &Run) {
    let part = |title: &str, text: &str| if text.is_empty() { String::new() } else { format!("--- {title}\n{text}") };
    let shown = format!("$ {command}\n{}{}--- status {}\n", part("out", &run.out), part("err", &run.err), run.status);
    let page = page(name);
    if std::env::var_os("VERDIGRIS_UPDATE").is_some() {
        fs::create_dir_all(page.parent().unwrap()).unwrap();
        fs::write(&page, shown).unwrap();
        return;
    }
    let kept = fs::read_to_string(&page).unwrap_or_else(|error| panic!("{}: {error}", page.display()));
    for (number, (kept, shown)) in kept.lines().zip(shown.lines()).enumerate() {
        assert_eq!(shown, kept, "line {} of {}", number + 1, page.display());
    }
    assert_eq!(shown.lines().count(), kept.lines().count(), "lines of {}", page.display());
}

#[track_caller]
fn shows(folder: &Folder, name: &str, arguments: &[&str]) -> Run {
    let run = folder.run(arguments);
    is_page(name, &format!("verdigris {}", arguments.join(" ")), &run);
    run
}

/// All commands in the order of `--help`, each followed by its subcommands.
fn commands(folder: &Folder, above: &[&str]) -> Vec<Vec<String>> {
    let help = folder.run(&[above, &["--help"]].concat()).out;
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names = lines.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()).filter(|name| !name.is_empty());
    let mut all = Vec::new();
    for name in names.filter(|name| *name != "help") {
        let path = [above, &[name]].concat();
        all.push(path.iter().map(|&word| word.to_owned()).collect());
        all.extend(commands(folder, &path));
    }
    all
}

#[test]
fn help_of_every_command() {
    let folder = Folder::new();
    shows(&folder, "help", &["--help"]);
    let commands = commands(&folder, &[]);
    assert!(commands.len() > 15, "{commands:?}");
    for command in commands {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        shows(&folder, &format!("help-{}", command.join("-")), &words);
    }
}

#[test]
fn keys() {
    let folder = Folder::with_key();
    shows(&folder, "key-show", &["key", "show", "my.key"]);
    shows(&folder, "key-show-json", &["key", "show", "my.key", "--json"]);
    shows(&folder, "key-new", &["key", "new", "new.key", "--id", "mine", "--valid-from", "2027-01-01"]);
    shows(&folder, "key-new-again", &["key", "new", "new.key"]);
    fs::write(folder.path("hash.txt"), "15485863\n").unwrap();
    let public = ["key", "new", "kgw.key", "--dialect", "kgw", "--import", "hash.txt", "--id", "kgw"];
    shows(&folder, "key-new-public", &public);
    fs::create_dir(folder.path("ring")).unwrap();
    folder.write_private("ring/one.key", support::KEY);
    folder.write_private("ring/two.key", &support::KEY.replace("vg-c0ffee00", "vg-0ther000"));
    shows(&folder, "key-list", &["key", "list", "ring"]);
}

#[test]
fn the_demo() {
    let demo = shows(&Folder::new(), "demo", &["demo"]);
    assert!(demo.out.contains("marked"), "{demo:?}");
}

#[test]
fn verdicts() {
    let folder = Folder::with_key();
    let prompt = ["generate", "The captain", "--seed", "5", "--max-tokens", "200"];
    let marked = shows(&folder, "generate", &[&prompt[..], &["--key", "my.key"]].concat());
    folder.write("marked.txt", &marked.out);
    folder.write("plain.txt", &folder.run(&prompt).out);
    folder.write("short.txt", "The end.");
    shows(&folder, "detect-marked", &["detect", "marked.txt", "--key", "my.key"]);
    shows(&folder, "detect-plain", &["detect", "plain.txt", "--key", "my.key"]);
    shows(&folder, "detect-short", &["detect", "short.txt", "--key", "my.key"]);
    shows(&folder, "detect-many", &["detect", "marked.txt", "plain.txt", "short.txt", "--key", "my.key"]);
    shows(&folder, "detect-json", &["detect", "marked.txt", "--key", "my.key", "--json"]);
}

#[test]
fn errors() {
    let folder = Folder::with_key();
    shows(&folder, "error-no-file", &["detect", "missing.txt", "--key", "my.key"]);
    shows(&folder, "error-no-command", &["detekt"]);
    shows(&folder, "error-option", &["generate", "The captain", "--temperature", "-1"]);
    shows(
        &folder,
        "error-schema",
        &["generate", "--json-schema", "{\"uniqueItems\": true, \"contains\": {\"type\": \"null\"}}"],
    );
    folder.write("other.key", "{}");
    shows(&folder, "error-key", &["key", "show", "other.key"]);
}

/// Commands and options are in the shell completions and in the manual.
#[test]
fn completions_and_manual() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let run = folder.run(&["completions", shell]).succeeds();
        for word in ["generate", "completions", "json-schema", "valid-from"] {
            assert!(run.out.contains(word), "{word} is not completed in {shell}");
        }
    }
    #[cfg(unix)]
    if let Ok(bash) = std::process::Command::new("bash").arg("--version").output()
        && bash.status.success()
    {
        fs::write(folder.path("complete.bash"), folder.run(&["completions", "bash"]).out).unwrap();
        let script = "source complete.bash; COMP_WORDS=(verdigris de); COMP_CWORD=1; _verdigris verdigris de \
                      verdigris; echo \"${COMPREPLY[@]}\"";
        let run =
            std::process::Command::new("bash").args(["-c", script]).current_dir(folder.path(".")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&run.stdout).trim(), "detect demo", "{run:?}");
    }
    let page = folder.run(&["man"]);
    assert!(page.status == 0 && page.out.starts_with(".ie") && page.out.contains(".TH verdigris 1"), "{page:?}");
    let page = folder.run(&["man", "key", "new"]);
    assert!(page.out.contains(".TH verdigris-key-new 1") && page.out.contains("valid\\-from"), "{page:?}");
    folder.run(&["man", "--all", "pages"]).succeeds();
    assert_eq!(fs::read_to_string(folder.path("pages/verdigris-key-new.1")).unwrap(), page.out);
    assert!(folder.path("pages/verdigris.1").exists() && folder.path("pages/verdigris-bench-power.1").exists());
    folder.write("file", "");
    folder.run(&["man", "--all", "file"]).fails("cannot write file: ");
    folder.run(&["man", "key", "old"]).fails("there is no command \"key old\"");
}

/// `-h` of commands with many options is at most 90 lines long, and says where the other options are.
#[test]
fn short_help_is_short() {
    let folder = Folder::new();
    for command in ["generate", "batch", "serve", "detect"] {
        let [short, long] = ["-h", "--help"].map(|help| folder.run(&[command, help]).out);
        assert!(short.lines().count() <= 90, "{command}: {} lines\n{short}", short.lines().count());
        assert!(short.contains(&format!("more options are in `verdigris {command} --help`.")), "{short}");
        assert!(short.contains("--json-schema") || command == "serve", "{short}");
        assert!(long.lines().count() > short.lines().count() && !long.contains("more options are in"), "{long}");
    }
}
