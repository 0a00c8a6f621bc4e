//! Verdicts as text: one block for the manifest, one for the mark, and no combined verdict.

use std::fmt::Write as _;

use verdigris_c2pa::{
    ManifestLocation, ManifestVerdict, NamedMark, TimestampValidity, TimestampVerdict, Trust, Validity,
};
use verdigris_detector::{Judgement, p_value};

use crate::verdicts::Verdicts;

/// Formats the verdicts on a text, as judged with these roots.
pub(crate) fn verdicts(of: &Verdicts<'_>, trust: &Trust) -> String {
    let mut out = format!("{}\n", shown(&of.name));
    let mut block = |head: &str, lines: Vec<String>| {
        for (i, line) in lines.iter().enumerate() {
            let head = if i == 0 { head } else { "" };
            let _ = writeln!(out, "  {head:<9} {line}");
        }
    };
    block("manifest", manifest(&of.manifest, trust));
    block("mark", vec![mark(of)]);
    for note in &of.notes {
        block("note", vec![note.clone()]);
    }
    out
}

fn manifest(of: &ManifestVerdict, trust: &Trust) -> Vec<String> {
    let place = match of.place {
        Some(ManifestLocation::Text) => " in invisible characters",
        Some(ManifestLocation::Structured) => " in a comment or front matter",
        Some(ManifestLocation::Sidecar) => " next to the text",
        None => "",
    };
    let bytes = of.bytes.map(|bytes| format!(" ({bytes} bytes)")).unwrap_or_default();
    let mut lines = vec![match of.verdict {
        Validity::Absent => "absent".into(),
        Validity::Elsewhere => {
            let url = of.url.as_deref().map(shown).unwrap_or_default();
            format!("elsewhere: it is at {url}, which is not fetched; give it with --manifest")
        }
        Validity::Valid => format!("valid,{place}{bytes}"),
        Validity::Invalid => {
            let why = of.error.as_deref().map(shown).unwrap_or_default();
            format!("invalid,{place}{bytes}: {why} ({})", of.codes.join(", "))
        }
    }];
    if of.binding.is_none() {
        return lines;
    }
    if let Some(signer) = of.signer.as_ref().or(of.organisation.as_ref()) {
        let with = of.algorithm.as_ref().map(|algorithm| format!(" ({algorithm})")).unwrap_or_default();
        let trusted = match (of.trusted, &trust.anchors) {
            (Some(true), _) => "who is trusted",
            (_, Some(_)) => "who is not trusted: no anchor vouches for this certificate",
            (_, None) => "who is not trusted: no anchors were given with --trust",
        };
        lines.push(format!("signed by {}{with}, {trusted}", shown(signer)));
    }
    if let Some(generator) = &of.generator {
        lines.push(format!("made by {}: {}", shown(generator), shown(&of.actions.join(", "))));
    }
    lines.extend(of.soft_bindings.iter().map(soft_binding));
    if of.watermark.is_some() && of.soft_bindings.is_empty() {
        lines.push("claims a watermark but does not name it".into());
    }
    lines.push(match &of.timestamp {
        Some(stamp) => timestamp(stamp, trust),
        None => "no time stamp: when it was signed is not proved".into(),
    });
    lines
}

fn timestamp(of: &TimestampVerdict, trust: &Trust) -> String {
    let time = of.time.as_deref().map(shown).unwrap_or_default();
    let authority = of.authority.as_deref().map_or_else(|| "an authority without a name".into(), shown);
    let is_asked = trust.anchors.is_some() || trust.timestamps.is_some();
    match of.verdict {
        TimestampValidity::Trusted => {
            format!("signed at {time} or before, as stamped by {authority}, which is trusted")
        }
        TimestampValidity::Untrusted => {
            let why = match is_asked {
                true => "no anchor vouches for its certificate",
                false => "no anchors were given with --trust or --trust-timestamps",
            };
            format!("signed at {time} or before, as stamped by {authority}, which is not trusted: {why}")
        }
        TimestampValidity::Invalid => format!(
            "its time stamp is not intact ({}): when it was signed is not proved",
            if of.codes.is_empty() { "unreadable".into() } else { of.codes.join(", ") }
        ),
    }
}

fn soft_binding(of: &NamedMark) -> String {
    match (&of.scheme, &of.key_id) {
        (Some(scheme), Some(key)) => {
            let number = of.payload.map_or(String::new(), |number| format!(", number {number:#x}"));
            format!("claims a watermark: scheme {}, key {}{number}", shown(scheme), shown(key))
        }
        _ => format!("has a soft binding of another kind: {}", shown(&of.algorithm)),
    }
}

fn mark(of: &Verdicts<'_>) -> String {
    match &of.mark {
        None => "not asked: give --key or --ring".into(),
        Some(Err(error)) => format!("error: {}", shown(error)),
        Some(Ok(judgement)) => {
            let Judgement { evidence, key, .. } = judgement;
            let z = if evidence.z.is_finite() { format!("z {:.1}, ", evidence.z) } else { String::new() };
            format!(
                "{}: key {} ({}), {} of {} tokens counted, {z}p {}",
                judgement.outcome().name(),
                shown(key.id()),
                key.dialect().name(),
                evidence.scored,
                evidence.tokens,
                p_value(evidence.ln_p_corrected())
            )
        }
    }
}

/// Replaces control characters and those that change the writing direction, so that the text stays on one line and
/// cannot disturb a terminal.
pub(crate) fn shown(text: &str) -> String {
    let disturbs = |c: char| {
        c.is_control() || matches!(c, '\u{200E}' | '\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
    };
    text.chars().map(|c| if disturbs(c) { '\u{fffd}' } else { c }).collect()
}
