//! Dynamic temperature: higher where there is more choice.

use crate::warp::{OutOfRange, check, stateless};

/// Divides every logit by a temperature between two bounds that grows with the entropy of the distribution:
/// `low + (high - low) * (entropy / ln n)^exponent`, for `n` allowed tokens, as in koboldcpp and llama.cpp. If they
/// apply it after cuts, their `n` is smaller than here, before the cuts.
#[doc(alias = "dynatemp")]
#[derive(Clone, Copy, Debug)]
pub struct DynamicTemperature {
    low: f64,
    high: f64,
    exponent: f64,
}

impl DynamicTemperature {
    /// Temperatures from `temperature - range`, but not below 0.01 or `temperature` itself, to `temperature + range`.
    /// The temperature is above 0 and at most 3e38, the range from 0 to 100, the exponent from 0.01 to 100, usually 1.
    ///
    /// # Errors
    /// [`OutOfRange`] for other numbers.
    pub fn new(temperature: f64, range: f64, exponent: f64) -> Result<Self, OutOfRange> {
        let ok = (temperature as f32).is_finite() && temperature as f32 > 0.0;
        check("temperature", temperature, ok, "above 0 and at most 3e38")?;
        check("dynamic temperature range", range, (0.0..=100.0).contains(&range), "from 0 to 100")?;
        check("dynamic temperature exponent", exponent, (0.01..=100.0).contains(&exponent), "from 0.01 to 100")?;
        let low = (temperature - range).max(temperature.min(0.01));
        Ok(Self { low, high: temperature + range, exponent })
    }
}

stateless!(DynamicTemperature, |warper, row| {
    let Some(entropy) = row.entropy() else { return };
    let allowed = row.logits().iter().filter(|&&z| z > f32::NEG_INFINITY).count();
    let share = if allowed > 1 { (entropy / (allowed as f64).ln()).clamp(0.0, 1.0) } else { 0.0 };
    let temperature = warper.low + (warper.high - warper.low) * share.powf(warper.exponent);
    row.divide(temperature as f32);
});

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Row;
    use crate::warp::tests::{NO, apply};

    #[test]
    fn the_temperature_is_that_of_the_formula() {
        let warper = DynamicTemperature::new(1.0, 0.5, 2.0).unwrap();
        // All tokens equal: the highest temperature. A single token: the lowest.
        assert_eq!(apply(warper, &[3.0, 3.0, NO, 3.0]), [2.0, 2.0, NO, 2.0]);
        assert_eq!(apply(warper, &[3.0, NO, NO, NO]), [6.0, NO, NO, NO]);
        let logits = [2.0, 1.0, 0.0, NO];
        let entropy = Row::from(logits.to_vec()).entropy().unwrap();
        let temperature = 0.5 + (entropy / 3f64.ln()).powi(2);
        let got = apply(warper, &logits);
        assert!((f64::from(got[0]) - 2.0 / temperature).abs() < 1e-6 && got[3] == NO, "{got:?}");
        let exponent = DynamicTemperature::new(1.0, 0.5, 1.0).unwrap();
        assert!((f64::from(apply(exponent, &logits)[0]) - 2.0 / (0.5 + entropy / 3f64.ln())).abs() < 1e-6);
        assert_eq!(apply(DynamicTemperature::new(2.0, 0.0, 1.0).unwrap(), &logits), [1.0, 0.5, 0.0, NO]);
    }

    #[test]
    fn it_never_comes_to_nothing() {
        let got = apply(DynamicTemperature::new(0.5, 2.0, 1.0).unwrap(), &[3.0, NO]);
        assert!((got[0] - 300.0).abs() < 1e-3, "{got:?}");
        for (temperature, range, exponent) in
            [(0.0, 1.0, 1.0), (1e39, 1.0, 1.0), (1.0, -1.0, 1.0), (1.0, 1.0, 0.0), (1.0, f64::NAN, 1.0)]
        {
            assert!(DynamicTemperature::new(temperature, range, exponent).is_err());
        }
    }
}
