//! Fallible allocation of zeroed memory.

use std::alloc::{Layout, alloc_zeroed};

/// Returns `bytes` zeros, or `None` if there is not enough memory. On most systems untouched pages cost nothing.
pub fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    if bytes == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u8>(bytes).ok()?;
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    // SAFETY: the memory has the allocator and the layout of a `Vec<u8>`, and all of it is initialized.
    (!memory.is_null()).then(|| unsafe { Vec::from_raw_parts(memory, bytes, bytes) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_or_nothing() {
        assert_eq!(zeroed(0).unwrap(), []);
        let mut some = zeroed(100_000).unwrap();
        assert!(some.iter().all(|&byte| byte == 0));
        some.push(1);
        // `black_box`, since a compiler may remove an allocation that is not used. Miri aborts a program that allocates
        // as much as `isize::MAX`.
        let too_many = [usize::MAX, isize::MAX as usize];
        for too_many in if cfg!(miri) { &too_many[..1] } else { &too_many[..] } {
            assert!(std::hint::black_box(zeroed(*too_many)).is_none());
        }
    }
}
