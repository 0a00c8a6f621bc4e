//! `verdigris doctor`: checks this machine.

mod build;
mod finding;
mod gpu;
#[cfg(feature = "hub")]
mod hub;
pub(crate) mod keys;
mod page;
mod processor;
mod shell;
mod speed;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Args;
use serde::Serialize;

use crate::doctor::build::Build;
use crate::doctor::finding::Finding;
use crate::doctor::gpu::Gpus;
use crate::doctor::keys::KeyFile;
use crate::doctor::processor::Processor;
use crate::doctor::speed::{Expected, MemorySpeed, Tale};
use crate::error::Failure;
use crate::key::today;
use crate::report::print_json;
use crate::run::RunOptions;

/// Check this machine: what it has, what speed to expect, and what to fix
#[derive(Args)]
#[command(after_help = "\
It reads memory for a third of a second, writes a short text with the built-in model, and sends a request to the hub. \
The speed of a model is limited by how fast its weights are read, since each token needs all of them.

Exit status: 0, or 2 if something does not work.

Examples:
  verdigris doctor
  verdigris doctor --offline
  verdigris doctor --ring keys/
  verdigris doctor --json")]
pub(crate) struct Doctor {
    /// Do not use the network
    #[arg(long)]
    offline: bool,
    /// Check the keys in this folder [default: the current one, and keys/]
    #[arg(long, value_name = "DIR")]
    ring: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    run: RunOptions,
}

/// All results.
#[derive(Serialize)]
struct Report {
    format: &'static str,
    /// Whether something does not work.
    broken: bool,
    findings: Vec<Finding>,
    program: Build,
    processor: Processor,
    memory: Option<MemorySpeed>,
    tale: Tale,
    expected: Vec<Expected>,
    gpu: Gpus,
    #[cfg(feature = "hub")]
    cache: hub::Cache,
    #[cfg(feature = "hub")]
    hub: hub::Hub,
    keys: Vec<KeyFile>,
}

impl Doctor {
    pub(crate) fn run(self) -> Result<ExitCode, Failure> {
        self.run.begin()?;
        let report = self.report()?;
        match self.json {
            true => _ = print_json(&report)?,
            false => page::print(&mut anstream::stdout(), &report.findings, report.memory.as_ref())?,
        }
        Ok(ExitCode::from(if report.broken { 2 } else { 0 }))
    }

    fn report(&self) -> Result<Report, Failure> {
        let open = |source| {
            let path = self.ring.clone().unwrap_or_default();
            Failure::Open { path, source }
        };
        let keys = keys::found(self.ring.as_deref()).map_err(open)?;
        let (program, processor, gpu) =
            (Build::of_this_program(), Processor::of_this_machine(), Gpus::of_this_machine());
        #[cfg(feature = "hub")]
        let (cache, hub) = {
            let access = verdigris::models::hub::Access::from_env();
            (hub::Cache::of(&access), hub::Hub::of(&access, self.offline))
        };
        // Last, so that nothing else runs while speed is measured.
        let (memory, tale) = (MemorySpeed::measured(), Tale::measured()?);
        let mut findings = vec![program.finding()];
        findings.extend(processor.findings());
        findings.push(match &memory {
            Some(memory) => memory.finding(),
            None => Finding::better("memory", "too little of it is free to measure it", "free -h"),
        });
        findings.extend([tale.finding(), gpu.finding()]);
        #[cfg(feature = "hub")]
        findings.extend([cache.finding(), hub.finding()]);
        findings.extend(keys::findings(&keys, self.ring.as_deref(), today()));
        Ok(Report {
            format: "verdigris-doctor-1",
            broken: findings.iter().any(Finding::is_fault),
            expected: memory.as_ref().map_or(Vec::new(), MemorySpeed::expected),
            findings,
            program,
            processor,
            memory,
            tale,
            gpu,
            #[cfg(feature = "hub")]
            cache,
            #[cfg(feature = "hub")]
            hub,
            keys,
        })
    }
}
