//! Models by their names on the Hugging Face hub, fetched once and cached.
//!
//! The cache is that of other programs (`~/.cache/huggingface/hub`, or below `HF_HOME`), so models that they have
//! fetched need no network. `HF_TOKEN`, or the token that `hf auth login` has stored there, gives access to gated
//! models; `HF_ENDPOINT` sets another hub; `HF_HUB_OFFLINE=1` disables all requests.
//!
//! | module | holds |
//! |---|---|
//! | `access` | the hub's address and token, and whether it answers |
//! | `cached` | the cached files, and the files that are known to be missing |
//! | `checked` | compares a file with the hub's hash |
//! | `inventory` | the models in the cache, and their removal |

mod access;
mod cached;
mod checked;
mod inventory;

use std::path::PathBuf;

use hf_hub::api::Progress;
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, Repo, RepoType};

pub use access::{Access, TokenSource};
use cached::{Cached, Snapshot, is_word};
use checked::check;
pub use inventory::{CachedModel, NotRemoved};

use super::file_names::{
    ADAPTER, ADAPTER_WEIGHTS, CHAT_TEMPLATE, CONFIG, GENERATION, INDEX, MEDUSA_WEIGHTS, TOKENIZER, TOKENIZER_CONFIG,
    WEIGHTS,
};
use super::files::Files;
use super::folder::ModelFolder;
use super::name::{Fetched, HubName};
use super::other_formats;
use crate::description::gguf::shards::names as gguf_shards;
use crate::error::ModelError;

/// Optional files of a model.
const OPTIONAL: [&str; 3] = [GENERATION, TOKENIZER_CONFIG, CHAT_TEMPLATE];

/// The parts of a model that are needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    All,
    Tokenizer,
    /// Those of a model or of a draft head, which has no tokenizer.
    Drafter,
}

impl HubName {
    /// Fetches the model's files, unless they are cached. `each` is called with the progress.
    ///
    /// # Errors
    /// [`ModelError::Hub`] if the hub does not answer, has no such model, or sends bytes that do not match its hash.
    pub fn fetch(&self, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        self.fetch_parts(Parts::All, each)
    }

    /// Like [`HubName::fetch`], but fetches only the tokenizer of a folder, which is all that a detector needs.
    ///
    /// # Errors
    /// The same as [`HubName::fetch`].
    pub fn fetch_tokenizer(&self, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        self.fetch_parts(Parts::Tokenizer, each)
    }

    /// Like [`HubName::fetch`], for what drafts: a model, or a draft head, which has no tokenizer.
    ///
    /// # Errors
    /// The same as [`HubName::fetch`].
    pub fn fetch_drafter(&self, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        self.fetch_parts(Parts::Drafter, each)
    }

    fn fetch_parts(&self, parts: Parts, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        let is_offline = Access::from_env().is_offline;
        self.fetch_with(parts, &Cache::from_env(), access::builder().with_retries(2), is_offline, each)
    }

