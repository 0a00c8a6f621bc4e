//! `verdigris serve`: serves the protocols of OpenAI, Anthropic and Ollama over HTTP.

mod ledger;
mod limits;
mod manifests;
mod models;
mod probe;
pub(crate) mod settings;
pub(crate) mod unblocked_log;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
#[cfg(unix)]
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use clap::{ArgGroup, Args};
use verdigris::detector::report::{DetectorUrl, ReportKey, Reporter};
use verdigris::schedule::Capacity;
use verdigris::{Key, KeyRing, Level};
use verdigris_server::{ApiKeys, Options, Origin, PrefixStoreOptions};

use crate::engine::EngineSettings;
use crate::error::Failure;
use crate::generate::drafts::DraftOptions;
use crate::log::LogFormat;
use crate::number::{not_negative, seconds, some};
use crate::run::RunOptions;
use crate::serve::ledger::LedgerOptions;
use crate::serve::limits::LimitOptions;
use crate::serve::manifests::ServeManifestOptions;
use crate::serve::models::ServedModelOptions;
use crate::signer::Signer;
use crate::terminal::headed;

/// Answer requests of OpenAI's, Anthropic's and Ollama's protocols over HTTP, each answer marked
#[derive(Args)]
#[command(group = ArgGroup::new("marks").multiple(true))]
#[command(after_help = "\
Clients of OpenAI's protocol use http://HOST:PORT/v1 as their base URL, those of Anthropic's and Ollama's protocols \
http://HOST:PORT. With --key every answer is marked, unless its \
request says \"watermarking\": false; with --enforce-all such requests are refused. POST /detect judges whether a text \
carries the mark.

SIGTERM or Ctrl-C: new requests are refused, and running ones are completed. SIGHUP: the ring and the API keys are \
read again, and the audit log continues in a new file if the old one was moved away.

Each option can also be set in the file of --config (max-tokens = 100), and in the environment \
(VERDIGRIS_SERVE_MAX_TOKENS=100). A flag overrides a variable, and a variable overrides the file.

Examples:
  verdigris serve --key my.key
  verdigris serve --model chat.gguf --key my.key --enforce-all
  verdigris serve --model chat.gguf --host 0.0.0.0 --api-key-file keys.txt
  verdigris serve --model chat=chat.gguf --model code=coder.gguf --key my.key

