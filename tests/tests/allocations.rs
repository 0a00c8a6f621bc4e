//! Marking a token allocates nothing once the first tokens are generated.

use std::alloc::System;

use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use verdigris::logits::{Purpose, Random, Row, Sampler, Transform};
use verdigris::watermark::VocabularyId;
use verdigris_tests::dialects::every_kind;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

fn main() {
    const SIZE: usize = 500;
    // Three Bricks' noise is a sequence of numbers that is generated as far as needed.
    for kind in every_kind().into_iter().filter(|kind| kind.name != "three-bricks, gumbel") {
        let key = kind.key(1, VocabularyId::new(SIZE, "x").unwrap());
        let embed = key.embed().unwrap();
        let random = Random::new(1);
        let logits: Vec<f32> = (0..SIZE as u64).map(|t| 3.0 * random.uniform(t, Purpose::Data) as f32).collect();
        let mut row = Row::default();
        let mut state = embed.start(&[1, 2, 3, 4, 5]);
        let mut write = |position: u64| {
            row.load(&logits);
            embed.apply(&state, &mut row);
            let token = Sampler::Categorical.sample(&row, random.uniform(position, Purpose::Token)).unwrap();
            embed.advance(&mut state, token);
        };
        (0..40).for_each(&mut write);
        let region = Region::new(ALLOCATOR);
        (40..140).for_each(&mut write);
        let change = region.change();
        assert_eq!((change.allocations, change.reallocations), (0, 0), "{}: {change:?}", kind.name);
    }
}
