//! The memory of passes of a given size, and their recorded graphs.

use std::collections::HashMap;

use verdigris_kernels::cuda::activations::Activations;
use verdigris_kernels::cuda::attention::{RECORDED, Splits};
use verdigris_kernels::cuda::inputs::{Bounds, Inputs};
use verdigris_kernels::cuda::{Buffer, CudaError, Graph};

use super::resident::Resident;
use crate::description::config::{Attention, DecoderConfig, Dense};
use crate::slices::CHUNK;

/// The sizes of passes, in rows, below the largest. A pass is padded to the next size.
const BUCKETS: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];

/// The size of a pass for `rows` rows.
pub(super) fn bucket(rows: usize) -> usize {
    BUCKETS.into_iter().find(|&bucket| rows <= bucket).unwrap_or(CHUNK)
}

/// The number of rows that the output matrix is multiplied with if a recorded pass has `wanted` wanted rows.
pub(super) fn outputs(wanted: usize) -> usize {
    if wanted == 0 { 0 } else { bucket(wanted) }
}

/// Whether passes of this size are recorded as graphs.
pub(super) fn is_recorded(bucket: usize) -> bool {
    bucket <= RECORDED
}

/// The memory of passes of one size.
pub(super) struct Work {
    pub(super) rows: Inputs,
    pub(super) buffers: Buffers,
    /// By the most pages that a sequence may have.
    spans: HashMap<usize, Span>,
}

/// The values of each row.
pub(super) struct Buffers {
    /// The residual stream.
    pub(super) h: Buffer,
    /// The input of a part of a layer.
    pub(super) x: Activations,
    pub(super) query: Buffer,
    pub(super) key: Buffer,
    pub(super) value: Buffer,
    /// The output of attention.
    pub(super) mixed: Activations,
    /// The products of the feed-forward part, unless they are activated at once.
    pub(super) gate: Buffer,
    pub(super) up: Buffer,
    /// The input of its last matrix.
    pub(super) hidden: Activations,
    pub(super) y: Buffer,
    /// The input of the output matrix.
    pub(super) last: Activations,
    /// The logits of the wanted rows.
    pub(super) logits: Buffer,
}

/// The memory that depends on the length of sequences.
pub(super) struct Span {
    pub(super) splits: Splits,
    /// Passes that were run, by their number of output rows. Each runs once before it is recorded, because it may load
    /// a kernel, which cannot happen while recording.
    pub(super) done: HashMap<usize, Option<Graph>>,
}

/// The shape of all layers, as was checked.
fn alike(config: &DecoderConfig) -> (&Attention, &Dense) {
    config.alike().expect("layers that are alike")
}

impl Work {
    pub(super) fn new(resident: &Resident, bucket: usize) -> Result<Self, CudaError> {
        let Resident { gpu, config, layout, .. } = resident;
        let DecoderConfig { width, vocabulary, context, .. } = *config;
        let (&Attention { heads, kv_heads, head_dim, .. }, network) = alike(config);
        let bounds = Bounds {
            rows: bucket,
            pages: bucket * context.div_ceil(layout.tokens),
            group: heads / kv_heads,
            vocabulary,
            angles: resident.rotary.last().map_or(0, |rotary| rotary.angles + rotary.pairs),
        };
        let hidden = network.width;
        let rows = |numbers: usize| gpu.zeroed(bucket * numbers * 4);
        let activations = |columns| Activations::new(gpu, bucket, columns, resident.kinds, resident.precision);
        let buffers = Buffers {
            h: rows(width)?,
            x: activations(width)?,
            query: rows(heads * head_dim)?,
            key: rows(kv_heads * head_dim)?,
            value: rows(kv_heads * head_dim)?,
            mixed: activations(heads * head_dim)?,
            gate: rows(hidden)?,
            up: rows(hidden)?,
            hidden: activations(hidden)?,
            y: rows(width)?,
            last: activations(width)?,
            logits: if is_recorded(bucket) { rows(vocabulary)? } else { gpu.allocate(0)? },
        };
        Ok(Self { rows: Inputs::new(gpu, *layout, bounds)?, buffers, spans: HashMap::new() })
    }

    /// Lets go of the pages that the rows of the last pass refer to.
    pub(super) fn release(&mut self) -> Result<(), CudaError> {
        self.rows.release()
    }

    /// The memory for a pass of the rows that are set. Spans are powers of two, which the pages of no sequence exceed.
    pub(super) fn for_these_rows(&mut self, resident: &Resident) -> Result<(&Inputs, &Buffers, &mut Span), CudaError> {
        let pages = self.rows.longest().next_power_of_two().max(4);
        let (tokens, rows) = (pages * resident.layout.tokens, self.rows.capacity());
        if !self.spans.contains_key(&pages) {
            // Graphs use the addresses of theirs; all others share the memory of the longest.
            let shared = match is_recorded(rows) {
                true => None,
                false => self.spans.values().find_map(|span| span.splits.within(tokens)),
            };
            let splits = match shared {
                Some(splits) => splits,
                None => {
                    if !is_recorded(rows) {
                        self.spans.clear();
                    }
                    let (&Attention { heads, head_dim, .. }, _) = alike(&resident.config);
                    Splits::new(&resident.gpu, rows, heads, head_dim, tokens)?
                }
            };
            self.spans.insert(pages, Span { splits, done: HashMap::new() });
        }
        let span = self.spans.get_mut(&pages).expect("it is there");
        Ok((&self.rows, &self.buffers, span))
    }
}
