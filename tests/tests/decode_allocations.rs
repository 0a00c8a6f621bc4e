//! Generating a token allocates nothing once the first tokens are generated; a page of keys and values is two
//! allocations.

use std::alloc::System;
use std::sync::Arc;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, Stats, StatsAlloc};
use verdigris::ModelFolder;
use verdigris::models::collective::Listener;
use verdigris::models::{Batch, CacheLayout, Deadlines, Device, LanguageModel, Ranks, Rows, Split, Wanted};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/models/tale-small");
    for (layout, expected) in [(CacheLayout::Contiguous, 0), (CacheLayout::Paged { tokens: 64 }, 2)] {
        let model = ModelFolder::at(folder).cache_layout(layout).model(&Device::Cpu).unwrap();
        let change = of_ninety_tokens(model);
        assert_eq!((change.allocations, change.reallocations), (expected, 0), "{layout:?}: {change:?}");
    }
    on_ranks(&ModelFolder::at(folder).cache_layout(CacheLayout::Contiguous));
}

/// The allocations of tokens in the middle of a text.
fn of_ninety_tokens(model: Arc<dyn LanguageModel>) -> Stats {
    let mut sequence = model.begin(230).unwrap();
    let mut rows = Rows::default();
    let mut read = |token| sequence.forward(&Batch::chain(&[token], Wanted::Last), &mut rows).unwrap();
    // Attention's memory grows with the text, by powers of two.
    (0..130).for_each(&mut read);
    let region = Region::new(ALLOCATOR);
    (130..220).for_each(&mut read);
    region.change()
}

/// Checks the same on each of several ranks.
fn on_ranks(folder: &ModelFolder) {
    for split in [Split::Tensor, Split::Layers] {
        let (listener, deadlines) = (Listener::bind("127.0.0.1:0").unwrap(), Deadlines::default());
        let ranks = Ranks { addresses: vec![listener.address().to_string()], split, deadlines };
        let shared = folder.shared().unwrap();
        let served = std::thread::spawn(move || shared.wait(listener, split, Some(2), deadlines, |_| ())?.serve());
        let change = of_ninety_tokens(folder.model(&Device::Ranks(Arc::new(ranks))).unwrap());
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{split}: {change:?}");
        served.join().unwrap().unwrap();
    }
}
