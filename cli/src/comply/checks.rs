//! The checks, in the order of the measures of the Code of Practice on transparency of AI-generated content (10 June
//! 2026), Section 1. docs/compliance.md has the same list with sources and figures.

use jiff::ToSpan;
use jiff::civil::Date;
use serde::Serialize;
use verdigris::{Key, KeyRing};

use crate::doctor::keys::{Last, last_day};
use crate::error::Failure;
use crate::serve::{InputMarks, Serve, Unmarkable};

/// The number of days in advance at which a ring needs its next key.
const SOON: i32 = 30;

/// The state of a check.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// The options do what the measure asks.
    Met,
    /// They do not.
    Missing,
    /// The measure leaves it open, and it would be better.
    Advised,
    /// A matter of contracts, people or other systems.
    Yours,
}

/// The result of one check.
#[derive(Debug, Serialize)]
pub(super) struct Check {
    /// The number of the measure.
    pub(super) measure: &'static str,
    /// Its subject in a few words.
    pub(super) subject: &'static str,
    pub(super) state: State,
    /// The state in a sentence.
    pub(super) value: String,
    /// The remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cure: Option<String>,
}

impl Check {
    pub(super) fn is_missing(&self) -> bool {
        self.state == State::Missing
    }

    fn new(measure: &'static str, subject: &'static str, state: State, value: impl Into<String>) -> Self {
        Self { measure, subject, state, value: value.into(), cure: None }
    }

    fn met(measure: &'static str, subject: &'static str, value: impl Into<String>) -> Self {
        Self::new(measure, subject, State::Met, value)
    }

    fn yours(measure: &'static str, subject: &'static str, value: impl Into<String>) -> Self {
        Self::new(measure, subject, State::Yours, value)
    }

    fn missing(
        measure: &'static str,
        subject: &'static str,
        value: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self { cure: Some(cure.into()), ..Self::new(measure, subject, State::Missing, value) }
    }

    fn advised(
        measure: &'static str,
        subject: &'static str,
        value: impl Into<String>,
        cure: impl Into<String>,
    ) -> Self {
        Self { cure: Some(cure.into()), ..Self::new(measure, subject, State::Advised, value) }
    }
}

/// All checks of a server on a day.
pub(super) fn all(serve: &Serve, today: Date) -> Result<Vec<Check>, Failure> {
    let key = serve.key.as_deref().map(Key::load).transpose()?;
    let ring = serve.ring.as_deref().map(KeyRing::load).transpose()?;
    let keys: Vec<&Key> = key.iter().chain(ring.iter().flat_map(KeyRing::keys)).collect();
    Ok(vec![
        marked(serve, &keys),
        unmarkable(serve),
        logged(serve),
        inputs(serve),
        Check::yours("1.2", "marks are not removed", "your terms must forbid clients to remove marks"),
        detector(serve),
        report(serve),
        Check::met(
            "2.1.3",
            "nothing is retained",
            "POST /detect keeps nothing of a text, and logs hold ids and counts only",
        ),
        Check::met("2.2", "the technique is named", "each verdict has the scheme and the id of the key"),
        Check::met(
            "3.1",
            "effectiveness is measured",
            "docs/watermark.md: false alarms, texts found by length, and right answers with and without the mark",
        ),
        forging(&keys),
        rotation(&keys, today),
        Check::yours(
            "3.4",
            "detectors are found",
            "by 2 February 2027 take part in one way of routing: publish the address of your detector",
        ),
        Check::yours(
            "4",
            "documents, tests, training",
            "keep this report and the audit log; test before each release with verdigris bench harm and robustness",
        ),
    ])
}

/// Whether every answer is marked.
fn marked(serve: &Serve, keys: &[&Key]) -> Check {
    let (measure, subject) = ("1.1.2", "every answer is marked");
    if keys.is_empty() {
        let cure = "verdigris key new ring/first.key, and ring = \"ring\" in the options";
        return Check::missing(measure, subject, "no key: answers are not marked", cure);
    }
    if !serve.enforce_all {
        let value = "requests may say \"watermarking\": false";
        return Check::missing(measure, subject, value, "enforce-all = true");
    }
    let mut schemes: Vec<&str> = keys.iter().map(|key| key.dialect().name()).collect();
    schemes.sort_unstable();
    schemes.dedup();
    let keys = if keys.len() == 1 { "1 key".into() } else { format!("{} keys", keys.len()) };
    Check::met(measure, subject, format!("by {}, with {keys}", schemes.join(" and ")))
}

/// Texts whose mark cannot be verified.
fn unmarkable(serve: &Serve) -> Check {
    let value = match serve.unmarkable {
        Unmarkable::Refuse => "texts whose mark cannot be verified are refused",
        Unmarkable::Allow => {
            "texts whose mark cannot be verified are delivered, and their status says so: the \
            measure exempts texts of less than 200 tokens"
        }
    };
    Check::met("1.1.2", "short texts", value)
}

