//! Feed-forward parts in a pass: networks that every row uses, and mixtures of experts.

use verdigris_kernels::{Product, activate, linear_all};

use super::projection::{finish, project, project_each};
use super::router::{Choice, choose};
use crate::description::config::{Dense, Mixture, Sparse};
use crate::description::parts::{DenseParts, MixtureParts, Projection};

/// Computes a feed-forward network: from the rows `x` to `y`.
pub(super) fn feed_forward(
    network: &Dense,
    parts: &DenseParts,
    x: &[f32],
    gate: &mut Vec<f32>,
    up: &mut Vec<f32>,
    y: &mut Vec<f32>,
) {
    match &parts.gate {
        Some(of_gate) => {
            project_each(x, parts.up.matrix.columns(), [(of_gate, &mut *gate), (&parts.up, &mut *up)]);
            activate(network.activation, gate, Some(up));
        }
        None => {
            project(x, &parts.up, gate);
            activate(network.activation, gate, None);
        }
    }
    project(gate, &parts.down, y);
}

/// Computes a feed-forward network with a sparse gate: from the rows `x` to `y`.
pub(super) fn sparse(
    of: &Sparse,
    parts: &DenseParts,
    x: &[f32],
    gate: &mut Vec<f32>,
    up: &mut Vec<f32>,
    y: &mut Vec<f32>,
) {
    let of_gate = parts.gate.as_ref().expect("a gate");
    project_each(x, parts.up.matrix.columns(), [(of_gate, &mut *gate), (&parts.up, &mut *up)]);
    let width = of.network.width;
    for row in gate.chunks_mut(width) {
        let mean = row.iter().sum::<f32>() / width as f32;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f32>() / width as f32;
        let least = mean + variance.sqrt() * of.deviations as f32;
        row.iter_mut().for_each(|x| *x = (*x - least).max(0.0));
    }
    activate(of.network.activation, gate, Some(up));
    project(gate, &parts.down, y);
}

/// The memory of mixtures of experts.
///
/// Each expert's weights are read once per pass: rows are grouped by expert, and the products of all experts run as one
/// task list. The sum of each row is over its experts from the best to the last, so a row has the same bits in any
/// company.
#[derive(Debug, Default)]
pub(super) struct Experts {
    scores: Vec<f32>,
    choices: Vec<Choice>,
    /// The indices of `choices`, grouped by expert, in the order of rows within a group.
    order: Vec<usize>,
    /// The number of choices of each expert.
    counts: Vec<usize>,
    /// The rows of all groups.
    x: Vec<f32>,
    gate: Vec<f32>,
    up: Vec<f32>,
    y: Vec<f32>,
    shared: Vec<f32>,
    strength: Vec<f32>,
    /// The rows of a mixture whose experts read and write others than those of the residual stream, and its results.
    latent: [Vec<f32>; 2],
}

impl Experts {
    /// Computes a mixture: from the rows `x` to `y`.
    pub(super) fn compute(&mut self, mixture: &Mixture, parts: &MixtureParts, x: &[f32], y: &mut Vec<f32>) {
        self.route(mixture, parts, x);
        self.mix(mixture, parts, x, y);
    }

    /// Chooses the experts of the rows `x`.
    pub(super) fn route(&mut self, mixture: &Mixture, parts: &MixtureParts, x: &[f32]) {
        project(x, &parts.router, &mut self.scores);
        self.choices.clear();
        for scores in self.scores.chunks_mut(mixture.experts) {
            choose(mixture, scores, parts.choice_bias.as_deref(), &mut self.choices);
        }
        if let Some(scales) = &parts.expert_scales {
            self.choices.iter_mut().for_each(|choice| choice.weight *= scales[choice.expert]);
        }
    }

    /// Computes the chosen experts: from the rows `x` to `y`.
    pub(super) fn mix(&mut self, mixture: &Mixture, parts: &MixtureParts, x: &[f32], y: &mut Vec<f32>) {
        match &parts.latent {
            Some([into, out]) => {
                let [mut latent, mut mixed] = std::mem::take(&mut self.latent);
                project(x, into, &mut latent);
                self.add_up(mixture, parts, &latent, into.matrix.rows(), &mut mixed);
                project(&mixed, out, y);
                self.latent = [latent, mixed];
            }
            None => self.add_up(mixture, parts, x, parts.router.matrix.columns(), y),
        }
        self.add_shared(mixture, parts, x, y);
    }

