//! `verdigris mcp`: tools for assistants that test whether texts are marked, over the Model Context Protocol.

use std::net::SocketAddr;
use std::process::ExitCode;

use clap::Args;
use verdigris::detector::FittingKeys;
use verdigris::{Level, MAX_TEXT};
use verdigris_mcp::{Detector, Http};

use crate::error::Failure;
use crate::key::KeysOption;
use crate::model::ModelOption;
use crate::number::some;

/// The default of --max-text.
const TEXT: usize = 1 << 20;

/// Give assistants tools that test whether texts are marked, over the Model Context Protocol
#[derive(Args)]
#[command(after_help = "\
The tools are detect (is a text marked?), identify (by which key?) and mark_status (can a detector verify the mark of a \
text?). A client names keys by their ids, and never gets them. Without --http the program serves one client over \
standard input and output, as assistants start it.

Examples:
  verdigris mcp --key my.key
  verdigris mcp --ring keys/ --model chat.gguf
  verdigris mcp --key my.key --http 127.0.0.1:8010")]
pub(crate) struct Mcp {
    #[command(flatten)]
    keys: KeysOption,
    #[command(flatten)]
    model: ModelOption,
    /// The p-value at or below which a text is called marked
    #[arg(long, value_name = "P", default_value_t)]
    level: Level,
    /// The most bytes of a text, at most 16 MiB
    #[arg(long, value_name = "BYTES", default_value_t = TEXT, value_parser = some::<usize>)]
    max_text: usize,
    /// Serve over HTTP at this address, such as 127.0.0.1:8010, at the path /mcp
    #[arg(long, value_name = "ADDRESS")]
    http: Option<SocketAddr>,
    /// With --http: also answer to this host name; may be given several times. At a loopback address only this
    /// machine's own names are accepted by default, at other addresses every name
    #[arg(long, value_name = "NAME", requires = "http")]
    allowed_host: Vec<String>,
    /// With --http: answer all clients that can reach the address
    #[arg(long, requires = "http")]
    allow_anyone: bool,
}

impl Mcp {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.max_text > MAX_TEXT {
            let message = format!("--max-text is {}, but may be up to {MAX_TEXT}: give fewer bytes", self.max_text);
            return Err(Failure::Usage(message));
        }
        let keys = self.keys.load()?;
        let reader = self.model.reader()?;
        let FittingKeys { keys, .. } = crate::key::fitting(keys, &reader)?;
        let detector = Detector::new(reader, keys, self.level, self.max_text)?;
        match self.http {
            None => verdigris_mcp::serve_stdio(detector)?,
            Some(address) => {
                let (allowed_hosts, allow_anyone) = (self.allowed_host, self.allow_anyone);
                let http = Http { address, allowed_hosts, allow_anyone };
                verdigris_mcp::serve_http(detector, http, |address| eprintln!("listening at http://{address}/mcp"))?;
            }
        }
        Ok(ExitCode::SUCCESS)
    }
}
