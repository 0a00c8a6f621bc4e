//! Tests whether chunks fill a tensor, each number exactly once.

/// A rectangular part of a tensor: `sizes` elements on each axis, from `offsets` on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Region {
    pub(super) offsets: Vec<usize>,
    pub(super) sizes: Vec<usize>,
}

impl Region {
    /// Whether it is inside a shape.
    fn is_within(&self, shape: &[usize]) -> bool {
        let axes = [self.offsets.len(), self.sizes.len()];
        axes == [shape.len(); 2]
            && (0..shape.len()).all(|i| self.offsets[i].checked_add(self.sizes[i]).is_some_and(|end| end <= shape[i]))
    }

    fn numel(&self) -> usize {
        self.sizes.iter().product()
    }

    fn overlaps(&self, other: &Self) -> bool {
        (0..self.sizes.len()).all(|i| {
            self.offsets[i] < other.offsets[i] + other.sizes[i] && other.offsets[i] < self.offsets[i] + self.sizes[i]
        })
    }
}

/// How chunks cover a tensor.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Cover {
    /// They fill it exactly.
    Whole,
    /// One is outside, partly or wholly.
    Outside(Region),
    /// Two overlap.
    Twice(Region, Region),
    /// Some numbers are in no chunk.
    Holes { filled: usize, of: usize },
}

/// Tests how chunks cover a tensor of a shape, whose number of elements must not overflow.
///
/// The chunks are swept along the axis on which they have the most distinct starts, so that each is compared only with
/// the few that have not ended there.
pub(super) fn cover(shape: &[usize], chunks: &[Region]) -> Cover {
    if let Some(outside) = chunks.iter().find(|chunk| !chunk.is_within(shape)) {
        return Cover::Outside(outside.clone());
    }
    let mut chunks: Vec<&Region> = chunks.iter().filter(|chunk| !chunk.sizes.contains(&0)).collect();
    let starts = |axis: usize| {
        let mut starts: Vec<usize> = chunks.iter().map(|chunk| chunk.offsets[axis]).collect();
        starts.sort_unstable();
        starts.dedup();
        starts.len()
    };
    if let Some(axis) = (0..shape.len()).max_by_key(|&axis| starts(axis)) {
        chunks.sort_by_key(|chunk| chunk.offsets[axis]);
        let mut open: Vec<&Region> = Vec::new();
        for chunk in &chunks {
            open.retain(|other| other.offsets[axis] + other.sizes[axis] > chunk.offsets[axis]);
            if let Some(other) = open.iter().find(|other| other.overlaps(chunk)) {
                return Cover::Twice((*other).clone(), (*chunk).clone());
            }
            open.push(chunk);
        }
    } else if let [one, other, ..] = *chunks {
        // Single numbers.
        return Cover::Twice(one.clone(), other.clone());
    }
    // They do not overlap, so together they have at most the numbers of the tensor.
    let (filled, of) = (chunks.iter().map(|chunk| chunk.numel()).sum(), shape.iter().product());
    if filled == of { Cover::Whole } else { Cover::Holes { filled, of } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn regions(all: &[([usize; 2], [usize; 2])]) -> Vec<Region> {
        all.iter().map(|(offsets, sizes)| Region { offsets: offsets.to_vec(), sizes: sizes.to_vec() }).collect()
    }

    /// Counts the chunks that contain each number.
    fn by_counting(shape: [usize; 2], chunks: &[Region]) -> (bool, bool) {
        let count = |row: usize, column: usize| {
            let at = Region { offsets: vec![row, column], sizes: vec![1, 1] };
            chunks.iter().filter(|chunk| chunk.numel() > 0 && chunk.overlaps(&at)).count()
        };
        let counts: Vec<usize> = (0..shape[0]).flat_map(|r| (0..shape[1]).map(move |c| count(r, c))).collect();
        (counts.iter().any(|&n| n > 1), counts.contains(&0))
    }

    #[test]
    fn as_counting_says() {
        let shape = [3, 4];
        let spans = |size: usize| (0..=size).flat_map(move |from| (0..=size - from).map(move |length| (from, length)));
        let all: Vec<Region> = spans(3)
            .flat_map(|(r, h)| spans(4).map(move |(c, w)| Region { offsets: vec![r, c], sizes: vec![h, w] }))
            .collect();
        let mut seen = [0; 3];
        let mut check = |chunks: &[Region]| {
            let which = match (cover(&shape, chunks), by_counting(shape, chunks)) {
                (Cover::Twice(one, other), (true, _)) => {
                    assert!(one.overlaps(&other));
                    0
                }
                (Cover::Holes { .. }, (false, true)) => 1,
                (Cover::Whole, (false, false)) => 2,
                (said, counted) => panic!("{chunks:?}: {said:?}, counted {counted:?}"),
            };
            seen[which] += 1;
        };
        for (i, one) in all.iter().enumerate() {
            for other in &all[i..] {
                check(&[one.clone(), other.clone()]);
            }
        }
        for quarter in &all {
            check(&[&regions(&[([0, 0], [2, 2]), ([0, 2], [3, 2])])[..], std::slice::from_ref(quarter)].concat());
        }
        assert!(seen.iter().all(|&seen| seen > 3), "{seen:?}");
    }

    #[test]
    fn outside() {
        let chunk = regions(&[([0, 1], [3, 4])]);
        assert_eq!(cover(&[3, 4], &chunk), Cover::Outside(chunk[0].clone()));
        let endless = regions(&[([usize::MAX, 0], [2, 1])]);
        assert_eq!(cover(&[3, 4], &endless), Cover::Outside(endless[0].clone()));
        assert!(matches!(cover(&[3], &chunk), Cover::Outside(_)), "another number of axes");
    }

    #[test]
    fn single_numbers() {
        let one = Region { offsets: vec![], sizes: vec![] };
        assert_eq!(cover(&[], std::slice::from_ref(&one)), Cover::Whole);
        assert_eq!(cover(&[], &[]), Cover::Holes { filled: 0, of: 1 });
        assert_eq!(cover(&[], &[one.clone(), one.clone()]), Cover::Twice(one.clone(), one));
    }
}