    fn fetch_with(
        &self,
        parts: Parts,
        cache: &Cache,
        builder: ApiBuilder,
        is_offline: bool,
        mut each: impl FnMut(Fetched<'_>),
    ) -> Result<ModelFolder, ModelError> {
        let cached = Cached::new(cache, &self.repository, &self.revision);
        let here = cached.current().and_then(|snapshot| Some((self.cached_model(parts, &snapshot)?, snapshot)));
        if let Some((path, snapshot)) = &here
            && (is_offline || self.is_settled(parts, snapshot))
        {
            return Ok(ModelFolder::at(path));
        }
        let fault = |fault: String| ModelError::Hub { name: self.repository.clone(), fault };
        if is_offline {
            return Err(fault("not all of its files are there, and HF_HUB_OFFLINE is set".into()));
        }
        let cure = |error: ApiError| match here {
            Some(_) => fault(format!("{error}; set HF_HUB_OFFLINE=1 to do with the files that are here")),
            None => fault(cause_and_cure(&error)),
        };
        // Files are only added to a model once they are checked, and all of them are of one commit.
        let api = builder.with_cache_dir(cached.waiting()).build().map_err(cure)?;
        let named = |revision: &str| Repo::with_revision(self.repository.clone(), RepoType::Model, revision.to_owned());
        let info = api.repo(named(&self.revision)).info().map_err(cure)?;
        let there: Vec<String> = info.siblings.into_iter().map(|sibling| sibling.rfilename).collect();
        let snapshot = cached.snapshot(&info.sha).ok_or_else(|| fault("the hub names no commit".into()))?;
        let source = Source { api: &api, repo: api.repo(named(&info.sha)), cached: &cached, snapshot: &snapshot };
        for file in self.wanted(parts, &there).map_err(fault)? {
            source.fetch(&file, &mut each).map_err(fault)?;
        }
        // The list of shards is in a file that is cached now.
        for shard in shards(&snapshot) {
            source.fetch(&shard, &mut each).map_err(fault)?;
        }
        let absent = OPTIONAL.into_iter().chain([TOKENIZER]).filter(|name| !there.iter().any(|file| file == name));
        cached.settle(&snapshot, absent).map_err(|error| fault(error.to_string()))?;
        let path =
            self.cached_model(parts, &snapshot).ok_or_else(|| fault("files of it are missing on the hub".into()))?;
        Ok(ModelFolder::at(path))
    }

    /// The files to fetch, without the shards.
    fn wanted(&self, parts: Parts, there: &[String]) -> Result<Vec<String>, String> {
        let has = |name: &str| there.iter().any(|file| file == name);
        let ggufs = || there.iter().filter(|file| file.ends_with(".gguf")).cloned().collect::<Vec<_>>();
        if let Some(file) = &self.file {
            let files = files_of(file);
            return match files.iter().find(|file| !has(file)) {
                None => Ok(files),
                Some(missing) => Err(format!("it has no {missing}, but {}", list(ggufs()))),
            };
        }
        let weights = match (has(INDEX), has(WEIGHTS)) {
            (true, _) => INDEX,
            (false, false) if parts == Parts::Drafter && has(MEDUSA_WEIGHTS) => MEDUSA_WEIGHTS,
            (false, _) => WEIGHTS,
        };
        // An adapter has no model configuration and may have no tokenizer: it uses those of its base.
        let is_adapter = has(ADAPTER) && !has(CONFIG);
        let needed = match parts {
            Parts::All | Parts::Drafter if is_adapter => &[ADAPTER, ADAPTER_WEIGHTS][..],
            Parts::Tokenizer if is_adapter && !has(TOKENIZER) => &[ADAPTER],
            Parts::All => &[CONFIG, TOKENIZER, weights],
            Parts::Tokenizer => &[TOKENIZER],
            Parts::Drafter => &[CONFIG, weights],
        };
        if let Some(missing) = needed.iter().find(|file| !has(file)) {
            return Err(match &ggufs()[..] {
                [] => {
                    let pickle =
                        (parts == Parts::Drafter && !has(TOKENIZER)).then(|| other_formats::head_in_pickle(has));
                    if let Some(fault) = pickle.flatten() {
                        return Err(fault);
                    }
                    let to = self.repository.rsplit('/').next().unwrap_or_default();
                    other_formats::missing(missing, has, &self.repository, to)
                }
                [first, ..] => {
                    format!(
                        "it has files of llama.cpp; choose one, such as {}:{first}, of {}",
                        self.repository,
                        list(ggufs())
                    )
                }
            });
        }
        let own = (is_adapter || parts == Parts::Drafter).then_some(&TOKENIZER);
        let optional = OPTIONAL.iter().chain(own).filter(|file| parts != Parts::Tokenizer && has(file));
        Ok(needed.iter().chain(optional).map(|file| (*file).to_owned()).collect())
    }

    /// The path of the model, if everything that it needs is cached.
    fn cached_model(&self, parts: Parts, snapshot: &Snapshot) -> Option<PathBuf> {
        if let Some(file) = &self.file {
            let are_there = files_of(file).iter().all(|file| snapshot.get(file).is_some());
            return snapshot.get(file).filter(|_| are_there);
        }
        if snapshot.get(CONFIG).is_none() && snapshot.get(ADAPTER).is_some() {
            let needed = match parts {
                Parts::All | Parts::Drafter => ADAPTER_WEIGHTS,
                Parts::Tokenizer if snapshot.knows(TOKENIZER) => ADAPTER,
                Parts::Tokenizer => TOKENIZER,
            };
            snapshot.get(needed)?;
            return Some(snapshot.folder().to_owned());
        }
        match (parts, snapshot.get(TOKENIZER)) {
            (Parts::Tokenizer, tokenizer) => return tokenizer,
            (Parts::All, None) => return None,
            _ => {}
        }
        snapshot.get(CONFIG)?;
        match snapshot.get(INDEX) {
            None if parts == Parts::Drafter => drop(snapshot.get(WEIGHTS).or_else(|| snapshot.get(MEDUSA_WEIGHTS))?),
            None => drop(snapshot.get(WEIGHTS)?),
            Some(_) => {
                let shards = shards(snapshot);
                if shards.is_empty() || shards.iter().any(|shard| snapshot.get(shard).is_none()) {
                    return None;
                }
            }
        }
        Some(snapshot.folder().to_owned())
    }

    /// Whether it is known of every optional file if the model has it: an earlier fetch may have failed halfway, and
    /// other programs only fetch what they need.
    fn is_settled(&self, parts: Parts, snapshot: &Snapshot) -> bool {
        let knows = || OPTIONAL.iter().chain([&TOKENIZER]).all(|name| snapshot.knows(name));
        self.file.is_some() || parts == Parts::Tokenizer || knows()
    }
}

/// The files of a model that is named by one file: that file, or all shards.
fn files_of(file: &str) -> Vec<String> {
    gguf_shards(file).unwrap_or_else(|| vec![file.to_owned()])
}

/// The shards that an index lists.
fn shards(snapshot: &Snapshot) -> Vec<String> {
    if snapshot.get(INDEX).is_none() {
        return vec![];
    }
    let paths = Files::at(snapshot.folder().into()).shards().unwrap_or_default();
    paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
}

/// One commit of a model on the hub, and the snapshot for its files.
struct Source<'a> {
    api: &'a Api,
    repo: ApiRepo,
    cached: &'a Cached,
    snapshot: &'a Snapshot,
}

