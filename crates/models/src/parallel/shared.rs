//! A model before it is split across ranks.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use verdigris_collective::{Collective, CollectiveError, Deadlines, Listener, Tcp};

use super::leader::Leader;
use super::worker::Worker;
use crate::cpu::CpuDecoder;
use crate::description::adapter::update::Update;
use crate::description::matrix::Matrix;
use crate::description::share::{BadSplit, Split};
use crate::description::weight::Weight;
use crate::error::ModelError;

/// The bytes of each matrix that go into the fingerprint.
const SAMPLE: usize = 64;

/// Other processes that compute a model together with this one, which is rank 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ranks {
    /// The addresses that ranks 1 and above [listen](Listener) on: `host:port`.
    pub addresses: Vec<String>,
    /// The way the model is split.
    pub split: Split,
    /// The time limits for waiting on each other.
    pub deadlines: Deadlines,
}

/// A whole model before each rank takes its part. It is not in memory yet: a rank reads only the bytes of its part.
#[derive(Debug)]
pub struct SharedModel {
    whole: CpuDecoder,
}

impl SharedModel {
    pub(crate) fn new(whole: CpuDecoder) -> Self {
        Self { whole }
    }

    /// Checks that the model can be split like this.
    ///
    /// # Errors
    /// The reason why it cannot.
    pub fn check(&self, split: Split, world: usize) -> Result<(), BadSplit> {
        self.whole.check_split(split, world)
    }

    /// The values that all ranks must agree on, by name.
    pub fn terms(&self, split: Split) -> [(&'static str, String); 2] {
        [("split", split.to_string()), ("model", self.fingerprint())]
    }

    /// A digest of the model: its configuration, the format of keys and values and, for each matrix (including an
    /// adapter's), the shape, the format and the first bytes. Models that were trained differently differ there, and
    /// nothing more is read.
    fn fingerprint(&self) -> String {
        let CpuDecoder { config, parts, cache_format, .. } = &self.whole;
        // Another version of the program may compute different rows from the same weights.
        let said = format!("{} {config:?} {cache_format:?}", env!("CARGO_PKG_VERSION"));
        let mut digest = Sha256::new_with_prefix(said);
        let layers = parts.layers.iter().flat_map(|layer| layer.matrices());
        let weights = [&parts.embedding, &parts.output].into_iter().chain(layers);
        for matrix in weights.flat_map(matrices) {
            let bytes = matrix.bytes();
            digest.update(format!("{:?} {} {}", matrix.format(), matrix.columns(), bytes.len()));
            digest.update(&bytes[..bytes.len().min(SAMPLE)]);
        }
        digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// Connects to the other ranks as rank 0.
    ///
    /// # Errors
    /// [`ModelError::Split`] if the model cannot be split like this, and [`ModelError::Ranks`] if a rank cannot be
    /// reached or does not fit.
    pub fn connect(self, ranks: &Ranks) -> Result<Arc<Leader>, ModelError> {
        let Ranks { addresses, split, deadlines } = ranks;
        self.check(*split, addresses.len() + 1)?;
        let tcp = Tcp::lead(addresses, &self.terms(*split), *deadlines)?;
        self.lead(*split, Box::new(tcp))
    }

    /// Waits for rank 0, and takes the rank that it assigns. Rank 0 must want this split and, if given, `world` ranks;
    /// `refused` is called with the error of each connection that does not.
    ///
    /// # Errors
    /// The same as [`SharedModel::connect`].
    pub fn wait(
        self,
        listener: Listener,
        split: Split,
        world: Option<usize>,
        deadlines: Deadlines,
        refused: impl FnMut(CollectiveError),
    ) -> Result<Worker, ModelError> {
        let tcp = listener.follow(world, &self.terms(split), deadlines, refused)?;
        self.follow(split, Box::new(tcp))
    }

    /// Becomes rank 0 of ranks that are already connected.
    ///
    /// # Errors
    /// [`ModelError::Split`] if the model cannot be split like this.
    ///
    /// # Panics
    /// If `collective` has another rank.
    pub fn lead(self, split: Split, collective: Box<dyn Collective>) -> Result<Arc<Leader>, ModelError> {
        assert_eq!(collective.rank(), 0, "rank 0 leads");
        self.check(split, collective.world())?;
        Ok(Arc::new(Leader::new(self.whole.part(split, 0, collective.world()), split, collective)))
    }

    /// Becomes a worker among ranks that are already connected.
    ///
    /// # Errors
    /// [`ModelError::Split`] if the model cannot be split like this.
    ///
    /// # Panics
    /// If `collective` has rank 0.
    pub fn follow(self, split: Split, collective: Box<dyn Collective>) -> Result<Worker, ModelError> {
        assert_ne!(collective.rank(), 0, "rank 0 leads");
        self.check(split, collective.world())?;
        let part = self.whole.part(split, collective.rank(), collective.world());
        Ok(Worker::new(part, split, collective))
    }
}

/// A matrix, and the matrices of its adapter.
fn matrices(weight: &Weight) -> impl Iterator<Item = &Matrix> {
    let learned = weight.update().map(Update::matrices).into_iter().flatten();
    learned.chain([weight.matrix()])
}
