//! Ledgers as their users see them: additions, look-ups, retention, and files that cannot be used.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use tempfile::TempDir;
use verdigris_ledger::{Entry, Fingerprint, Ledger, LedgerError, NewEntry};

/// A text of different words, with numbers so that texts share no sequences.
fn text(seed: usize, words: usize) -> String {
    const WORDS: [&str; 8] = ["captain", "sail", "north", "anchor", "lantern", "gale", "harbour", "mast"];
    (0..words).map(|i| format!("{}{} ", WORDS[(i * 5 + seed) % 8], (i * i + 31 * seed) % 1009)).collect()
}

fn folder() -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("answers.ledger");
    (folder, path)
}

fn add(ledger: &mut Ledger, id: &str, tenant: &str, text: &str) {
    let print = Fingerprint::of(text);
    ledger.add(&NewEntry { tenant, ..NewEntry::new(id, &print) }).unwrap();
}

fn ids(ledger: &Ledger, text: &str, tenant: Option<&str>) -> Vec<String> {
    let found = ledger.find(&Fingerprint::of(text), tenant).unwrap();
    found.into_iter().map(|found| found.entry.id).collect()
}

fn all(ledger: &Ledger) -> Vec<Entry> {
    let mut all = Vec::new();
    ledger
        .each::<LedgerError>(None, |entry| {
            all.push(entry);
            Ok(())
        })
        .unwrap();
    all
}

/// The bytes of the file and of those that SQLite keeps next to it.
fn bytes(path: &Path) -> Vec<u8> {
    let mut bytes = Vec::new();
    for file in fs::read_dir(path.parent().unwrap()).unwrap() {
        bytes.extend(fs::read(file.unwrap().path()).unwrap());
    }
    bytes
}

fn contains(bytes: &[u8], part: &str) -> bool {
    bytes.windows(part.len()).any(|window| window == part.as_bytes())
}

/// Of a text that was written many times, the first hundred entries are found, of each tenant.
#[test]
fn a_text_may_be_written_often() {
    let (_folder, path) = folder();
    let mut ledger = Ledger::create(&path).unwrap();
    for number in 0..250 {
        add(&mut ledger, &number.to_string(), "ann", "Yes.");
    }
    add(&mut ledger, "other", "bob", "Yes.");
    let first: Vec<String> = (0..100).map(|number| number.to_string()).collect();
    assert_eq!(ids(&ledger, "Yes.", None), first);
    assert_eq!(ids(&ledger, "Yes.", Some("ann")), first);
    assert_eq!(ids(&ledger, "Yes.", Some("bob")), ["other"]);
}

#[test]
fn entries_have_what_was_recorded_and_no_word_of_the_text() {
    let (_folder, path) = folder();
    let mut ledger = Ledger::create(&path).unwrap();
    let written = text(1, 300);
    let print = Fingerprint::of(&written);
    let time = Timestamp::from_millisecond(1_764_000_000_123).unwrap();
    let entry = NewEntry {
        id: "chatcmpl-1",
        part: 2,
        tenant: "ann",
        time,
        key_id: Some("vg-c0ffee00"),
        payload: Some(u32::MAX),
        manifest: Some(b"a store"),
        fingerprint: &print,
    };
    ledger.add(&entry).unwrap();
    let [kept] = &ledger.answer("ann", "chatcmpl-1").unwrap()[..] else { panic!("there is one") };
    assert_eq!((&*kept.id, kept.part, &*kept.tenant, kept.time), ("chatcmpl-1", 2, "ann", time));
    assert_eq!((kept.key_id.as_deref(), kept.digest), (Some("vg-c0ffee00"), *print.digest()));
    assert_eq!((kept.manifest.as_deref(), kept.payload), (Some(&b"a store"[..]), Some(u32::MAX)));
    let carrying = |key: &str, payload, tenant| ledger.carrying(key, payload, tenant).unwrap().len();
    assert_eq!(carrying("vg-c0ffee00", u32::MAX, None) + carrying("vg-c0ffee00", u32::MAX, Some("ann")), 2);
    for (key, payload, tenant) in
        [("vg-c0ffee00", 1, None), ("k", u32::MAX, None), ("vg-c0ffee00", u32::MAX, Some("b"))]
    {
        assert_eq!(carrying(key, payload, tenant), 0);
    }
    let digest: String = kept.manifest_digest.unwrap().iter().map(|byte| format!("{byte:02x}")).collect();
    // sha256sum of "a store".
    assert_eq!(digest, "4c13717a6f604fd426e2dd61a8bbadf26662ff2d7c0d5da4c8d77f59a39c282e");
    assert_eq!(all(&ledger), std::slice::from_ref(kept));
    let bytes = bytes(&path);
    assert!(contains(&bytes, "chatcmpl-1"));
    for word in written.split_whitespace() {
        assert!(!contains(&bytes, word), "{word} is in the file");
    }
    #[cfg(unix)]
    for file in fs::read_dir(path.parent().unwrap()).unwrap() {
        let file = file.unwrap();
        let mode = std::os::unix::fs::PermissionsExt::mode(&file.metadata().unwrap().permissions()) & 0o777;
        assert_eq!(mode, 0o600, "{:?}", file.path());
    }
}

