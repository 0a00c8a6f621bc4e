//! Ctrl-C and `kill`: a program that they end leaves no unfinished file.

/// Removes unfinished files if a signal ends the program, and prints `hint`, or else that they were removed. Not for
/// commands that handle signals themselves.
#[cfg(unix)]
pub(crate) fn clean_up(hint: Option<String>) {
    use signal_hook::consts::{SIGINT, SIGTERM};

    // If this fails, signals have their default effect.
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else { return };
    let wait = move || {
        let Some(signal) = signals.forever().next() else { return };
        let discarded = verdigris::models::whole_file::discard_unfinished() > 0;
        let removed = discarded.then(|| "the unfinished output was removed".to_owned());
        if let Some(said) = hint.or(removed) {
            crate::terminal::say!("interrupted: {said}");
        }
        // Ends the program with the signal, as its sender expects.
        _ = signal_hook::low_level::emulate_default_handler(signal);
    };
    _ = std::thread::Builder::new().name("signals".into()).spawn(wait);
}

/// Other systems end a program without notice.
#[cfg(not(unix))]
pub(crate) fn clean_up(_hint: Option<String>) {}
