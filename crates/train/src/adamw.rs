//! AdamW with gradient clipping, and a state that can be saved.

use std::collections::{BTreeMap, HashMap};

use candle_core::backprop::GradStore;
use candle_core::{Result, Tensor, Var};

const BETA1: f64 = 0.9;
const BETA2: f64 = 0.95;
const EPSILON: f64 = 1e-8;

/// The optimizer (Loshchilov and Hutter, *Decoupled weight decay regularization*, 2019, algorithm 2).
///
/// Weight decay is applied to matrices only, as is usual: not to norms and biases.
#[derive(Debug)]
pub struct AdamW {
    weight_decay: f64,
    step: u64,
    moments: BTreeMap<String, (Tensor, Tensor)>,
}

impl AdamW {
    /// An optimizer at its first step.
    ///
    /// # Errors
    /// If candle fails.
    pub fn new(variables: &BTreeMap<String, Var>, weight_decay: f64) -> Result<Self> {
        let moments = variables
            .iter()
            .map(|(name, var)| Ok((name.clone(), (var.zeros_like()?, var.zeros_like()?))))
            .collect::<Result<_>>()?;
        Ok(Self { weight_decay, step: 0, moments })
    }

    /// Updates every variable by one step, after scaling all gradients together to a norm of at most `max_norm`.
    /// Returns the norm before scaling. A variable without a gradient is an error, so that no weight silently stays
    /// untrained.
    ///
    /// # Errors
    /// If a variable has no gradient, or candle fails.
    pub fn step(
        &mut self,
        variables: &BTreeMap<String, Var>,
        gradients: &GradStore,
        learning_rate: f64,
        max_norm: f64,
    ) -> Result<f64> {
        let mut found = Vec::with_capacity(variables.len());
        let mut square = 0.0;
        for (name, var) in variables {
            let Some(gradient) = gradients.get(var.as_tensor()) else {
                candle_core::bail!("the weight {name} has no gradient");
            };
            square += f64::from(gradient.sqr()?.sum_all()?.to_dtype(candle_core::DType::F32)?.to_scalar::<f32>()?);
            found.push((name, var, gradient));
        }
        let norm = square.sqrt();
        let scale = if norm > max_norm { max_norm / norm } else { 1.0 };
        self.step += 1;
        let correct1 = 1.0 - BETA1.powi(self.step as i32);
        let correct2 = 1.0 - BETA2.powi(self.step as i32);
        for (name, var, gradient) in found {
            let gradient = (gradient.detach() * scale)?;
            let Some((mean, variance)) = self.moments.get_mut(name) else {
                candle_core::bail!("the weight {name} is new to the optimizer");
            };
            *mean = ((&*mean * BETA1)? + (&gradient * (1.0 - BETA1))?)?;
            *variance = ((&*variance * BETA2)? + (gradient.sqr()? * (1.0 - BETA2))?)?;
            let direction = ((&*mean / correct1)? / ((&*variance / correct2)?.sqrt()? + EPSILON)?)?;
            let decay = if var.rank() >= 2 { self.weight_decay } else { 0.0 };
            let kept = (var.as_tensor() * (1.0 - learning_rate * decay))?;
            var.set(&(kept - (direction * learning_rate)?)?)?;
        }
        Ok(norm)
    }

    /// The state as named tensors, for a checkpoint.
    pub(crate) fn save(&self, into: &mut HashMap<String, Tensor>) {
        for (name, (mean, variance)) in &self.moments {
            into.insert(format!("mean.{name}"), mean.clone());
            into.insert(format!("variance.{name}"), variance.clone());
        }
    }

    /// Restores the state from a checkpoint. The error is the name of a missing tensor.
    pub(crate) fn restore(&mut self, step: u64, from: &HashMap<String, Tensor>) -> std::result::Result<(), String> {
        for (name, (mean, variance)) in &mut self.moments {
            for (kind, moment) in [("mean", mean), ("variance", variance)] {
                let name = format!("{kind}.{name}");
                match from.get(&name) {
                    Some(saved) if saved.shape() == moment.shape() => *moment = saved.clone(),
                    _ => return Err(name),
                }
            }
        }
        self.step = step;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::{DType, Device};

    /// Two steps on one number, computed by hand in f64.
    #[test]
    fn steps_are_those_of_the_algorithm() {
        let var = Var::from_tensor(&Tensor::new(&[[2.0f64]], &Device::Cpu).unwrap()).unwrap();
        let variables = BTreeMap::from([("w".to_owned(), var.clone())]);
        let mut adamw = AdamW::new(&variables, 0.1).unwrap();
        let (mut w, mut m, mut v) = (2.0f64, 0.0f64, 0.0f64);
        for t in 1..=2 {
            let loss = (var.as_tensor().sqr().unwrap() * 3.0).unwrap().sum_all().unwrap();
            let norm = adamw.step(&variables, &loss.backward().unwrap(), 0.01, 5.0).unwrap();
            let gradient = 6.0 * w;
            assert!((norm - gradient).abs() < 1e-5);
            let gradient = gradient * (5.0 / gradient).min(1.0);
            m = 0.9 * m + 0.1 * gradient;
            v = 0.95 * v + 0.05 * gradient * gradient;
            let direction = m / (1.0 - 0.9f64.powi(t)) / ((v / (1.0 - 0.95f64.powi(t))).sqrt() + 1e-8);
            w = w * (1.0 - 0.01 * 0.1) - 0.01 * direction;
            let got: f64 = var.to_vec2::<f64>().unwrap()[0][0];
            assert!((got - w).abs() < 1e-6, "{got} {w}");
        }
    }

    #[test]
    fn a_weight_without_gradient_is_an_error() {
        let make = || Var::zeros((2, 2), DType::F32, &Device::Cpu).unwrap();
        let (used, unused) = (make(), make());
        let variables = BTreeMap::from([("used".to_owned(), used.clone()), ("unused".to_owned(), unused)]);
        let loss = used.as_tensor().sum_all().unwrap();
        let mut adamw = AdamW::new(&variables, 0.0).unwrap();
        let error = adamw.step(&variables, &loss.backward().unwrap(), 0.1, 1.0).unwrap_err();
        assert!(error.to_string().contains("unused has no gradient"), "{error}");
    }
}
