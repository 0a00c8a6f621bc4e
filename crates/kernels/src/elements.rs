//! Element-wise operations of a layer: norms, activations and rotary position embeddings.

use crate::dispatch::dispatch;
use crate::pool;
use crate::simd::{LANES, Simd};

/// The number of elements from which several threads are faster than one. Miri tests several threads.
const PARALLEL: usize = if cfg!(miri) { 1 } else { 1 << 16 };

/// The number of rows, of `rows`, that one task computes if there are several tasks.
fn rows_of_task(rows: usize, row: usize) -> Option<usize> {
    // Several tasks per thread, so that a delayed thread leaves its tasks to the others.
    let tasks = 4 * pool::threads();
    (tasks > 4 && rows * row >= PARALLEL).then(|| rows.div_ceil(tasks).max(1))
}

/// The activation function of a feed-forward layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Activation {
    /// `x * sigmoid(x)`.
    Silu,
    /// `x` times the normal distribution function (Hendrycks and Gimpel 2016).
    Gelu,
    /// The approximation of [`Activation::Gelu`] with `tanh`, from the same paper.
    GeluTanh,
    /// `max(x, 0)`.
    Relu,
    /// The square of [`Activation::Relu`] (So et al. 2021).
    SquaredRelu,
    /// `x * sigmoid(1.702 x)` of `x` up to 7, times its partner plus one, with the partner within -7 to 7 (gpt-oss).
    ClampedSwiglu,
}

/// The bound of [`Activation::ClampedSwiglu`].
const SWIGLU_LIMIT: f32 = 7.0;

/// Divides each row by its root mean square, and multiplies it by the weights (Zhang and Sennrich 2019).
///
/// Shapes: `x` and `out` are rows of the length of `weight`.
///
/// # Panics
/// If the shapes do not match.
pub fn rms_norm(x: &[f32], weight: &[f32], epsilon: f32, out: &mut [f32]) {
    let n = weight.len();
    assert!(n > 0 && x.len().is_multiple_of(n) && x.len() == out.len(), "rows of {n}");
    norm_rows(x, weight, None, epsilon, out);
}

/// Subtracts its mean from each row, divides it by the root of its variance, multiplies by the weights and adds the
/// biases (Ba, Kiros and Hinton 2016).
///
/// Shapes: `x` and `out` are rows of the length of `weight` and `bias`.
///
/// # Panics
/// If the shapes do not match.
pub fn layer_norm(x: &[f32], weight: &[f32], bias: &[f32], epsilon: f32, out: &mut [f32]) {
    let n = weight.len();
    assert!(n > 0 && x.len().is_multiple_of(n) && x.len() == out.len() && bias.len() == n, "rows of {n}");
    norm_rows(x, weight, Some(bias), epsilon, out);
}

fn norm_rows(x: &[f32], weight: &[f32], bias: Option<&[f32]>, epsilon: f32, out: &mut [f32]) {
    let n = weight.len();
    let Some(rows) = rows_of_task(x.len() / n, n) else { return norm(x, weight, bias, epsilon, out) };
    let mut tasks: Vec<_> = x.chunks(rows * n).zip(out.chunks_mut(rows * n)).collect();
    pool::each(&mut tasks, |(x, out)| norm(x, weight, bias, epsilon, out));
}

dispatch! {
    fn norm(x: &[f32], weight: &[f32], bias: Option<&[f32]>, epsilon: f32, out: &mut [f32]) = norm_body
}

#[inline(always)]
fn norm_body<S: Simd>(unit: S, x: &[f32], weight: &[f32], bias: Option<&[f32]>, epsilon: f32, out: &mut [f32]) {
    let n = weight.len();
    for (x, out) in x.chunks(n).zip(out.chunks_mut(n)) {
        let Some(bias) = bias else {
            let scale = 1.0 / (unit.dot(x, x) / n as f32 + epsilon).sqrt();
            for ((out, x), weight) in out.iter_mut().zip(x).zip(weight) {
                *out = x * scale * weight;
            }
            continue;
        };
        out.fill(1.0);
        let mean = unit.dot(x, out) / n as f32;
        for (out, x) in out.iter_mut().zip(x) {
            *out = x - mean;
        }
        let scale = 1.0 / (unit.dot(out, out) / n as f32 + epsilon).sqrt();
        for ((out, weight), bias) in out.iter_mut().zip(weight).zip(bias) {
            *out = (*out * scale).mul_add(*weight, *bias);
        }
    }
}

