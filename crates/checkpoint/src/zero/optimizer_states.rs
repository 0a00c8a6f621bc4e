//! `*_optim_states.pt`: the flats of a rank.

use std::path::Path;

use crate::error::CheckpointError;
use crate::pickle::Node;
use crate::torch_file::TorchFile;
use crate::torch_file::tensor::Tensor;

/// The most ranks, or groups, of a training.
const MOST: usize = 1 << 20;

/// The description of the trained weights in the states of an optimizer.
pub(super) struct OptimizerStates {
    /// ZeRO's stage, from 1 to 3.
    pub(super) stage: usize,
    /// The number of ranks.
    pub(super) world: usize,
    /// The rank's share of each group's numbers; at stage 3 of all numbers, in pieces that may end anywhere.
    pub(super) flats: Vec<Tensor>,
    /// The padding of each parameter of each group.
    pub(super) paddings: Option<Vec<Vec<usize>>>,
}

impl OptimizerStates {
    pub(super) fn read(path: &Path) -> Result<Self, CheckpointError> {
        let file = TorchFile::open(path)?;
        let states = file.get("optimizer_state_dict")?;
        let of = |key: &str| states.get(key).ok_or_else(|| file.damaged(format!("optimizer_state_dict has no {key}")));
        let stage = of("zero_stage")?;
        let stage = stage_of(stage).ok_or_else(|| file.damaged(format!("zero_stage is {}", stage.kind())))?;
        let flats = match stage {
            1 | 2 => "single_partition_of_fp32_groups",
            3 => "fp32_flat_groups",
            other => return Err(file.damaged(format!("its stage of ZeRO is {other}, and not 1, 2 or 3"))),
        };
        let flats =
            of(flats)?.items().filter(|all| all.len() <= MOST).ok_or_else(|| file.damaged("flats are not a list"))?;
        let flats = flats.map(|flat| file.tensor(flat)).collect::<Result<_, _>>()?;
        let world = of("partition_count")?;
        // Up to stage 2 there is one number per group.
        let largest = || Node::items(world)?.map(Node::count).collect::<Option<Vec<_>>>()?.into_iter().max();
        let world = world.count().or_else(largest).ok_or_else(|| file.damaged("partition_count is not a number"))?;
        let paddings = match states.get("param_alignment_paddings").filter(|node| !node.is_none()) {
            Some(groups) => {
                let read = || groups.items()?.map(Node::size).collect::<Option<Vec<_>>>();
                Some(read().ok_or_else(|| file.damaged("param_alignment_paddings are not numbers"))?)
            }
            None => None,
        };
        if !(1..=MOST).contains(&world) {
            return Err(file.damaged(format!("it says that there are {world} ranks")));
        }
        Ok(Self { stage, world, flats, paddings })
    }
}

/// Reads a number, or a member of DeepSpeed's enum of stages.
fn stage_of(node: Node<'_>) -> Option<usize> {
    if let Some(number) = node.count() {
        return Some(number);
    }
    match node.call()? {
        (_, "ZeroStageEnum", arguments) => arguments.tuple::<1>()?[0].count(),
        // Some versions of Python pickle a lookup of the member by name.
        (_, "getattr", arguments) => {
            let names = ["disabled", "optimizer_states", "gradients", "weights"];
            let name = arguments.tuple::<2>()?[1].text()?;
            names.iter().position(|member| *member == name)
        }
        _ => None,
    }
}
