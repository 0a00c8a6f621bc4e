//! The web page of `verdigris serve`, as sent to a browser. `tests/scripts/page` tests it in a browser.
#![cfg(feature = "serve")]

use crate::support::Folder;
use crate::support::server::{Answer, Server};

/// A header field of a response.
fn field<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}

/// The files of the page that a text refers to.
fn names(text: &str) -> Vec<&str> {
    let quoted = text.split('"').skip(1).step_by(2);
    quoted.filter(|name| name.starts_with("/page/") || name.starts_with("./")).collect()
}

#[test]
fn the_page_is_whole_and_keeps_to_itself() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let page = server.get("/");
    assert_eq!((page.status, field(&page, "content-type")), (200, Some("text/html; charset=utf-8")));
    let mut waiting: Vec<String> = names(&page.text).into_iter().map(Into::into).collect();
    let (mut seen, mut files) = (Vec::new(), vec![("/".to_owned(), page)]);
    while let Some(name) = waiting.pop() {
        let path = name.replace("./", "/page/");
        if seen.contains(&path) {
            continue;
        }
        let file = server.get(&path);
        let kind = match path.rsplit('.').next() {
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            other => panic!("{other:?}"),
        };
        assert_eq!((file.status, field(&file, "content-type")), (200, Some(kind)), "{path}");
        waiting.extend(names(&file.text).into_iter().map(Into::into));
        seen.push(path.clone());
        files.push((path, file));
    }
    assert!(seen.len() >= 8, "{seen:?}");
    for (path, file) in &files {
        let policy = field(file, "content-security-policy").unwrap();
        for rule in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'", "base-uri 'none'"] {
            assert!(policy.contains(rule), "{path}: {policy}");
        }
        assert!(!policy.contains("unsafe") && !policy.contains('*'), "{policy}");
        assert_eq!(field(file, "x-content-type-options"), Some("nosniff"), "{path}");
        assert_eq!(field(file, "referrer-policy"), Some("no-referrer"), "{path}");
        // The name of a namespace is never fetched.
        let text = file.text.replace("http://www.w3.org/2000/svg", "");
        for foreign in ["http:", "https:", "//cdn", "@import", " onclick", " onload", " style=", "innerHTML", "eval("] {
            assert!(!text.contains(foreign), "{path}: {foreign}");
        }
    }
}

#[test]
fn who_has_the_page_is_told_so() {
    let folder = Folder::new();
    let server = Server::start(&folder, &[]);
    let page = server.get("/");
    assert_eq!(field(&page, "cache-control"), Some("no-cache"));
    let tag = field(&page, "etag").unwrap();
    assert_ne!(Some(tag), field(&server.get("/page/page.css"), "etag"));
    let again = server.send(&format!("GET / HTTP/1.0\r\nIf-None-Match: \"0\", {tag}\r\nX-Rest:"), b"");
    assert_eq!((again.status, again.text.as_str()), (304, ""));
    let other = server.send("GET / HTTP/1.0\r\nIf-None-Match: \"0\"\r\nX-Rest:", b"");
    assert_eq!(other.status, 200);
    let head = server.send("HEAD /", b"");
    assert_eq!((head.status, head.text.as_str(), field(&head, "etag")), (200, "", Some(tag)));
    assert_eq!(server.send("POST /", b"").status, 405);
    for path in ["/page/", "/page/none.js", "/page/../Cargo.toml", "/page/%2e%2e/page.css", "/index.html"] {
        assert_eq!(server.get(path).status, 404, "{path}");
    }
}

/// The page itself is public, but the data that it requests is not.
#[test]
fn the_page_asks_for_a_key_where_the_server_does() {
    let folder = Folder::new();
    folder.write("keys.txt", "ann 0123456789abcdef\n");
    folder.run(&["key", "new", "my.key", "--id", "tale-key"]);
    let server = Server::start(&folder, &["--api-key-file", "keys.txt", "--key", "my.key"]);
    for path in ["/", "/page/page.js"] {
        assert_eq!(server.get(path).status, 200, "{path}");
    }
    for path in ["/about", "/pages", "/page", "//", "/page/../about"] {
        let answer = server.get(path);
        assert!(matches!(answer.status, 401 | 404) && !answer.text.contains("tale-key"), "{path}: {answer:?}");
    }
    assert_eq!(server.get("/about").status, 401);
    let about = server.get_as("/about", "Bearer 0123456789abcdef").json();
    assert_eq!((&about["keys"][0]["id"], &about["model"]), (&"tale-key".into(), &"tale".into()));
    assert_eq!((&about["chat"], &about["enforce_all"]), (&false.into(), &false.into()), "{about}");
    let secret = folder.read("my.key");
    let secret: serde_json::Value = serde_json::from_str(&secret).unwrap();
    assert!(!about.to_string().contains(secret["secret"].as_str().unwrap()));
}