/// Applies an activation to each element, and multiplies it by its counterpart in `up`, if given:
/// `x[i] = activation(x[i]) * up[i]` (Shazeer 2020).
///
/// # Panics
/// If `up` has another length than `x`.
pub fn activate(activation: Activation, x: &mut [f32], up: Option<&[f32]>) {
    assert!(up.is_none_or(|up| up.len() == x.len()), "a partner each");
    let Some(count) = rows_of_task(x.len().div_ceil(LANES), LANES) else { return activate_all(activation, x, up) };
    let parts = x.chunks_mut(count * LANES);
    let mut tasks: Vec<_> = match up {
        Some(up) => parts.zip(up.chunks(count * LANES).map(Some)).collect(),
        None => parts.map(|x| (x, None)).collect(),
    };
    pool::each(&mut tasks, |(x, up)| activate_all(activation, x, *up));
}

dispatch! {
    fn activate_all(activation: Activation, x: &mut [f32], up: Option<&[f32]>) = activate_body
}

#[inline(always)]
fn activate_body<S: Simd>(unit: S, activation: Activation, x: &mut [f32], up: Option<&[f32]>) {
    let (lanes, rest) = x.as_chunks_mut::<LANES>();
    for lanes in lanes {
        *lanes = sixteen(unit, activation, lanes);
    }
    if !rest.is_empty() {
        let mut lanes = [0.0; LANES];
        lanes[..rest.len()].copy_from_slice(rest);
        rest.copy_from_slice(&sixteen(unit, activation, &lanes)[..rest.len()]);
    }
    match (activation, up) {
        (Activation::ClampedSwiglu, Some(up)) => {
            x.iter_mut().zip(up).for_each(|(x, up)| *x *= up.clamp(-SWIGLU_LIMIT, SWIGLU_LIMIT) + 1.0);
        }
        (_, Some(up)) => x.iter_mut().zip(up).for_each(|(x, up)| *x *= up),
        (_, None) => {}
    }
}

#[inline(always)]
fn sixteen<S: Simd>(unit: S, activation: Activation, of: &[f32; LANES]) -> [f32; LANES] {
    let x = unit.load(of);
    match activation {
        Activation::Silu => unit.store(unit.mul(x, sigmoid(unit, x))),
        // (1 + tanh u) / 2 is sigmoid(2 u).
        Activation::GeluTanh => {
            let square = unit.mul(x, x);
            let two_root = unit.splat(2.0 * (2.0 / std::f32::consts::PI).sqrt());
            let inner = unit.fma(unit.mul(square, x), unit.splat(0.044715), x);
            unit.store(unit.mul(x, sigmoid(unit, unit.mul(inner, two_root))))
        }
        Activation::Gelu => {
            let mut out = [0.0; LANES];
            for (out, x) in out.iter_mut().zip(of) {
                *out = 0.5 * x * (1.0 + libm::erff(x * std::f32::consts::FRAC_1_SQRT_2));
            }
            out
        }
        Activation::Relu => unit.store(unit.max(x, unit.zero())),
        Activation::SquaredRelu => {
            let x = unit.max(x, unit.zero());
            unit.store(unit.mul(x, x))
        }
        Activation::ClampedSwiglu => {
            let x = unit.load(&of.map(|x| x.min(SWIGLU_LIMIT)));
            unit.store(unit.mul(x, sigmoid(unit, unit.mul(x, unit.splat(1.702)))))
        }
    }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
fn sigmoid<S: Simd>(unit: S, x: S::Lanes) -> S::Lanes {
    // Below -80 the result is negligible.
    let opposite = unit.mul(unit.max(x, unit.splat(-80.0)), unit.splat(-1.0));
    unit.div(unit.splat(1.0), unit.add(unit.splat(1.0), unit.exp(opposite)))
}

/// Adds `y`, times `scale` if given, to `x`.
///
/// # Panics
/// If the lengths differ.
pub fn add(x: &mut [f32], y: &[f32], scale: Option<f32>) {
    assert_eq!(x.len(), y.len(), "a summand each");
    let add_some = |x: &mut [f32], y: &[f32]| match scale {
        Some(scale) => x.iter_mut().zip(y).for_each(|(x, y)| *x += y * scale),
        None => x.iter_mut().zip(y).for_each(|(x, y)| *x += y),
    };
    let Some(count) = rows_of_task(x.len(), 1) else { return add_some(x, y) };
    let mut tasks: Vec<_> = x.chunks_mut(count).zip(y.chunks(count)).collect();
    pool::each(&mut tasks, |(x, y)| add_some(x, y));
}

/// How rotary position embeddings pair the elements of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairs {
    /// Each element of the first half with the corresponding one of the second.
    Halves,
    /// Adjacent elements.
    Neighbours,
}

