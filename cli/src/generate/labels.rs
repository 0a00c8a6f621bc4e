//! The labels of a run's texts.

use std::cell::Cell;
use std::path::Path;

use verdigris::label::{Label, LabelMetadata};

use crate::error::Failure;
use crate::output::OutputFile;

/// Labels the texts of a run, all under one id.
pub(super) struct Labels {
    label: Label,
    id: String,
    /// The file of the metadata next to that of the text.
    sidecar: Cell<Option<OutputFile>>,
}

impl Labels {
    /// `output` is the file of the text, if it goes to one by itself; `several` if more than one text may be written.
    pub(super) fn new(
        label: Label,
        id: &str,
        output: Option<&Path>,
        several: bool,
        force: bool,
        inputs: &[&Path],
    ) -> Result<Self, Failure> {
        let sidecar = match output {
            Some(_) if several => {
                return Err(Failure::Usage(
                    "the metadata of a label is for one text: with --texts give --json, or no --output".into(),
                ));
            }
            Some(output) => {
                let mut name = output.as_os_str().to_owned();
                name.push(".aigc.json");
                Some(OutputFile::new(Path::new(&name), force, inputs)?)
            }
            None => None,
        };
        Ok(Self { label, id: id.to_owned(), sidecar: sidecar.into() })
    }

    pub(super) fn label(&self) -> &Label {
        &self.label
    }

    /// The metadata of the text with a number, which has its label.
    pub(super) fn metadata(&self, part: usize, text: &str) -> LabelMetadata {
        let id = if part == 0 { self.id.clone() } else { format!("{}-{part}", self.id) };
        self.label.metadata(&id, text).expect("our ids have the characters of the standard")
    }

    /// Writes the metadata of the text next to it.
    pub(super) fn write(&self, text: &str) -> Result<(), Failure> {
        let metadata = self.metadata(0, text);
        self.sidecar.take().map_or(Ok(()), |sidecar| sidecar.write(|out| writeln!(out, "{metadata}")))
    }
}
