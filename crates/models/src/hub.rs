//! Models by their names on the Hugging Face hub, which are fetched once and kept.
//!
//! They lie where other programs keep them (`~/.cache/huggingface/hub`, or below `HF_HOME`), so what one of them has fetched needs
//! no network here. `HF_TOKEN`, or the token that `hf auth login` has left there, opens models that ask for one; `HF_ENDPOINT` is
//! another hub; with `HF_HUB_OFFLINE=1` nothing is asked of any.

use std::path::{Path, PathBuf};

use hf_hub::api::Progress;
use hf_hub::api::sync::{Api, ApiBuilder, ApiError, ApiRepo};
use hf_hub::{Cache, CacheRepo, Repo, RepoType};

use crate::error::ModelError;
use crate::folder::{CONFIG, INDEX, ModelFolder, TOKENIZER, WEIGHTS};

/// Files that a model may have beside those that it must have.
const OPTIONAL: [&str; 3] = ["generation_config.json", "tokenizer_config.json", "chat_template.jinja"];

/// A model on the hub: `owner/name`, `owner/name@revision`, and, for a file of llama.cpp, `owner/name:file.gguf`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HubName {
    repository: String,
    revision: String,
    file: Option<String>,
}

/// What of a model is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Parts {
    All,
    Tokenizer,
}

/// How much of a file is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fetched<'a> {
    /// The name of the file.
    pub file: &'a str,
    /// Bytes that are there.
    pub bytes: u64,
    /// Bytes of the whole.
    pub of: u64,
}

impl HubName {
    /// Reads such a name; `None` where the text is none, but perhaps a path.
    pub fn parse(text: &str) -> Option<Self> {
        let (text, file) = match text.split_once(':') {
            Some((text, file)) => (text, Some(file)),
            None => (text, None),
        };
        let (repository, revision) = text.split_once('@').unwrap_or((text, "main"));
        let (owner, name) = repository.split_once('/')?;
        let is_word = |word: &str| {
            let known = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
            !word.is_empty() && !word.starts_with('.') && word.chars().all(known)
        };
        let is_file = |file: &str| is_word(file) && file.to_ascii_lowercase().ends_with(".gguf");
        let is_revision = revision.split('/').all(is_word);
        (is_word(owner) && is_word(name) && is_revision && file.is_none_or(is_file)).then(|| Self {
            repository: repository.to_owned(),
            revision: revision.to_owned(),
            file: file.map(str::to_owned),
        })
    }

    /// The model's files, fetched where they are not there yet. `each` hears of progress.
    pub fn fetch(&self, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        self.fetch_parts(Parts::All, each)
    }

    /// As [`HubName::fetch`], but of a folder the tokenizer alone, which is all that a detector needs.
    pub fn fetch_tokenizer(&self, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        self.fetch_parts(Parts::Tokenizer, each)
    }

