//! Language models of classes as a scorer: the probabilities that they assign to a text indicate its class.

use std::sync::{Arc, Mutex, PoisonError};

use verdigris_logits::{Row, TokenId};
use verdigris_models::{Batch, BatchItem, LanguageModel, ModelError, Rows, Sequence, Wanted};

use super::readings::{ReadText, Reading, Readings};
use super::scorer::Scorer;

/// The number of tokens of a text read in one call, which bounds the rows held at a time.
const AT_A_TIME: usize = 64;

/// A class of texts: a language model, and the prompt that it reads before each text. Either may distinguish classes:
/// models tuned on texts of each class, or one model after the names of the classes (control codes).
#[derive(Clone)]
pub struct TextClass {
    /// The language model.
    pub model: Arc<dyn LanguageModel>,
    /// The prompt: at least one token, such as the one that begins texts.
    pub prompt: Vec<TokenId>,
}

/// Bayes' rule over language models of classes: GeDi (Krause et al., *GeDi: Generative Discriminator Guided Sequence
/// Generation*, arXiv:2009.06367, section 3). With `S(c)` the log-probability of a text of `t` tokens under the model
/// of class `c`, and a uniform prior over classes,
///
/// ```text
/// p(c | text) = exp(S(c) / t) / sum over all classes of exp(S / t).
/// ```
///
/// The score is its logarithm for the first class. Using the mean `S / t` instead of the sum follows the authors: with
/// the sum the class would be certain after a few words, and later tokens would have no effect. One row of each model
/// covers all possible next tokens, so trying many costs no more than trying few.
///
/// The prompt of a text is part of the text. A token that one of the models cannot read, because its rows are shorter,
/// is forbidden.
#[doc(alias = "gedi")]
pub struct ClassScorer {
    /// The first is the desired class.
    classes: Vec<TextClass>,
    /// A token that begins the prompt of every class, and is skipped if it begins a text too.
    begin: Option<TokenId>,
    capacity: usize,
    memory: Mutex<Memory>,
}

#[derive(Default)]
struct Memory {
    texts: Readings<Vec<ClassReading>>,
    row: Row,
    evidence: Vec<f64>,
}

/// A text as read by one class.
struct ClassReading {
    sequence: Box<dyn Sequence>,
    /// The number of tokens before the text.
    prompt: usize,
    /// The log-probability of the text up to each of its tokens.
    ln_p: Vec<f64>,
    /// The last one is the distribution of the next token, unless the text was truncated.
    rows: Rows,
    is_cut: bool,
}

impl ClassReading {
    fn ln_p(&self) -> f64 {
        self.ln_p.last().copied().unwrap_or(0.0)
    }
}

impl Reading for Vec<ClassReading> {
    fn fork(&self) -> Result<Self, ModelError> {
        let fork = |of: &ClassReading| {
            let (sequence, ln_p) = (of.sequence.fork()?, of.ln_p.clone());
            Ok(ClassReading { sequence, prompt: of.prompt, ln_p, rows: Rows::default(), is_cut: true })
        };
        self.iter().map(fork).collect()
    }

    fn truncate(&mut self, tokens: usize) {
        for ClassReading { sequence, prompt, ln_p, is_cut, .. } in self {
            sequence.truncate(*prompt + tokens);
            ln_p.truncate(tokens);
            *is_cut = true;
        }
    }
}

impl ClassScorer {
    /// A scorer for texts of up to `capacity` tokens, prompt included; the first class is the desired one. `begin` is
    /// the token that begins prompts, if there is one: it is not read again after the prompt of a class.
    ///
    /// # Panics
    /// If there are fewer than two classes, or if one has an empty prompt.
    pub fn new(classes: Vec<TextClass>, begin: Option<TokenId>, capacity: usize) -> Self {
        assert!(classes.len() > 1, "at least two classes are needed");
        assert!(classes.iter().all(|class| !class.prompt.is_empty()), "the prompt of a class needs at least one token");
        let begin = begin.filter(|begin| classes.iter().all(|class| class.prompt[0] == *begin));
        Self { classes, begin, capacity, memory: Mutex::default() }
    }

    /// Sets the number of cached texts, at least 64. Further texts are read again for each token.
    #[must_use]
    pub fn remembering(mut self, texts: usize) -> Self {
        self.memory.get_mut().unwrap_or_else(PoisonError::into_inner).texts.remembering(texts);
        self
    }

    fn begin(&self) -> Result<Vec<ClassReading>, ModelError> {
        let begin = |TextClass { model, prompt }: &TextClass| {
            let capacity = prompt.len().saturating_add(self.capacity).min(model.context_length());
            let (mut sequence, mut rows) = (model.clone().begin(capacity)?, Rows::default());
            sequence.forward(&Batch::chain(prompt, Wanted::Last), &mut rows)?;
            Ok(ClassReading { sequence, prompt: prompt.len(), ln_p: Vec::new(), rows, is_cut: false })
        };
        self.classes.iter().map(begin).collect()
    }