#[test]
fn a_text_is_found_whole_cut_edited_and_embedded() {
    let (_folder, path) = folder();
    let mut ledger = Ledger::create(&path).unwrap();
    for seed in 0..20 {
        add(&mut ledger, &format!("a{seed}"), "", &text(seed, 400));
    }
    let one = text(7, 400);
    let words: Vec<&str> = one.split_whitespace().collect();
    let found = ledger.find(&Fingerprint::of(&format!("\n{one}\n")), None).unwrap();
    assert_eq!((found.len(), &*found[0].entry.id, found[0].is_same), (1, "a7", true));
    assert_eq!((found[0].similarity, found[0].contained), (1.0, 1.0));
    // Only letters' case and punctuation are changed.
    let found = ledger.find(&Fingerprint::of(&one.to_uppercase().replace(' ', ", ")), None).unwrap();
    assert_eq!((&*found[0].entry.id, found[0].is_same, found[0].similarity), ("a7", false, 1.0));
    // A quarter of it: contained in the entry, but not similar to it.
    let found = ledger.find(&Fingerprint::of(&words[100..200].join(" ")), None).unwrap();
    let [quarter] = &found[..] else { panic!("{found:?}") };
    assert!(
        quarter.entry.id == "a7" && quarter.contained == 1.0 && (quarter.similarity - 0.25).abs() < 0.15,
        "{found:?}"
    );
    // Every seventh word is gone.
    let mut kept = words.clone();
    kept = kept.chunks(7).flat_map(|chunk| &chunk[..chunk.len().min(6)]).copied().collect();
    assert_eq!(ids(&ledger, &kept.join(" "), None), ["a7"]);
    // In another text.
    let embedded = [text(100, 500), words[..150].join(" "), text(101, 500)].join(" ");
    let found = ledger.find(&Fingerprint::of(&embedded), None).unwrap();
    assert!(found.len() == 1 && found[0].entry.id == "a7" && found[0].contained < 0.3, "{found:?}");
    assert_eq!(ids(&ledger, &text(200, 400), None), Vec::<String>::new());
    assert_eq!(ids(&ledger, "", None), Vec::<String>::new());
    // Two answers, one of which is the beginning of the other.
    add(&mut ledger, "half", "", &words[..200].join(" "));
    assert_eq!(ids(&ledger, &words[..200].join(" "), None), ["half", "a7"]);
}

#[test]
fn a_short_text_is_found_only_as_it_was() {
    let (_folder, path) = folder();
    let mut ledger = Ledger::create(&path).unwrap();
    add(&mut ledger, "yes", "", "Yes, he was.");
    add(&mut ledger, "none", "", "...");
    assert_eq!(ids(&ledger, "Yes, he was.\n", None), ["yes"]);
    assert_eq!(ids(&ledger, "...", None), ["none"]);
    for other in ["yes, he was.", "He was.", "", "?"] {
        assert_eq!(ids(&ledger, other, None), Vec::<String>::new(), "{other:?}");
    }
}

