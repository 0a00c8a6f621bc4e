//! `verdigris_p` and `verdigris_detect`: functions of a text and the id of a key.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Float64Array};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use datafusion::common::utils::take_function_args;
use datafusion::error::Result;
use datafusion::logical_expr::ptr_eq::PtrEq;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};
use rayon::prelude::*;

use crate::error::JudgeError;
use crate::judges::Judges;
use crate::text_array::{TextArray, check};
use verdigris_detector::VerdictRow;
use verdigris_detector::arrow::{verdict_fields, verdicts};

/// Returns both functions.
pub(crate) fn functions(judges: &Arc<Judges>) -> Vec<ScalarUDF> {
    [Answer::P, Answer::Verdict].map(|answer| ScalarUDF::from(Function::new(judges, answer))).into()
}

/// A function of a text and a key.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    answer: Answer,
    /// Functions are equal if they share their judges, since DataFusion compares expressions.
    judges: PtrEq<Arc<Judges>>,
    signature: Signature,
}

/// The result of a function.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Answer {
    P,
    Verdict,
}

impl Function {
    fn new(judges: &Arc<Judges>, answer: Answer) -> Self {
        // Types are checked in `return_type`, since a cast would copy the texts.
        Self { answer, judges: judges.clone().into(), signature: Signature::any(2, Volatility::Immutable) }
    }

    /// Judges each row. An unknown key id fails the query, whatever its texts are.
    fn found<'a>(&'a self, texts: &TextArray<'_>, ids: &ColumnarValue) -> Result<Vec<VerdictRow<'a>>> {
        let (judges, name) = (&self.judges, self.name());
        let judge = |id: Option<Result<&str, _>>| match id {
            None => Ok(None),
            Some(Ok(id)) => judges.of(id).map(Some),
            Some(Err(_)) => Err(JudgeError::NotAnId { function: name.to_owned(), kind: ids.data_type() }),
        };
        let rows = 0..texts.len();
        if let ColumnarValue::Scalar(id) = ids {
            let id = id.to_array()?;
            let Some(judge) = judge(TextArray::of(&id, name)?.get(0))? else {
                return Ok(vec![VerdictRow::Missing; rows.len()]);
            };
            return Ok(rows.into_par_iter().map(|row| judge.cell(texts.get(row))).collect());
        }
        let ids = ids.to_array(rows.len())?;
        let ids = TextArray::of(&ids, name)?;
        let one = |row| Ok(judge(ids.get(row))?.map_or(VerdictRow::Missing, |judge| judge.cell(texts.get(row))));
        rows.into_par_iter().map(one).collect()
    }
}

impl ScalarUDFImpl for Function {
    fn name(&self) -> &str {
        match self.answer {
            Answer::P => "verdigris_p",
            Answer::Verdict => "verdigris_detect",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arguments: &[DataType]) -> Result<DataType> {
        check(self.name(), arguments)?;
        Ok(match self.answer {
            Answer::P => DataType::Float64,
            Answer::Verdict => DataType::Struct(verdict_fields()),
        })
    }

    fn invoke_with_args(&self, arguments: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [texts, ids] = take_function_args(self.name(), &arguments.args)?;
        let constant = arguments.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let texts = texts.to_array(if constant { 1 } else { arguments.number_rows })?;
        let found = self.found(&TextArray::of(&texts, self.name())?, ids)?;
        let answers: ArrayRef = match self.answer {
            Answer::P => {
                Arc::new(found.iter().map(|row| row.verdict().map(|verdict| verdict.p)).collect::<Float64Array>())
            }
            Answer::Verdict => Arc::new(verdicts(&found)),
        };
        Ok(match constant {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&answers, 0)?),
            false => ColumnarValue::Array(answers),
        })
    }
}
