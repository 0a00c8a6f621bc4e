//! `verdigris-ballista`: runs a scheduler or an executor, or sends them a query.
#![forbid(unsafe_code)]
#![allow(missing_docs, reason = "a program has no public items")]

use std::io::{self, Write, stdout};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::thread::available_parallelism;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::arrow::util::pretty::pretty_format_batches;
use datafusion::error::DataFusionError;
use datafusion::execution::context::SQLOptions;
use futures_util::TryStreamExt;
use verdigris_ballista::{ClusterError, Executor, client, execute, register_documents, schedule};
use verdigris_datafusion::{Keys, KeysError};
use verdigris_detector::Level;

/// Query the texts of a data lake on several machines: SQL with verdigris_p, verdigris_detect and verdigris_combine
#[derive(Parser)]
#[command(
    name = "verdigris-ballista",
    version,
    term_width = 100,
    after_help = "\
Executors have the keys; scheduler and query only know their ids. Ballista accepts unencrypted connections from anyone
who can reach its ports: keep them on a private network. RUST_LOG=info logs its work.

Examples:
  verdigris-ballista scheduler
  verdigris-ballista executor --name a --ring keys/ --work /tmp/a --port 50051 --control-port 50052
  verdigris-ballista executor --name b --ring keys/ --work /tmp/b --port 50061 --control-port 50062
  verdigris-ballista query lake/ --sql \"SELECT author, verdigris_combine(text, 'my')['p'] AS p
      FROM documents GROUP BY author\""
)]
struct Options {
    #[command(subcommand)]
    part: ClusterCommand,
}

#[derive(Subcommand)]
enum ClusterCommand {
    Scheduler(SchedulerOptions),
    Executor(ExecutorOptions),
    Query(QueryOptions),
}

/// Plan queries and assign their tasks
#[derive(Args)]
struct SchedulerOptions {
    /// Address to listen on
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:50050")]
    listen: SocketAddr,
    /// Presume an executor dead after this many seconds of silence: others redo its tasks
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=3600))]
    patience: u64,
}

/// Judge texts, with the keys of this machine
#[derive(Args)]
struct ExecutorOptions {
    /// Name of this executor, unique in the cluster
    #[arg(long)]
    name: String,
    /// Host and port of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050", value_parser = host_and_port)]
    scheduler: (String, u16),
    /// IP address to listen on, by which the others reach this executor
    #[arg(long, value_name = "IP", default_value = "127.0.0.1")]
    listen: IpAddr,
    /// The port for results
    #[arg(long, value_name = "PORT", default_value_t = 50051)]
    port: u16,
    /// The port for commands from the scheduler
    #[arg(long, value_name = "PORT", default_value_t = 50052)]
    control_port: u16,
    /// A key; may be given again
    #[arg(short, long, value_name = "FILE", required_unless_present = "ring")]
    key: Vec<PathBuf>,
    /// A folder of keys (files that end in .key or .json)
    #[arg(long, value_name = "DIR")]
    ring: Option<PathBuf>,
    /// The tokenizer.json of the model that the keys are for, or its folder; may be given again [default: that of tale]
    #[arg(long, value_name = "PATH")]
    tokenizer: Vec<PathBuf>,
    /// The p-value at which a text is called marked
    #[arg(long, value_name = "P", default_value_t)]
    level: Level,
    /// Number of tasks, and of threads that judge [default: one for each core]
    #[arg(short, long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    /// Folder for intermediate results of tasks: no secrets, but see docs/lake.md
    #[arg(long, value_name = "DIR")]
    work: PathBuf,
    /// Interval between heartbeats, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = clap::value_parser!(u64).range(1..=600))]
    heartbeat: u64,
}

