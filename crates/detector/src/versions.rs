//! The versions of a text that are tested, decided here for all front ends.

use verdigris_constrain::Departure;
use verdigris_watermark::normalize::{Normalized, Repair, stages};

use crate::manifest::Unwrapped;

/// The versions of a text in which a mark is looked for, each of which is one look: without its C2PA manifests, and
/// then after successive repairs, if there is anything to repair ([`stages`]). The versions of a text depend on the
/// text alone and never on a key, so a p-value corrected for all of them is exact.
#[derive(Debug)]
pub struct Versions<'t> {
    repaired: Vec<Normalized>,
    unwrapped: Unwrapped<'t>,
}

/// One version of a text.
#[derive(Clone, Copy, Debug)]
pub struct Version<'v> {
    /// The text of this version.
    pub text: &'v str,
    repaired: Option<&'v Normalized>,
}

impl<'v> Version<'v> {
    /// Maps a byte position of this version to one of the text without its manifests.
    pub fn origin(&self, at: usize) -> usize {
        self.repaired.map_or(at, |repaired| repaired.origin(at))
    }

    /// The repairs that made this version, each with the number of times it was made; empty for the original.
    pub fn repairs(&self) -> Vec<(Repair, usize)> {
        self.repaired.map_or(Vec::new(), Normalized::summary)
    }
}

impl<'t> Versions<'t> {
    /// Creates the versions of a text; without `repair`, only the original.
    pub fn of(text: &'t str, repair: bool) -> Self {
        let unwrapped = Unwrapped::new(text);
        let repaired = if repair { stages(&unwrapped.text) } else { Vec::new() };
        Self { repaired, unwrapped }
    }

    /// Iterates over the original and the repaired versions, in the order of the repairs.
    pub fn iter(&self) -> impl Iterator<Item = Version<'_>> {
        let repaired = self.repaired.iter().map(|one| Version { text: &one.text, repaired: Some(one) });
        std::iter::once(Version { text: &self.unwrapped.text, repaired: None }).chain(repaired)
    }

    /// The version after all repairs, for users that test a single version.
    pub fn last(&self) -> Version<'_> {
        self.iter().last().expect("there is always the original")
    }

    /// The text without its manifests, which maps positions back to the original.
    pub fn unwrapped(&self) -> &Unwrapped<'t> {
        &self.unwrapped
    }

    /// Applies `look` to all versions. Repair may make a text match its constraint, or break it: the result has the
    /// values for the versions that match. If there are none, it is the departure of the first version, the original.
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
