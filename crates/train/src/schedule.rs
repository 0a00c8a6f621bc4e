//! The learning rate during a run: linear warm-up, then a cosine down to a twentieth.

use std::f64::consts::PI;

/// The share of the peak that remains at the end.
const FLOOR: f64 = 0.05;

/// The learning rate at step `step`, when the share `done` (0 to 1) of the run is over. Warm-up is counted in steps;
/// the cosine (Loshchilov and Hutter 2017) follows the limit of the run, steps or minutes, that comes first.
pub fn learning_rate(peak: f64, step: u64, warm_up: u64, done: f64) -> f64 {
    let warm = ((step + 1) as f64 / warm_up.max(1) as f64).min(1.0);
    let cosine = 0.5 * (1.0 + (PI * done.clamp(0.0, 1.0)).cos());
    peak * warm * (FLOOR + (1.0 - FLOOR) * cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_rises_and_falls() {
        assert!((learning_rate(1.0, 0, 10, 0.0) - 0.1).abs() < 1e-12);
        assert!((learning_rate(1.0, 9, 10, 0.0) - 1.0).abs() < 1e-12);
        assert!((learning_rate(1.0, 500, 10, 0.5) - 0.525).abs() < 1e-12);
        assert!((learning_rate(1.0, 1000, 10, 1.0) - 0.05).abs() < 1e-12);
        assert!((learning_rate(1.0, 5, 0, 2.0) - 0.05).abs() < 1e-12);
    }
}
