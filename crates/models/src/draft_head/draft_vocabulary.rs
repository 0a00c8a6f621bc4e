//! The tokens that a published head can guess.
//!
//! `d2t` has a number for each of them. In SpecForge, SGLang, vLLM and speculators it is an offset: guess `i` is token
//! `i + d2t[i]`. In files of llama.cpp it is the token itself. Both list tokens in ascending order, so the values
//! decide: tokens themselves strictly increase, while offsets repeat wherever two tokens follow one another, as those
//! of bytes do. If `t2d` is there, which has a truth value for each token of the model, only a reading that agrees with
//! it counts.

use verdigris_logits::TokenId;

use super::files::DraftFiles;
use crate::error::ModelError;

/// The tokens that the `vocabulary` rows of a head are.
pub(super) fn of(files: &DraftFiles, vocabulary: usize) -> Result<Vec<TokenId>, ModelError> {
    let (checkpoint, size) = (&files.checkpoint, files.config.vocabulary);
    let Some(d2t) = checkpoint.integers("d2t")? else {
        if vocabulary != size {
            return Err(files.wrong(format!(
                "d2t is missing, which says which of {size} tokens the {vocabulary} of the head are (draft_vocab_size)"
            )));
        }
        return Ok((0..size as TokenId).collect());
    };
    if d2t.len() != vocabulary {
        return Err(files.wrong(format!("d2t has {} tokens, but draft_vocab_size is {vocabulary}", d2t.len())));
    }
    let t2d = checkpoint.truth_values("t2d", size)?;
    tokens(&d2t, t2d.as_deref(), size).map_err(|fault| files.wrong(fault))
}

/// The tokens of a draft vocabulary, from `d2t` and `t2d`, for a model with a vocabulary of `size`.
pub(super) fn tokens(d2t: &[u32], t2d: Option<&[bool]>, size: usize) -> Result<Vec<TokenId>, String> {
    let tokens = d2t.to_vec();
    let shifted: Option<Vec<TokenId>> = d2t.iter().zip(0..).map(|(offset, i)| offset.checked_add(i)).collect();
    let fits = |tokens: &Vec<TokenId>| {
        let present = presence(tokens, size).filter(|_| !tokens.is_empty());
        present.is_some_and(|present| t2d.is_none_or(|t2d| t2d == present))
    };
    let absolute = tokens.is_sorted_by(|a, b| a < b).then_some(tokens);
    absolute.into_iter().chain(shifted).find(fits).ok_or_else(|| {
        let with = t2d.map_or("", |_| ", and the same as t2d");
        format!("d2t is neither a list of tokens nor of their offsets: they must be different, below {size}{with}")
    })
}

/// For each token of a vocabulary of `size` whether it is one of `tokens`. `None` if one of them is not in the
/// vocabulary, or is there twice and would have two guesses.
pub(super) fn presence(tokens: &[TokenId], size: usize) -> Option<Vec<bool>> {
    let mut present = vec![false; size];
    let is_new = |&token: &TokenId| {
        present.get_mut(token as usize).is_some_and(|is_present| !std::mem::replace(is_present, true))
    };
    tokens.iter().all(is_new).then_some(present)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_values_decide_between_tokens_and_offsets() {
        for (d2t, expected) in [
            (&[0, 0, 3, 3, 9][..], &[0, 1, 5, 6, 13][..]),
            (&[0, 1, 5, 6, 13], &[0, 1, 5, 6, 13]),
            (&[0, 0, 0], &[0, 1, 2]),
            (&[0, 1, 2], &[0, 1, 2]),
            // The second guess has the first token.
            (&[4, 0, 6], &[4, 1, 8]),
        ] {
            assert_eq!(tokens(d2t, None, 14).unwrap(), expected, "{d2t:?}");
            let t2d: Vec<bool> = (0..14).map(|token| expected.contains(&token)).collect();
            assert_eq!(tokens(d2t, Some(&t2d), 14).unwrap(), expected, "{d2t:?}");
            let t2d: Vec<bool> = (0..14).map(|token| token != 5 && expected.contains(&token) || token == 12).collect();
            assert!(tokens(d2t, Some(&t2d), 14).unwrap_err().contains("t2d"), "{d2t:?}");
        }
        // Offsets that increase are found by t2d alone.
        let t2d: Vec<bool> = (0..14).map(|token| [1, 4, 9].contains(&token)).collect();
        assert_eq!(tokens(&[1, 3, 7], Some(&t2d), 14).unwrap(), [1, 4, 9]);
        assert_eq!(tokens(&[1, 3, 7], None, 14).unwrap(), [1, 3, 7]);
        for bad in [&[][..], &[14], &[u32::MAX, u32::MAX], &[3, 2], &[0, 0, 13]] {
            assert!(tokens(bad, None, 14).is_err(), "{bad:?}");
        }
    }
}
