//! The mark of a text.

use verdigris_watermark::scheme::Stage;
use verdigris_watermark::{Embed, Key};

use crate::error::Error;
use crate::request::Request;

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

    /// Embeds a number in the mark, for keys that carry a payload.
    pub fn payload(mut self, payload: u32) -> Self {
        self.mark.payload = Some(payload);
        self
    }

    pub(super) fn embed(&self, key: &Key) -> Result<Embed, Error> {
        self.engine.reader().fits(key)?;
        let embed = match self.mark.payload {
            Some(payload) => key.embed_payload(payload)?,
            None => key.embed()?,
        };
        match self.mark.entropy_threshold {
            None => Ok(embed),
            Some(nats) if !(nats >= 0.0 && nats.is_finite()) => Err(Error::EntropyThreshold(nats)),
            Some(_) if embed.stage() != Stage::Logits => {
                Err(Error::Unused { what: "an entropy threshold", needs: "a key of green lists" })
            }
            Some(nats) => Ok(embed.above_entropy(nats)),
        }
    }
}
