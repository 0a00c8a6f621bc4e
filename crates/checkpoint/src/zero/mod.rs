//! Checkpoints of DeepSpeed's ZeRO ([Rajbhandari et al. 2020], stages 1, 2 and 3).
//!
//! Every rank keeps its share of the weights in f32 as *flats*, one-dimensional tensors, in the states of its
//! optimizer. The shapes, and everything that is not trained, are in the states of the model. The rules are those of
//! DeepSpeed's own [zero_to_fp32.py].
//!
//! | module | contents |
//! |---|---|
//! | `files` | the files of each rank |
//! | `model_states`, `optimizer_states` | the content of the two kinds of files |
//! | `flats` | the flats of some ranks as one tensor |
//!
//! [Rajbhandari et al. 2020]: https://arxiv.org/abs/1910.02054
//! [zero_to_fp32.py]: https://github.com/deepspeedai/DeepSpeed/blob/master/deepspeed/utils/zero_to_fp32.py

mod files;
mod flats;
mod model_states;
mod optimizer_states;

use std::collections::HashMap;
use std::path::Path;

use safetensors::Dtype;

use crate::error::CheckpointError;
use crate::weight::{Weight, numel};
use files::Files;
pub(crate) use files::tag_folder;
use flats::Flats;
use model_states::ModelStates;
use optimizer_states::OptimizerStates;

/// The type of the weights, whatever they were trained in: those of the optimizer, and also buffers and frozen
/// parameters, as in `zero_to_fp32`.
pub(crate) const DTYPE: Dtype = Dtype::F32;

/// The weights of a checkpoint, and a short description.
pub(crate) fn read(folder: &Path) -> Result<(Vec<Weight>, String), CheckpointError> {
    let files = Files::of(folder)?;
    let ranks = files.optimizers.iter().map(|path| OptimizerStates::read(path)).collect::<Result<Vec<_>, _>>()?;
    let (stage, world) = (ranks[0].stage, ranks[0].world);
    files.check_world(world)?;
    if let Some(other) = ranks.iter().position(|rank| (rank.stage, rank.world) != (stage, world)) {
        let other = &ranks[other];
        let fault = format!(
            "one rank says stage {stage} of {world} ranks, another stage {} of {}: some files are of another training",
            other.stage, other.world
        );
        return Err(CheckpointError::Incomplete { path: folder.to_owned(), fault });
    }
    let models = files.models(stage)?;
    let first = ModelStates::read(&models[0])?;
    let inconsistent = |fault: String| CheckpointError::Inconsistent { path: folder.to_owned(), fault };
    let mut weights = first.buffers.clone();
    if stage == 3 && !first.frozen.is_empty() {
        let others = models[1..].iter().map(|path| ModelStates::read(path)).collect::<Result<Vec<_>, _>>()?;
        let all: Vec<&ModelStates> = std::iter::once(&first).chain(&others).collect();
        weights.extend(frozen_in_shares(&all).map_err(inconsistent)?);
    } else {
        weights.extend(frozen_whole(&first).map_err(inconsistent)?);
    }
    let trained = if stage == 3 { stage_3(&first, &ranks) } else { stages_1_and_2(&first, &ranks) };
    weights.extend(trained.map_err(inconsistent)?);
    let mut places = HashMap::new();
    for (place, weight) in weights.iter().enumerate() {
        if places.insert(weight.name().to_owned(), place).is_some() {
            return Err(inconsistent(format!("{} is there twice", weight.name())));
        }
    }
    for (alias, name) in &first.shared {
        // An alias without its parameter is ignored, as in DeepSpeed's own program.
        if let Some(&place) = places.get(name)
            && !places.contains_key(alias)
        {
            places.insert(alias.clone(), weights.len());
            weights.push(weights[place].clone().named(alias));
        }
    }
    Ok((weights, format!("DeepSpeed ZeRO {stage}, {world} ranks")))
}

/// Frozen parameters up to stage 2, which the first rank has as a whole.
fn frozen_whole(model: &ModelStates) -> Result<Vec<Weight>, String> {
    let whole = |(name, shape): &(String, Vec<usize>)| {
        let part = model.fragments.get(name).ok_or_else(|| format!("the frozen parameter {name} has no numbers"))?;
        Weight::consecutive(name, shape, vec![part.clone()])
            .ok_or_else(|| format!("the frozen parameter {name} has {} numbers, not those of its shape", part.numel()))
    };
    model.frozen.iter().map(whole).collect()
}

