//! Lexical parts of JSON texts, complete or not.

/// Whether a byte is white space of JSON.
pub(crate) fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

pub(super) fn past_space(text: &[u8]) -> &[u8] {
    &text[text.iter().take_while(|&&byte| is_space(byte)).count()..]
}

/// The length of a string including its quotation marks, if it is complete.
pub(super) fn string_length(text: &[u8]) -> Option<usize> {
    let mut quotes = Quotes { inside: true, escaped: false };
    let end = text.iter().skip(1).position(|&byte| {
        quotes.read(byte);
        !quotes.inside
    });
    end.map(|end| end + 2)
}

/// The length of a number or a word.
pub(super) fn bare_length(text: &[u8]) -> usize {
    text.iter().take_while(|&&byte| !is_space(byte) && !matches!(byte, b',' | b']' | b'}' | b':')).count()
}

/// Tracks whether a text is inside a string.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Quotes {
    pub(super) inside: bool,
    escaped: bool,
}

impl Quotes {
    /// Reads one more byte.
    pub(super) fn read(&mut self, byte: u8) {
        let escaped = std::mem::take(&mut self.escaped);
        match byte {
            b'"' if !escaped => self.inside = !self.inside,
            b'\\' => self.escaped = self.inside && !escaped,
            _ => {}
        }
    }
}

/// The content of a string after its opening quotation mark, up to the closing one or as far as it is known: an
/// incomplete escape is left out.
pub(super) fn decoded(text: &[u8]) -> Vec<u8> {
    let mut content = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        rest = after;
        match byte {
            b'"' => break,
            b'\\' => match escape(&mut rest) {
                Some(character) => content.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes()),
                None => break,
            },
            byte => content.push(byte),
        }
    }
    content
}

/// The character of an escape after its backslash; `None` if it is incomplete.
fn escape(rest: &mut &[u8]) -> Option<char> {
    let (&kind, after) = rest.split_first()?;
    *rest = after;
    Some(match kind {
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => {
            let high = unit(rest)?;
            if !(0xd800..0xdc00).contains(&high) {
                return char::from_u32(high);
            }
            *rest = rest.strip_prefix(b"\\u")?;
            let low = unit(rest)?;
            return char::from_u32(0x10000 + ((high - 0xd800) << 10) + low.checked_sub(0xdc00)?);
        }
        itself => char::from(itself),
    })
}

/// Reads four hexadecimal digits.
fn unit(rest: &mut &[u8]) -> Option<u32> {
    let (digits, after) = rest.split_at_checked(4)?;
    *rest = after;
    u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A number as its sign, its digits without leading and trailing zeros, and the power of ten of the last digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Decimal {
    pub(super) is_negative: bool,
    pub(super) digits: Vec<u8>,
    pub(super) exponent: i64,
}

impl Decimal {
    /// Parses a number.
    pub(super) fn of(text: &[u8]) -> Self {
        let (is_negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
        let (mantissa, power) = split_once(text, |byte| matches!(byte, b'e' | b'E'));
        let (whole, fraction) = split_once(mantissa, |byte| byte == b'.');
        let power = std::str::from_utf8(power).ok().and_then(|power| power.parse().ok()).unwrap_or(0i64);
        let mut digits: Vec<u8> = whole.iter().chain(fraction).copied().skip_while(|&digit| digit == b'0').collect();
        let mut exponent = power.saturating_sub(fraction.len() as i64);
        while digits.last() == Some(&b'0') {
            digits.pop();
            exponent += 1;
        }
        match digits.is_empty() {
            // Zero has one representation.
            true => Self { is_negative: false, digits, exponent: 0 },
            false => Self { is_negative, digits, exponent },
        }
    }

    /// Whether a number that begins like this may become this one, judging by its digits.
    pub(super) fn may_begin(&self, text: &[u8]) -> bool {
        let (is_negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
        let mantissa = text.iter().take_while(|&&byte| !matches!(byte, b'e' | b'E'));
        let mut begun = mantissa.filter(|byte| byte.is_ascii_digit()).skip_while(|&&digit| digit == b'0');
        let padded = self.digits.iter().chain(std::iter::repeat(&b'0'));
        (self.digits.is_empty() || is_negative == self.is_negative) && padded.zip(&mut begun).all(|(a, b)| a == b)
    }
}

fn split_once(text: &[u8], separates: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    match text.iter().position(|&byte| separates(byte)) {
        Some(at) => (&text[..at], &text[at + 1..]),
        None => (text, &[]),
    }
}
