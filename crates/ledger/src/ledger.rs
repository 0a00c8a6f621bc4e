//! Additions to a ledger, look-ups, and retention.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rusqlite::{Connection, ErrorCode, OptionalExtension, Row, TransactionBehavior, params};
use sha2::{Digest, Sha256};

use crate::entry::{Entry, Match, NewEntry};
use crate::error::LedgerError;
use crate::file;
use crate::fingerprint::Fingerprint;
use crate::minhash::Signature;

/// The fewest sampled sequences that a text and an entry must share, and the fewest sequences that these must represent
/// at the entry's rate. `docs/ledger.md` has the false matches with these numbers.
const SHARED: u32 = 4;
const REPRESENTED: u32 = 8;

/// The number of entries beyond which a sequence is boilerplate, which says nothing about a text.
const COMMON: usize = 10_000;

/// The greatest number of matches.
const MATCHES: usize = 100;

/// The number of entries that are removed in one transaction, so that others can write in between.
const PRUNED: usize = 500;

const COLUMNS: &str = "id, part, tenant, time, key_id, digest, manifest_digest, manifest, payload";

/// A ledger: a record of texts, without the texts.
#[derive(Debug)]
pub struct Ledger {
    path: PathBuf,
    file: Connection,
}

impl Ledger {
    /// Opens a ledger.
    ///
    /// # Errors
    /// [`LedgerError`] if the file is missing or is not a ledger of this version.
    pub fn open(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self { path: path.into(), file: file::open(path, false)? })
    }

    /// Opens a ledger, or creates one that only its owner can read.
    ///
    /// # Errors
    /// [`LedgerError`] if the file cannot be created, or is not a ledger of this version.
    pub fn create(path: &Path) -> Result<Self, LedgerError> {
        Ok(Self { path: path.into(), file: file::open(path, true)? })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Records a text. Its entry is on disk when this returns. The same entry may be added again, which changes nothing
    /// but its manifest, if one is given.
    ///
    /// # Errors
    /// [`LedgerError`]; [`LedgerError::Known`] if the entry's name belongs to another text.
    pub fn add(&mut self, entry: &NewEntry<'_>) -> Result<(), LedgerError> {
        let fault = LedgerError::of(&self.path);
        let added = self.file.transaction_with_behavior(TransactionBehavior::Immediate).map_err(&fault)?;
        let NewEntry { id, part, tenant, time, key_id, payload, manifest, fingerprint } = *entry;
        let manifest_digest: Option<[u8; 32]> = manifest.map(|manifest| Sha256::digest(manifest).into());
        let rate = fingerprint.rate();
        let insert = "INSERT INTO entries (id, part, tenant, time, key_id, digest, rate, signature, manifest_digest, \
                      manifest, payload) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";
        let (digest, signature) = (fingerprint.digest(), fingerprint.signature().bytes());
        let values = params![
            id,
            part,
            tenant,
            time.as_millisecond(),
            key_id,
            digest,
            rate,
            signature,
            manifest_digest,
            manifest,
            payload
        ];
        match added.execute(insert, values) {
            Ok(_) => {
                let number = added.last_insert_rowid();
                let mut shingle = added.prepare("INSERT INTO shingles VALUES (?1, ?2)").map_err(&fault)?;
                for &hash in fingerprint.sample(rate) {
                    shingle.execute(params![hash.cast_signed(), number]).map_err(&fault)?;
                }
            }
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::ConstraintViolation) => {
                let update = "UPDATE entries SET manifest_digest = coalesce(?5, manifest_digest), \
                              manifest = coalesce(?6, manifest) \
                              WHERE tenant = ?1 AND id = ?2 AND part = ?3 AND digest = ?4";
                let values = params![tenant, id, part, digest, manifest_digest, manifest];
                if added.execute(update, values).map_err(&fault)? == 0 {
                    return Err(LedgerError::Known { path: self.path.clone(), id: id.into() });
                }
            }
            Err(error) => return Err(fault(error)),
        }
        added.commit().map_err(&fault)
    }

    /// The entries that match a text, of one tenant or of all: first those of the same text, then by the share of the
    /// text that they have; at most 100.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn find(&self, text: &Fingerprint, tenant: Option<&str>) -> Result<Vec<Match>, LedgerError> {
        let fault = LedgerError::of(&self.path);
        let mut numbers: Vec<(i64, u32)> = self.sharing(text).map_err(&fault)?;
        // All entries of the same text would be returned first, so more of them are not needed.
        let same =
            "SELECT number FROM entries WHERE digest = ?1 AND (?2 IS NULL OR tenant = ?2) ORDER BY number LIMIT ?3";
        let mut same = self.file.prepare(same).map_err(&fault)?;
        let same = same.query_map(params![text.digest(), tenant, MATCHES as i64], |row| row.get(0));
        let same: HashSet<i64> = same.and_then(Iterator::collect).map_err(&fault)?;
        numbers.retain(|(number, _)| !same.contains(number));
        numbers.extend(same.iter().map(|&number| (number, 0)));
        numbers.sort_unstable();
        let select =
            format!("SELECT {COLUMNS}, rate, signature FROM entries WHERE number = ?1 AND (?2 IS NULL OR tenant = ?2)");
        let mut select = self.file.prepare(&select).map_err(&fault)?;
        let signature = text.signature();
        let mut matches = Vec::new();
        for (number, shared) in numbers {
            let found = select.query_row(params![number, tenant], |row| {
                Ok((entry(row)?, row.get::<_, u32>(9)?, row.get::<_, Vec<u8>>(10)?))
            });
            let Some((entry, rate, its)) = found.optional().map_err(&fault)? else { continue };
            let is_same = entry.digest == *text.digest();
            if is_same {
                matches.push(Match { entry, is_same, similarity: 1.0, contained: 1.0 });
                continue;
            }
            let (Some(its), true) = (Signature::from_bytes(&its), rate < u32::BITS) else {
                let fault = format!("the fingerprint of entry {} cannot be read", entry.id);
                return Err(LedgerError::Damaged { path: self.path.clone(), fault });
            };
            if u64::from(shared) << rate >= u64::from(REPRESENTED) {
                // All shared hashes are in the text's own sample at this rate.
                let contained = f64::from(shared) / text.sample(rate).len().max(1) as f64;
                matches.push(Match { entry, is_same, similarity: signature.similarity(&its), contained });
            }
        }
        let key = |found: &Match| (!found.is_same, -found.contained, -found.similarity);
        matches.sort_by(|a, b| key(a).partial_cmp(&key(b)).expect("numbers"));
        matches.truncate(MATCHES);
        Ok(matches)
    }

    /// The numbers of entries that share enough sampled sequences with a text, with the number that they share.
    fn sharing(&self, text: &Fingerprint) -> rusqlite::Result<Vec<(i64, u32)>> {
        let mut of_hash = self.file.prepare("SELECT entry FROM shingles WHERE hash = ?1 LIMIT ?2")?;
        let mut shared: HashMap<i64, u32> = HashMap::new();
        for &hash in text.shingles() {
            let entries = of_hash.query_map(params![hash.cast_signed(), COMMON as i64 + 1], |row| row.get(0))?;
            let entries: Vec<i64> = entries.collect::<rusqlite::Result<_>>()?;
            if entries.len() <= COMMON {
                entries.into_iter().for_each(|entry| *shared.entry(entry).or_default() += 1);
            }
        }
        Ok(shared.into_iter().filter(|(_, shared)| *shared >= SHARED).collect())
    }

    /// The entries of an answer, in the order of its texts.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn answer(&self, tenant: &str, id: &str) -> Result<Vec<Entry>, LedgerError> {
        let fault = LedgerError::of(&self.path);
        let select = format!("SELECT {COLUMNS} FROM entries WHERE tenant = ?1 AND id = ?2 ORDER BY part");
        let mut select = self.file.prepare(&select).map_err(&fault)?;
        select.query_map(params![tenant, id], entry).and_then(Iterator::collect).map_err(&fault)
    }

    /// The entries whose texts carry a number by the mark of a key, of one tenant or of all, the oldest first; at most
    /// 100.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn carrying(&self, key_id: &str, payload: u32, tenant: Option<&str>) -> Result<Vec<Entry>, LedgerError> {
        let fault = LedgerError::of(&self.path);
        let select = format!(
            "SELECT {COLUMNS} FROM entries WHERE payload = ?1 AND key_id = ?2 AND (?3 IS NULL OR tenant = ?3) \
             ORDER BY time, number LIMIT ?4"
        );
        let mut select = self.file.prepare(&select).map_err(&fault)?;
        let values = params![payload, key_id, tenant, MATCHES as i64];
        select.query_map(values, entry).and_then(Iterator::collect).map_err(&fault)
    }

    /// Passes all entries to `each`, of one tenant or of all, the oldest first.
    ///
    /// # Errors
    /// The error of `each`, or a [`LedgerError`].
    pub fn each<E: From<LedgerError>>(
        &self,
        tenant: Option<&str>,
        mut each: impl FnMut(Entry) -> Result<(), E>,
    ) -> Result<(), E> {
        let fault = LedgerError::of(&self.path);
        let select = format!("SELECT {COLUMNS} FROM entries WHERE ?1 IS NULL OR tenant = ?1 ORDER BY time, number");
        let mut select = self.file.prepare(&select).map_err(&fault)?;
        let mut rows = select.query([tenant]).map_err(&fault)?;
        while let Some(row) = rows.next().map_err(&fault)? {
            each(entry(row).map_err(&fault)?)?;
        }
        Ok(())
    }

    /// The number of entries, of one tenant or of all.
    ///
    /// # Errors
    /// [`LedgerError`].
    pub fn count(&self, tenant: Option<&str>) -> Result<u64, LedgerError> {
        let count = "SELECT count(*) FROM entries WHERE ?1 IS NULL OR tenant = ?1";
        let count: rusqlite::Result<i64> = self.file.query_row(count, [tenant], |row| row.get(0));
        count.map(i64::unsigned_abs).map_err(LedgerError::of(&self.path))
    }

    /// Removes at most 500 of the entries before a time, of one tenant or of all, and returns their number. Call it
    /// again until it returns 0. The removed data is overwritten in the file, and in the log of changes unless another
    /// process is reading it; then by a later call.
    ///
    /// # Errors
    /// [`LedgerError`]. Either all of them are removed or none.
    pub fn prune(&mut self, before: Timestamp, tenant: Option<&str>) -> Result<usize, LedgerError> {
        let fault = LedgerError::of(&self.path);
        let delete = "DELETE FROM entries WHERE number IN \
                      (SELECT number FROM entries WHERE time < ?1 AND (?2 IS NULL OR tenant = ?2) LIMIT ?3)";
        let removed = self.file.execute(delete, params![before.as_millisecond(), tenant, PRUNED as i64]);
        let removed = removed.map_err(&fault)?;
        // Each row is a page that goes back to the file system.
        let mut vacuum = self.file.prepare("PRAGMA incremental_vacuum").map_err(&fault)?;
        let mut pages = vacuum.query([]).map_err(&fault)?;
        while pages.next().map_err(&fault)?.is_some() {}
        // The log of changes still has the removed data. If a reader needs it, a later call empties it.
        self.file.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).map_err(&fault)?;
        Ok(removed)
    }
}

/// The entry in a row of [`COLUMNS`].
fn entry(row: &Row<'_>) -> rusqlite::Result<Entry> {
    let time = Timestamp::from_millisecond(row.get(3)?).map_err(|error| {
        rusqlite::Error::FromSqlConversionFailure(3, rusqlite::types::Type::Integer, Box::new(error))
    })?;
    Ok(Entry {
        id: row.get(0)?,
        part: row.get(1)?,
        tenant: row.get(2)?,
        time,
        key_id: row.get(4)?,
        digest: row.get(5)?,
        manifest_digest: row.get(6)?,
        manifest: row.get(7)?,
        payload: row.get(8)?,
    })
}