A request: curl localhost:8000/v1/completions -d '{\"prompt\": \"The captain\"}'")]
pub(crate) struct Serve {
    /// Mark answers with this key
    #[arg(short, long, value_name = "FILE", group = "marks")]
    pub(crate) key: Option<PathBuf>,
    /// Mark with the keys of this folder: for each API key the one whose tenant has its name, or else one without a
    /// tenant, and of several the one whose period includes today. Read again on SIGHUP
    #[arg(long, value_name = "DIR", group = "marks")]
    pub(crate) ring: Option<PathBuf>,
    /// Refuse requests for unmarked answers
    #[arg(long, requires = "marks")]
    pub(crate) enforce_all: bool,
    /// The policy for texts in which a detector could not verify the mark, such as short or forced ones: allow them,
    /// with a status that says so, or refuse them
    #[arg(long, value_enum, value_name = "POLICY", default_value_t, requires = "marks")]
    pub(crate) unmarkable: Unmarkable,
    /// The p-value at which a detector calls a text of an answer watermarked
    #[arg(long, value_name = "P", default_value_t)]
    mark_level: Level,
    /// Let requests set the weight of the experts in their field "alpha", from 0 to this
    #[arg(long, value_name = "ALPHA", requires = "anti", value_parser = not_negative)]
    max_alpha: Option<f64>,
    /// Log every answer to this file before it ends: a line of JSON with ids and counts, without text
    #[arg(long, value_name = "FILE")]
    pub(crate) audit_log: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) ledger: LedgerOptions,
    /// The policy for marks and C2PA manifests in the messages and prompts of requests: ignore them, or look for them
    /// and report them in answers and in the audit log
    #[arg(long, value_enum, value_name = "POLICY", default_value_t)]
    pub(crate) input_marks: InputMarks,
    /// Sign reports on detection for requests that want one, with this private key: `verdigris key report` makes one.
    /// The public key is at /.well-known/jwks.json
    #[arg(long, value_name = "FILE")]
    pub(crate) report_key: Option<PathBuf>,
    /// The public address of POST /detect, which reports name
    #[arg(long, value_name = "URL", requires = "report_key")]
    pub(crate) report_url: Option<DetectorUrl>,
    /// The address to listen at; 0.0.0.0 accepts connections from other machines
    #[arg(long, value_name = "IP", default_value_t = IpAddr::V4(Ipv4Addr::LOCALHOST), value_parser = address)]
    pub(crate) host: IpAddr,
    /// The port to listen at; 0 takes a free one
    #[arg(short, long, default_value_t = 8000)]
    port: u16,
    /// Also accept this host name, without a port; may be given several times. At a loopback address only this
    /// machine's own names are accepted by default, at other addresses every name
    #[arg(long, value_name = "NAME")]
    allowed_host: Vec<String>,
    /// Let pages of this origin use the server from a browser, such as https://app.example; may be given several times.
    /// Requests from pages of all other sites are refused
    #[arg(long, value_name = "ORIGIN")]
    cors: Vec<Origin>,
    /// Refuse requests with unknown fields. By default they are ignored, and reported in the header x-ignored-fields
    /// and in the log
    #[arg(long)]
    strict: bool,
    /// The API keys: a file with a line NAME KEY for each, followed by its rights: "detect" for all results of
    /// POST /detect, not only the verdict, and "metrics" for GET /metrics
    #[arg(long, value_name = "FILE")]
    pub(crate) api_key_file: Option<PathBuf>,
    /// Answer everyone who can reach the address
    #[arg(long)]
    pub(crate) allow_anyone: bool,
    /// The most texts that are written at the same time; others wait
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = some::<usize>)]
    max_num_seqs: usize,
    /// The most tokens in the KV cache, of all texts together; if they are too few, the youngest text of the tenant and
    /// request that use most is evicted and read again later
    #[arg(short = 'c', long, alias = "ctx-size", value_name = "N", default_value_t = 65536, value_parser = some::<usize>)]
    kv_cache_tokens: usize,
    /// Let all API keys share the caches of prompts and constraints. Each client can then find out, token by token, how
    /// the prompts of others begin
    #[arg(long)]
    share_caches: bool,
    /// Keep what the model computed from the system messages of chats, and from what prompts have in common, in files
    /// in this folder, so that a restarted server need not read them again. Servers can share a folder
    #[arg(long, value_name = "DIR")]
    prefix_store: Option<PathBuf>,
    /// With --prefix-store: the most bytes of its files; those not used for longest are removed
    #[arg(long, value_name = "BYTES", default_value_t = 8 << 30, value_parser = some::<u64>)]
    prefix_store_bytes: u64,
    /// The most tokens that a pass of the model reads while prompts wait [default: the best number, measured when the
    /// server starts]
    #[arg(long, value_name = "N", value_parser = some::<usize>)]
    max_num_batched_tokens: Option<usize>,
    /// The most tokens of an answer
    #[arg(long, value_name = "N", default_value_t = 4096, value_parser = some::<usize>)]
    max_tokens: usize,
    /// The most requests that are answered or wait at the same time; clients of others are asked to retry
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = some::<usize>)]
    max_requests: usize,
    /// The most bytes of a request
    #[arg(long, value_name = "BYTES", default_value_t = 4 << 20, value_parser = some::<usize>)]
    max_body: usize,
    /// The seconds that answers may take to end when the server stops
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = seconds)]
    drain: u64,
    /// Read options from a TOML file: NAME = VALUE, with the names of the options
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print the effective options as such a file, and exit
    #[arg(long)]
    print_config: bool,
    /// Ask the server that listens at --host and --port whether it is healthy, and exit: status 0 if it is, 1 if not
    #[arg(long)]
    probe: bool,
    /// The format of the log, which has a line for each request, on standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    log_format: LogFormat,
    #[command(flatten)]
    run: RunOptions,
    // Groups with a heading come last, because a heading applies to all options after it.
    #[command(flatten, next_help_heading = "C2PA")]
    pub(crate) manifests: ServeManifestOptions,
    #[command(flatten, next_help_heading = "Limits")]
    limits: LimitOptions,
    #[command(flatten)]
    pub(crate) models: ServedModelOptions,
    #[command(flatten)]
    engine: EngineSettings,
    #[command(flatten, next_help_heading = "Drafts")]
    drafts: DraftOptions,
}

/// The policy for texts in which the mark could not be verified.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Unmarkable {
    /// They are delivered, and their status says so
    #[default]
    Allow,
    /// They are refused with status 422; a stream ends with an error
    Refuse,
}

/// The policy for marks in the messages and prompts of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum InputMarks {
    /// They are not looked for
    #[default]
    Off,
    /// Answers and the audit log report them, for the last messages within a limit
    Report,
}

