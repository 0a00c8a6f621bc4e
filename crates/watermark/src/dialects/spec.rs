//! The definition of a dialect, once for all users: key files, the registry, and descriptions.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroizing;

use super::error::BadDialect;
use crate::scheme::{MAX_CONTEXT, Scheme};

/// The parameters of a dialect as represented in key files.
pub(crate) trait Spec {
    /// Whether it is one of Verdigris' own dialects, whose secrets have 32 bytes and whose sub-keys depend on the key's
    /// id and tenant.
    fn is_native(&self) -> bool {
        false
    }

    /// The green share, where there are colours.
    fn gamma(&self) -> Option<f64> {
        None
    }

    /// Sets another green share, where there are colours.
    ///
    /// # Errors
    /// [`BadDialect::GreenShare`] or [`BadDialect::Gamma`] if the dialect does not support this one.
    fn set_gamma(&mut self, _share: f64) -> Result<(), BadDialect> {
        Ok(())
    }

    /// The scheme under a secret.
    ///
    /// # Errors
    /// If secret, parameters and vocabulary do not fit together.
    fn scheme(&self, secret: &Secret<'_>, vocabulary: usize) -> Result<Arc<dyn Scheme>, BadDialect>;

    /// Writes the other parameters after name and green share, in words, each after a comma.
    fn describe(&self, _: &mut fmt::Formatter<'_>) -> fmt::Result {
        Ok(())
    }

    /// Whether the integers of a secret are a public default or example.
    fn is_public(&self, _numbers: &[u64]) -> bool {
        false
    }
}

/// Implements the green share of a [`Spec`] with a field `gamma`.
macro_rules! colours {
    () => {
        fn gamma(&self) -> Option<f64> {
            Some(self.gamma.value())
        }

        fn set_gamma(&mut self, share: f64) -> Result<(), BadDialect> {
            self.gamma = share.try_into()?;
            Ok(())
        }
    };
}
pub(super) use colours;

/// A secret, with the key id and the tenant.
pub(crate) struct Secret<'a> {
    /// The name of the dialect, for errors.
    pub(crate) dialect: &'static str,
    pub(crate) bytes: &'a [u8],
    pub(crate) id: &'a str,
    pub(crate) tenant: &'a str,
    /// The secret of the public part, for keys that have one.
    pub(crate) public: Option<&'a [u8]>,
}

impl Secret<'_> {
    fn size(&self, wanted: &'static str) -> BadDialect {
        BadDialect::Secret { name: self.dialect, found: self.bytes.len(), wanted }
    }

    /// The 32 bytes of a native scheme's secret.
    pub(crate) fn native(&self) -> Result<&[u8; 32], BadDialect> {
        self.bytes.try_into().map_err(|_| self.size("32"))
    }

    /// The same of the public part's secret.
    pub(crate) fn public(&self) -> Result<&[u8; 32], BadDialect> {
        self.public.unwrap_or_default().try_into().map_err(|_| self.size("32"))
    }

    /// One 64-bit integer.
    pub(crate) fn number(&self) -> Result<u64, BadDialect> {
        match whole_numbers(self.bytes)[..] {
            [number] => Ok(number),
            _ => Err(self.size("8")),
        }
    }

    /// Two 64-bit integers.
    pub(crate) fn pair(&self) -> Result<[u64; 2], BadDialect> {
        whole_numbers(self.bytes)[..].try_into().map_err(|_| self.size("16"))
    }

    /// Any number of 64-bit integers.
    pub(crate) fn numbers(&self) -> Result<Zeroizing<Vec<u64>>, BadDialect> {
        match self.bytes.len().is_multiple_of(8) {
            true => Ok(whole_numbers(self.bytes)),
            false => Err(self.size("8 for each of its keys")),
        }
    }
}

/// 64-bit integers, big-endian; empty if bytes are left over.
pub(crate) fn whole_numbers(secret: &[u8]) -> Zeroizing<Vec<u64>> {
    let (numbers, rest) = secret.as_chunks::<8>();
    Zeroizing::new(if rest.is_empty() { numbers.iter().map(|&n| u64::from_be_bytes(n)).collect() } else { Vec::new() })
}

/// Checks the context width of another system's dialect.
pub(crate) fn width(width: usize) -> Result<usize, BadDialect> {
    (1..=MAX_CONTEXT).contains(&width).then_some(width).ok_or(BadDialect::Width(width))
}

/// Checks the share of one of two keys.
pub(crate) fn share(share: f64) -> Result<f64, BadDialect> {
    (share > 0.0 && share < 1.0).then_some(share).ok_or(BadDialect::Share(share))
}

/// A number of tokens in words, such as `4 tokens`.
pub(crate) fn tokens(count: usize) -> String {
    format!("{count} token{}", if count == 1 { "" } else { "s" })
}
