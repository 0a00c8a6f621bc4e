//! Constraints that take long to compile delay neither other clients, even after their client disconnects, nor the end
//! of the server.
#![cfg(all(feature = "serve", unix))]

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::server::Server;

/// A different expression for each number, which takes a while until it is refused.
fn slow(number: usize) -> String {
    format!(r"{number}((((\w{{1,20}}){{1,20}}){{1,20}}){{1,20}})")
}

fn detection(number: usize) -> Value {
    json!({"text": "1", "regex": slow(number)})
}

#[cfg(target_os = "linux")]
fn threads_of(server: &Server) -> usize {
    std::fs::read_dir(format!("/proc/{}/task", server.id())).unwrap().count()
}

/// Compiling for disconnected clients takes at most one thread per processor.
#[cfg(target_os = "linux")]
#[test]
fn clients_that_leave_leave_no_crowd() {
    let (_folder, server) = Server::marking(&["--max-requests", "1000"]);
    let before = threads_of(&server);
    let processors = std::thread::available_parallelism().unwrap().get();
    let mut most = 0;
    for number in 0..40 {
        let chat =
            json!({"messages": [{"role": "user", "content": "Hi"}], "structured_outputs": {"regex": slow(number)}});
        drop(server.ask("/detect", &detection(number)));
        drop(
            server
                .ask("/v1/completions", &json!({"prompt": "It", "structured_outputs": {"regex": slow(100 + number)}})),
        );
        drop(server.ask("/v1/chat/completions", &chat));
        most = most.max(threads_of(&server));
    }
    let end = Instant::now() + Duration::from_secs(2);
    while Instant::now() < end {
        most = most.max(threads_of(&server));
        std::thread::sleep(Duration::from_millis(10));
    }
    // A few threads look up prompts and records, and stay idle for a while.
    assert!(most <= before + processors + 4, "{most} threads, {before} before, {processors} processors");
    let plain = server.post("/v1/completions", &json!({"prompt": "The captain", "max_tokens": 5}));
    assert_eq!(plain.status, 200, "{plain:?}");
}

/// A second signal stops the server even while constraints are compiled.
#[test]
fn a_second_signal_ends_it_whatever_is_computed() {
    let (_folder, server) = Server::marking(&["--max-requests", "1000"]);
    let asked: Vec<_> = (0..60).map(|number| server.ask("/detect", &detection(number))).collect();
    // Once a later request is answered, all of them have arrived.
    assert_eq!(server.get("/health").status, 200);
    let begun = Instant::now();
    let status = server.stop(|server| {
        std::thread::sleep(Duration::from_millis(200));
        server.tell_to_stop();
    });
    // Compiling them all would take many times as long.
    assert!(begun.elapsed() < Duration::from_secs(8), "{:?}", begun.elapsed());
    assert_eq!(status, Some(0));
    drop(asked);
}
