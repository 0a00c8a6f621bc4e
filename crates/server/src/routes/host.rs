//! The host names that the server answers to. A page can point its own name to this machine's address (DNS rebinding),
//! so that its requests look like those of a page of this server; but it cannot change the name in `Host` and `Origin`.

use std::net::IpAddr;

use axum::http::header::{self, HeaderName};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Uri};

use crate::protocol::Refusal;

/// Refuses a request to a host that the server does not answer to, or from a page of another host.
///
/// At an address that other machines can reach, every host is accepted unless the operator has named some: there, API
/// keys control access.
/// Pages that the operator shares the server with (`is_shared`) may be of any host.
pub(super) fn check(
    headers: &HeaderMap,
    uri: &Uri,
    address: IpAddr,
    allowed: &[String],
    is_shared: bool,
) -> Result<(), Refusal> {
    let is_known = |host: &str| is_local(host) || allowed.iter().any(|name| name.eq_ignore_ascii_case(host));
    let host = uri.authority().cloned().map_or_else(|| authority(headers, header::HOST), |host| Some(Ok(host)));
    let is_restricted = address.is_loopback() || !allowed.is_empty();
    match &host {
        // HTTP/1.0 requires no host, and browsers do not use it.
        None => (),
        Some(Ok(host)) if !is_restricted || is_known(host.host()) => (),
        Some(host) => {
            let shown = host.as_ref().map_or("an invalid host", Authority::host);
            let message = format!("this server does not answer to {shown:.100}: start it with --allowed-host NAME");
            return Err(Refusal::new(403, "unknown_host", message));
        }
    }
    let Some(origin) = headers.get(header::ORIGIN).filter(|_| !is_shared) else { return Ok(()) };
    let origin = origin.to_str().ok().and_then(|origin| origin.parse::<Uri>().ok());
    let origin = origin.as_ref().and_then(Uri::authority);
    let is_own = match (origin, &host) {
        (Some(origin), Some(Ok(host))) => origin.as_str().eq_ignore_ascii_case(host.as_str()),
        _ => false,
    };
    if is_own || origin.is_some_and(|origin| allowed.iter().any(|name| name.eq_ignore_ascii_case(origin.host()))) {
        return Ok(());
    }
    let message = "a browser sent this for a page of another site: use a page of this server, or another program; for \
                   a page of this server behind a proxy start it with --allowed-host NAME";
    Err(Refusal::new(403, "cross_site", message))
}

/// The host in a header; an error if it is invalid.
fn authority(headers: &HeaderMap, name: HeaderName) -> Option<Result<Authority, ()>> {
    let value = headers.get(name)?;
    Some(value.to_str().map_err(drop).and_then(|host| host.parse().map_err(drop)))
}

/// Whether a host always means this machine.
fn is_local(host: &str) -> bool {
    let address = host.trim_start_matches('[').trim_end_matches(']');
    host.eq_ignore_ascii_case("localhost") || address.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(address: &str, host: Option<&str>, origin: Option<&str>, allowed: &[&str]) -> Option<&'static str> {
        let mut headers = HeaderMap::new();
        for (name, value) in [(header::HOST, host), (header::ORIGIN, origin)] {
            value.map(|value| headers.insert(name, value.parse().unwrap()));
        }
        let allowed: Vec<String> = allowed.iter().map(|&name| name.into()).collect();
        let checked = check(&headers, &Uri::from_static("/detect"), address.parse().unwrap(), &allowed, false);
        checked.err().and_then(|refusal| refusal.code)
    }

    #[test]
    fn a_loopback_address_answers_to_its_own_names() {
        for host in ["localhost", "localhost:8000", "LocalHost:1", "127.0.0.1:8000", "127.1.2.3", "[::1]:8000"] {
            assert_eq!(code("127.0.0.1", Some(host), None, &[]), None, "{host}");
            assert_eq!(code("127.0.0.1", Some(host), Some(&format!("http://{host}")), &[]), None, "{host}");
        }
        assert_eq!(code("127.0.0.1", None, None, &[]), None);
        for host in ["evil.example", "localhost.evil.example", "10.0.0.1", "0.0.0.0", "[::2]", "a b", "", "127.0.0.1.x"]
        {
            assert_eq!(code("127.0.0.1", Some(host), None, &[]), Some("unknown_host"), "{host}");
            assert_eq!(code("::1", Some(host), None, &["me.lan"]), Some("unknown_host"), "{host}");
        }
        assert_eq!(code("127.0.0.1", Some("me.lan:80"), Some("http://me.lan:80"), &["Me.lan"]), None);
    }

    #[test]
    fn a_page_of_another_host_is_refused_everywhere() {
        for origin in ["http://evil.example", "null", "http://localhost:3000", "x", "file://"] {
            assert_eq!(code("127.0.0.1", Some("localhost:8000"), Some(origin), &[]), Some("cross_site"), "{origin}");
            assert_eq!(code("0.0.0.0", Some("models.example"), Some(origin), &[]), Some("cross_site"), "{origin}");
        }
        // Rebound: both have the page's name.
        assert_eq!(code("127.0.0.1", Some("evil.example"), Some("http://evil.example"), &[]), Some("unknown_host"));
        assert_eq!(code("0.0.0.0", Some("models.example"), Some("https://models.example"), &[]), None);
        assert_eq!(code("127.0.0.1", Some("localhost"), Some("https://app.example"), &["app.example"]), None);
        assert_eq!(code("0.0.0.0", Some("other"), None, &["models.example"]), Some("unknown_host"));
    }
}
