//! The states after each byte of a state, as far as computed.

use crate::byte_set::has_byte;

/// The state of a text that cannot become a text of the grammar.
pub(super) const DEAD: u32 = 0;

/// The number of known bytes up to which they are a list.
const FEW: usize = 8;

/// The entry of a state that has not been computed.
const UNKNOWN: u32 = u32::MAX;

/// The state after each byte: a list, or a table if there are more than a few.
#[derive(Default)]
pub(super) struct Transitions {
    few: Vec<(u8, u32)>,
    all: Option<Box<[u32; 256]>>,
}

impl Transitions {
    /// The state after a byte, if it is known.
    #[inline]
    pub(super) fn get(&self, byte: u8) -> Option<u32> {
        match &self.all {
            Some(all) => Some(all[usize::from(byte)]).filter(|&next| next != UNKNOWN),
            None => self.few.iter().find(|(of, _)| *of == byte).map(|&(_, next)| next),
        }
    }

    /// Adds the state after a byte; all bytes but those of `first` lead to no state. Returns the bytes of memory that
    /// this took.
    pub(super) fn insert(&mut self, byte: u8, next: u32, first: [u64; 4]) -> usize {
        if let Some(all) = &mut self.all {
            all[usize::from(byte)] = next;
            return 0;
        }
        let before = self.few.capacity();
        self.few.push((byte, next));
        if self.few.len() <= FEW {
            return (self.few.capacity() - before) * size_of::<(u8, u32)>();
        }
        let mut all = Box::new(std::array::from_fn(|byte| if has_byte(&first, byte as u8) { UNKNOWN } else { DEAD }));
        self.few.drain(..).for_each(|(byte, next)| all[usize::from(byte)] = next);
        self.few = Vec::new();
        self.all = Some(all);
        size_of::<[u32; 256]>().saturating_sub(before * size_of::<(u8, u32)>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_and_a_table_say_the_same() {
        let mut transitions = Transitions::default();
        // Bytes 64 to 127 may come next.
        let first = [0, u64::MAX, 0, 0];
        let mut taken = 0;
        for byte in 64..84 {
            assert_eq!(transitions.get(byte), None);
            taken += transitions.insert(byte, 1000 + u32::from(byte), first);
            for known in 64..=byte {
                assert_eq!(transitions.get(known), Some(1000 + u32::from(known)));
            }
            assert_eq!(transitions.get(100), None);
        }
        assert_eq!((transitions.get(7), taken), (Some(DEAD), size_of::<[u32; 256]>()));
    }
}
