//! The checks, in the order of the measures of the Code of Practice on transparency of AI-generated content (10 June
//! 2026), Section 1. docs/compliance.md has the same list with sources and figures.

use jiff::ToSpan;
use jiff::civil::Date;
use serde::Serialize;
use verdigris::detector::report::ReportKey;
use verdigris::models::whole_file;
use verdigris::watermark::KeyError;
use verdigris::{Key, KeyRing, Reader};
use verdigris_server::{ApiKeys, writer_for};

use crate::doctor::keys::{Last, SOON, last_day};
use crate::error::Failure;
use crate::serve::{InputMarks, Serve, Unmarkable};

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

/// The state of a check, and what there is to say about it.
struct Finding {
    state: State,
    value: String,
    cure: Option<String>,
}

impl Check {
    pub(super) fn is_missing(&self) -> bool {
        self.state == State::Missing
    }
}

impl Finding {
    fn new(state: State, value: impl Into<String>) -> Self {
        Self { state, value: value.into(), cure: None }
    }

    fn cure(self, cure: impl Into<String>) -> Self {
        Self { cure: Some(cure.into()), ..self }
    }
}

/// All checks of a server on a day.
pub(super) fn all(serve: &Serve, today: Date) -> Result<Vec<Check>, Failure> {
    let key = serve.key.as_deref().map(Key::load).transpose()?;
    let ring = serve.ring.as_deref().map(KeyRing::load).transpose()?;
    // What keeps the server from starting is an error here, too.
    if let Some(key) = key.iter().find(|key| key.is_published()) {
        return Err(KeyError::Published { id: key.id().into() }.into());
    }
    serve.report_key.as_deref().map(ReportKey::load).transpose()?;
    let api_keys = serve.api_key_file.as_deref().map(ApiKeys::load).transpose()?;
    // A client without an API key has no name.
    let clients: Vec<&str> = api_keys.as_ref().map_or_else(|| vec![""], |keys| keys.names().collect());
    let of_ring: Vec<&Key> = ring.iter().flat_map(KeyRing::keys).collect();
    let writers = Writers { for_all: key.as_ref(), of_ring: &of_ring, clients: &clients };
    // Published keys mark nothing.
    let keys: Vec<&Key> = key.iter().chain(of_ring.iter().copied()).filter(|key| !key.is_published()).collect();
    if let Some(folder) = serve.audit_log.as_deref().map(whole_file::folder) {
        std::fs::metadata(folder).map_err(|source| Failure::Write { path: folder.into(), source })?;
    }
    let readers = serve.models.readers()?;
    let met = |value: &str| Finding::new(State::Met, value);
    let yours = |value: &str| Finding::new(State::Yours, value);
    let checks = [
        ("1.1.1", "signed metadata", signed(serve)),
        ("1.1.2", "every answer is marked", marked(serve, &keys, &writers, &readers, today)),
        ("1.1.2", "short texts", unmarkable(serve)),
        ("1.1.3", "answers are logged", logged(serve)),
        ("1.2", "marks of inputs are noticed", inputs(serve)),
        ("1.2", "marks are not removed", yours("your terms must forbid clients to remove marks")),
        ("2.1.1", "a detector for everyone", detector(serve)),
        ("2.1.2", "results are signed", report(serve)),
        (
            "2.1.3",
            "nothing is retained",
            met("POST /detect keeps nothing of a text, and logs hold ids and counts only"),
        ),
        ("2.2", "the technique is named", met("each verdict has the scheme and the id of the key")),
        (
            "3.1",
            "effectiveness is measured",
            met("docs/watermark.md: false alarms, texts found by length, and right answers with and without the mark"),
        ),
        ("3.3", "marks are hard to forge", forging(&keys)),
        ("3.3", "keys are rotated", rotation(&keys, today)),
        (
            "3.4",
            "detectors are found",
            yours("by 2 February 2027 take part in one way of routing: publish the address of your detector"),
        ),
        (
            "4",
            "documents, tests, training",
            yours(
                "keep this report and the audit log; test before each release with verdigris bench harm and robustness",
            ),
        ),
    ];
    let check = |(measure, subject, Finding { state, value, cure })| Check { measure, subject, state, value, cure };
    Ok(checks.into_iter().map(check).collect())
}

