//! `verdigris rank`: computes a part of a model that is split among several processes.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Args;
use verdigris::models::collective::Listener;
use verdigris::models::{Deadlines, ModelError, Split};

use crate::choice::OneOf;
use crate::error::Failure;
use crate::model::ModelOption;
use crate::ranks::{SPLITS, seconds};
use crate::run::RunOptions;
use crate::terminal::{headed, say, shown_line};

/// Compute a part of a model that is too large for one machine, for `generate --ranks`
#[derive(Args)]
#[command(after_help = "\
It prints the address that it listens at, waits for `generate --ranks`, computes its part, and ends with it: status 0 \
when that is done, 2 when a rank is gone or late. A rank 0 with another model, split or world is refused with a \
warning, and the next one is awaited. Each rank needs the files of the whole model, and reads only the \
bytes of its part.

Connections are neither encrypted nor authenticated: anyone who reaches the port can have this part computed, and \
anyone who listens to the connection can read the text. Let a rank listen to other machines only in a network that you \
trust, or through a tunnel.

Examples:
  verdigris rank --listen 127.0.0.1:7001
  verdigris generate \"The captain\" --ranks 127.0.0.1:7001")]
pub(crate) struct Rank {
    #[command(flatten)]
    model: ModelOption,
    /// An adapter of the model, the same as that of rank 0
    #[arg(long, value_name = "PATH|NAME")]
    adapter: Option<PathBuf>,
    /// The address to listen at; port 0 takes a free one. Only this machine can reach the default
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:0")]
    listen: String,
    /// How the model is split, the same as for rank 0
    #[arg(long, value_parser = OneOf(SPLITS), default_value = "tensor")]
    split: Split,
    /// The number of ranks, including rank 0 [default: that of rank 0]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    world: Option<u16>,
    /// Give up when a rank sends nothing for this long in the middle of a text
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    timeout: Duration,
    /// Give up when rank 0 has nothing to compute for this long
    #[arg(long, value_name = "SECONDS", default_value = "600", value_parser = seconds)]
    idle_timeout: Duration,
    #[command(flatten)]
    run: RunOptions,
}

impl Rank {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        // Faults of the model are reported before waiting for other ranks.
        let model = self.model.adapted(self.adapter.as_deref())?.shared()?;
        let listener = Listener::bind(&self.listen).map_err(ModelError::from)?;
        writeln!(std::io::stdout(), "listening on {}", listener.address())?;
        std::io::stdout().flush()?;
        if !self.run.quiet {
            let who = if listener.address().ip().is_loopback() { "any user of this machine" } else { "any machine" };
            let said = format_args!("connections are neither encrypted nor authenticated: {who} can connect");
            headed("warning", said);
        }
        let deadlines = Deadlines { call: self.timeout, idle: self.idle_timeout };
        let refused = |misfit| {
            let misfit = Failure::from(ModelError::from(misfit)).to_string();
            headed("warning", format_args!("{}; waiting for another", shown_line(&misfit)));
        };
        let worker = model.wait(listener, self.split, self.world.map(usize::from), deadlines, refused)?;
        if !self.run.quiet {
            say!("rank {} of {}", worker.rank(), worker.world());
        }
        worker.serve()?;
        Ok(ExitCode::SUCCESS)
    }
}
