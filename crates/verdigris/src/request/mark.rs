//! The mark of a text.

use verdigris_logits::warp::MinP;
use verdigris_logits::{Purpose, Random};
use verdigris_watermark::scheme::Stage;
use verdigris_watermark::{Embed, Key};

use crate::error::Error;
use crate::request::Request;

/// Where nothing is sampled, noise chooses among the tokens with at least this share of the best one's probability.
const NEAR_BEST: f64 = 0.5;

impl<'a> Request<'a> {
    /// Marks the text with a key, which must have been made for this model's tokenizer.
    pub fn watermark(mut self, key: &'a Key) -> Self {
        self.mark.key = Some(key);
        self
    }

    /// Marks only tokens whose distribution, after penalties and the constraint, has more entropy than this, in nats:
    /// see [`Embed::above_entropy`]. For keys of green lists.
    pub fn entropy_threshold(mut self, nats: f64) -> Self {
        self.mark.entropy_threshold = Some(nats);
        self
    }

    /// Marks nothing until the text has a surprise of this many nats: see [`Embed::after`]. The default depends on the
    /// key's dialect: 7 for `native-gumbel`, 0 for others.
    pub fn mark_after(mut self, nats: f64) -> Self {
        self.mark.after = Some(nats);
        self
    }

    /// Embeds a number in the mark, for keys that carry a payload.
    pub fn payload(mut self, payload: u32) -> Self {
        self.mark.payload = Some(payload);
        self
    }

    /// The step that marks a text, by a variant of the key that the text's random numbers choose.
    pub(super) fn embed(&self, key: &Key, random: Random) -> Result<Embed, Error> {
        self.engine.reader().fits(key)?;
        let share = random.uniform(0, Purpose::Variant);
        let key = key.variant((share * f64::from(key.variants())) as u8);
        let embed = match self.mark.payload {
            Some(payload) => key.embed_payload(payload)?,
            None => key.embed()?,
        };
        let checked = |what, nats: f64| match nats >= 0.0 && nats.is_finite() {
            true => Ok(nats),
            false => Err(Error::Nats { what, nats }),
        };
        let embed = match self.mark.after {
            None => embed,
            Some(nats) => embed.after(checked("surprise after which a text is marked", nats)?),
        };
        match self.mark.entropy_threshold.map(|nats| checked("entropy threshold", nats)).transpose()? {
            None if self.leaves_one_token() && embed.stage() == Stage::Warped => {
                Ok(embed.near_best(MinP::new(NEAR_BEST).expect("a share")))
            }
            None => Ok(embed),
            Some(_) if embed.stage() != Stage::Logits => {
                Err(Error::Unused { what: "an entropy threshold", needs: "a key of green lists" })
            }
            Some(nats) => Ok(embed.above_entropy(nats)),
        }
    }
}
