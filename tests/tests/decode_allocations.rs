//! Writing a token takes no memory from the heap once a text is under way; a page of keys and values is two
//! allocations.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use verdigris::ModelFolder;
use verdigris::models::{Batch, CacheLayout, Device, Rows, Wanted};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-small");
    for (layout, expected) in [(CacheLayout::Contiguous, 0), (CacheLayout::Paged { tokens: 64 }, 2)] {
        let model = ModelFolder::at(folder).cache_layout(layout).model(&Device::Cpu).unwrap();
        let mut sequence = model.begin(230).unwrap();
        let mut rows = Rows::default();
        let mut read = |token| sequence.forward(&Batch::chain(&[token], Wanted::Last), &mut rows).unwrap();
        // Attention's own memory grows with the text, a power of two at a time.
        (0..130).for_each(&mut read);
        let region = Region::new(ALLOCATOR);
        (130..220).for_each(&mut read);
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (expected, 0), "{layout:?}: {change:?}");
    }
}
