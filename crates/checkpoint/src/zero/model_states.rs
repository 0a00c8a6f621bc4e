//! `*_model_states.pt`: shapes, and everything that is not trained.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use crate::error::CheckpointError;
use crate::pickle::Node;
use crate::torch_file::TorchFile;
use crate::torch_file::tensor::Tensor;
use crate::weight::Weight;

/// The most parameters of a model.
const MOST: usize = 1 << 20;

/// The description of a model's weights in its states.
pub(super) struct ModelStates {
    /// The trained parameters and their shapes, in the optimizer's order, by group.
    pub(super) groups: Vec<Vec<(String, Vec<usize>)>>,
    /// The frozen parameters and their shapes.
    pub(super) frozen: Vec<(String, Vec<usize>)>,
    /// The numbers of the frozen parameters: all up to stage 2, a rank's share at stage 3.
    pub(super) fragments: BTreeMap<String, Tensor>,
    /// Tensors that are not parameters.
    pub(super) buffers: Vec<Weight>,
    /// Aliases of parameters, with the parameter's name.
    pub(super) shared: Vec<(String, String)>,
}

impl ModelStates {
    pub(super) fn read(path: &Path) -> Result<Self, CheckpointError> {
        let file = TorchFile::open(path)?;
        if ["ds_autoep_layers", "autoep_layers"].iter().any(|key| file.root().get(key).is_some_and(|it| !it.is_none()))
        {
            let fault = "experts of a mixture were trained apart from each other, which is not read here: use \
                         ds_to_universal.py of DeepSpeed";
            return Err(CheckpointError::Unsupported { path: path.to_owned(), fault: fault.into() });
        }
        let groups = file.get("param_shapes")?;
        // Each group is a dictionary; early versions have one for all groups.
        let groups = match groups.items() {
            Some(all) => {
                // The same group may be listed many times.
                let parameters = all.map(|group| group.entries().map_or(1, |entries| entries.len())).sum::<usize>();
                if parameters > MOST {
                    return Err(file.damaged(format!("it has {parameters} parameters")));
                }
                let all = groups.items().into_iter().flatten();
                all.map(|group| shapes(&file, "param_shapes", group)).collect::<Result<_, _>>()?
            }
            None => vec![shapes(&file, "param_shapes", groups)?],
        };
        let optional = |key: &str| file.root().get(key).filter(|node| !node.is_none());
        let frozen = optional("frozen_param_shapes")
            .map_or_else(|| Ok(Vec::new()), |frozen| shapes(&file, "frozen_param_shapes", frozen))?;
        let mut fragments = BTreeMap::new();
        if let Some(all) = optional("frozen_param_fragments") {
            for (name, tensor) in named(&file, "frozen_param_fragments", all)? {
                fragments.insert(name.to_owned(), file.tensor(tensor)?);
            }
        }
        let shared = match optional("shared_params") {
            Some(all) => named(&file, "shared_params", all)?
                .map(|(alias, name)| Some((alias.to_owned(), name.text()?.to_owned())))
                .collect::<Option<_>>()
                .ok_or_else(|| file.damaged("shared_params are not names"))?,
            None => Vec::new(),
        };
        Ok(Self { groups, frozen, fragments, shared, buffers: buffers(&file)? })
    }
}

/// The entries of a dictionary, by name.
fn named<'a>(
    file: &TorchFile,
    what: &str,
    node: Node<'a>,
) -> Result<impl Iterator<Item = (&'a str, Node<'a>)>, CheckpointError> {
    let entries = node.entries().filter(|entries| entries.len() <= MOST);
    let entries = entries.ok_or_else(|| file.damaged(format!("{what} is {}", node.kind())))?;
    let named: Option<Vec<_>> = entries.map(|(name, value)| Some((name.text()?, value))).collect();
    Ok(named.ok_or_else(|| file.damaged(format!("a name in {what} is not a string")))?.into_iter())
}

fn shapes(file: &TorchFile, what: &str, node: Node<'_>) -> Result<Vec<(String, Vec<usize>)>, CheckpointError> {
    let shape = |(name, shape): (&str, Node<'_>)| {
        let size = shape.size().ok_or_else(|| file.damaged(format!("the shape of {name} is {}", shape.kind())))?;
        Ok((name.to_owned(), size))
    };
    named(file, what, node)?.map(shape).collect()
}

fn buffers(file: &TorchFile) -> Result<Vec<Weight>, CheckpointError> {
    let names = file.get("buffer_names")?.items().ok_or_else(|| file.damaged("buffer_names are not a list"))?;
    let names: HashSet<&str> = names.filter_map(Node::text).collect();
    let mut buffers = Vec::new();
    for (name, node) in named(file, "module", file.get("module")?)?.filter(|(name, _)| names.contains(name)) {
        let tensor = file.tensor(node)?;
        let shape = tensor.shape().to_vec();
        buffers.push(Weight::consecutive(name, &shape, vec![tensor]).expect("a tensor has the numbers of its shape"));
    }
    Ok(buffers)
}
