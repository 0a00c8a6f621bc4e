//! A single rank.

use crate::{Collective, CollectiveError, assert_other};

/// The only rank of a world of one: sums and parts are its own, and sending is impossible.
#[derive(Clone, Copy, Debug, Default)]
pub struct Single;

impl Collective for Single {
    fn rank(&self) -> usize {
        0
    }

    fn world(&self) -> usize {
        1
    }

    fn all_reduce_sum(&mut self, _: &mut [f32]) -> Result<(), CollectiveError> {
        Ok(())
    }

    fn gather(&mut self, part: &[f32], all: &mut [f32]) -> Result<(), CollectiveError> {
        all.copy_from_slice(part);
        Ok(())
    }

    fn broadcast(&mut self, _: &mut Vec<u8>) -> Result<(), CollectiveError> {
        Ok(())
    }

    fn send(&mut self, to: usize, _: &[f32]) -> Result<(), CollectiveError> {
        assert_other(to, 0, 1);
        Ok(())
    }

    fn receive(&mut self, from: usize, _: &mut [f32]) -> Result<(), CollectiveError> {
        assert_other(from, 0, 1);
        Ok(())
    }

    fn abort(&mut self, _: &str) {}

    fn sent(&self) -> u64 {
        0
    }
}