/// The keys of a server, and the names of its clients.
struct Writers<'a> {
    for_all: Option<&'a Key>,
    of_ring: &'a [&'a Key],
    clients: &'a [&'a str],
}

impl<'a> Writers<'a> {
    /// A client for whom no key is for a day.
    fn refused(&self, today: Date) -> Option<&'a str> {
        let is_refused = |client: &&str| writer_for(self.for_all.as_ref(), self.of_ring, client, today).is_none();
        self.clients.iter().copied().find(is_refused)
    }
}

/// Whether every answer is marked.
fn marked(serve: &Serve, keys: &[&Key], writers: &Writers<'_>, readers: &[(String, Reader)], today: Date) -> Finding {
    if keys.is_empty() && writers.of_ring.is_empty() {
        let cure = "verdigris key new ring/first.key, and ring = \"ring\" in the options";
        return Finding::new(State::Missing, "no key: answers are not marked").cure(cure);
    }
    if keys.is_empty() {
        let value = "all keys of the ring are published ones, which mark nothing, so requests are refused";
        return Finding::new(State::Missing, value).cure("verdigris key new ring/first.key");
    }
    if let Some((name, _)) = readers.iter().find(|(_, reader)| keys.iter().all(|key| reader.fits(key).is_err())) {
        let value = format!("no key is for the tokenizer of the model {name}, so the server does not start");
        return Finding::new(State::Missing, value).cure("verdigris key new --model PATH, with the path of the model");
    }
    if let Some(client) = writers.refused(today) {
        let whose = if client.is_empty() { String::new() } else { format!(" and for the API key {client}") };
        let value = format!("none of the keys is for today{whose}, so requests are refused");
        let cure = "verdigris key new ring/next.key --valid-from DAY, without --tenant or with the name of the API key";
        return Finding::new(State::Missing, value).cure(cure);
    }
    if !serve.enforce_all {
        let value = "requests may say \"watermarking\": false";
        return Finding::new(State::Missing, value).cure("enforce-all = true");
    }
    let mut schemes: Vec<&str> = keys.iter().map(|key| key.dialect().name()).collect();
    schemes.sort_unstable();
    schemes.dedup();
    let keys = if keys.len() == 1 { "1 key".into() } else { format!("{} keys", keys.len()) };
    Finding::new(State::Met, format!("by {}, with {keys}", schemes.join(" and ")))
}

/// Whether texts are returned with a signed and stamped manifest.
fn signed(serve: &Serve) -> Finding {
    let signer = &serve.manifests.signer;
    match (signer.is_given(), signer.is_stamped()) {
        (true, true) => Finding::new(State::Met, "answers have a C2PA manifest with a time stamp"),
        (true, false) => {
            let value = "the C2PA manifests of answers have no time stamp";
            Finding::new(State::Advised, value).cure("c2pa-timestamp = \"http://AUTHORITY\"")
        }
        (false, _) => {
            let value = "answers have no C2PA manifest: free text needs none, documents in a container do";
            Finding::new(State::Advised, value).cure("c2pa-cert, c2pa-key and c2pa-timestamp: docs/operating.md")
        }
    }
}

/// Texts whose mark cannot be verified.
fn unmarkable(serve: &Serve) -> Finding {
    let value = match serve.unmarkable {
        Unmarkable::Refuse => "texts whose mark cannot be verified are refused",
        Unmarkable::Allow => {
            "texts whose mark cannot be verified are delivered, and their status says so: the \
            measure exempts texts of less than 200 tokens"
        }
    };
    Finding::new(State::Met, value)
}

fn logged(serve: &Serve) -> Finding {
    match &serve.audit_log {
        Some(_) if serve.ledger.is_given() => {
            Finding::new(State::Met, "ids, counts and the status of each mark, and fingerprints of texts")
        }
        Some(_) => Finding::new(State::Met, "ids, counts and the status of each mark, without text"),
        None => {
            let value = "no audit log: you cannot show later that everything was marked";
            Finding::new(State::Advised, value).cure("audit-log = \"audit.jsonl\"")
        }
    }
}

/// Whether marks of inputs are noticed.
fn inputs(serve: &Serve) -> Finding {
    match serve.input_marks {
        InputMarks::Report => Finding::new(State::Met, "answers and the audit log say what messages carry"),
        InputMarks::Off => {
            let value = "marks and manifests in messages are not looked for";
            Finding::new(State::Advised, value).cure("input-marks = \"report\"")
        }
    }
}