impl Source<'_> {
    /// Fetches a file that is not cached, checks it, and adds it to the snapshot.
    fn fetch(&self, name: &str, each: &mut impl FnMut(Fetched<'_>)) -> Result<(), String> {
        if self.snapshot.get(name).is_some() {
            return Ok(());
        }
        let metadata = self.api.metadata(&self.repo.url(name)).map_err(|error| cause_and_cure(&error))?;
        let tag = metadata.etag();
        if !is_word(tag) {
            return Err(format!("the hub gives {name} the tag {tag:?}, which is not valid"));
        }
        let progress = ProgressReporter { each, file: String::new(), bytes: 0, of: 0 };
        let link = self.repo.download_with_progress(name, progress).map_err(|error| cause_and_cure(&error))?;
        let failed = |error: std::io::Error| format!("{name}: {error}");
        let path = link.canonicalize().map_err(failed)?;
        if link.is_symlink() {
            std::fs::remove_file(&link).map_err(failed)?;
        }
        if let Err(fault) = check(&path, tag).map_err(failed)? {
            std::fs::remove_file(&path).map_err(failed)?;
            return Err(format!("{name} came broken: {fault}; nothing of it is kept, try again"));
        }
        self.cached.keep(&path, tag, self.snapshot, name).map_err(failed)
    }
}

fn list(names: Vec<String>) -> String {
    if names.is_empty() { "nothing of the kind".into() } else { names.join(", ") }
}

/// The cause of an error, and its cure.
fn cause_and_cure(error: &ApiError) -> String {
    let text = error.to_string();
    let cure = if text.contains("status: 404") {
        "there is no such model or revision"
    } else if text.contains("status: 401") || text.contains("status: 403") {
        "it is not there, or it needs permission: ask for it on the hub, and set HF_TOKEN"
    } else {
        "without a network, fetch the model's files elsewhere and give the path of their folder"
    };
    format!("{text}; {cure}")
}