/// Frozen parameters at stage 3, of which each rank has a share; the last share is padded.
fn frozen_in_shares(models: &[&ModelStates]) -> Result<Vec<Weight>, String> {
    let mut weights = Vec::new();
    for (name, shape) in &models[0].frozen {
        let fragments: Option<Vec<_>> = models.iter().map(|model| model.fragments.get(name).cloned()).collect();
        let fragments = fragments.ok_or_else(|| format!("a rank has no share of the frozen parameter {name}"))?;
        let whole = || Flats::new(fragments)?.take(0, numel(shape)?);
        let weight = whole().and_then(|parts| Weight::consecutive(name, shape, parts));
        weights.push(weight.ok_or_else(|| {
            format!("the ranks' shares of the frozen parameter {name} do not make up its shape {shape:?}")
        })?);
    }
    Ok(weights)
}

/// Trained parameters up to stage 2: the flats of a group, rank after rank, contain its parameters one after the other.
/// The last rank's flat is padded, and so may each parameter be.
fn stages_1_and_2(model: &ModelStates, ranks: &[OptimizerStates]) -> Result<Vec<Weight>, String> {
    let groups = model.groups.len();
    if let Some(rank) = ranks.iter().position(|rank| rank.flats.len() != groups) {
        let flats = ranks[rank].flats.len();
        return Err(format!("there are {groups} groups of parameters, but rank {rank} has {flats} of them"));
    }
    let mut weights = Vec::new();
    for (g, shapes) in model.groups.iter().enumerate() {
        let flats = ranks.iter().map(|rank| rank.flats[g].clone()).collect();
        let flats = Flats::new(flats).ok_or_else(|| format!("the flats of group {g} are not tensors of one axis"))?;
        let mut paddings = match &ranks[0].paddings {
            Some(all) if all.get(g).is_none_or(|paddings| paddings.len() != shapes.len()) => {
                return Err(format!("the paddings of group {g} are not as many as its parameters"));
            }
            Some(all) => all[g].iter(),
            None => [].iter(),
        };
        let mut offset = 0usize;
        for (name, shape) in shapes {
            let end = numel(shape).and_then(|numel| offset.checked_add(numel));
            let parts = end.and_then(|end| flats.take(offset, end));
            let weight = parts.and_then(|parts| Weight::consecutive(name, shape, parts));
            weights.push(weight.ok_or_else(|| {
                format!("group {g} holds {} numbers, and {name} of shape {shape:?} would end beyond", flats.numel())
            })?);
            offset = end
                .and_then(|end| end.checked_add(paddings.next().copied().unwrap_or(0)))
                .ok_or_else(|| format!("the padding of {name} has no end"))?;
        }
        // The amount of padding depends on more than the checkpoint contains, but never exceeds this.
        let aligned = |numel: usize| numel.checked_next_multiple_of(2 * ranks.len());
        if aligned(offset) != aligned(flats.numel()) {
            let holds = flats.numel();
            return Err(format!("the parameters of group {g} have {offset} numbers, but the ranks hold {holds}"));
        }
    }
    Ok(weights)
}

/// Trained parameters at stage 3: each rank has a share of the same size of each parameter, and its flats are these
/// shares one after the other.
fn stage_3(model: &ModelStates, ranks: &[OptimizerStates]) -> Result<Vec<Weight>, String> {
    let flats: Option<Vec<Flats>> = ranks.iter().map(|rank| Flats::new(rank.flats.clone())).collect();
    let flats = flats.ok_or("the flats of a rank are not tensors of one axis")?;
    let holds = flats[0].numel();
    if let Some(rank) = flats.iter().position(|flats| flats.numel() != holds) {
        return Err(format!("rank 0 holds {holds} numbers, but rank {rank} holds {}", flats[rank].numel()));
    }
    let (mut weights, mut offset) = (Vec::new(), 0usize);
    for (name, shape) in model.groups.iter().flatten() {
        let whole = numel(shape).ok_or_else(|| format!("{name} has the shape {shape:?}"))?;
        let share = whole.div_ceil(ranks.len());
        let mut parts = Vec::new();
        for (rank, flats) in flats.iter().enumerate() {
            // The shares of the last ranks may be padded, partly or wholly.
            let length = whole.saturating_sub(rank * share).min(share);
            parts.extend(flats.take(offset, offset + length).ok_or_else(|| {
                format!(
                    "rank {rank} holds {holds} numbers, and its share of {name} of shape {shape:?} would end beyond"
                )
            })?);
        }
        let weight = Weight::consecutive(name, shape, parts);
        weights.push(weight.ok_or_else(|| format!("the shares of {name} do not make up its shape {shape:?}"))?);
        offset += share;
    }
    if offset != holds {
        return Err(format!("a rank's shares of all parameters have {offset} numbers, but it holds {holds}"));
    }
    Ok(weights)
}
