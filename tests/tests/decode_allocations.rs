//! Writing a token takes no memory from the heap once a text is under way.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use verdigris::ModelFolder;
use verdigris::models::{Batch, Device, Rows, Wanted};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-small");
    let model = ModelFolder::at(folder).model(&Device::Cpu).unwrap();
    let mut sequence = model.begin(200).unwrap();
    let mut rows = Rows::default();
    let mut read = |token| sequence.forward(&Batch::chain(&[token], Wanted::Last), &mut rows).unwrap();
    // Attention's own memory grows with the text, a power of two at a time.
    (0..130).for_each(&mut read);
    let region = Region::new(ALLOCATOR);
    (130..190).for_each(&mut read);
    let change = region.change();
    assert_eq!((change.allocations, change.reallocations), (0, 0), "{change:?}");
}
