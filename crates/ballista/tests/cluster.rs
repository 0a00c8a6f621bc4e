//! Runs the built programs: a scheduler and two executors on this machine, and queries to them.

#[path = "../../datafusion/tests/common/mod.rs"]
mod common;

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::json::LineDelimitedWriter;
use datafusion::prelude::{ParquetReadOptions, SessionConfig, SessionContext};
use verdigris_datafusion::{Judges, register};

use common::verdicts::{Case, cases as cases_of_verdicts, key_files};
use common::{SECRET, key, marked, on_two_threads, plain, reader, write_numbered};

const FILES: usize = 24;
const SQL: &str = "
    SELECT file_of, count(*) AS documents, sum(CASE WHEN found['marked'] THEN 1 ELSE 0 END) AS marked,
           min(found['p']) AS p
    FROM (SELECT id / 1000 AS file_of, verdigris_detect(text, 'mine') AS found FROM documents)
    GROUP BY file_of ORDER BY file_of";
const COMBINED: &str = "
    SELECT author, c['p'] AS p, c['documents'] AS documents, c['scored'] AS scored
    FROM (SELECT id % 7 AS author, verdigris_combine(text, 'mine') AS c FROM documents GROUP BY id % 7)
    ORDER BY author";

/// A process of the cluster, which ends with the test.
struct ClusterProcess(Child);

impl Drop for ClusterProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Cluster {
    folder: tempfile::TempDir,
    scheduler: String,
    /// The processes by name.
    parts: Vec<(String, ClusterProcess)>,
}

impl Cluster {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let scheduler = format!("127.0.0.1:{}", port());
        let child = program(&["scheduler", "--listen", &scheduler, "--patience", "6"]);
        let mut new = Self { folder, scheduler, parts: Vec::new() };
        new.parts.push((String::new(), begun(child, "scheduler: at")));
        new
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn key(&self, id: &str) -> PathBuf {
        let path = self.path(&format!("{id}.key"));
        if !path.exists() {
            let made = if id == "mine" { key(id) } else { key(id).with_tenant("else").unwrap().with_id(id).unwrap() };
            made.save(&path).unwrap();
        }
        path
    }

    fn executor(&mut self, name: &str, id: &str) {
        let (work, key) = (self.path(name), self.key(id));
        let (results, orders) = (port().to_string(), port().to_string());
        let mut told = vec!["executor", "--name", name, "--scheduler", &self.scheduler, "--threads", "1"];
        told.extend(["--heartbeat", "1", "--port", &results, "--control-port", &orders]);
        told.extend(["--key", key.to_str().unwrap(), "--work", work.to_str().unwrap()]);
        let known: Vec<String> =
            key_files().keys().map(|id| self.path(&format!("{id}.key")).display().to_string()).collect();
        told.extend(known.iter().filter(|file| Path::new(file).exists()).flat_map(|file| ["--key", file]));
        let child = program(&told);
        self.parts.push((name.to_owned(), begun(child, &format!("executor {name}: works for"))));
    }

    fn kill(&mut self, name: &str) {
        self.parts.retain(|(other, _)| other != name);
    }

    /// Writes files of texts, some of which are marked and some of which are missing.
    fn lake(&self, each: usize) -> PathBuf {
        let lake = self.path("lake");
        std::fs::create_dir(&lake).unwrap();
        let marked = marked(&self.key("mine"), 12);
        for file in 0..FILES {
            let mut texts: Vec<Option<String>> = (0..each).map(|row| Some(plain(file * each + row))).collect();
            texts[file] = None;
            texts[each / 2] = (file % 2 == 0).then(|| marked[file / 2].clone());
            // Each file has its own range of a thousand document numbers.
            write_numbered(&lake.join(format!("{file:02}.parquet")), &texts, 100, file as i64 * 1000);
        }
        lake
    }

    fn ask(&self, lake: &Path, sql: &str) -> Child {
        let query = ["query", lake.to_str().unwrap(), "--scheduler", &self.scheduler, "--sql", sql];
        program(&[&query[..], &["--tasks", "24", "--json"]].concat())
    }

