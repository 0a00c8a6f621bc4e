//! `verdigris rank`: a part of a model that several processes compute together.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use verdigris::models::collective::Listener;
use verdigris::models::{Deadlines, ModelError};

use crate::error::Failure;
use crate::model::ModelOption;
use crate::ranks::{Split, seconds};
use crate::run::RunOptions;
use crate::terminal::{headed, say, shown_line};

/// Compute a part of a model that is too large for one machine, for a `generate --ranks`
#[derive(Args)]
#[command(after_help = "\
It prints where it listens, waits for a `generate --ranks`, does its part, and ends with it: status 0 when that is \
done, 2 when a rank is gone or late. A rank 0 of another model, split or world is refused, with a warning, and the \
next one is waited for. Each rank needs the files of the whole model, and reads those \
bytes that it has a part in.

Connections are neither encrypted nor authenticated: whoever reaches the port can have this part computed, and whoever \
listens to the connection reads the text. Let a rank listen to other machines only in a network that you trust, or \
through a tunnel.

Examples:
  verdigris rank --listen 127.0.0.1:7001
  verdigris generate \"The captain\" --ranks 127.0.0.1:7001")]
pub(crate) struct Rank {
    #[command(flatten)]
    model: ModelOption,
    /// An adapter of the model, as rank 0 has it too
    #[arg(long, value_name = "PATH|NAME")]
    adapter: Option<PathBuf>,
    /// Where to wait for the other ranks; port 0 is one that is free. Only this machine can reach the default
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// How the model is shared out: as rank 0 says it too
    #[arg(long, value_enum, default_value = "tensor")]
    split: Split,
    /// How many ranks there are, rank 0 included [default: as many as rank 0 says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    world: Option<u16>,
    /// Give up when a rank says nothing for so long in the midst of a text
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    timeout: Duration,
    /// Give up when rank 0 has nothing to compute for so long
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    idle_timeout: Duration,
    #[command(flatten)]
    run: RunOptions,
}

impl Rank {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        // What is wrong with the model is told before anybody waits for it.
        let model = self.model.adapted(self.adapter.as_deref())?.shared()?;
        let listener = Listener::bind(&self.listen).map_err(ModelError::from)?;
        writeln!(std::io::stdout(), "listening on {}", listener.address())?;
        std::io::stdout().flush()?;
        if !self.run.quiet {
            let who = if listener.address().ip().is_loopback() { "who is on this machine" } else { "any machine" };
            let said = format_args!("connections are neither encrypted nor authenticated: {who} can connect");
            headed("warning", said);
        }
        let deadlines = Deadlines { call: self.timeout, idle: self.idle_timeout };
        let refused = |misfit| {
            let misfit = Failure::from(ModelError::from(misfit)).to_string();
            headed("warning", format_args!("{}; waiting for another", shown_line(&misfit)));
        };
        let worker = model.wait(listener, self.split.into(), self.world.map(usize::from), deadlines, refused)?;
        if !self.run.quiet {
            say!("rank {} of {}", worker.rank(), worker.world());
        }
        worker.serve()?;
        Ok(ExitCode::SUCCESS)
    }
}
