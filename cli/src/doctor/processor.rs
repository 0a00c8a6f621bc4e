//! The processor, and which of its units compute.

use serde::Serialize;
use verdigris::models::machine::{self, Unit, UnitState};

use crate::doctor::finding::Finding;

#[derive(Serialize)]
pub(super) struct Processor {
    name: Option<String>,
    architecture: &'static str,
    /// The number of threads that this process may run at once.
    cores: usize,
    /// The number of threads that compute.
    threads: usize,
    units: Vec<FoundUnit>,
}

#[derive(Serialize)]
struct FoundUnit {
    name: &'static str,
    state: &'static str,
}

impl Processor {
    pub(super) fn of_this_machine() -> Self {
        let units = machine::units().into_iter().map(|Unit { name, state }| {
            let state = match state {
                UnitState::Used => "used",
                UnitState::Wider => "wider used",
                UnitState::NotPermitted => "not permitted",
                UnitState::Absent => "absent",
            };
            FoundUnit { name, state }
        });
        Self {
            name: machine::processor(),
            architecture: std::env::consts::ARCH,
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get()),
            threads: rayon::current_num_threads(),
            units: units.collect(),
        }
    }

    pub(super) fn findings(&self) -> [Finding; 2] {
        let name = self.name.as_deref().unwrap_or(self.architecture);
        let cores = match self.cores {
            1 => "1 core".into(),
            cores => format!("{cores} cores"),
        };
        let processor = match self.threads < self.cores {
            false => Finding::fine("processor", format!("{name}, {cores}")),
            true => Finding::better(
                "processor",
                format!("{name}, {cores}, of which {} compute", self.threads),
                format!("verdigris COMMAND --threads {}", self.cores),
            ),
        };
        [processor, self.units()]
    }

    fn units(&self) -> Finding {
        let of = |wanted: &str| {
            let names: Vec<&str> =
                self.units.iter().filter(|unit| unit.state == wanted).map(|unit| unit.name).collect();
            names.join(", ")
        };
        let used = match of("used") {
            none if none.is_empty() => {
                "no SIMD unit that the kernels support: portable code, which is several times slower".into()
            }
            used => used,
        };
        match of("not permitted") {
            all if all.is_empty() => Finding::fine("computes on", used),
            not => Finding::better(
                "computes on",
                format!("{used}; the system does not let this process use {not}"),
                "ask the operator of this container or machine for Linux 5.16 or newer with arch_prctl allowed",
            ),
        }
    }
}