    fn answer(&self, lake: &Path, sql: &str) -> Output {
        self.ask(lake, sql).wait_with_output().unwrap()
    }

    /// Whether an executor has written anything yet.
    fn has_worked(&self, name: &str) -> bool {
        fn files(folder: &Path) -> bool {
            let Ok(entries) = folder.read_dir() else { return false };
            entries.flatten().any(|entry| entry.path().is_file() || files(&entry.path()))
        }
        files(&self.path(name))
    }
}

/// Each text of fixtures/verdicts has the same verdict on an executor as everywhere, to the last digit.
#[test]
fn an_executor_gives_each_text_its_verdict() {
    let mut cluster = Cluster::new();
    for (id, key) in key_files() {
        let file = cluster.path(&format!("{id}.key"));
        std::fs::write(&file, key).unwrap();
        #[cfg(unix)]
        std::fs::set_permissions(&file, std::os::unix::fs::PermissionsExt::from_mode(0o600)).unwrap();
    }
    cluster.executor("a", "mine");
    let mut cases: BTreeMap<String, Vec<Case>> = BTreeMap::new();
    // A message holds no text of 16 MiB.
    let fits = |case: &Case| case.text.as_ref().is_some_and(|text| *text == case.content());
    for case in
        cases_of_verdicts().into_iter().filter(|case| fits(case) && case.options.is_empty() && case.keys.len() == 1)
    {
        cases.entry(case.keys[0].clone()).or_default().push(case);
    }
    for (id, cases) in cases {
        let lake = cluster.path(&format!("texts-of-{id}"));
        std::fs::create_dir(&lake).unwrap();
        let texts: Vec<Option<String>> = cases.iter().map(|case| case.text.clone()).collect();
        write_numbered(&lake.join("a.parquet"), &texts, 100, 0);
        let sql = format!("SELECT id, verdigris_detect(text, '{id}') AS found FROM documents ORDER BY id");
        let (lines, errors) = told(&cluster.answer(&lake, &sql));
        let found: Vec<serde_json::Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(found.len(), cases.len(), "{errors}");
        cases.iter().zip(&found).for_each(|(case, found)| case.compare(&found["found"]));
    }
}

/// A port that was free just now.
fn port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

fn program(arguments: &[&str]) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_verdigris-ballista"));
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits until a process reports that it has started.
fn begun(mut child: Child, says: &str) -> ClusterProcess {
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let part = ClusterProcess(child);
    let line = lines.next().expect("the process prints a line").unwrap();
    assert!(line.starts_with(says), "{line}");
    std::thread::spawn(move || lines.for_each(drop));
    part
}

/// The answer of the engine in this process to the same query.
fn alone(lake: &Path, sql: &str) -> String {
    on_two_threads(async {
        let context = SessionContext::new_with_config(SessionConfig::new().with_target_partitions(2));
        register(&context, &Arc::new(Judges::new([reader()], [key("mine")]).unwrap()));
        let name = format!("{}/", lake.display());
        context.register_parquet("documents", &name, ParquetReadOptions::default()).await.unwrap();
        let mut lines = Vec::new();
        let mut writer = LineDelimitedWriter::new(&mut lines);
        for batch in context.sql(sql).await.unwrap().collect().await.unwrap() {
            writer.write(&batch).unwrap();
        }
        writer.finish().unwrap();
        String::from_utf8(lines).unwrap()
    })
}

