//! Memory of zeros that may not be there.

use std::alloc::{Layout, alloc_zeroed};

/// So many zeros, or nothing where there is not so much memory. What is never touched costs nothing on most systems.
pub fn zeroed(bytes: usize) -> Option<Vec<u8>> {
    if bytes == 0 {
        return Some(Vec::new());
    }
    let layout = Layout::array::<u8>(bytes).ok()?;
    // SAFETY: the layout is not empty.
    let memory = unsafe { alloc_zeroed(layout) };
    // SAFETY: the memory is of the allocator and the layout that a vector of bytes has, and all of it is set.
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
        // A compiler that sees that memory is not used does not ask for it.
        // Miri ends a program that asks for so much.
        let too_many = [usize::MAX, isize::MAX as usize];
        for too_many in if cfg!(miri) { &too_many[..1] } else { &too_many[..] } {
            assert!(std::hint::black_box(zeroed(*too_many)).is_none());
        }
    }
}