/// Rotates each head of each row by its token's angles (Su et al. 2021); elements past the angles are unchanged.
///
/// Shapes: `x` is `m x heads x head_dim`, `cos` and `sin` are `m x pairs`, with at most `head_dim / 2` pairs.
///
/// # Panics
/// If the shapes do not match.
pub fn rotate(x: &mut [f32], heads: usize, head_dim: usize, cos: &[f32], sin: &[f32], pairs: Pairs) {
    let row = heads * head_dim;
    assert!(row > 0 && x.len().is_multiple_of(row), "whole rows");
    let m = x.len() / row;
    assert!(m == 0 || cos.len().is_multiple_of(m) && cos.len() == sin.len(), "angles for each row");
    let count = cos.len().checked_div(m).unwrap_or(0);
    assert!(2 * count <= head_dim, "{count} pairs in heads of {head_dim}");
    let Some(rows) = rows_of_task(m, row) else { return rotate_rows(x, row, head_dim, cos, sin, count, pairs) };
    let angles = cos.chunks((rows * count).max(1)).zip(sin.chunks((rows * count).max(1)));
    let mut tasks: Vec<_> = x.chunks_mut(rows * row).zip(angles).collect();
    pool::each(&mut tasks, |(x, (cos, sin))| rotate_rows(x, row, head_dim, cos, sin, count, pairs));
}