#[test]
fn tenants_see_their_own_entries() {
    let (_folder, path) = folder();
    let mut ledger = Ledger::create(&path).unwrap();
    let same = text(1, 100);
    add(&mut ledger, "one", "ann", &same);
    add(&mut ledger, "one", "ben", &same);
    assert_eq!(ids(&ledger, &same, None).len(), 2);
    for tenant in ["ann", "ben"] {
        let found = ledger.find(&Fingerprint::of(&same), Some(tenant)).unwrap();
        assert!(found.len() == 1 && found[0].entry.tenant == tenant, "{found:?}");
        assert_eq!(ledger.answer(tenant, "one").unwrap().len(), 1);
        assert_eq!(ledger.count(Some(tenant)).unwrap(), 1);
    }
    assert_eq!(ids(&ledger, &same, Some("")), Vec::<String>::new());
    assert!(ledger.answer("", "one").unwrap().is_empty() && ledger.count(None).unwrap() == 2);
    assert_eq!(ledger.prune(Timestamp::MAX, Some("ann")).unwrap(), 1);
    assert_eq!((ledger.count(Some("ann")).unwrap(), ledger.count(Some("ben")).unwrap()), (0, 1));
}

#[test]
fn an_entry_is_added_once_and_never_replaced() {
    let (_folder, path) = folder();
    let mut ledger = Ledger::create(&path).unwrap();
    let (first, second) = (Fingerprint::of(&text(1, 50)), Fingerprint::of(&text(2, 50)));
    let entry = NewEntry { key_id: Some("k"), ..NewEntry::new("one", &first) };
    ledger.add(&entry).unwrap();
    let before = all(&ledger);
    ledger.add(&NewEntry { key_id: None, time: Timestamp::MAX, ..entry }).unwrap();
    assert_eq!(all(&ledger), before);
    // Its manifest may come later.
    ledger.add(&NewEntry { manifest: Some(b"store"), ..entry }).unwrap();
    ledger.add(&entry).unwrap();
    assert_eq!(all(&ledger)[0].manifest.as_deref(), Some(&b"store"[..]));
    let known = ledger.add(&NewEntry { fingerprint: &second, ..entry }).unwrap_err();
    assert!(known.to_string().contains("has an entry one already, for another text"), "{known}");
    assert_eq!(ledger.count(None).unwrap(), 1);
    ledger.add(&NewEntry { part: 1, fingerprint: &second, ..entry }).unwrap();
    assert_eq!(ledger.answer("", "one").unwrap().len(), 2);
}

#[test]
fn pruned_entries_leave_nothing_behind() {
    let (_folder, path) = folder();
    let mut ledger = Ledger::create(&path).unwrap();
    let now = Timestamp::now();
    for i in 0..600 {
        let print = Fingerprint::of(&text(i, 80));
        let time = now - SignedDuration::from_hours(if i < 550 { 48 } else { 1 });
        ledger.add(&NewEntry { time, ..NewEntry::new(&format!("secret-id-{i}"), &print) }).unwrap();
    }
    let length = || fs::metadata(&path).unwrap().len();
    let day = now - SignedDuration::from_hours(24);
    assert_eq!([(); 3].map(|()| ledger.prune(day, None).unwrap()), [500, 50, 0]);
    assert_eq!(ledger.count(None).unwrap(), 50);
    let bytes = bytes(&path);
    assert!(
        (0..550).all(|i| !contains(&bytes, &format!("secret-id-{i}\0")) && ids(&ledger, &text(i, 80), None).is_empty())
    );
    assert!(!contains(&bytes, "secret-id-1") && contains(&bytes, "secret-id-599"));
    assert_eq!(ids(&ledger, &text(570, 80), None), ["secret-id-570"]);
    let left = length();
    assert!(left < 300_000, "the file has {left} bytes for 50 entries");
}

/// Several processes may use a ledger at the same time.
#[test]
fn writers_wait_for_each_other() {
    let (_folder, path) = folder();
    Ledger::create(&path).unwrap();
    std::thread::scope(|scope| {
        for writer in 0..4 {
            let path = &path;
            scope.spawn(move || {
                let mut ledger = Ledger::open(path).unwrap();
                (0..25).for_each(|i| add(&mut ledger, &format!("{writer}-{i}"), "", &text(writer * 25 + i, 60)));
            });
        }
    });
    assert_eq!(Ledger::open(&path).unwrap().count(None).unwrap(), 100);
}

