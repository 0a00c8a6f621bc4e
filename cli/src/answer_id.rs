//! Ids of answers, which ledgers and labels name.

use crate::error::Failure;

/// A new id, random so that those of all runs differ.
pub(crate) fn new() -> Result<String, Failure> {
    let mut random = [0; 12];
    getrandom::fill(&mut random)
        .map_err(|error| Failure::Usage(format!("the system has no random numbers for the id of the text: {error}")))?;
    Ok(format!("gen-{}", random.map(|byte| format!("{byte:02x}")).concat()))
}
