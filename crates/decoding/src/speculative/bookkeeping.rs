//! Records about drafts: their acceptance, the origin of tokens, and the times by which the number of drafts is chosen.

use std::time::{Duration, Instant};

use crate::draft_length::{Call, Chooser, DraftLength, DraftMemory, Judged, Place};
use crate::provenance::Provenance;
use crate::speculative::layout::Layout;
use crate::tree::TreeShape;

/// The numbers of drafts made and accepted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Acceptance {
    /// Calls of the target model.
    pub calls: usize,
    /// Tokens drafted.
    pub drafted: usize,
    /// Drafts that became part of the text.
    pub accepted: usize,
}

/// The records of a text.
pub(super) struct Bookkeeping {
    pub(super) acceptance: Acceptance,
    /// The provenance of the token handed over last.
    pub(super) provenance: Provenance,
    pub(super) length: Chooser,
    /// The way of drafting for this call, and the number of tokens that the drafter reads first.
    pub(super) way: usize,
    unread: usize,
    /// The time since an arbitrary start. The cost of drafting determines the number of drafts.
    pub(super) clock: Box<dyn FnMut() -> Duration + Send>,
    /// The time at which the last drafts were ready, and the time that they took.
    pub(super) drafted: Duration,
    drafting: Duration,
    /// The judged drafts of a call.
    judged: Vec<Judged>,
}

impl Bookkeeping {
    /// The records of a text without tokens, whose drafter gives a node at most `most_children` children.
    pub(super) fn new(length: DraftLength, most_children: usize) -> Self {
        let begun = Instant::now();
        Self {
            acceptance: Acceptance::default(),
            provenance: Provenance::default(),
            length: Chooser::new(length, most_children),
            way: 0,
            unread: 0,
            clock: Box::new(move || begun.elapsed()),
            drafted: Duration::ZERO,
            drafting: Duration::ZERO,
            judged: Vec::new(),
        }
    }

    /// Starts from the measurements of earlier texts, and saves those of this one.
    pub(super) fn remembering(self, memory: &DraftMemory) -> Self {
        Self { length: self.length.remembering(memory), ..self }
    }

    /// Chooses one of `ways` of drafting for the next call. Returns the shape of the drafts.
    pub(super) fn choose(&mut self, ways: &[usize], place: Place) -> TreeShape {
        let (way, shape) = self.length.choose(ways, place);
        (self.way, self.unread) = (way, place.unread[way]);
        shape
    }

    /// The current time.
    pub(super) fn now(&mut self) -> Duration {
        (self.clock)()
    }

    /// Records that drafts are ready that were begun at this time.
    pub(super) fn end_drafting(&mut self, begun: Duration) {
        self.drafted = self.now();
        self.drafting = self.drafted.saturating_sub(begun);
    }

    /// Counts a call of the target model with `drafts` drafts.
    pub(super) fn count_call(&mut self, drafts: usize) {
        self.acceptance.calls += 1;
        self.acceptance.drafted += drafts;
    }

    /// Records the result of a call, whose time is measured from `since`.
    pub(super) fn end_call(&mut self, layout: &Layout, since: Duration) {
        layout.judged_into(&mut self.judged);
        let reading = &layout.reading;
        let call = Call {
            read: reading.rows() - 1,
            is_usual: reading.unseen == 1 && !reading.is_second,
            depth: layout.tree.depth(),
            unread: self.unread,
            judged: &self.judged,
            drafting: self.drafting,
            verifying: (self.clock)().saturating_sub(since),
        };
        self.length.observe(self.way, call);
    }

    /// The provenance of a draft of this call.
    pub(super) fn as_draft(&self) -> Provenance {
        Provenance::Drafted { way: self.way as u8 }
    }
}

/// The provenance of a token from a row of the model, at a position with or without drafts.
pub(super) fn computed(has_drafts: bool) -> Provenance {
    if has_drafts { Provenance::Corrected } else { Provenance::Computed }
}
