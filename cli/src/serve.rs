//! `verdigris serve`: OpenAI's protocol over HTTP.

mod limits;
pub(crate) mod settings;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgGroup, Args};
use verdigris::schedule::{Capacity, rows};
use verdigris::{Key, KeyRing, Level, Request};
use verdigris_server::{ApiKeys, Drafts, Options};

use crate::error::Failure;
use crate::generate::drafts::DraftOptions;
use crate::log::LogFormat;
use crate::model::{DraftSource, EngineOptions};
use crate::number::{not_negative, seconds, some};
use crate::run::RunOptions;
use crate::serve::limits::LimitOptions;
use crate::terminal::{headed, shown_line};

/// Answer requests of OpenAI's protocol over HTTP, each answer marked
#[derive(Args)]
#[command(group = ArgGroup::new("marks").multiple(true))]
#[command(after_help = "\
Clients of OpenAI's protocol write with http://HOST:PORT/v1 as their base URL. With --key every answer is marked, \
unless its request says \"watermarking\": false; with --enforce-all that is refused. POST /detect says of a text \
whether it carries the mark.

SIGTERM, or Ctrl-C: no new requests are taken, and those that are being answered end. SIGHUP: the ring and the API keys \
are read again, and the audit log goes on in a new file where the old one was moved away.

Each option can also stand in the file of --config (max-tokens = 100), and in the environment \
(VERDIGRIS_SERVE_MAX_TOKENS=100). A flag counts more than a variable, a variable more than the file.

Examples:
  verdigris serve --key my.key
  verdigris serve --model chat.gguf --key my.key --enforce-all
  verdigris serve --model chat.gguf --host 0.0.0.0 --api-key-file keys.txt

And a request: curl localhost:8000/v1/completions -d '{\"prompt\": \"The captain\"}'")]
pub(crate) struct Serve {
    /// Mark what is written with this key
    #[arg(short, long, value_name = "FILE", group = "marks")]
    key: Option<PathBuf>,
    /// Mark with the keys of this folder: what is written for an API key with the key whose tenant is its name, or else
    /// with one of no tenant, and of several with that whose period includes today. Read again on SIGHUP
    #[arg(long, value_name = "DIR", group = "marks")]
    ring: Option<PathBuf>,
    /// Refuse requests that want no mark
    #[arg(long, requires = "marks")]
    enforce_all: bool,
    /// What becomes of texts in which a detector could not verify the mark, such as short or forced ones: allow them,
    /// with a status that says so, or refuse them
    #[arg(long, value_enum, value_name = "POLICY", default_value_t, requires = "marks")]
    unmarkable: Unmarkable,
    /// The p-value at which a detector calls a text of an answer watermarked
    #[arg(long, value_name = "P", default_value_t)]
    mark_level: Level,
    /// Let requests set the weight of the experts themselves, from 0 to this: their field "alpha"
    #[arg(long, value_name = "ALPHA", requires = "anti", value_parser = not_negative)]
    max_alpha: Option<f64>,
    /// Put every answer on record here before it ends: a line of JSON with ids and counts, without text
    #[arg(long, value_name = "FILE")]
    audit_log: Option<PathBuf>,
    /// The address to listen at; 0.0.0.0 accepts connections from other machines
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = address)]
    host: IpAddr,
    /// The port to listen at; 0 takes a free one
    #[arg(short, long, default_value_t = 8000)]
    port: u16,
    /// What requests call the model [default: the name of its file or folder]
    #[arg(long, value_name = "NAME")]
    served_model_name: Option<String>,
    /// Answer to this host too, a name without a port; may be given several times. At a loopback address only this
    /// machine's own names are answered to otherwise, at others every name
    #[arg(long, value_name = "NAME")]
    allowed_host: Vec<String>,
    /// Who may ask: a file with a line NAME KEY for each, and behind it its rights: "detect" for all that
    /// POST /detect finds, not the verdict alone, and "metrics" for GET /metrics
    #[arg(long, value_name = "FILE")]
    api_key_file: Option<PathBuf>,
    /// Let everybody ask who reaches the address
    #[arg(long)]
    allow_anyone: bool,
    /// Texts that are written at the same time; others wait
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = some::<usize>)]
    max_num_seqs: usize,
    /// The most tokens whose keys and values are held in memory, of all texts together; where they are too few,
    /// the youngest text of those that use most gives up its own and is read again later
    #[arg(long, value_name = "N", default_value_t = 65536, value_parser = some::<usize>)]
    kv_cache_tokens: usize,
    /// Let all API keys share what is kept of prompts and forms. Then each client can find out, token by token, how the
    /// prompts of the others begin
    #[arg(long)]
    share_caches: bool,
    /// The most tokens that a pass of the model reads where prompts wait [default: as many as are measured to be worth
    /// it when the server starts]
    #[arg(long, value_name = "N", value_parser = some::<usize>)]
    max_num_batched_tokens: Option<usize>,
    /// The most tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = some::<usize>)]
    max_tokens: usize,
    /// Requests that are answered or wait at the same time; one more is told to come again
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = some::<usize>)]
    max_requests: usize,
    /// The most bytes of a request
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = some::<usize>)]
    max_body: usize,
    /// How many seconds answers may take to end once the server is told to stop
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds)]
    drain: u64,
    /// Read options from a file of TOML: NAME = VALUE, by the names that they have here
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show the options that are in force, as such a file, and do nothing else
    #[arg(long)]
    print_config: bool,
    /// What the lines of the log look like: one for each request, on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    log_format: LogFormat,
    #[command(flatten)]
    run: RunOptions,
    // Groups with a heading come last: it would hold for what follows.
    #[command(flatten, next_help_heading = "Limits")]
    limits: LimitOptions,
    #[command(flatten)]
    engine: EngineOptions,
    #[command(flatten, next_help_heading = "Drafts")]
    drafts: DraftOptions,
}

