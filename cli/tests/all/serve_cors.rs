//! The server, over HTTP: pages of other sites that the operator allows.
#![cfg(feature = "serve")]

use crate::support::Folder;
use crate::support::server::{Answer, Server};

const PAGE: &str = "https://app.example";

fn ask(server: &Server, head: &str, headers: &str) -> Answer {
    let body = r#"{"prompt": "a", "max_tokens": 1}"#;
    let (length, body) = if head.starts_with("POST") { (body.len(), body) } else { (0, "") };
    let request = format!(
        "{head} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    );
    server.raw(request.as_bytes()).unwrap()
}

fn preflight(server: &Server, origin: &str) -> Answer {
    let headers = format!(
        "Origin: {origin}\r\nAccess-Control-Request-Method: POST\r\nSec-Fetch-Site: cross-site\r\n\
         Access-Control-Request-Headers: authorization,x-stainless-os\r\n"
    );
    ask(server, "OPTIONS /v1/completions", &headers)
}

fn post(server: &Server, origin: &str) -> Answer {
    let key = "Authorization: Bearer 0123456789abcdef\r\n";
    ask(server, "POST /v1/completions", &format!("Origin: {origin}\r\nSec-Fetch-Site: cross-site\r\n{key}"))
}

/// Only the named pages may use the server, and they still need an API key.
#[test]
fn named_pages_may_use_the_server() {
    let folder = Folder::with_key();
    folder.write("keys.txt", "ann 0123456789abcdef\n");
    let keys = ["--key", "my.key", "--api-key-file", "keys.txt"];
    let server = Server::start(&folder, &[&keys[..], &["--cors", PAGE, "--cors", "http://localhost:3000"]].concat());
    for origin in [PAGE, "http://localhost:3000"] {
        let answer = preflight(&server, origin);
        assert_eq!(answer.status, 204, "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("access-control-allow-methods"), Some("get, post"));
        assert_eq!(answer.header("access-control-allow-headers"), Some("authorization,x-stainless-os"));
        assert_eq!(answer.header("access-control-allow-credentials"), None);
        let answer = post(&server, origin);
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(answer.header("access-control-allow-origin"), Some(origin));
        assert_eq!(answer.header("vary"), Some("origin"));
        assert!(answer.header("access-control-expose-headers").unwrap().contains("x-ignored-fields"));
    }
    // A page can read the refusal too.
    let answer = ask(&server, "POST /v1/completions", &format!("Origin: {PAGE}\r\n"));
    assert_eq!((answer.status, answer.header("access-control-allow-origin")), (401, Some(PAGE)), "{answer:?}");
    for origin in ["https://evil.example", "https://app.example.evil.example", "http://app.example", "null"] {
        let answer = preflight(&server, origin);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None), "{answer:?}");
        let answer = post(&server, origin);
        assert_eq!((answer.status, answer.header("access-control-allow-origin")), (403, None), "{answer:?}");
        assert_eq!(answer.header("vary"), Some("origin"));
    }
    // A page that rebinds its own name is refused, whatever it calls itself.
    let rebound = format!("OPTIONS /v1/completions HTTP/1.1\r\nHost: evil.example\r\nOrigin: {PAGE}\r\n");
    let answer = server.raw(format!("{rebound}Connection: close\r\n\r\n").as_bytes()).unwrap();
    assert_eq!(answer.status, 403, "{answer:?}");
}

#[test]
fn wildcards_are_refused() {
    for origin in ["*", "null", "https://*.example", "app.example", "https://app.example/path"] {
        Folder::with_key().run(&["serve", "--print-config", "--cors", origin]).fails("an origin is SCHEME://HOST");
    }
}