/// Whether results can be downloaded with a signature.
fn report(serve: &Serve) -> Finding {
    match (&serve.report_key, &serve.report_url) {
        (Some(_), Some(url)) => Finding::new(State::Met, format!("by the key of the options, for {url}")),
        (Some(_), None) => {
            let value = "reports do not name the address of the detector";
            Finding::new(State::Missing, value).cure("report-url = \"https://HOST/detect\"")
        }
        (None, _) => {
            let cure = "verdigris key report report.pem, and report-key = \"report.pem\" in the options";
            Finding::new(State::Missing, "results cannot be downloaded with a signature").cure(cure)
        }
    }
}

/// Whether the detector can be reached.
fn detector(serve: &Serve) -> Finding {
    if serve.key.is_none() && serve.ring.is_none() {
        return Finding::new(State::Missing, "without a key POST /detect finds nothing").cure("see 1.1.2");
    }
    match (serve.host.is_loopback(), &serve.api_key_file) {
        (false, None) if !serve.allow_anyone => {
            let value = "the server does not start at an address for all without API keys";
            Finding::new(State::Missing, value).cure("allow-anyone = true, or api-key-file = \"keys.txt\"")
        }
        (true, _) => Finding::new(
            State::Yours,
            "POST /detect and the page are at a loopback address: publish them through your proxy, free of charge",
        ),
        (false, Some(_)) => Finding::new(
            State::Yours,
            "POST /detect and the page need an API key: give one to everyone that may check texts",
        ),
        (false, None) => Finding::new(State::Met, "POST /detect and the page answer everyone"),
    }
}

/// Whether marks are hard to forge.
fn forging(keys: &[&Key]) -> Finding {
    if let Some(key) = keys.iter().find(|key| key.is_public()) {
        let value = format!("the secret of the key {} is public", key.id());
        return Finding::new(State::Missing, value).cure("verdigris key new, and take the key out of use");
    }
    match keys.iter().find(|key| key.variants() == 1) {
        _ if keys.is_empty() => Finding::new(State::Missing, "no key").cure("see 1.1.2"),
        Some(key) => {
            let value = format!("the key {} has one variant: marks learned from its texts look genuine", key.id());
            Finding::new(State::Advised, value).cure("verdigris key new makes a key of noise with 8 variants")
        }
        None => Finding::new(State::Met, "all keys have variants: texts with the marks of several are called forged"),
    }
}

/// Whether keys are rotated.
fn rotation(keys: &[&Key], today: Date) -> Finding {
    let mut tenants: Vec<&str> = keys.iter().map(|key| key.tenant()).collect();
    tenants.sort_unstable();
    tenants.dedup();
    let soon = today.checked_add(SOON.days()).unwrap_or(today);
    let (mut first, mut open): (Option<Date>, Option<Finding>) = (None, None);
    for tenant in tenants {
        let of_tenant: Vec<&Key> = keys.iter().copied().filter(|key| key.tenant() == tenant).collect();
        let of = if tenant.is_empty() { String::new() } else { format!(" of the tenant {tenant}") };
        match last_day(&of_tenant, today) {
            Last::None => {
                let value = format!("none of the keys{of} is for today");
                return Finding::new(State::Missing, value).cure("verdigris key new ring/next.key --valid-from DAY");
            }
            Last::Never => {
                let value = format!("a key{of} has no last day, so a leak would last");
                let cure = "verdigris key new ring/next.key --valid-from DAY --valid-until DAY";
                open.get_or_insert(Finding::new(State::Advised, value).cure(cure));
            }
            Last::Day(day) => first = first.into_iter().chain([day]).min(),
        }
    }
    match (first, open) {
        (Some(day), _) if day <= soon => {
            let value = format!("no key follows the one that ends on {day}");
            Finding::new(State::Missing, value).cure("verdigris key new ring/next.key --valid-from DAY")
        }
        (_, Some(open)) => open,
        (Some(day), None) => Finding::new(State::Met, format!("there are keys until {day}")),
        (None, None) => Finding::new(State::Missing, "no key").cure("see 1.1.2"),
    }
}