/// What becomes of texts in which the mark could not be verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
enum Unmarkable {
    /// They are delivered, and their status says so
    #[default]
    Allow,
    /// They are refused with status 422; a stream ends with an error
    Refuse,
}

/// Who drafts for all texts.
struct Drafting {
    options: DraftOptions,
    drafter: Option<DraftSource>,
}

impl Drafts for Drafting {
    fn onto<'r>(&'r self, request: Request<'r>, seed: Option<u64>) -> Request<'r> {
        self.options.apply(request, self.drafter.as_ref(), seed)
    }
}

impl Serve {
    /// What its log looks like, and what is told unless `RUST_LOG` says otherwise.
    pub(crate) fn log(&self) -> (LogFormat, &'static str) {
        let told = if self.run.quiet { "warn" } else { "warn,verdigris_server=info,verdigris::serve=info" };
        (self.log_format, told)
    }

    /// Whether nothing is served, and its options are shown.
    pub(crate) fn prints_config(&self) -> bool {
        self.print_config
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let api_keys = self.api_key_file.as_deref().map(ApiKeys::load).transpose()?.unwrap_or_default();
        let key = self.key.as_deref().map(Key::load).transpose()?;
        let ring = self.ring.as_deref().map(KeyRing::load).transpose()?;
        self.drafts.check(None)?;
        let engine = self.engine.engine()?;
        let drafter = self.drafts.drafter(&self.engine)?;
        let rows = self.max_num_batched_tokens.map_or_else(|| rows::measured(engine.model()), Ok);
        let capacity = Capacity {
            texts: self.max_num_seqs,
            tokens: self.kv_cache_tokens,
            kept: self.kv_cache_tokens,
            rows: rows.map_err(verdigris::Error::Model)?,
        };
        let options = Options {
            address: SocketAddr::new(self.host, self.port),
            model: self.served_model_name.unwrap_or_else(|| self.engine.model_name()),
            api_keys,
            ring,
            audit_log: self.audit_log,
            allow_anyone: self.allow_anyone,
            allowed_hosts: self.allowed_host,
            max_alpha: self.max_alpha,
            enforce_all: self.enforce_all,
            refuses_unmarkable: self.unmarkable == Unmarkable::Refuse,
            mark_level: self.mark_level,
            max_tokens: self.max_tokens,
            capacity,
            share_caches: self.share_caches,
            max_requests: self.max_requests,
            max_body: self.max_body,
            limits: self.limits.limits(),
            drain: Duration::from_secs(self.drain),
        };
        let unmarked = key.is_none() && options.ring.is_none();
        let readable = self.api_key_file.as_deref().and_then(readable);
        let (quiet, log) = (self.run.quiet, self.log_format);
        let drafts = Box::new(Drafting { options: self.drafts, drafter });
        verdigris_server::serve(engine, key, drafts, options, |address| match log {
            LogFormat::Text if quiet => (),
            LogFormat::Text => {
                eprintln!("listening at http://{address}");
                if unmarked {
                    headed("warning", "without --key or --ring no answer is marked");
                }
                readable.into_iter().for_each(|said| headed("warning", said));
            }
            LogFormat::Json => {
                tracing::info!(%address, "listening at http://{address}");
                readable.into_iter().for_each(|said| tracing::warn!("{said}"));
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// An address of this machine; `localhost` is that of this machine alone.
fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse().map_err(|_| "it must be an IP address of this machine, 0.0.0.0 for all, or localhost".into())
}

/// Says that all may read a file of API keys, where that is so.
fn readable(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
        let path = shown_line(&path.display().to_string()).into_owned();
        (mode & 0o007 != 0).then(|| format!("{path} can be read by others (mode {mode:04o}): run `chmod 600 {path}`"))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}
