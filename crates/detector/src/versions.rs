//! The versions of a text that are looked at: the one place that decides them.

use verdigris_constrain::Departure;
use verdigris_watermark::normalize::{Normalized, Repair, stages};

use crate::manifest::Unwrapped;

/// The versions of a text in which a mark is looked for, each of which is one look: without the C2PA manifests in it,
/// and then after more and more repair, where there is something to repair ([`stages`]). Which versions a text has
/// depends on the text alone and never on a key, so a p-value that pays for all of them is exact.
#[derive(Debug)]
pub struct Versions<'t> {
    repaired: Vec<Normalized>,
    unwrapped: Unwrapped<'t>,
}

/// One version of a text.
#[derive(Clone, Copy, Debug)]
pub struct Version<'v> {
    /// What is read.
    pub text: &'v str,
    repaired: Option<&'v Normalized>,
}

impl<'v> Version<'v> {
    /// The byte that a byte of this version comes from, of the text without its manifests.
    pub fn origin(&self, at: usize) -> usize {
        self.repaired.map_or(at, |repaired| repaired.origin(at))
    }

    /// The repairs that made this version, and how often each was made; empty for the original.
    pub fn repairs(&self) -> Vec<(Repair, usize)> {
        self.repaired.map_or(Vec::new(), Normalized::summary)
    }
}

impl<'t> Versions<'t> {
    /// Those of a text, or without `repair` the original alone.
    pub fn of(text: &'t str, repair: bool) -> Self {
        let unwrapped = Unwrapped::new(text);
        let repaired = if repair { stages(&unwrapped.text) } else { Vec::new() };
        Self { repaired, unwrapped }
    }

    /// The original and those after repair, in the order of the repairs.
    pub fn iter(&self) -> impl Iterator<Item = Version<'_>> {
        let repaired = self.repaired.iter().map(|one| Version { text: &one.text, repaired: Some(one) });
        std::iter::once(Version { text: &self.unwrapped.text, repaired: None }).chain(repaired)
    }

    /// The version after all repairs, for readers that take one look.
    pub fn last(&self) -> Version<'_> {
        self.iter().last().expect("a text is a version of itself")
    }

    /// The manifests that were left out, and where bytes without them were.
    pub fn unwrapped(&self) -> &Unwrapped<'t> {
        &self.unwrapped
    }

    /// Looks at all versions. Repair may bring a text to its form, or take it from there: the results are those of the
    /// versions that are of the form. Where none is, it is where the original departs from it.
    ///
    /// # Errors
    /// Those of `look`.
    pub fn look<'v, T, E>(
        &'v self,
        mut look: impl FnMut(Version<'v>) -> Result<Result<T, Departure>, E>,
    ) -> Result<Result<Vec<T>, Departure>, E> {
        let (mut found, mut departed) = (Vec::new(), None);
        for version in self.iter() {
            match look(version)? {
                Ok(one) => found.push(one),
                Err(departure) => departed = departed.or(Some(departure)),
            }
        }
        Ok(match departed {
            Some(departure) if found.is_empty() => {
                let at = self.unwrapped.origin(departure.at..departure.at).start;
                Err(Departure { at, ..departure })
            }
            _ => Ok(found),
        })
    }
}
