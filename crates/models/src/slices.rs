//! The tokens of several batches, in slices that go through the layers together.

use std::ops::Range;

use crate::language_model::Batch;

/// The most tokens of chains that go through the layers together. A longer prompt goes in chunks, so that memory does
/// not grow with it.
pub(crate) const CHUNK: usize = 512;

/// Some tokens of one of several batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenSlice {
    /// Which of the batches.
    pub(crate) item: usize,
    /// Which pass they go through the layers in.
    pass: usize,
    from: usize,
    to: usize,
}

impl TokenSlice {
    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }

    /// Which of the batch's tokens they are.
    pub(crate) fn range(&self) -> Range<usize> {
        self.from..self.to
    }

    /// The tokens of this slice.
    pub(crate) fn of<'a>(&self, batch: &Batch<'a>) -> Batch<'a> {
        // A tree is one slice.
        Batch { tokens: &batch.tokens[self.from..self.to], ..*batch }
    }

    /// Which of the slice's tokens have rows.
    pub(crate) fn wanted(&self, batch: &Batch<'_>) -> Range<usize> {
        let first = batch.first_wanted().clamp(self.from, self.to);
        first - self.from..self.len()
    }

    /// Which of the batch's rows those are.
    pub(crate) fn rows(&self, batch: &Batch<'_>) -> Range<usize> {
        let first = batch.first_wanted();
        self.from.max(first) - first..self.to.max(first) - first
    }
}

/// Shares all tokens out to passes of at most [`CHUNK`] tokens, except that a tree stays whole, for its tokens see each
/// other. What [`passes`] tells apart goes into `slices`.
pub(crate) fn share_out<'a>(batches: impl Iterator<Item = Batch<'a>>, slices: &mut Vec<TokenSlice>) {
    slices.clear();
    let (mut pass, mut room) = (0, CHUNK);
    for (item, Batch { tokens, parents, .. }) in batches.enumerate() {
        let (m, is_tree) = (tokens.len(), parents.is_some());
        if is_tree && m > room {
            (pass, room) = (pass + 1, CHUNK);
        }
        let mut from = 0;
        while from < m {
            let count = if is_tree { m } else { room.min(m - from) };
            slices.push(TokenSlice { item, pass, from, to: from + count });
            from += count;
            room = room.saturating_sub(count);
            if room == 0 {
                (pass, room) = (pass + 1, CHUNK);
            }
        }
    }
}

/// The slices of each pass.
pub(crate) fn passes(slices: &[TokenSlice]) -> impl Iterator<Item = &[TokenSlice]> {
    slices.chunk_by(|a, b| a.pass == b.pass)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::language_model::Wanted;

    #[test]
    fn chains_are_cut_and_trees_are_whole() {
        let (long, short, tree) = ([1; 700], [2; 100], [3; 300]);
        let parents = [None; 300];
        let batches = [
            Batch::chain(&long, Wanted::Last),
            Batch::chain(&[], Wanted::All),
            Batch::chain(&short, Wanted::All),
            Batch::tree(&tree, &parents),
            Batch::chain(&short, Wanted::Last),
        ];
        let mut slices = Vec::new();
        share_out(batches.iter().copied(), &mut slices);
        let of_pass = |pass: &[TokenSlice]| -> Vec<(usize, usize, Range<usize>)> {
            pass.iter().map(|slice| (slice.item, slice.from, slice.rows(&batches[slice.item]))).collect()
        };
        let got: Vec<_> = passes(&slices).map(of_pass).collect();
        let first = vec![(0, 0, 0..0)];
        let second = vec![(0, 512, 0..1), (2, 0, 0..100)];
        let third = vec![(3, 0, 0..300), (4, 0, 0..1)];
        assert_eq!(got, [first, second, third]);
        assert_eq!(slices[0].of(&batches[0]).tokens.len(), CHUNK);
        let from = |first| {
            let batch = Batch::chain(&long, Wanted::From(first));
            [0, 1].map(|i| (slices[i].wanted(&batch), slices[i].rows(&batch)))
        };
        assert_eq!(from(500), [(500..512, 0..12), (0..188, 12..200)]);
        assert_eq!(from(600), [(512..512, 0..0), (88..188, 0..100)]);
        // One that exceeds a pass is a pass of its own.
        let (tree, parents) = ([3; 600], [None; 600]);
        share_out([Batch::chain(&short, Wanted::All), Batch::tree(&tree, &parents)].into_iter(), &mut slices);
        assert_eq!(passes(&slices).map(<[_]>::len).collect::<Vec<_>>(), [1, 1]);
    }
}