    fn fetch_parts(&self, parts: Parts, each: impl FnMut(Fetched<'_>)) -> Result<ModelFolder, ModelError> {
        let cache = Cache::from_env();
        let mut builder = ApiBuilder::from_env().with_progress(false).with_retries(2);
        if let Ok(token) = std::env::var("HF_TOKEN") {
            builder = builder.with_token(Some(token));
        }
        let is_offline = std::env::var("HF_HUB_OFFLINE").is_ok_and(|value| !["", "0", "false"].contains(&&*value));
        self.fetch_with(parts, &cache, || builder.build(), is_offline, each)
    }

    fn fetch_with(
        &self,
        parts: Parts,
        cache: &Cache,
        api: impl FnOnce() -> Result<Api, ApiError>,
        is_offline: bool,
        mut each: impl FnMut(Fetched<'_>),
    ) -> Result<ModelFolder, ModelError> {
        let repo = Repo::with_revision(self.repository.clone(), RepoType::Model, self.revision.clone());
        let cached = cache.repo(repo.clone());
        if let Some(path) = self.held(parts, &cached) {
            return Ok(ModelFolder::at(path));
        }
        let fault = |fault: String| ModelError::Hub { name: self.repository.clone(), fault };
        if is_offline {
            return Err(fault("not all of its files are there, and HF_HUB_OFFLINE is set".into()));
        }
        let repo = api().map_err(|error| fault(said(&error)))?.repo(repo);
        let there: Vec<String> = match repo.info() {
            Ok(info) => info.siblings.into_iter().map(|sibling| sibling.rfilename).collect(),
            Err(error) => return Err(fault(said(&error))),
        };
        for file in self.wanted(parts, &there).map_err(&fault)? {
            self.fetch_file(&repo, &cached, &file, &mut each).map_err(|error| fault(said(&error)))?;
        }
        // Which shards there are stands in a file that is there now.
        for shard in self.shards(&cached) {
            self.fetch_file(&repo, &cached, &shard, &mut each).map_err(|error| fault(said(&error)))?;
        }
        let path = self.held(parts, &cached).ok_or_else(|| fault("files of it are missing on the hub".into()))?;
        Ok(ModelFolder::at(path))
    }

    fn fetch_file(
        &self,
        repo: &ApiRepo,
        cached: &CacheRepo,
        file: &str,
        each: &mut impl FnMut(Fetched<'_>),
    ) -> Result<(), ApiError> {
        if cached.get(file).is_none() {
            repo.download_with_progress(file, Heard { each, file: String::new(), bytes: 0, of: 0 })?;
        }
        Ok(())
    }

    /// Which of the files that are there are fetched, the shards excepted.
    fn wanted(&self, parts: Parts, there: &[String]) -> Result<Vec<String>, String> {
        let has = |name: &str| there.iter().any(|file| file == name);
        let ggufs = || there.iter().filter(|file| file.ends_with(".gguf")).cloned().collect::<Vec<_>>();
        if let Some(file) = &self.file {
            return if has(file) {
                Ok(vec![file.clone()])
            } else {
                Err(format!("it has no {file}, but {}", list(ggufs())))
            };
        }
        let weights = if has(INDEX) { INDEX } else { WEIGHTS };
        let needed = match parts {
            Parts::All => &[CONFIG, TOKENIZER, weights][..],
            Parts::Tokenizer => &[TOKENIZER],
        };
        if let Some(missing) = needed.iter().find(|file| !has(file)) {
            return Err(match &ggufs()[..] {
                [] => format!("it has no {missing}"),
                [first, ..] => {
                    format!(
                        "it has files of llama.cpp; choose one, such as {}:{first}, of {}",
                        self.repository,
                        list(ggufs())
                    )
                }
            });
        }
        let optional = OPTIONAL.iter().filter(|file| parts == Parts::All && has(file));
        Ok(needed.iter().chain(optional).map(|file| (*file).to_owned()).collect())
    }

    /// The path of the model, where all that it needs is there.
    fn held(&self, parts: Parts, cached: &CacheRepo) -> Option<PathBuf> {
        if let Some(file) = &self.file {
            return cached.get(file);
        }
        let tokenizer = cached.get(TOKENIZER)?;
        if parts == Parts::Tokenizer {
            return Some(tokenizer);
        }
        let config = cached.get(CONFIG)?;
        match cached.get(INDEX) {
            None => drop(cached.get(WEIGHTS)?),
            Some(_) => {
                let shards = self.shards(cached);
                if shards.is_empty() || shards.iter().any(|shard| cached.get(shard).is_none()) {
                    return None;
                }
            }
        }
        config.parent().map(Path::to_owned)
    }

    /// The shards that an index lists.
    fn shards(&self, cached: &CacheRepo) -> Vec<String> {
        let Some(folder) = cached.get(INDEX).and_then(|index| index.parent().map(Path::to_owned)) else {
            return vec![];
        };
        let paths = ModelFolder::at(folder).shards().unwrap_or_default();
        paths.iter().filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect()
    }
}

fn list(names: Vec<String>) -> String {
    if names.is_empty() { "nothing of the kind".into() } else { names.join(", ") }
}

/// What went wrong, and what to do about it.
fn said(error: &ApiError) -> String {
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

/// Hands on what the library tells.
struct Heard<'a, F> {
    each: &'a mut F,
    file: String,
    bytes: u64,
    of: u64,
}

impl<F: FnMut(Fetched<'_>)> Progress for Heard<'_, F> {
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
    use std::sync::{Arc, Mutex};
    use std::thread;

    #[test]
    fn names_are_told_from_paths() {
        let name = |text| HubName::parse(text).map(|name| (name.repository, name.revision, name.file));
        let of = |repository: &str, revision: &str, file: Option<&str>| {
            Some((repository.to_owned(), revision.to_owned(), file.map(str::to_owned)))
        };
        assert_eq!(name("Qwen/Qwen2.5-0.5B"), of("Qwen/Qwen2.5-0.5B", "main", None));
        assert_eq!(name("a/b@refs/pr/1"), of("a/b", "refs/pr/1", None));
        assert_eq!(name("a/b@v1:c-Q8_0.gguf"), of("a/b", "v1", Some("c-Q8_0.gguf")));
        for path in
            ["model", "./model", "../a", "a/b/c", "/a/b", "a/", "C:/models", "a/b:c.txt", "a/b:../c.gguf", "~/a", ""]
        {
            assert_eq!(name(path), None, "{path:?}");
        }
    }

    /// A hub on this machine, which counts what it is asked for.
    struct Server {
        address: String,
        asked: Arc<Mutex<Vec<String>>>,
    }

    fn serve(files: HashMap<&'static str, Vec<u8>>) -> Server {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let asked: Arc<Mutex<Vec<String>>> = Arc::default();
        let heard = asked.clone();
        thread::spawn(move || {
            for stream in listener.incoming() {
                answer(stream.unwrap(), &files, &heard);
            }
        });
        Server { address, asked }
    }

    fn answer(mut stream: TcpStream, files: &HashMap<&'static str, Vec<u8>>, asked: &Mutex<Vec<String>>) {
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines().map_while(Result::ok);
        let Some(path) = lines.next().and_then(|line| line.split(' ').nth(1).map(str::to_owned)) else { return };
        let range = lines.take_while(|line| !line.is_empty()).find_map(|line| {
            let (from, to) = line
                .to_ascii_lowercase()
                .strip_prefix("range: bytes=")?
                .split_once('-')
                .map(|(a, b)| (a.parse(), b.parse()))?;
            Some((from.ok()?, to.ok()))
        });
        asked.lock().unwrap().push(path.clone());
        let file = path.strip_prefix("/o/n/resolve/main/").and_then(|name| files.get(name));
        let (status, head, body) = if path == "/api/models/o/n/revision/main" {
            let siblings: Vec<_> = files.keys().map(|name| serde_json::json!({"rfilename": name})).collect();
            let info = serde_json::json!({"sha": "c0ffee", "siblings": siblings});
            ("200 OK", String::new(), serde_json::to_vec(&info).unwrap())
        } else if let (Some(file), Some((from, to))) = (file, range) {
            let to: usize = to.unwrap_or(file.len() - 1);
            let name = path.rsplit('/').next().unwrap();
            let head = format!(
                "x-repo-commit: c0ffee\r\netag: \"{name}\"\r\ncontent-range: bytes {from}-{to}/{}\r\n",
                file.len()
            );
            ("206 Partial Content", head, file[from..=to].to_vec())
        } else {
            ("404 Not Found", String::new(), Vec::new())
        };
        write!(stream, "HTTP/1.1 {status}\r\n{head}content-length: {}\r\nconnection: close\r\n\r\n", body.len())
            .unwrap();
        stream.write_all(&body).unwrap();
    }

    fn of_a_fixture(names: &[&'static str]) -> HashMap<&'static str, Vec<u8>> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models/tale-small");
        names.iter().map(|name| (*name, std::fs::read(folder.join(name)).unwrap())).collect()
    }

    fn fetch(server: &Server, folder: &Path, is_offline: bool, name: &str) -> Result<(ModelFolder, u64), ModelError> {
        let cache = Cache::new(folder.to_owned());
        let api = ApiBuilder::from_cache(cache.clone()).with_progress(false).with_endpoint(server.address.clone());
        let mut bytes = 0;
        let name = HubName::parse(name).unwrap();
        let model = name.fetch_with(
            Parts::All,
            &cache,
            || api.build(),
            is_offline,
            |fetched| {
                assert!(fetched.bytes <= fetched.of);
                bytes = bytes.max(fetched.bytes);
            },
        )?;
        Ok((model, bytes))
    }

    #[test]
    fn a_model_is_fetched_once() {
        let files = of_a_fixture(&[CONFIG, TOKENIZER, WEIGHTS]);
        let weights = files[WEIGHTS].len() as u64;
        let (server, folder) = (serve(files), tempfile::tempdir().unwrap());
        let error = fetch(&server, folder.path(), true, "o/n").unwrap_err().to_string();
        assert!(error.contains("HF_HUB_OFFLINE") && server.asked.lock().unwrap().is_empty(), "{error}");
        let (model, bytes) = fetch(&server, folder.path(), false, "o/n").unwrap();
        assert_eq!(bytes, weights);
        assert_eq!(model.model(&crate::Device::Cpu).unwrap().vocabulary_size(), 4096);
        let asked = server.asked.lock().unwrap().len();
        fetch(&server, folder.path(), true, "o/n").unwrap();
        assert_eq!(server.asked.lock().unwrap().len(), asked, "nothing more is asked for");
    }

    #[test]
    fn a_detector_needs_the_tokenizer_alone() {
        let (server, folder) = (serve(of_a_fixture(&[CONFIG, TOKENIZER, WEIGHTS])), tempfile::tempdir().unwrap());
        let cache = Cache::new(folder.path().to_owned());
        let api = ApiBuilder::from_cache(cache.clone()).with_progress(false).with_endpoint(server.address.clone());
        let name = HubName::parse("o/n").unwrap();
        let model = name.fetch_with(Parts::Tokenizer, &cache, || api.build(), false, |_| ()).unwrap();
        assert_eq!(model.tokenizer().unwrap().vocabulary().size(), 4096);
        assert!(!server.asked.lock().unwrap().iter().any(|path| path.ends_with(WEIGHTS)));
    }

    #[test]
    fn what_is_missing_is_said() {
        let folder = tempfile::tempdir().unwrap();
        let server =
            serve(HashMap::from([("README.md", vec![1]), ("n-Q8_0.gguf", vec![1]), ("n-Q4_K.gguf", vec![2, 3])]));
        let fault = |name| fetch(&server, folder.path(), false, name).unwrap_err().to_string();
        assert!(fault("o/n").contains("choose one, such as o/n:n-Q"), "{}", fault("o/n"));
        assert!(fault("o/n:other.gguf").contains("it has no other.gguf, but n-Q"));
        assert!(fault("o/unknown").contains("there is no such model"), "{}", fault("o/unknown"));
        let (_, bytes) = fetch(&server, folder.path(), false, "o/n:n-Q4_K.gguf").unwrap();
        assert_eq!(bytes, 2);
        let nowhere = Server { address: "http://127.0.0.1:9".into(), asked: Arc::default() };
        let fault = fetch(&nowhere, folder.path(), false, "o/n").unwrap_err().to_string();
        assert!(fault.contains("give the path of their folder"), "{fault}");
    }
}