#[test]
fn a_locked_ledger_is_one_line_and_loses_nothing() {
    let (_folder, path) = folder();
    let mut ledger = Ledger::create(&path).unwrap();
    add(&mut ledger, "one", "", &text(1, 60));
    let other = rusqlite::Connection::open(&path).unwrap();
    other.execute_batch("BEGIN IMMEDIATE").unwrap();
    // Reading continues.
    assert_eq!(ids(&Ledger::open(&path).unwrap(), &text(1, 60), None), ["one"]);
    let print = Fingerprint::of(&text(2, 60));
    let error = ledger.add(&NewEntry::new("two", &print)).unwrap_err();
    assert!(
        matches!(error, LedgerError::Locked(_)) && error.to_string().contains("locked by another process"),
        "{error}"
    );
    other.execute_batch("COMMIT").unwrap();
    assert_eq!(all(&ledger).len(), 1);
    ledger.add(&NewEntry::new("two", &print)).unwrap();
    assert_eq!(all(&ledger).len(), 2);
}

#[test]
fn files_that_are_not_ledgers_are_refused_and_left_alone() {
    let (folder, path) = folder();
    let missing = folder.path().join("none.ledger");
    assert!(matches!(Ledger::open(&missing).unwrap_err(), LedgerError::Open { .. }));
    assert!(!missing.exists());
    assert!(Ledger::create(&folder.path().join("none/a.ledger")).is_err());
    assert!(matches!(Ledger::create(folder.path()).unwrap_err(), LedgerError::Open { .. }));
    drop(Ledger::create(&path).unwrap());
    let good = fs::read(&path).unwrap();
    let other = folder.path().join("other.db");
    rusqlite::Connection::open(&other).unwrap().execute_batch("CREATE TABLE entries (a)").unwrap();
    let empty = folder.path().join("empty");
    fs::write(&empty, "").unwrap();
    let later = folder.path().join("later.ledger");
    fs::write(&later, &good).unwrap();
    rusqlite::Connection::open(&later).unwrap().pragma_update(None, "user_version", 2).unwrap();
    let cut = folder.path().join("cut.ledger");
    fs::write(&cut, &good[..good.len() / 2]).unwrap();
    let words = folder.path().join("text");
    fs::write(&words, text(1, 500)).unwrap();
    for (path, said) in [
        (&other, "is not a ledger"),
        (&words, "is not a ledger"),
        (&later, "has version 2 of the format, but this program reads up to 1: use a later one"),
        (&cut, "is damaged"),
    ] {
        let before = fs::read(path).unwrap();
        let print = Fingerprint::of(&text(1, 60));
        for create in [false, true] {
            let opened = if create { Ledger::create(path) } else { Ledger::open(path) };
            let error = opened.and_then(|mut ledger| ledger.add(&NewEntry::new("a", &print))).unwrap_err().to_string();
            assert!(error.contains(said) && error.lines().count() == 1, "{}: {error}", path.display());
        }
        assert_eq!(fs::read(path).unwrap(), before, "{}", path.display());
    }
    assert!(matches!(Ledger::open(&empty).unwrap_err(), LedgerError::NotALedger(_)));
    assert_eq!(Ledger::create(&empty).unwrap().count(None).unwrap(), 0, "an empty file becomes a ledger");
}

/// Damage anywhere in the file is an error or is not noticed, and never a panic.
#[test]
fn damaged_files_never_panic() {
    let (folder, path) = folder();
    let mut ledger = Ledger::create(&path).unwrap();
    (0..20).for_each(|i| add(&mut ledger, &format!("id-{i}"), "", &text(i, 100)));
    drop(ledger);
    let good = fs::read(&path).unwrap();
    let mut faults = 0;
    for round in 0..400 {
        let mut bytes = good.clone();
        for byte in 0..=round % 8 {
            let at = (round * 7919 + byte * 104_729) % bytes.len();
            bytes[at] ^= (1 + round * 37) as u8 | 1;
        }
        let path = folder.path().join(format!("{round}.ledger"));
        fs::write(&path, bytes).unwrap();
        let print = Fingerprint::of(&text(3, 100));
        let used = Ledger::open(&path).and_then(|mut ledger| {
            ledger.each::<LedgerError>(None, |_| Ok(()))?;
            ledger.find(&print, None)?;
            ledger.add(&NewEntry::new("new", &print))?;
            ledger.prune(Timestamp::MAX, None).map(drop)
        });
        if let Err(error) = used {
            faults += 1;
            assert_eq!(error.to_string().lines().count(), 1, "{error}");
        }
        fs::remove_file(path).unwrap();
    }
    assert!(faults > 20, "{faults}");
}
