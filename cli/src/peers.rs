//! Other programs' spellings of options.

use std::ffi::OsString;

/// Options of several letters after a single hyphen, as llama.cpp has them, and our own.
const SPELLINGS: [(&str, &str); 1] = [("-ngl", "--n-gpu-layers")];

/// Replaces these spellings, up to `--`.
pub(crate) fn respell(arguments: &mut [OsString]) {
    for argument in arguments.iter_mut().take_while(|argument| *argument != "--") {
        let Some(text) = argument.to_str() else { continue };
        for (theirs, ours) in SPELLINGS {
            match text.strip_prefix(theirs) {
                Some("") => *argument = ours.into(),
                Some(rest) if rest.starts_with('=') => *argument = format!("{ours}{rest}").into(),
                _ => continue,
            }
            break;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_llama_cpp_are_respelled() {
        let respelled = |given: &[&str]| {
            let mut arguments: Vec<OsString> = given.iter().map(OsString::from).collect();
            respell(&mut arguments);
            arguments
        };
        let ours = ["verdigris", "generate", "--n-gpu-layers", "99", "--n-gpu-layers=0", "-n", "gl", "--", "-ngl"];
        assert_eq!(respelled(&["verdigris", "generate", "-ngl", "99", "-ngl=0", "-n", "gl", "--", "-ngl"]), ours);
    }
}
