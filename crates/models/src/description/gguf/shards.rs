//! Models in several GGUF files, as llama.cpp's `gguf-split` writes them: the first has the values, and each has some
//! of the tensors.

use verdigris_text::shown;

use super::Gguf;

/// The extension of such files.
const ENDING: &str = ".gguf";

/// The most files of a model: their names have five digits.
const MAX_SHARDS: usize = 99_999;

/// The number of a file, and the count of all files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shard {
    /// Counted from 0.
    pub(crate) number: usize,
    /// More than one.
    pub(crate) count: usize,
}

impl Gguf {
    /// The shard that this file is; `None` for a whole model.
    pub(crate) fn shard(&self) -> Result<Option<Shard>, String> {
        let count = self.size("split.count")?.unwrap_or(0);
        if count < 2 {
            return Ok(None);
        }
        let number = self.size("split.no")?.unwrap_or(0);
        if count > MAX_SHARDS || number >= count {
            return Err(format!("it says that it is file {} of {count} files", number.saturating_add(1)));
        }
        Ok(Some(Shard { number, count }))
    }

    /// Adds the tensors of another file of the same model, which must be the expected shard.
    pub(crate) fn add(&mut self, other: Self, expected: Shard) -> Result<(), String> {
        let Shard { number, count } = expected;
        if other.shard()? != Some(expected) {
            return Err(format!("it does not say that it is file {} of {count}", number + 1));
        }
        self.order.extend(other.order);
        for (name, stored) in other.tensors {
            if self.tensors.insert(name.clone(), stored).is_some() {
                return Err(format!("the tensor {:?} is in another file of the model too", shown(&name)));
            }
        }
        Ok(())
    }

    /// Checks that all files together have the number of tensors that the first one states.
    pub(crate) fn check_whole(&self) -> Result<(), String> {
        match self.size("split.tensors.count")? {
            Some(count) if count != self.tensors.len() => {
                Err(format!("its files have {} tensors together, but {count} are said to be there", self.tensors.len()))
            }
            _ => Ok(()),
        }
    }
}

/// The names of all files of a model, from the name of any of them; `None` for other names.
pub(crate) fn names(any: &str) -> Option<Vec<String>> {
    let (name, count) = any.strip_suffix(ENDING)?.rsplit_once("-of-")?;
    let (base, number) = name.rsplit_once('-')?;
    let of = |digits: &str| {
        let is_number = digits.len() == 5 && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| digits.parse::<usize>().ok())?
    };
    let count = of(count)?;
    (1..=count)
        .contains(&of(number)?)
        .then(|| (1..=count).map(|i| format!("{base}-{i:05}-of-{count:05}{ENDING}")).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers_of_five_digits() {
        let all = ["a-b-00001-of-00002.gguf", "a-b-00002-of-00002.gguf"].map(str::to_owned).to_vec();
        assert_eq!(names("a-b-00001-of-00002.gguf"), Some(all.clone()));
        assert_eq!(names("a-b-00002-of-00002.gguf"), Some(all));
        for other in ["a.gguf", "a-1-of-2.gguf", "a-00003-of-00002.gguf", "a-00000-of-00002.gguf", "a-00001-of-00002"] {
            assert_eq!(names(other), None, "{other}");
        }
    }
}
