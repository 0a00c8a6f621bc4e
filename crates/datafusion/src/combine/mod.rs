//! `verdigris_combine`: the combined evidence of the texts of a group, such as those of one author.
//!
//! | module | contents |
//! |---|---|
//! | `pool` | observations of many texts, each once |
//! | `group` | the texts of one group |
//! | `state` | groups as columns, to pass between executors |

mod group;
mod pool;
mod state;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, BooleanArray, StructArray, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::ScalarValue;
use datafusion::common::utils::take_function_args;
use datafusion::error::Result;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::ptr_eq::PtrEq;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use rayon::prelude::*;
use verdigris_detector::arrow::{verdict_columns, verdict_fields};
use verdigris_detector::watermark::Scheme;
use verdigris_detector::{Judgement, VerdictRow};

use crate::error::JudgeError;
use crate::judges::{Judge, Judges};
use crate::text_array::{TextArray, check};
use group::{Addition, Group, scheme};

const NAME: &str = "verdigris_combine";

pub(crate) fn function(judges: &Arc<Judges>) -> AggregateUDF {
    // Types are checked in `return_type`, since a cast would copy the texts.
    AggregateUDF::from(Combine { judges: judges.clone().into(), signature: Signature::any(2, Volatility::Immutable) })
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Combine {
    judges: PtrEq<Arc<Judges>>,
    signature: Signature,
}

impl AggregateUDFImpl for Combine {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        check(NAME, arguments)?;
        Ok(DataType::Struct(combined_fields()))
    }

    fn state_fields(&self, _: StateFieldsArgs<'_>) -> Result<Vec<FieldRef>> {
        Ok(state::fields())
    }

    fn accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Alone(Groups::new(Arc::clone(&self.judges), 1))))
    }

    fn groups_accumulator_supported(&self, _: AccumulatorArgs<'_>) -> bool {
        true
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs<'_>) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Groups::new(Arc::clone(&self.judges), 0)))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// Groups by their indices.
struct Groups {
    judges: Arc<Judges>,
    groups: Vec<Group>,
}

impl Groups {
    fn new(judges: Arc<Judges>, groups: usize) -> Self {
        let mut new = Self { judges, groups: Vec::new() };
        new.resize(groups);
        new
    }

    fn resize(&mut self, groups: usize) {
        self.groups.resize_with(groups, Group::default);
    }

    /// Reads texts on all cores, and adds their evidence to the group of each row.
    fn update(
        &mut self,
        values: &[ArrayRef],
        group: impl Fn(usize) -> usize,
        takes: impl Fn(usize) -> bool,
    ) -> Result<()> {
        let [texts, ids] = take_function_args(NAME, values)?;
        let (texts, ids) = (TextArray::of(texts, NAME)?, TextArray::of(ids, NAME)?);
        let mut judges: HashMap<&str, (Arc<Judge>, Arc<dyn Scheme>)> = HashMap::new();
        let mut rows = Vec::with_capacity(texts.len());
        for row in (0..texts.len()).filter(|&row| takes(row)) {
            let (Some(text), Some(id)) = (texts.get(row), ids.get(row)) else { continue };
            let id = id.map_err(|_| JudgeError::NotAnId { function: NAME.into(), kind: DataType::Binary })?;
            if !judges.contains_key(id) {
                let judge = self.judges.of(id)?;
                judges.insert(id, (judge.clone(), scheme(judge)?));
            }
            rows.push((group(row), id, text));
        }
        let read: Vec<Addition> = rows
            .par_iter()
            .map(|&(_, id, text)| {
                let (judge, scheme) = &judges[id];
                Addition::of(judge, &**scheme, text)
            })
            .collect();
        for ((group, id, _), read) in rows.into_iter().zip(read) {
            let group = &mut self.groups[group];
            group.under(&judges[id].0)?;
            group.add(read);
        }
        Ok(())
    }

    fn merge(&mut self, states: &[ArrayRef], group: impl Fn(usize) -> usize) -> Result<()> {
        for (row, one) in state::read(states, &self.judges)?.into_iter().enumerate() {
            self.groups[group(row)].merge(one)?;
        }
        Ok(())
    }
}

impl GroupsAccumulator for Groups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        groups: &[usize],
        filter: Option<&BooleanArray>,
        total: usize,
    ) -> Result<()> {
        self.resize(total);
        let takes = |row| filter.is_none_or(|filter| filter.is_valid(row) && filter.value(row));
        self.update(values, |row| groups[row], takes)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], groups: &[usize], total: usize) -> Result<()> {
        self.resize(total);
        self.merge(states, |row| groups[row])
    }

    fn evaluate(&mut self, emit: EmitTo) -> Result<ArrayRef> {
        Ok(Arc::new(combined(emit.take_needed(&mut self.groups))?))
    }

    fn state(&mut self, emit: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(state::write(&mut emit.take_needed(&mut self.groups)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let rows = values.first().map_or(0, |texts| texts.len());
        let each: Vec<usize> = (0..rows).collect();
        let mut alone = Self::new(self.judges.clone(), rows);
        alone.update_batch(values, &each, filter, rows)?;
        alone.state(EmitTo::All)
    }

    fn size(&self) -> usize {
        self.groups.iter().map(Group::size).sum()
    }
}

/// The only group of a query without GROUP BY.
struct Alone(Groups);

impl std::fmt::Debug for Alone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(NAME)
    }
}

impl Accumulator for Alone {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update(values, |_| 0, |_| true)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge(states, |_| 0)
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let found = combined(std::mem::take(&mut self.0.groups))?;
        self.0.resize(1);
        ScalarValue::try_from_array(&found, 0)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = state::write(&mut self.0.groups);
        columns.iter().map(|column| ScalarValue::try_from_array(column, 0)).collect()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// The columns of a group's verdict: the number of its texts that were judged, the number of those that could not be,
/// and the columns of a verdict. All are null for a group without a text.
pub fn combined_fields() -> Fields {
    let counts = ["documents", "faulty"].map(|name| Arc::new(Field::new(name, DataType::UInt64, true)));
    counts.into_iter().chain(verdict_fields().iter().cloned()).collect()
}

/// Returns the verdict on a group. A group in which no text could be judged has none.
fn row(group: &mut Group) -> Result<VerdictRow<'static>, JudgeError> {
    let Some((judge, evidence)) = group.evidence()? else { return Ok(VerdictRow::Missing) };
    if group.documents == 0 {
        return Ok(VerdictRow::Fault(group.error.clone().unwrap_or_default()));
    }
    let mut verdict = Judgement::of(judge.key(), evidence, judge.level()).verdict().into_owned();
    verdict.error = verdict.error.or_else(|| group.error.clone());
    Ok(VerdictRow::Judged(Box::new(verdict)))
}

fn combined(mut groups: Vec<Group>) -> Result<StructArray> {
    let rows: Vec<VerdictRow<'_>> = groups.iter_mut().map(row).collect::<Result<_, JudgeError>>()?;
    let count = |value: fn(&Group) -> u64| -> ArrayRef {
        let there =
            |(group, row): (&Group, &VerdictRow<'_>)| (!matches!(row, VerdictRow::Missing)).then(|| value(group));
        Arc::new(groups.iter().zip(&rows).map(there).collect::<UInt64Array>())
    };
    let mut columns = vec![count(|group| group.documents), count(|group| group.faulty)];
    columns.extend(verdict_columns(&rows));
    let there = rows.iter().map(|row| !matches!(row, VerdictRow::Missing)).collect();
    Ok(StructArray::new(combined_fields(), columns, Some(there)))
}