fn logged(serve: &Serve) -> Check {
    let (measure, subject) = ("1.1.3", "answers are logged");
    match &serve.audit_log {
        Some(_) => Check::met(measure, subject, "ids, counts and the status of each mark, without text"),
        None => {
            let value = "no audit log: you cannot show later that everything was marked";
            Check::advised(measure, subject, value, "audit-log = \"audit.jsonl\"")
        }
    }
}

/// Whether marks of inputs are noticed.
fn inputs(serve: &Serve) -> Check {
    let (measure, subject) = ("1.2", "marks of inputs are noticed");
    match serve.input_marks {
        InputMarks::Report => Check::met(measure, subject, "answers and the audit log say what messages carry"),
        InputMarks::Off => {
            let value = "marks and manifests in messages are not looked for";
            Check::advised(measure, subject, value, "input-marks = \"report\"")
        }
    }
}

/// Whether results can be downloaded with a signature.
fn report(serve: &Serve) -> Check {
    let (measure, subject) = ("2.1.2", "results are signed");
    match (&serve.report_key, &serve.report_url) {
        (Some(_), Some(url)) => Check::met(measure, subject, format!("by the key of the options, for {url}")),
        (Some(_), None) => {
            let value = "reports do not name the address of the detector";
            Check::missing(measure, subject, value, "report-url = \"https://HOST/detect\"")
        }
        (None, _) => {
            let cure = "verdigris key report report.pem, and report-key = \"report.pem\" in the options";
            Check::missing(measure, subject, "results cannot be downloaded with a signature", cure)
        }
    }
}

/// Whether the detector can be reached.
fn detector(serve: &Serve) -> Check {
    let (measure, subject) = ("2.1.1", "a detector for everyone");
    if serve.key.is_none() && serve.ring.is_none() {
        return Check::missing(measure, subject, "without a key POST /detect finds nothing", "see 1.1.2");
    }
    match (serve.host.is_loopback(), &serve.api_key_file) {
        (true, _) => Check::yours(
            measure,
            subject,
            "POST /detect and the page are at a loopback address: publish them through your proxy, free of charge",
        ),
        (false, Some(_)) => Check::yours(
            measure,
            subject,
            "POST /detect and the page need an API key: give one to everyone that may check texts",
        ),
        (false, None) => Check::met(measure, subject, "POST /detect and the page answer everyone"),
    }
}

/// Whether marks are hard to forge.
fn forging(keys: &[&Key]) -> Check {
    let (measure, subject) = ("3.3", "marks are hard to forge");
    if let Some(key) = keys.iter().find(|key| key.is_public()) {
        let value = format!("the secret of the key {} is public", key.id());
        return Check::missing(measure, subject, value, "verdigris key new, and take the key out of use");
    }
    match keys.iter().find(|key| key.variants() == 1) {
        _ if keys.is_empty() => Check::missing(measure, subject, "no key", "see 1.1.2"),
        Some(key) => {
            let value = format!("the key {} has one variant: marks learned from its texts look genuine", key.id());
            Check::advised(measure, subject, value, "verdigris key new makes a key of noise with 8 variants")
        }
        None => Check::met(measure, subject, "all keys have variants: marks learned from texts are called forged"),
    }
}

/// Whether keys are rotated.
fn rotation(keys: &[&Key], today: Date) -> Check {
    let (measure, subject) = ("3.3", "keys are rotated");
    let mut tenants: Vec<&str> = keys.iter().map(|key| key.tenant()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let soon = today.checked_add(SOON.days()).unwrap_or(today);
    let mut first: Option<Date> = None;
    for tenant in tenants {
        let of_tenant: Vec<&Key> = keys.iter().copied().filter(|key| key.tenant() == tenant).collect();
        let of = if tenant.is_empty() { String::new() } else { format!(" of the tenant {tenant}") };
        match last_day(&of_tenant, today) {
            Last::None => {
                let value = format!("none of the keys{of} is for today");
                return Check::missing(measure, subject, value, "verdigris key new ring/next.key --valid-from DAY");
            }
            Last::Never => {
                let value = format!("a key{of} has no last day, so a leak would last");
                let cure = "verdigris key new ring/next.key --valid-from DAY --valid-until DAY";
                return Check::advised(measure, subject, value, cure);
            }
            Last::Day(day) => first = first.into_iter().chain([day]).min(),
        }
    }
    match first {
        Some(day) if day <= soon => {
            let value = format!("the last day with a key is {day}");
            Check::missing(measure, subject, value, "verdigris key new ring/next.key --valid-from DAY")
        }
        Some(day) => Check::met(measure, subject, format!("there are keys until {day}")),
        None => Check::missing(measure, subject, "no key", "see 1.1.2"),
    }
}
