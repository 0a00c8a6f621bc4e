//! Groups as columns, to pass from one executor to another.
//!
//! A state reveals, for contexts in the texts, which of the tokens after them the key favours. That is not the key, but
//! it is as much as a detector reveals to a user who may query it about each of these texts.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, LargeBinaryArray, StringArray, UInt32Array, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, UInt32Type, UInt64Type};
use datafusion::error::Result;

use crate::error::JudgeError;
use crate::judges::Judges;

use super::group::Group;
use super::pool::Pool;

pub(super) fn fields() -> Vec<FieldRef> {
    let of = |name: &str, kind| Arc::new(Field::new(name, kind, true));
    vec![
        of("key_id", DataType::Utf8),
        of("documents", DataType::UInt64),
        of("faulty", DataType::UInt64),
        of("tokens", DataType::UInt64),
        of("error", DataType::Utf8),
        of("level", DataType::UInt32),
        of("observations", DataType::LargeBinary),
    ]
}

pub(super) fn write(groups: &mut [Group]) -> Vec<ArrayRef> {
    let pools: Vec<(u32, Vec<u8>)> = groups.iter_mut().map(|group| group.pool.bytes()).collect();
    let count = |value: fn(&Group) -> u64| -> ArrayRef {
        Arc::new(groups.iter().map(value).collect::<Vec<u64>>().into_iter().collect::<UInt64Array>())
    };
    let ids = groups.iter().map(|group| group.judge.as_ref().map(|judge| judge.key().id()));
    vec![
        Arc::new(ids.collect::<StringArray>()),
        count(|group| group.documents),
        count(|group| group.faulty),
        count(|group| group.tokens),
        Arc::new(groups.iter().map(|group| group.error.as_deref()).collect::<StringArray>()),
        Arc::new(pools.iter().map(|pool| pool.0).collect::<UInt32Array>()),
        Arc::new(pools.iter().map(|pool| Some(&*pool.1)).collect::<LargeBinaryArray>()),
    ]
}

pub(super) fn read(columns: &[ArrayRef], judges: &Judges) -> Result<Vec<Group>> {
    let [ids, documents, faulty, tokens, errors, levels, pools] = columns else { return Err(JudgeError::State.into()) };
    let ids = ids.as_string_opt::<i32>().ok_or(JudgeError::State)?;
    let errors = errors.as_string_opt::<i32>().ok_or(JudgeError::State)?;
    let pools = pools.as_binary_opt::<i64>().ok_or(JudgeError::State)?;
    let levels = levels.as_primitive_opt::<UInt32Type>().ok_or(JudgeError::State)?;
    let count = |column: &ArrayRef, row| {
        let column = column.as_primitive_opt::<UInt64Type>().ok_or(JudgeError::State)?;
        Ok::<_, JudgeError>(column.value(row))
    };
    let one = |row: usize| {
        let judge = ids.is_valid(row).then(|| judges.of(ids.value(row))).transpose()?;
        Ok(Group {
            judge: judge.cloned(),
            documents: count(documents, row)?,
            faulty: count(faulty, row)?,
            tokens: count(tokens, row)?,
            error: errors.is_valid(row).then(|| errors.value(row).to_owned()),
            pool: Pool::of_bytes(levels.value(row), pools.value(row)).ok_or(JudgeError::State)?,
        })
    };
    (0..ids.len()).map(one).collect()
}