/// Passes on the progress that the library reports.
struct ProgressReporter<'a, F> {
    each: &'a mut F,
    file: String,
    bytes: u64,
    of: u64,
}

impl<F: FnMut(Fetched<'_>)> Progress for ProgressReporter<'_, F> {
    fn init(&mut self, size: usize, file: &str) {
        (self.file, self.bytes, self.of) = (file.to_owned(), 0, size as u64);
        self.update(0);
    }

    fn update(&mut self, size: usize) {
        self.bytes += size as u64;
        (self.each)(Fetched { file: &self.file, bytes: self.bytes, of: self.of });
    }

    fn finish(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::io::{BufRead, BufReader, Write};
    use std::net::{TcpListener, TcpStream};
    use std::path::Path;
    use std::sync::{Arc, Mutex, MutexGuard};
    use std::thread;

    use sha1::Sha1;
    use sha2::{Digest, Sha256};

    /// A hub on this machine, which records its requests.
    struct Server {
        address: String,
        state: Arc<Mutex<State>>,
    }

    struct State {
        files: HashMap<&'static str, Vec<u8>>,
        commit: &'static str,
        asked: Vec<String>,
        /// A file that it fails to send, and one that it sends with wrong bytes.
        failing: Option<&'static str>,
        broken: Option<&'static str>,
    }

    impl Server {
        fn of(files: HashMap<&'static str, Vec<u8>>) -> Self {
            let listener = TcpListener::bind("127.0.0.1:0").unwrap();
            let address = format!("http://{}", listener.local_addr().unwrap());
            let state = State { files, commit: "c0ffee", asked: Vec::new(), failing: None, broken: None };
            let state = Arc::new(Mutex::new(state));
            let heard = state.clone();
            thread::spawn(move || listener.incoming().for_each(|stream| answer(stream.unwrap(), &heard)));
            Self { address, state }
        }

        fn state(&self) -> MutexGuard<'_, State> {
            self.state.lock().unwrap()
        }
    }

    fn answer(mut stream: TcpStream, state: &Mutex<State>) {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let Some(path) = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)) else { return };
        let range = lines.take_while(|line| !line.is_empty()).find_map(|line| {
            let line = line.to_ascii_lowercase();
            let (from, to) = line.strip_prefix("range: bytes=")?.split_once('-')?;
            Some((from.parse::<usize>().ok()?, to.parse::<usize>().ok()))
        });
        let mut state = state.lock().unwrap();
        state.asked.push(path.clone());
        let commit = state.commit;
        let name = path.strip_prefix(&format!("/o/n/resolve/{commit}/"));
        let (status, head, body) = if path == "/api/models/o/n/revision/main" {
            let siblings: Vec<_> = state.files.keys().map(|name| serde_json::json!({"rfilename": name})).collect();
            let info = serde_json::json!({"sha": commit, "siblings": siblings});
            ("200 OK", String::new(), serde_json::to_vec(&info).unwrap())
        } else if name.is_some() && name == state.failing {
            ("500 Internal Server Error", String::new(), Vec::new())
        } else if let (Some((name, file)), Some((from, to))) = (name.and_then(|n| state.files.get_key_value(n)), range)
        {
            let to = to.unwrap_or(file.len() - 1);
            // As on the hub, large files have a separate tag.
            let tag = match *name {
                WEIGHTS => format!("etag: \"x\"\r\nx-linked-etag: \"{}\"", hash(Sha256::new_with_prefix(file))),
                _ => format!(
                    "etag: \"{}\"",
                    hash(Sha1::new_with_prefix(format!("blob {}\0", file.len())).chain_update(file))
                ),
            };
            let head =
                format!("x-repo-commit: {commit}\r\n{tag}\r\ncontent-range: bytes {from}-{to}/{}\r\n", file.len());
            let mut body = file[from..=to].to_vec();
            if Some(*name) == state.broken {
                body[0] ^= 1;
            }
            ("206 Partial Content", head, body)
        } else {
            ("404 Not Found", String::new(), Vec::new())
        };
        write!(stream, "HTTP/1.1 {status}\r\n{head}content-length: {}\r\nconnection: close\r\n\r\n", body.len())
            .unwrap();
        stream.write_all(&body).unwrap();
    }

    fn hash(digest: impl Digest) -> String {
        digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    fn of_a_fixture(names: &[&'static str]) -> HashMap<&'static str, Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/tale-small");
        names.iter().map(|name| (*name, std::fs::read(folder.join(name)).unwrap())).collect()
    }

    const ENDS: &str = "generation_config.json";
    const TEMPLATE: &str = "chat_template.jinja";

    fn of_a_model() -> HashMap<&'static str, Vec<u8>> {
        let mut files = of_a_fixture(&[CONFIG, TOKENIZER, WEIGHTS]);
        files.extend([(ENDS, b"{}".to_vec()), (TEMPLATE, b"{{ messages }}".to_vec())]);
        files
    }

    fn fetch_part(
        parts: Parts,
        address: &str,
        folder: &Path,
        is_offline: bool,
        name: &str,
    ) -> Result<(ModelFolder, u64), String> {
        let cache = Cache::new(folder.to_owned());
        let builder = ApiBuilder::from_cache(cache.clone()).with_progress(false).with_endpoint(address.to_owned());
        let (mut bytes, name) = (0, HubName::parse(name).unwrap());
        let model = name.fetch_with(parts, &cache, builder, is_offline, |fetched| {
            assert!(fetched.bytes <= fetched.of);
            bytes = bytes.max(fetched.bytes);
        });
        Ok((model.map_err(|error| error.to_string())?, bytes))
    }

    fn fetch(server: &Server, folder: &Path, is_offline: bool, name: &str) -> Result<(ModelFolder, u64), String> {
        fetch_part(Parts::All, &server.address, folder, is_offline, name)
    }

    #[test]
    fn a_model_is_fetched_once() {
        let files = of_a_fixture(&[CONFIG, TOKENIZER, WEIGHTS]);
        let weights = files[WEIGHTS].len() as u64;
        let (server, folder) = (Server::of(files), tempfile::tempdir().unwrap());
        let error = fetch(&server, folder.path(), true, "o/n").unwrap_err();
        assert!(error.contains("HF_HUB_OFFLINE") && server.state().asked.is_empty(), "{error}");
        let (model, bytes) = fetch(&server, folder.path(), false, "o/n").unwrap();
        assert_eq!(bytes, weights);
        assert_eq!(model.model(&crate::Device::Cpu).unwrap().vocabulary_size(), 4096);
        let asked = server.state().asked.len();
        for is_offline in [true, false] {
            fetch(&server, folder.path(), is_offline, "o/n").unwrap();
        }
        assert_eq!(server.state().asked.len(), asked, "nothing more is asked for");
        // Other programs look for files there.
        let snapshot = folder.path().join("models--o--n/snapshots/c0ffee");
        let link = std::fs::read_link(snapshot.join(WEIGHTS)).unwrap();
        assert!(link.starts_with("../../blobs") && snapshot.join(link).is_file());
    }

    #[test]
    fn a_file_that_failed_once_is_fetched_later() {
        for name in [ENDS, TEMPLATE, WEIGHTS, CONFIG] {
            let (server, folder) = (Server::of(of_a_model()), tempfile::tempdir().unwrap());
            server.state().failing = Some(name);
            let error = fetch(&server, folder.path(), false, "o/n").unwrap_err();
            assert!(error.contains("500"), "{error}");
            server.state().failing = None;
            fetch(&server, folder.path(), false, "o/n").unwrap();
            let snapshot = folder.path().join("models--o--n/snapshots/c0ffee");
            assert!([ENDS, TEMPLATE, WEIGHTS, CONFIG].iter().all(|name| snapshot.join(name).is_file()), "{name}");
        }
    }

    #[test]
    fn what_another_program_has_fetched_is_completed() {
        let (server, folder) = (Server::of(of_a_model()), tempfile::tempdir().unwrap());
        fetch(&server, folder.path(), false, "o/n").unwrap();
        let root = folder.path().join("models--o--n");
        std::fs::remove_file(root.join("snapshots/c0ffee").join(TEMPLATE)).unwrap();
        std::fs::remove_dir_all(root.join(".no_exist")).unwrap();
        // Offline mode uses the files that are there; a hub that does not answer is an error that says so.
        fetch(&server, folder.path(), true, "o/n").unwrap();
        let error = fetch_part(Parts::All, "http://127.0.0.1:9", folder.path(), false, "o/n").unwrap_err();
        assert!(error.contains("HF_HUB_OFFLINE=1"), "{error}");
        let before = server.state().asked.len();
        fetch(&server, folder.path(), false, "o/n").unwrap();
        assert!(root.join("snapshots/c0ffee").join(TEMPLATE).is_file());
        let asked = server.state().asked[before..].to_vec();
        assert!(asked.iter().skip(1).all(|path| path.ends_with(TEMPLATE)), "only what is missing: {asked:?}");
        let before = server.state().asked.len();
        fetch(&server, folder.path(), false, "o/n").unwrap();
        assert_eq!(server.state().asked.len(), before, "it is known to have no tokenizer_config.json");
    }

    #[test]
    fn what_comes_broken_is_not_kept() {
        for name in [WEIGHTS, TOKENIZER] {
            let (server, folder) = (Server::of(of_a_model()), tempfile::tempdir().unwrap());
            server.state().broken = Some(name);
            let error = fetch(&server, folder.path(), false, "o/n").unwrap_err();
            assert!(error.contains(&format!("{name} came broken")) && error.contains("SHA"), "{error}");
            assert!(fetch(&server, folder.path(), true, "o/n").is_err());
            assert!(!folder.path().join("models--o--n/snapshots/c0ffee").join(name).exists());
            server.state().broken = None;
            fetch(&server, folder.path(), false, "o/n").unwrap();
        }
    }

    #[test]
    fn a_model_is_of_one_commit() {
        let (server, folder) = (Server::of(of_a_model()), tempfile::tempdir().unwrap());
        server.state().failing = Some(TEMPLATE);
        fetch(&server, folder.path(), false, "o/n").unwrap_err();
        // The hub has a new commit while a part of the last one is cached.
        *server.state() =
            State { files: of_a_model(), commit: "beef", asked: Vec::new(), failing: Some(WEIGHTS), broken: None };
        fetch(&server, folder.path(), false, "o/n").unwrap_err();
        server.state().failing = None;
        fetch(&server, folder.path(), false, "o/n").unwrap();
        assert_eq!(std::fs::read_to_string(folder.path().join("models--o--n/refs/main")).unwrap(), "beef");
        let snapshot = folder.path().join("models--o--n/snapshots/beef");
        assert!([ENDS, TEMPLATE, WEIGHTS, CONFIG, TOKENIZER].iter().all(|name| snapshot.join(name).is_file()));
    }

    #[test]
    fn a_detector_needs_the_tokenizer_alone() {
        let (server, folder) = (Server::of(of_a_fixture(&[CONFIG, TOKENIZER, WEIGHTS])), tempfile::tempdir().unwrap());
        let (model, _) = fetch_part(Parts::Tokenizer, &server.address, folder.path(), false, "o/n").unwrap();
        assert_eq!(model.tokenizer().unwrap().vocabulary().size(), 4096);
        assert!(!server.state().asked.iter().any(|path| path.ends_with(WEIGHTS)));
        // The rest is fetched when it is needed.
        fetch(&server, folder.path(), false, "o/n").unwrap();
    }

    #[test]
    fn of_a_model_in_several_files_all_are_fetched() {
        let folder = tempfile::tempdir().unwrap();
        let files = [("n-00001-of-00002.gguf", vec![1]), ("n-00002-of-00002.gguf", vec![2, 3])];
        let server = Server::of(HashMap::from(files));
        fetch(&server, folder.path(), false, "o/n:n-00001-of-00002.gguf").unwrap();
        for name in ["n-00001-of-00002.gguf", "n-00002-of-00002.gguf"] {
            assert!(folder.path().join("models--o--n/snapshots/c0ffee").join(name).is_file(), "{name}");
        }
        // Without one of them the model cannot be fetched.
        server.state().files.remove("n-00002-of-00002.gguf");
        let other = tempfile::tempdir().unwrap();
        let fault = fetch(&server, other.path(), false, "o/n:n-00001-of-00002.gguf").unwrap_err();
        assert!(fault.contains("it has no n-00002-of-00002.gguf"), "{fault}");
    }

    #[test]
    fn an_adapter_is_fetched_without_a_model() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/adapters/tale-small");
        let files = [ADAPTER, ADAPTER_WEIGHTS].map(|name| (name, std::fs::read(golden.join(name)).unwrap()));
        let (server, folder) = (Server::of(files.into()), tempfile::tempdir().unwrap());
        for parts in [Parts::Tokenizer, Parts::All] {
            let (found, _) = fetch_part(parts, &server.address, folder.path(), false, "o/n").unwrap();
            let base = found.base_of_adapter().unwrap().unwrap();
            assert_eq!(base.base(), Some("../../../models/tale-small"));
        }
        let asked = server.state().asked.len();
        for is_offline in [true, false] {
            fetch(&server, folder.path(), is_offline, "o/n").unwrap();
        }
        assert_eq!(server.state().asked.len(), asked, "nothing more is asked for");
    }

    #[test]
    fn a_draft_head_is_fetched_without_a_tokenizer() {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/golden/published_heads");
        for (head, weights) in [("eagle3", WEIGHTS), ("medusa", MEDUSA_WEIGHTS)] {
            let files = [CONFIG, weights].map(|name| (name, std::fs::read(golden.join(head).join(name)).unwrap()));
            let (server, folder) = (Server::of(files.into()), tempfile::tempdir().unwrap());
            let fetch = |is_offline| fetch_part(Parts::Drafter, &server.address, folder.path(), is_offline, "o/n");
            assert!(crate::DraftHead::is_in(&fetch(false).unwrap().0));
            let asked = server.state().asked.len();
            assert!(fetch(true).is_ok() && fetch(false).is_ok());
            assert_eq!(server.state().asked.len(), asked, "nothing more is asked for");
            let fault = fetch_part(Parts::All, &server.address, folder.path(), false, "o/n").unwrap_err();
            assert!(fault.contains("it has no tokenizer.json"), "{fault}");
        }
        // A model that drafts comes with its tokenizer.
        let (server, folder) = (Server::of(of_a_model()), tempfile::tempdir().unwrap());
        let (model, _) = fetch_part(Parts::Drafter, &server.address, folder.path(), false, "o/n").unwrap();
        assert_eq!(model.tokenizer().unwrap().vocabulary().size(), 4096);
        let files = HashMap::from([(CONFIG, b"{}".to_vec()), ("medusa_lm_head.pt", vec![1])]);
        let (server, folder) = (Server::of(files), tempfile::tempdir().unwrap());
        let fault = fetch_part(Parts::Drafter, &server.address, folder.path(), false, "o/n").unwrap_err();
        assert!(fault.contains("a pickle") && fault.contains("medusa_lm_head.safetensors"), "{fault}");
    }

    #[test]
    fn what_is_missing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let files = HashMap::from([("README.md", vec![1]), ("n-Q8_0.gguf", vec![1]), ("n-Q4_K.gguf", vec![2, 3])]);
        let server = Server::of(files);
        let fault = |name| fetch(&server, folder.path(), false, name).unwrap_err();
        assert!(fault("o/n").contains("choose one, such as o/n:n-Q"), "{}", fault("o/n"));
        assert!(fault("o/n:other.gguf").contains("it has no other.gguf, but n-Q"));
        assert!(fault("o/unknown").contains("there is no such model"), "{}", fault("o/unknown"));
        let (_, bytes) = fetch(&server, folder.path(), false, "o/n:n-Q4_K.gguf").unwrap();
        assert_eq!(bytes, 2);
        let fault = fetch_part(Parts::All, "http://127.0.0.1:9", folder.path(), false, "o/n").unwrap_err();
        assert!(fault.contains("give the path of their folder"), "{fault}");
    }
}