    /// Adds up the results of the chosen experts: from the rows `x` of `width` elements to `y`.
    fn add_up(&mut self, mixture: &Mixture, parts: &MixtureParts, x: &[f32], width: usize, y: &mut Vec<f32>) {
        self.group(mixture.experts);
        self.x.clear();
        for &choice in &self.order {
            let row = choice / mixture.chosen;
            self.x.extend_from_slice(&x[row * width..][..width]);
        }
        let inner = mixture.expert.width;
        let rows = self.order.len();
        [&mut self.gate, &mut self.up].into_iter().for_each(|out| out.resize(rows * inner, 0.0));
        self.y.resize(rows * width, 0.0);
        let Self { gate, up, counts, .. } = self;
        let has_gate = parts.experts.first().is_some_and(|expert| expert.gate.is_some());
        {
            let of_gate = groups(&self.x, width, gate, inner, counts, parts, |expert| expert.gate.as_ref());
            let of_up = groups(&self.x, width, up, inner, counts, parts, |expert| Some(&expert.up));
            // Gate and up of an expert follow each other, since they have the same rows.
            let mut products: Vec<_> = if has_gate {
                of_gate.into_iter().zip(of_up).flat_map(|(gate, up)| [gate, up]).collect()
            } else {
                of_up
            };
            multiply(width, &mut products);
        }
        let activation = mixture.expert.activation;
        let inner_rows = if has_gate {
            activate(activation, gate, Some(up));
            &gate[..]
        } else {
            activate(activation, up, None);
            &up[..]
        };
        multiply(inner, &mut groups(inner_rows, inner, &mut self.y, width, counts, parts, |expert| Some(&expert.down)));
        y.clear();
        y.resize(x.len(), 0.0);
        // The results of each row, in the order of its choices.
        let mut at = vec![0; rows];
        self.order.iter().enumerate().for_each(|(i, &choice)| at[choice] = i);
        for (choice, &at) in at.iter().enumerate() {
            let (row, weight) = (choice / mixture.chosen, self.choices[choice].weight);
            let result = &self.y[at * width..][..width];
            y[row * width..][..width].iter_mut().zip(result).for_each(|(y, result)| *y += weight * result);
        }
    }

    /// Adds the results of the network that every row of `x` uses, if there is one, to `y`.
    fn add_shared(&mut self, mixture: &Mixture, parts: &MixtureParts, x: &[f32], y: &mut [f32]) {
        let width = parts.router.matrix.columns();
        if let (Some(of_shared), Some(shared)) = (&mixture.shared, &parts.shared) {
            feed_forward(&of_shared.network, shared, x, &mut self.gate, &mut self.up, &mut self.shared);
            let strengths = parts.shared_gate.as_ref().map(|gate| {
                self.strength.resize(x.len() / width, 0.0);
                gate.product(x, &mut self.strength);
                &self.strength
            });
            for (row, (y, shared)) in y.chunks_mut(width).zip(self.shared.chunks(width)).enumerate() {
                let strength = strengths.map_or(1.0, |all| 1.0 / (1.0 + libm::expf(-all[row])));
                y.iter_mut().zip(shared).for_each(|(y, shared)| *y += strength * shared);
            }
        }
    }

    /// Groups the choices by expert.
    fn group(&mut self, experts: usize) {
        let Self { choices, order, counts, .. } = self;
        counts.clear();
        counts.resize(experts, 0);
        choices.iter().for_each(|choice| counts[choice.expert] += 1);
        let mut next: Vec<usize> = Vec::with_capacity(experts);
        counts.iter().fold(0, |before, count| {
            next.push(before);
            before + count
        });
        order.resize(choices.len(), 0);
        for (i, choice) in choices.iter().enumerate() {
            order[next[choice.expert]] = i;
            next[choice.expert] += 1;
        }
    }
}

/// A product, and what is added to it.
struct OfExpert<'a> {
    x: &'a [f32],
    out: &'a mut [f32],
    projection: &'a Projection,
}

/// The products of each group of rows with a matrix of its expert.
fn groups<'a>(
    x: &'a [f32],
    columns: usize,
    out: &'a mut [f32],
    rows: usize,
    counts: &[usize],
    parts: &'a MixtureParts,
    of: impl Fn(&'a DenseParts) -> Option<&'a Projection>,
) -> Vec<OfExpert<'a>> {
    let (mut x, mut out) = (x, out);
    let mut all = Vec::new();
    for (expert, &count) in parts.experts.iter().zip(counts).filter(|(_, count)| **count > 0) {
        let Some(projection) = of(expert) else { continue };
        let (these, others) = x.split_at(count * columns);
        let (to, rest) = std::mem::take(&mut out).split_at_mut(count * rows);
        all.push(OfExpert { x: these, out: to, projection });
        (x, out) = (others, rest);
    }
    all
}

fn multiply(columns: usize, products: &mut [OfExpert<'_>]) {
    let mut all: Vec<Product<'_>> = products
        .iter_mut()
        .map(|OfExpert { x, out, projection }| Product { x, w: projection.matrix.matrix().weights(), out })
        .collect();
    linear_all(columns, &mut all);
    for OfExpert { x, out, projection } in products {
        finish(x, projection, out);
    }
}
