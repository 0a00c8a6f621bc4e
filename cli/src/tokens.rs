//! Options for tokens that are favoured, forbidden or forced.

use clap::Args;
use verdigris::Request;

use crate::number::whole;

#[derive(Args)]
pub(crate) struct TokenOptions {
    /// Add BIAS, -100 to 100, to the logit of the token ID; may be given several times
    #[arg(long, value_name = "ID=BIAS", value_parser = token_and_bias)]
    logit_bias: Vec<(u32, f64)>,
    /// Add BIAS, -100 to 100, to the logit of the token that would complete TEXT; may be given several times
    #[arg(long, value_name = "TEXT=BIAS", value_parser = text_and_bias, allow_hyphen_values = true)]
    sequence_bias: Vec<(String, f64)>,
    /// Never complete this word, as the tokenizer writes it; may be given several times
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    bad_words: Vec<String>,
    /// Never write these tokens
    #[arg(long, value_name = "ID,ID", value_delimiter = ',', value_parser = whole::<u32>)]
    suppress_tokens: Vec<u32>,
    /// For --dry-multiplier: a text that breaks runs; may be given several times [default: a line end, : " and *]
    #[arg(long, value_name = "TEXT", allow_hyphen_values = true)]
    dry_sequence_breaker: Vec<String>,
    /// Begin the text with this token
    #[arg(long, value_name = "ID", value_parser = whole::<u32>)]
    forced_bos_token_id: Option<u32>,
    /// Write this token at the last position that --max-tokens allows, such as one that ends texts
    #[arg(long, value_name = "ID", value_parser = whole::<u32>)]
    forced_eos_token_id: Option<u32>,
}

impl TokenOptions {
    pub(crate) fn apply<'a>(&self, mut request: Request<'a>) -> Request<'a> {
        for &(token, bias) in &self.logit_bias {
            request = request.logit_bias(token, bias);
        }
        for (text, bias) in &self.sequence_bias {
            request = request.sequence_bias(text, *bias);
        }
        for word in &self.bad_words {
            request = request.bad_words(word);
        }
        if !self.dry_sequence_breaker.is_empty() {
            request = request.dry_sequence_breakers(&self.dry_sequence_breaker);
        }
        if let Some(token) = self.forced_bos_token_id {
            request = request.forced_bos_token_id(token);
        }
        if let Some(token) = self.forced_eos_token_id {
            request = request.forced_eos_token_id(token);
        }
        request.suppress_tokens(self.suppress_tokens.iter().copied())
    }
}

fn token_and_bias(argument: &str) -> Result<(u32, f64), String> {
    let (token, bias) = text_and_bias(argument)?;
    Ok((token.parse().map_err(|_| format!("{token:?} is not the id of a token, a whole number"))?, bias))
}

/// Splits an argument at the last `=` into a text and a number.
fn text_and_bias(argument: &str) -> Result<(String, f64), String> {
    let (text, bias) = argument.rsplit_once('=').ok_or("there is no = before the bias")?;
    Ok((text.to_owned(), bias.parse().map_err(|_| format!("{bias:?} is not a number"))?))
}