/// Query the table `documents`
#[derive(Args)]
struct QueryOptions {
    /// A file or folder of Parquet, which every executor can open under the same name
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// The query
    #[arg(long, value_name = "QUERY")]
    sql: String,
    /// Host and port of the scheduler
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:50050")]
    scheduler: String,
    /// Split the work into at most this many tasks
    #[arg(long, value_name = "N", default_value = "16")]
    tasks: NonZeroUsize,
    /// Print one JSON object per row
    #[arg(long)]
    json: bool,
}

#[derive(Debug, thiserror::Error)]
enum Failure {
    #[error("{0}")]
    Usage(String),
    #[error(transparent)]
    Keys(#[from] KeysError),
    #[error(transparent)]
    Cluster(#[from] ClusterError),
    #[error("cannot write the output: {0}")]
    Output(#[from] io::Error),
}

fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("off")).init();
    match run(Options::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // The reader of the output has closed it.
        Err(Failure::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::from(2)
        }
    }
}

fn run(options: Options) -> Result<(), Failure> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        match options.part {
            ClusterCommand::Scheduler(options) => {
                eprintln!("scheduler: at {}", options.listen);
                Ok(schedule(options.listen, Duration::from_secs(options.patience)).await?)
            }
            ClusterCommand::Executor(options) => executor(options).await,
            ClusterCommand::Query(options) => query(&options).await,
        }
    })
}

async fn executor(options: ExecutorOptions) -> Result<(), Failure> {
    let tasks = options.threads.or(available_parallelism().ok()).unwrap_or(NonZeroUsize::MIN);
    let started = rayon::ThreadPoolBuilder::new().num_threads(tasks.get()).build_global();
    started.map_err(|error| Failure::Usage(format!("cannot start {tasks} threads: {error}")))?;
    let keys = Keys::load(&options.key, options.ring.as_deref(), &options.tokenizer)?;
    keys.notes().iter().for_each(|note| eprintln!("note: {note}"));
    let judges = Arc::new(keys.judges(options.level)?);
    let ids: Vec<&str> = judges.ids().collect();
    let told = Executor {
        name: options.name,
        scheduler: options.scheduler,
        address: options.listen,
        port: options.port,
        control: options.control_port,
        tasks,
        folder: options.work,
        heartbeat: Duration::from_secs(options.heartbeat),
    };
    let (name, (host, port)) = (&told.name, &told.scheduler);
    let ready = || eprintln!("executor {name}: works for {host}:{port}, with the keys {}", ids.join(", "));
    Ok(execute(&told, &judges, ready).await?)
}

async fn query(options: &QueryOptions) -> Result<(), Failure> {
    let context = client(&options.scheduler, options.tasks.get()).await?;
    register_documents(&context, &options.input).await?;
    // Queries are read-only.
    let allowed = SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    let answer = context.sql_with_options(&options.sql, allowed).await.map_err(ClusterError::from)?;
    let mut rows = answer.execute_stream().await.map_err(ClusterError::from)?;
    let schema = rows.schema();
    if options.json {
        while let Some(batch) = rows.try_next().await.map_err(ClusterError::from)? {
            let mut lines = Vec::new();
            let mut writer = LineDelimitedWriter::new(&mut lines);
            let written = writer.write(&batch).and_then(|()| writer.finish());
            written.map_err(|error| ClusterError::from(DataFusionError::from(error)))?;
            stdout().write_all(&lines)?;
        }
        return Ok(());
    }
    let mut all: Vec<RecordBatch> = rows.try_collect().await.map_err(ClusterError::from)?;
    if all.is_empty() {
        all.push(RecordBatch::new_empty(schema));
    }
    let table = pretty_format_batches(&all).map_err(|error| ClusterError::from(DataFusionError::from(error)))?;
    Ok(writeln!(stdout(), "{table}")?)
}

fn host_and_port(told: &str) -> Result<(String, u16), String> {
    let (host, port) = told.rsplit_once(':').ok_or("give a host and a port, such as 127.0.0.1:50050")?;
    Ok((host.to_owned(), port.parse().map_err(|_| format!("{port:?} is not a port"))?))
}
