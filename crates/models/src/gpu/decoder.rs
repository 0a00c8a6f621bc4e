//! The part of a GPU model that all its sequences share.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};

use verdigris_kernels::Format;
use verdigris_kernels::cuda::draw::Drawer;
use verdigris_kernels::cuda::{CudaError, Gpu};

use super::resident::Resident;
use super::work::Work;
use crate::cache::CacheLayout;
use crate::description::config::DecoderConfig;
use crate::description::parts::Parts;
use crate::error::ModelError;

/// A decoder-only transformer on a GPU: configuration and weights, immutable and shared.
#[derive(Debug)]
pub struct GpuDecoder {
    pub(super) resident: Resident,
    shared: Mutex<Shared>,
}

/// The memory of passes, used by one pass at a time.
pub(super) struct Shared {
    /// By the number of rows.
    pub(super) works: HashMap<usize, Work>,
    pub(super) drawer: Drawer,
}

impl Shared {
    /// Lets go of the pages of texts that earlier passes of other sizes refer to.
    pub(super) fn release_all_but(&mut self, bucket: usize) -> Result<(), CudaError> {
        let others = self.works.iter_mut().filter(|(size, _)| **size != bucket);
        others.map(|(_, work)| work).try_for_each(Work::release)
    }
}

impl fmt::Debug for Shared {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "memory for passes of {:?} rows", self.works.keys())
    }
}

impl GpuDecoder {
    /// Copies the weights to the GPU. Keys and values are stored as `format`; by default as on a CPU.
    pub(crate) fn new(
        gpu: Gpu,
        config: DecoderConfig,
        parts: &Parts,
        format: Option<Format>,
        layout: CacheLayout,
    ) -> Result<Self, ModelError> {
        let resident = Resident::new(gpu, config, parts, format, layout)?;
        let drawer = Drawer::new(&resident.gpu, resident.config.vocabulary)?;
        Ok(Self { resident, shared: Mutex::new(Shared { works: HashMap::new(), drawer }) })
    }

    /// The configuration.
    pub fn config(&self) -> &DecoderConfig {
        &self.resident.config
    }

    pub(super) fn shared(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
