//! Tokens of several batches, in slices that go through the layers together.

use std::ops::Range;

use crate::language_model::Batch;

/// The most tokens of chains that go through the layers together. A longer prompt is read in chunks, so that memory
/// does not grow with it.
pub(crate) const CHUNK: usize = 512;

/// Consecutive tokens of one of several batches.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TokenSlice {
    /// The index of the batch.
    pub(crate) item: usize,
    /// The pass in which they go through the layers.
    pass: usize,
    from: usize,
    to: usize,
}

impl TokenSlice {
    pub(crate) fn len(&self) -> usize {
        self.to - self.from
    }

    /// The indices of the tokens in the batch.
    pub(crate) fn range(&self) -> Range<usize> {
        self.from..self.to
    }

    /// The same tokens without the first `count`.
    pub(crate) fn without(&self, count: usize) -> Self {
        Self { from: self.from + count, ..*self }
    }

    /// The tokens of this slice.
    pub(crate) fn of<'a>(&self, batch: &Batch<'a>) -> Batch<'a> {
        // A tree is one slice, so its parents need no cutting.
        Batch { tokens: &batch.tokens[self.from..self.to], ..*batch }
    }

    /// The slice's tokens whose rows are wanted.
    pub(crate) fn wanted(&self, batch: &Batch<'_>) -> Range<usize> {
        let first = batch.first_wanted().clamp(self.from, self.to);
        first - self.from..self.len()
    }

    /// The indices of these rows among the batch's wanted rows.
    pub(crate) fn rows(&self, batch: &Batch<'_>) -> Range<usize> {
        let first = batch.first_wanted();
        self.from.max(first) - first..self.to.max(first) - first
    }
}

/// Distributes all tokens over passes of at most [`CHUNK`] tokens. A tree stays whole, because its tokens see each
/// other. The result is in `slices`, which [`passes`] groups by pass.
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

/// Keeps some rows of `width` numbers, given in ascending order.
pub(crate) fn keep_rows<T: Copy>(all: &mut Vec<T>, width: usize, kept: &[Range<usize>]) {
    let mut to = 0;
    for rows in kept {
        all.copy_within(rows.start * width..rows.end * width, to);
        to += rows.len() * width;
    }
    all.truncate(to);
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
        // A tree that exceeds a pass gets its own.
        let (tree, parents) = ([3; 600], [None; 600]);
        share_out([Batch::chain(&short, Wanted::All), Batch::tree(&tree, &parents)].into_iter(), &mut slices);
        assert_eq!(passes(&slices).map(<[_]>::len).collect::<Vec<_>>(), [1, 1]);
    }
}