    /// Appends to a text in all classes, in one call if they share a model.
    fn forward(&self, classes: &mut [ClassReading], batch: Batch<'_>) -> Result<(), ModelError> {
        let mut items: Vec<BatchItem<'_>> = Vec::with_capacity(classes.len());
        for ClassReading { sequence, rows, .. } in classes {
            items.push(BatchItem { sequence: &mut **sequence, batch, rows });
        }
        let model = &self.classes[0].model;
        match self.classes.iter().all(|class| std::ptr::addr_eq(Arc::as_ptr(&class.model), Arc::as_ptr(model))) {
            true => model.forward_each(&mut items),
            false => items.iter_mut().try_for_each(|BatchItem { sequence, batch, rows }| sequence.forward(batch, rows)),
        }
    }

    /// Reads further tokens, and adds up their log-probabilities under each class.
    fn read(&self, classes: &mut [ClassReading], tokens: &[TokenId], row: &mut Row) -> Result<(), ModelError> {
        let mut count = |class: &mut ClassReading, i: usize, token: TokenId| {
            let own = ln_p(class.rows.row(i), token, row);
            class.ln_p.push(class.ln_p() + own);
        };
        for class in &mut *classes {
            let last = class.rows.count() - 1;
            count(class, last, tokens[0]);
        }
        self.forward(classes, Batch::chain(tokens, Wanted::All))?;
        for class in classes {
            tokens[1..].iter().enumerate().for_each(|(i, &token)| count(class, i, token));
        }
        Ok(())
    }
}

/// The log-probability of a token in a row, or `-inf` past its end.
fn ln_p(logits: &[f32], token: TokenId, row: &mut Row) -> f64 {
    row.load(logits);
    let Some(&logit) = logits.get(token as usize) else { return f64::NEG_INFINITY };
    row.log_sum_exp().map_or(f64::NAN, |sum| f64::from(logit) - sum)
}

impl Scorer for ClassScorer {
    fn score(&self, text: &[TokenId], tokens: &[TokenId], scores: &mut [f32]) -> Result<(), ModelError> {
        let text = match self.begin {
            Some(begin) if text[0] == begin => &text[1..],
            _ => text,
        };
        let Memory { texts, row, evidence } = &mut *self.memory.lock().unwrap_or_else(PoisonError::into_inner);
        let ReadText { tokens: mut held, reading: mut classes } = texts.recall(text, || self.begin())?;
        if classes.iter().any(|class| class.is_cut) {
            // The distribution after its last token is no longer known.
            let (last, before) = held.split_last().expect("what is remembered has a token");
            classes.iter_mut().for_each(|class| class.sequence.truncate(class.prompt + before.len()));
            self.forward(&mut classes, Batch::chain(&[*last], Wanted::Last))?;
            classes.iter_mut().for_each(|class| class.is_cut = false);
        }
        let unread = &text[held.len()..];
        unread.chunks(AT_A_TIME).try_for_each(|some| self.read(&mut classes, some, row))?;
        held.extend(unread);
        evidence.clear();
        for class in &classes {
            let distribution = class.rows.last();
            row.load(distribution);
            let normalizer = row.log_sum_exp().unwrap_or(f64::NAN);
            evidence.extend(tokens.iter().map(|&token| match distribution.get(token as usize) {
                Some(&logit) => (class.ln_p() + f64::from(logit) - normalizer) / (text.len() + 1) as f64,
                None => f64::NEG_INFINITY,
            }));
        }
        let readable = classes.iter().map(|class| class.rows.last().len()).min().unwrap_or(0);
        for (i, (score, &token)) in scores.iter_mut().zip(tokens).enumerate() {
            *score = match (token as usize) < readable {
                true => ln_share(evidence[i..].iter().step_by(tokens.len()).copied()) as f32,
                false => f32::NEG_INFINITY,
            };
        }
        texts.remember(ReadText { tokens: held, reading: classes });
        Ok(())
    }
}

/// Given logarithms, the logarithm of the share of the first in the total, or `-inf` if the total is 0.
fn ln_share(mut logs: impl Iterator<Item = f64> + Clone) -> f64 {
    let top = logs.clone().fold(f64::NEG_INFINITY, f64::max);
    if top == f64::NEG_INFINITY {
        return top;
    }
    let sum: f64 = logs.clone().map(|log| (log - top).exp()).sum();
    logs.next().expect("there are classes") - top - sum.ln()
}
