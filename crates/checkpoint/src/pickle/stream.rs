//! The bytes of a pickle, one operand after the other.

use super::{PickleError, Result};

pub(super) struct Stream<'a> {
    bytes: &'a [u8],
    at: usize,
    /// The offset of the current instruction.
    opcode_at: usize,
    /// The most bytes in a string.
    longest: usize,
}

impl<'a> Stream<'a> {
    pub(super) fn new(bytes: &'a [u8], longest: usize) -> Self {
        Self { bytes, at: 0, opcode_at: 0, longest }
    }

    /// An error of the current instruction.
    pub(super) fn damaged(&self, fault: impl Into<String>) -> PickleError {
        PickleError::Damaged { at: self.opcode_at, fault: fault.into() }
    }

    pub(super) fn opcode(&mut self) -> Result<u8> {
        self.opcode_at = self.at;
        self.byte()
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(length).filter(|&end| end <= self.bytes.len());
        let end = end.ok_or_else(|| self.damaged("it ends before it is whole"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("the length is the one that was asked for"))
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        self.array().map(|[byte]| byte)
    }

    pub(super) fn word(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Bytes with an 8-bit length prefix.
    pub(super) fn short(&mut self) -> Result<&'a [u8]> {
        let length = self.byte()?;
        self.take(length.into())
    }

    /// Bytes with a 32-bit length prefix.
    pub(super) fn counted(&mut self) -> Result<&'a [u8]> {
        let length = self.word()?;
        self.string(length.into())
    }

    /// Bytes with a 64-bit length prefix.
    pub(super) fn counted_8(&mut self) -> Result<&'a [u8]> {
        let length = self.array().map(u64::from_le_bytes)?;
        self.string(length)
    }

    fn string(&mut self, length: u64) -> Result<&'a [u8]> {
        if length > self.longest as u64 {
            let fault = format!("a string of {length} bytes, and at most {} are read", self.longest);
            return Err(PickleError::TooLarge(fault));
        }
        self.take(length as usize)
    }

    /// The characters up to the end of the line.
    pub(super) fn line(&mut self) -> Result<&'a str> {
        let rest = &self.bytes[self.at..];
        let length = rest.iter().take(self.longest).position(|&byte| byte == b'\n');
        let line = self.take(length.ok_or_else(|| self.damaged("a name has no end"))?)?;
        self.at += 1;
        std::str::from_utf8(line).map_err(|_| self.damaged("a name is not UTF-8"))
    }
}