impl Serve {
    /// The format of the log, and its filter if `RUST_LOG` is not set.
    pub(crate) fn log(&self) -> (LogFormat, &'static str) {
        let told = if self.run.quiet { "warn" } else { "warn,verdigris_server=info,verdigris::serve=info" };
        (self.log_format, told)
    }

    /// Whether to print the options instead of serving.
    pub(crate) fn prints_config(&self) -> bool {
        self.print_config
    }

    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        if self.probe {
            return Ok(probe::run(SocketAddr::new(self.host, self.port)));
        }
        self.run.begin()?;
        // A reload that is asked for while the models are loaded must not end the program.
        #[cfg(unix)]
        let is_hung_up = Arc::new(AtomicBool::new(false));
        #[cfg(unix)]
        let _ = signal_hook::flag::register(signal_hook::consts::SIGHUP, is_hung_up.clone());
        let api_keys = self.api_key_file.as_deref().map(ApiKeys::load).transpose()?.unwrap_or_default();
        let key = self.key.as_deref().map(Key::load).transpose()?;
        let ring = self.ring.as_deref().map(KeyRing::load).transpose()?;
        let report_key = self.report_key.as_deref().map(ReportKey::load).transpose()?;
        let ledger = self.ledger.open()?;
        self.drafts.check_for_requests()?;
        let signer = self.manifests.signer()?;
        let unstamped = signer.as_ref().and_then(Signer::warning);
        if !self.run.quiet {
            self.engine.warn();
        }
        let models = self.models.load(self.engine, self.drafts, self.max_num_batched_tokens)?;
        let capacity = Capacity {
            texts: self.max_num_seqs,
            tokens: self.kv_cache_tokens,
            kept: self.kv_cache_tokens,
            rows: Capacity::ROWS,
        };
        let options = Options {
            address: SocketAddr::new(self.host, self.port),
            api_keys,
            ring,
            audit_log: self.audit_log,
            ledger,
            allow_anyone: self.allow_anyone,
            allowed_hosts: self.allowed_host,
            cors: self.cors,
            strict: self.strict,
            max_alpha: self.max_alpha,
            enforce_all: self.enforce_all,
            refuses_unmarkable: self.unmarkable == Unmarkable::Refuse,
            mark_level: self.mark_level,
            reports_input_marks: self.input_marks == InputMarks::Report,
            reporter: report_key.map(|key| Reporter::new(key, self.report_url)),
            signer: signer.map(|signer| Arc::new(signer) as Arc<dyn verdigris_server::Signer>),
            requires_manifests: self.manifests.c2pa_require,
            max_tokens: self.max_tokens,
            capacity,
            share_caches: self.share_caches,
            prefix_store: self.prefix_store.map(|folder| {
                let bytes = self.prefix_store_bytes;
                PrefixStoreOptions { folder, bytes }
            }),
            max_requests: self.max_requests,
            max_body: self.max_body,
            limits: self.limits.limits(),
            drain: Duration::from_secs(self.drain),
        };
        let unmarked = key.is_none() && options.ring.is_none();
        let readable = self.api_key_file.as_deref().and_then(readable);
        let (quiet, log) = (self.run.quiet, self.log_format);
        verdigris_server::serve(models, key, options, |address| {
            match log {
                LogFormat::Text if quiet => (),
                LogFormat::Text => {
                    eprintln!("listening at http://{address}");
                    if unmarked {
                        headed("warning", "without --key or --ring no answer is marked");
                    }
                    unstamped.into_iter().for_each(|said| headed("warning", said));
                    readable.into_iter().for_each(|said| headed("warning", said));
                }
                LogFormat::Json => {
                    tracing::info!(%address, "listening at http://{address}");
                    unstamped.into_iter().for_each(|said| tracing::warn!("{said}"));
                    readable.into_iter().for_each(|said| tracing::warn!("{said}"));
                }
            }
            // Now it is heard by the server.
            #[cfg(unix)]
            if is_hung_up.load(Ordering::Relaxed) {
                let _ = signal_hook::low_level::raise(signal_hook::consts::SIGHUP);
            }
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Parses an address of this machine; `localhost` is the loopback address.
fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse().map_err(|_| "it must be an IP address of this machine, 0.0.0.0 for all, or localhost".into())
}

/// A warning if other users can read a file of API keys.
fn readable(path: &Path) -> Option<String> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        let mode = std::fs::metadata(path).ok()?.permissions().mode() & 0o777;
        let path = crate::terminal::shown_line(&path.display().to_string()).into_owned();
        (mode & 0o007 != 0).then(|| format!("{path} can be read by others (mode {mode:04o}): run `chmod 600 {path}`"))
    }
    #[cfg(not(unix))]
    {
        let _ = path;
        None
    }
}
