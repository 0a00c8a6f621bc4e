//! Origins of pages: the scheme, host and port of their addresses.

use std::fmt;
use std::str::FromStr;

/// The origin of pages, such as `https://app.example` or `http://localhost:3000`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin(String);

/// A text that is not an origin.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an origin is SCHEME://HOST or SCHEME://HOST:PORT, without a path or a wildcard")]
pub struct BadOrigin;

impl Origin {
    /// The origin as browsers send it.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Origin {
    type Err = BadOrigin;

    fn from_str(text: &str) -> Result<Self, BadOrigin> {
        let text = text.strip_suffix('/').unwrap_or(text).to_ascii_lowercase();
        let (scheme, rest) = text.split_once("://").ok_or(BadOrigin)?;
        let is_scheme = |c: char| c.is_ascii_alphanumeric() || "+-.".contains(c);
        let (host, port) = match rest.rsplit_once(':') {
            // A colon within brackets is part of the host.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (rest, None),
        };
        let name = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let fits = match name {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._".contains(c)),
        };
        let is_port =
            port.is_none_or(|port| port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok());
        if scheme.is_empty() || !scheme.chars().all(is_scheme) || !fits || !is_port {
            return Err(BadOrigin);
        }
        // Browsers leave out the usual port.
        Ok(Self(match (scheme, port) {
            ("http", Some("80")) | ("https", Some("443")) => format!("{scheme}://{host}"),
            _ => text,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_exact() {
        for (text, origin) in [
            ("https://app.example", "https://app.example"),
            ("HTTPS://App.Example/", "https://app.example"),
            ("http://localhost:3000", "http://localhost:3000"),
            ("https://app.example:443", "https://app.example"),
            ("http://app.example:443", "http://app.example:443"),
            ("http://[::1]:8080", "http://[::1]:8080"),
            ("http://[::1]", "http://[::1]"),
            ("tauri://localhost", "tauri://localhost"),
        ] {
            assert_eq!(text.parse::<Origin>().unwrap().as_str(), origin);
        }
        for text in [
            "",
            "*",
            "null",
            "app.example",
            "://x",
            "https://",
            "https://*",
            "https://*.example",
            "https://a/b",
            "https://a:b",
            "https://a:",
            "https://a:99999",
            "https://a b",
            "https://user@a",
            "https://[x]",
            "http://[::1",
        ] {
            assert_eq!(text.parse::<Origin>(), Err(BadOrigin), "{text}");
        }
    }
}
