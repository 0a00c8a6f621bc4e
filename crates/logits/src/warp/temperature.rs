//! Temperature: how strongly more probable tokens are preferred.

use crate::Row;
use crate::blocks::Divide;
use crate::dispatch::dispatch;
use crate::steps::Step;
use crate::warp::{OutOfRange, check, stateless};

/// Divides every logit by a temperature.
#[doc(alias = "TemperatureLogitsWarper")]
#[derive(Clone, Copy, Debug)]
pub struct Temperature(f32);

impl Temperature {
    /// A positive, finite temperature. For the limit at zero use [`crate::Sampler::Greedy`].
    ///
    /// # Errors
    /// [`OutOfRange`] for any other number.
    pub fn new(temperature: f64) -> Result<Self, OutOfRange> {
        let ok = (temperature as f32).is_finite() && temperature as f32 > 0.0;
        check("temperature", temperature, ok, "above 0 and at most 3e38")?;
        Ok(Self(temperature as f32))
    }
}

stateless!(Temperature, |warper, row| {
    if warper.0 != 1.0 {
        row.divide(warper.0);
    }
});

impl Row {
    pub(crate) fn divide(&mut self, by: f32) {
        if let Some(steps) = self.recorded() {
            return steps.push(Step::Divide(by));
        }
        dispatch(Divide(self.logits_mut(), by));
    }
}