/// Rotates rows of `row` elements by `count` angles each.
fn rotate_rows(x: &mut [f32], row: usize, head_dim: usize, cos: &[f32], sin: &[f32], count: usize, pairs: Pairs) {
    for (x, (cos, sin)) in x.chunks_mut(row).zip(cos.chunks(count.max(1)).zip(sin.chunks(count.max(1)))) {
        for head in x.chunks_mut(head_dim) {
            match pairs {
                Pairs::Halves => {
                    let (first, second) = head[..2 * count].split_at_mut(count);
                    for (((a, b), cos), sin) in first.iter_mut().zip(second).zip(cos).zip(sin) {
                        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                    }
                }
                Pairs::Neighbours => {
                    for (([a, b], cos), sin) in head[..2 * count].as_chunks_mut().0.iter_mut().zip(cos).zip(sin) {
                        (*a, *b) = (*a * cos - *b * sin, *b * cos + *a * sin);
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::simd::Portable;
    use verdigris_logits::{Purpose, Random};

    fn noise(n: usize, seed: u64) -> Vec<f32> {
        (0..n as u64).map(|i| Random::new(seed).uniform(i, Purpose::Token) as f32 * 12.0 - 6.0).collect()
    }

    fn close(got: f32, exact: f64) {
        assert!((f64::from(got) - exact).abs() <= 1e-6 * exact.abs().max(1.0), "{got} {exact}");
    }

    #[test]
    fn norms_are_those_of_the_definition() {
        for n in [1, 7, 16, 100] {
            let (x, weight, bias) = (noise(3 * n, 1), noise(n, 2), noise(n, 3));
            let (mut out, mut plain) = (vec![0.0; 3 * n], vec![0.0; 3 * n]);
            for bias in [None, Some(&bias[..])] {
                match bias {
                    None => rms_norm(&x, &weight, 1e-5, &mut out),
                    Some(bias) => layer_norm(&x, &weight, bias, 1e-5, &mut out),
                }
                norm_body(Portable, &x, &weight, bias, 1e-5, &mut plain);
                assert_eq!(out, plain);
                for (x, out) in x.chunks(n).zip(out.chunks(n)) {
                    let x: Vec<f64> = x.iter().map(|&x| x.into()).collect();
                    let mean = if bias.is_some() { x.iter().sum::<f64>() / n as f64 } else { 0.0 };
                    let square = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n as f64;
                    for i in 0..n {
                        let scaled = (x[i] - mean) / (square + f64::from(1e-5f32)).sqrt() * f64::from(weight[i]);
                        let exact = scaled + bias.map_or(0.0, |bias| f64::from(bias[i]));
                        if n > 1 {
                            close(out[i], exact);
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn activations_are_those_of_the_definition() {
        let mut x: Vec<f32> = (-300..300).map(|i| i as f32 / 20.0).collect();
        x.extend([-1e4, -200.0, 200.0, 1e4, 0.0]);
        let erf = |x: f64| {
            // The series around zero, and 1 or -1 far from it.
            let sum = (0..200).fold((x, x), |(sum, term), n| {
                let n = f64::from(n);
                let term = -term * x * x / (n + 1.0);
                (sum + term / (2.0 * n + 3.0), term)
            });
            if x.abs() > 5.0 { x.signum() } else { sum.0 * 2.0 / std::f64::consts::PI.sqrt() }
        };
        for (activation, exact) in [
            (Activation::Silu, (&|x: f64| x / (1.0 + (-x).exp())) as &dyn Fn(f64) -> f64),
            (Activation::GeluTanh, &|x| {
                0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x)).tanh())
            }),
            (Activation::Gelu, &|x| 0.5 * x * (1.0 + erf(x / 2f64.sqrt()))),
            (Activation::Relu, &|x| x.max(0.0)),
            (Activation::SquaredRelu, &|x| x.max(0.0).powi(2)),
            (Activation::ClampedSwiglu, &|x| x.min(7.0) / (1.0 + (-1.702 * x.min(7.0)).exp())),
        ] {
            let is_clamped = activation == Activation::ClampedSwiglu;
            let mut up = noise(x.len(), 4);
            if is_clamped {
                up.iter_mut().for_each(|up| *up *= 2.0);
            }
            let (mut alone, mut gated, mut plain) = (x.clone(), x.clone(), x.clone());
            activate(activation, &mut alone, None);
            activate(activation, &mut gated, Some(&up));
            activate_body(Portable, activation, &mut plain, Some(&up));
            assert_eq!(gated, plain);
            for (i, &x) in x.iter().enumerate() {
                let exact = exact(x.into());
                assert!(
                    (f64::from(alone[i]) - exact).abs() <= 4e-7 * exact.abs().max(1.0),
                    "{activation:?} {x}: {} {exact}",
                    alone[i]
                );
                let partner = if is_clamped { up[i].clamp(-7.0, 7.0) + 1.0 } else { up[i] };
                assert_eq!(gated[i], alone[i] * partner);
            }
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "the other tests run on several threads")]
    fn rows_of_a_prompt_are_those_alone() {
        let (m, n) = (203, 6 * 80);
        let (x, y, weight, bias) = (noise(m * n, 1), noise(m * n, 2), noise(n, 3), noise(n, 4));
        let (cos, sin) = (noise(m * 30, 5), noise(m * 30, 6));
        type OfRows<'a> = &'a dyn Fn(&[f32], &[f32], usize, &mut [f32]);
        // Calls the function for all rows, and for each row.
        let check = |f: OfRows<'_>| {
            let (mut together, mut alone) = (vec![0.0; m * n], vec![0.0; m * n]);
            f(&x, &y, 0, &mut together);
            let rows = x.chunks(n).zip(y.chunks(n)).zip(alone.chunks_mut(n));
            rows.enumerate().for_each(|(row, ((x, y), out))| f(x, y, row, out));
            assert!(together == alone);
        };
        check(&|x, _, _, out| rms_norm(x, &weight, 1e-5, out));
        check(&|x, _, _, out| layer_norm(x, &weight, &bias, 1e-5, out));
        check(&|x, y, _, out| {
            out.copy_from_slice(x);
            activate(Activation::Silu, out, Some(y));
            activate(Activation::Gelu, out, None);
        });
        check(&|x, y, _, out| {
            out.copy_from_slice(x);
            add(out, y, None);
            add(out, y, Some(0.3));
        });
        check(&|x, _, row, out| {
            out.copy_from_slice(x);
            let angles = row * 30..(row + x.len() / n) * 30;
            rotate(out, 6, 80, &cos[angles.clone()], &sin[angles], Pairs::Halves);
        });
    }

    #[test]
    fn heads_are_turned_by_pairs() {
        let x = noise(2 * 3 * 10, 5);
        let angles = noise(2 * 4, 6);
        let (cos, sin): (Vec<f32>, Vec<f32>) = angles.iter().map(|a| (a.cos(), a.sin())).unzip();
        for pairs in [Pairs::Halves, Pairs::Neighbours] {
            let mut out = x.clone();
            rotate(&mut out, 3, 10, &cos, &sin, pairs);
            for (i, (&got, &was)) in out.iter().zip(&x).enumerate() {
                let (token, d, head) = (i / 30, i % 10, i - i % 10);
                if d >= 8 {
                    assert_eq!(got, was);
                    continue;
                }
                let (pair, partner, sign) = match pairs {
                    Pairs::Halves => (d % 4, (d + 4) % 8, if d < 4 { -1.0 } else { 1.0 }),
                    Pairs::Neighbours => (d / 2, d ^ 1, if d % 2 == 0 { -1.0 } else { 1.0 }),
                };
                let angle = f64::from(angles[token * 4 + pair]);
                close(got, f64::from(was) * angle.cos() + sign * f64::from(x[head + partner]) * angle.sin());
            }
        }
    }
}
