//! The replacement table of a `Precompiled` normalizer, in the format of SentencePiece: the size as a `u32`, that many
//! bytes of a double-array trie over the bytes of a text, then the replacements, each terminated by a zero byte.
//!
//! The library panics on a damaged table, when loading it or in the middle of a text, so everything that a text can
//! reach is checked first.

use data_encoding::BASE64;

/// The maximum length, in bytes, of a piece of text that is looked up.
const LONGEST: usize = 5;

/// The maximum number of nodes that are checked. Tables of SentencePiece have some 10,000.
const MOST_NODES: usize = 1 << 18;

/// A table that has been checked.
pub(crate) struct Charsmap {
    /// Keys and their replacements: all entries that a text can reach.
    entries: Vec<(Vec<u8>, String)>,
}

impl Charsmap {
    /// Reads a table in base64; the error says what is wrong with it.
    pub(crate) fn parse(base64: &str) -> Result<Self, String> {
        let bytes = BASE64.decode(base64.as_bytes()).map_err(|error| format!("it is not base64: {error}"))?;
        let (size, rest) = bytes.split_first_chunk().ok_or("it is empty")?;
        let size = u32::from_le_bytes(*size) as usize / 4 * 4;
        let (trie, texts) = rest.split_at_checked(size).ok_or("it is shorter than it says")?;
        let trie: Vec<u32> = trie.as_chunks().0.iter().map(|unit| u32::from_le_bytes(*unit)).collect();
        let texts = str::from_utf8(texts).map_err(|_| "its replacements are not UTF-8")?;
        let mut entries = Vec::new();
        let root = trie.first().ok_or("it has no entries")?;
        let (mut open, mut seen) = (vec![(offset(*root), Vec::new())], 0);
        while let Some((node, key)) = open.pop() {
            seen += 1;
            if seen > MOST_NODES {
                return Err(format!("it has more than {MOST_NODES} nodes"));
            }
            // The children of a node are at its index, with the next byte XORed into the last eight bits.
            if node | 0xff >= trie.len() {
                return Err("it points behind its end".into());
            }
            for byte in 1..=0xffu8 {
                let child = node ^ usize::from(byte);
                let unit = trie[child];
                if unit & (1 << 31 | 0xff) != u32::from(byte) {
                    continue;
                }
                let (child, key) = (child ^ offset(unit), [&key[..], &[byte]].concat());
                if unit >> 8 & 1 == 1 {
                    let value = trie.get(child).ok_or("it points behind its end")? & (u32::MAX >> 1);
                    let text = texts.get(value as usize..).ok_or("it points behind its replacements, or into one")?;
                    entries.push((key.clone(), text.split('\0').next().unwrap_or_default().to_owned()));
                }
                if key.len() < LONGEST {
                    open.push((child, key));
                }
            }
        }
        Ok(Self { entries })
    }

    /// The factor by which a text may become longer, where `length` returns the length of a text.
    pub(crate) fn growth(&self, length: impl Fn(&str) -> usize) -> u64 {
        let of = |(key, text): &(Vec<u8>, String)| {
            let replaced = str::from_utf8(key).map_or(1, &length);
            length(text).div_ceil(replaced.max(1)) as u64
        };
        self.entries.iter().map(of).max().unwrap_or(1).max(1)
    }
}

/// The offset that a node's index is XORed with to find its children.
fn offset(unit: u32) -> usize {
    let unit = unit as usize;
    (unit >> 10) << ((unit & 1 << 9) >> 6)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A table that replaces one byte by a text. The root's children are in the block at 256, the leaf in that at 512.
    pub(crate) fn table(byte: u8, text: &str, value: u32) -> String {
        let mut trie = vec![0u32; 768];
        trie[0] = 256 << 10;
        trie[256 ^ usize::from(byte)] = u32::from(byte) | 1 << 8 | (512 ^ 256 ^ u32::from(byte)) << 10;
        trie[512 ^ 256 ^ 256] = 1 << 31 | value;
        let trie = trie.iter().flat_map(|unit| unit.to_le_bytes());
        let bytes: Vec<u8> = (768u32 * 4).to_le_bytes().into_iter().chain(trie).chain(text.bytes()).collect();
        BASE64.encode(&bytes)
    }

    #[test]
    fn entries_are_read() {
        let map = Charsmap::parse(&table(b'a', "xyz\0", 0)).unwrap();
        assert_eq!(map.entries, [(b"a".to_vec(), "xyz".to_owned())]);
        assert_eq!(map.growth(str::len), 3);
        assert_eq!(Charsmap::parse(&table(b'a', "xyz\0", 3)).unwrap().entries[0].1, "");
    }

    #[test]
    fn damage_is_an_error() {
        let fault = |table: &str| Charsmap::parse(table).map(|_| ()).unwrap_err();
        assert!(fault("!!!").starts_with("it is not base64"));
        assert_eq!(fault(""), "it is empty");
        assert_eq!(fault("/////wAAAAA="), "it is shorter than it says");
        assert_eq!(fault("AAAAAA=="), "it has no entries");
        assert_eq!(fault("BAAAAAAAAAA="), "it points behind its end");
        assert_eq!(fault(&table(b'a', "é\0", 1)), "it points behind its replacements, or into one");
        assert_eq!(fault(&table(b'a', "é\0", 9)), "it points behind its replacements, or into one");
    }
}
