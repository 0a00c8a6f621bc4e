//! Ctrl-C and `kill`: a program that they end leaves no file that is not whole.

/// Removes what is not whole yet where a signal ends the program, and says so, or says this instead. Not for commands
/// that end by themselves on signals.
#[cfg(unix)]
pub(crate) fn clean_up(hint: Option<String>) {
    use signal_hook::consts::{SIGINT, SIGTERM};

    // Without it the signals do what they do to any program.
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGINT, SIGTERM]) else { return };
    let wait = move || {
        let Some(signal) = signals.forever().next() else { return };
        let discarded = verdigris::models::whole_file::discard_unfinished() > 0;
        let removed = discarded.then(|| "the unfinished output is removed".to_owned());
        if let Some(said) = hint.or(removed) {
            crate::terminal::say!("interrupted: {said}");
        }
        // Ends the program with the signal, as its sender expects.
        _ = signal_hook::low_level::emulate_default_handler(signal);
    };
    _ = std::thread::Builder::new().name("signals".into()).spawn(wait);
}

/// Other systems end a program without asking it.
#[cfg(not(unix))]
pub(crate) fn clean_up(_hint: Option<String>) {}