fn told(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// The error of a query that failed without an answer.
fn error(output: &Output) -> String {
    let (lines, errors) = told(output);
    assert_eq!((output.status.code(), &*lines), (Some(2), ""), "{errors}");
    errors
}

#[test]
fn two_executors_say_what_one_process_says() {
    let mut cluster = Cluster::new();
    cluster.executor("a", "mine");
    cluster.executor("b", "mine");
    let lake = cluster.lake(100);
    for sql in [SQL, COMBINED] {
        let (lines, errors) = told(&cluster.answer(&lake, sql));
        assert_eq!(lines, alone(&lake, sql), "{errors}");
    }
    assert!(cluster.has_worked("a") && cluster.has_worked("b"), "both executors worked on the query");
    let first = serde_json::from_str::<serde_json::Value>(alone(&lake, SQL).lines().next().unwrap()).unwrap();
    assert_eq!((&first["documents"], &first["marked"]), (&100.into(), &1.into()), "the lake has the expected texts");
}

#[test]
fn an_executor_that_is_killed_changes_no_answer() {
    let mut cluster = Cluster::new();
    cluster.executor("a", "mine");
    cluster.executor("b", "mine");
    let lake = cluster.lake(600);
    let mut asked = cluster.ask(&lake, SQL);
    let end = Instant::now() + Duration::from_secs(60);
    while !cluster.has_worked("a") {
        assert!(Instant::now() < end, "the executor did not start to work");
        std::thread::sleep(Duration::from_millis(5));
    }
    cluster.kill("a");
    assert!(asked.try_wait().unwrap().is_none(), "the query was still running when the executor was killed");
    let (lines, errors) = told(&asked.wait_with_output().unwrap());
    assert_eq!(lines, alone(&lake, SQL), "{errors}");
}

#[test]
fn what_goes_wrong_on_an_executor_is_told_to_whoever_asked() {
    let mut cluster = Cluster::new();
    cluster.executor("a", "mine");
    cluster.executor("b", "other");
    let lake = cluster.lake(50);
    let errors = error(&cluster.answer(&lake, SQL));
    assert!(errors.contains("there is no key with the id \"mine\" here: there is \"other\""), "{errors}");
    assert!(!errors.contains(SECRET) && errors.lines().count() == 1, "{errors}");
    // The cluster recovers: the query succeeds once all executors have the key.
    cluster.kill("b");
    cluster.executor("c", "mine");
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        let (lines, errors) = told(&cluster.answer(&lake, SQL));
        if lines == alone(&lake, SQL) {
            break;
        }
        assert!(Instant::now() < end, "{errors}");
    }

    let damaged = lake.join("07.parquet");
    let mut bytes = std::fs::read(&damaged).unwrap();
    let middle = bytes.len() / 2;
    bytes[4..middle].fill(0x55);
    std::fs::write(&damaged, bytes).unwrap();
    let errors = error(&cluster.answer(&lake, SQL));
    assert!(errors.starts_with("error: "), "{errors}");

    for (lake, sql, want) in [
        ("nowhere", "SELECT 1", "nowhere"),
        ("lake", "SELECT verdigris_p(id, 'mine') FROM documents", "verdigris_p judges texts"),
        ("lake", "DROP TABLE documents", "DDL not supported"),
        ("lake", "SELECT nothing FROM documents", "nothing"),
    ] {
        let errors = error(&cluster.answer(&cluster.path(lake), sql));
        assert!(errors.contains(want) && errors.starts_with("error: "), "{errors}");
    }
}

#[test]
fn a_part_that_cannot_work_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("mine.key");
    key("mine").save(&file).unwrap();
    let (file, work) = (file.to_str().unwrap(), folder.path().join("work"));
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().to_string();
    let executor = ["executor", "--name", "a", "--work", work.to_str().unwrap(), "--key"];
    for (arguments, want) in [
        (vec!["scheduler", "--listen", &at], "in use"),
        ([&executor[..], &["nowhere.key"]].concat(), "nowhere.key"),
        ([&executor[..], &[file, "--tokenizer", "nowhere.json"]].concat(), "cannot read nowhere.json"),
        ([&executor[..], &[file, "--level", "2"]].concat(), "--level <P>': must be a number above 0 and below 1"),
        ([&executor[..], &[file, "--scheduler", "127.0.0.1"]].concat(), "host and a port"),
        ([&executor[..], &[file, "--scheduler", "127.0.0.1:1"]].concat(), "127.0.0.1:1"),
    ] {
        let output = program(&arguments).wait_with_output().unwrap();
        let (_, errors) = told(&output);
        assert_eq!(output.status.code(), Some(2), "{errors}");
        assert!(errors.contains(want), "{errors}");
    }
}
