//! A local time-stamping authority: OpenSSL makes the stamps, and a small server of HTTP passes them on.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertificateParams, CustomExtension, DnType};

use super::Desk;
use super::certificates::{Pair, chain_under};

/// The way in which an authority answers.
#[derive(Clone, Debug)]
pub enum Manner {
    /// With a time stamp.
    Honest,
    /// With a time stamp this many times, and then not at all.
    Failing(usize),
    /// With the time stamp that it gave first.
    Repeating,
    /// With a time stamp for other data.
    Mistaken,
    /// With a time stamp that a certificate for mail has signed, which is in this file with its key.
    Improper(String),
    /// With a refusal.
    Refusing,
    /// With these bytes: the whole answer, with its head.
    Saying(Vec<u8>),
    /// With more than a megabyte.
    Endless,
    /// Not at all.
    Silent,
}

/// A running authority. Its server ends with the test.
pub struct Authority {
    pub url: String,
    /// The path of its root.
    pub root: String,
    /// The number of requests so far.
    pub requests: Arc<AtomicUsize>,
}

/// Whether OpenSSL is installed. If not, the message cannot be overlooked.
pub fn has_openssl() -> bool {
    let found = Command::new("openssl").arg("version").output().is_ok_and(|done| done.status.success());
    if !found {
        // Unlike the macros, this is shown if the test passes.
        let _ = std::io::stderr().write_all(b"\nSKIPPED: openssl is missing, so no time stamp has been tested\n");
    }
    found
}

/// The seed of the root of authorities.
pub const ROOT: u8 = 77;

impl Authority {
    /// Starts an authority named `name` with its files in the folder of the desk.
    pub fn start(desk: &Desk, name: &str, manner: Manner) -> Self {
        Self::with(desk, name, manner, |_| ())
    }

    /// The same with a certificate whose parameters `change` modifies.
    pub fn with(desk: &Desk, name: &str, manner: Manner, change: impl FnOnce(&mut CertificateParams)) -> Self {
        let key = Pair::p256(55);
        let (chain, root) = chain_under(ROOT, &key, |params| {
            params.distinguished_name.push(DnType::CommonName, format!("Clock {name}"));
            // The extended key usage for time stamps must be critical, which the library's own is not.
            params.extended_key_usages.clear();
            let usage = b"\x30\x0a\x06\x08\x2b\x06\x01\x05\x05\x07\x03\x08".to_vec();
            let mut usage = CustomExtension::from_oid_content(&[2, 5, 29, 37], usage);
            usage.set_criticality(true);
            params.custom_extensions.push(usage);
            change(params);
        });
        let root = desk.write(&format!("{name}.root.pem"), root);
        let certificate = desk.write(&format!("{name}.tsa.pem"), &chain);
        let private_key = desk.write(&format!("{name}.tsa.key.pem"), &key.pem);
        desk.write(&format!("{name}.serial"), "01\n");
        let refused = if matches!(manner, Manner::Refusing) { "sha512" } else { "sha256" };
        let config = format!(
            "[tsa]\ndefault_tsa = one\n[one]\nserial = {}\nsigner_cert = {certificate}\ncerts = {root}\n\
             signer_key = {private_key}\nsigner_digest = sha256\ndefault_policy = 1.2.3.4\n\
             other_policies = 1.2.3.5\ndigests = {refused}\ness_cert_id_chain = no\ness_cert_id_alg = sha256\n",
            desk.at(&format!("{name}.serial"))
        );
        let config = desk.write(&format!("{name}.cnf"), config);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/tsr", listener.local_addr().unwrap());
        let requests = Arc::new(AtomicUsize::new(0));
        let desk = desk.at(name);
        let counted = requests.clone();
        std::thread::spawn(move || {
            let mut first = None;
            for client in listener.incoming() {
                let number = counted.fetch_add(1, Ordering::SeqCst);
                // A client whose connection is closed at once has no answer.
                if !matches!(manner, Manner::Failing(most) if number >= most) {
                    answer(client.unwrap(), &manner, &config, &format!("{desk}.{number}"), &mut first);
                }
            }
        });
        Self { url, root, requests }
    }

    pub fn requests(&self) -> usize {
        self.requests.load(Ordering::SeqCst)
    }
}

/// The token of an authority for data; if there is a `signer`, the certificate and key in this file sign it.
pub fn token(desk: &Desk, name: &str, data: &[u8], signer: Option<&str>) -> Vec<u8> {
    let file = desk.write(&format!("{name}.data"), data);
    let query = desk.at(&format!("{name}.query"));
    openssl(&["ts", "-query", "-data", &file, "-sha256", "-cert", "-out", &query]);
    let mut answer = stamped(&desk.at(&format!("{name}.cnf")), &file, &std::fs::read(&query).unwrap());
    if let Some(signer) = signer {
        answer = signed_again(&answer, &file, signer);
    }
    // The answer is a sequence of a status of 5 bytes or more, and the token.
    let status = usize::from(answer[5]) + 2;
    assert_eq!((answer[0], answer[1], answer[4]), (0x30, 0x82, 0x30));
    answer[4 + status..].to_vec()
}

/// Reads a request, and answers it.
fn answer(mut client: TcpStream, manner: &Manner, config: &str, file: &str, first: &mut Option<Vec<u8>>) {
    let mut read = Vec::new();
    let mut bytes = [0; 4096];
    let body = loop {
        let count = client.read(&mut bytes).unwrap_or(0);
        read.extend_from_slice(&bytes[..count]);
        if let Some(head) = read.windows(4).position(|end| end == b"\r\n\r\n") {
            let said = String::from_utf8_lossy(&read[..head]).to_ascii_lowercase();
            assert!(said.starts_with("post /tsr "), "{said}");
            assert!(said.contains("content-type: application/timestamp-query"), "{said}");
            let length = said.lines().find_map(|line| line.strip_prefix("content-length: "));
            let length: usize = length.unwrap().parse().unwrap();
            if read.len() >= head + 4 + length {
                break read[head + 4..].to_vec();
            }
        }
        if count == 0 {
            return;
        }
    };
    let reply = |body: &[u8]| {
        let head = "HTTP/1.1 200 OK\r\ncontent-type: application/timestamp-reply\r\nconnection: close\r\n";
        [format!("{head}content-length: {}\r\n\r\n", body.len()).as_bytes(), body].concat()
    };
    let answer = match manner {
        Manner::Honest | Manner::Failing(_) | Manner::Refusing => reply(&stamped(config, file, &body)),
        Manner::Improper(signer) => reply(&signed_again(&stamped(config, file, &body), file, signer)),
        Manner::Repeating => reply(first.get_or_insert_with(|| stamped(config, file, &body))),
        Manner::Mistaken => {
            // The imprint is that of SHA-256, which follows its algorithm.
            let mut body = body;
            let at = body.windows(2).position(|header| header == b"\x04\x20").unwrap() + 2;
            body[at] ^= 1;
            reply(&stamped(config, file, &body))
        }
        Manner::Saying(answer) => answer.clone(),
        Manner::Endless => reply(&vec![0; (1 << 20) + 1]),
        Manner::Silent => return std::thread::sleep(std::time::Duration::from_secs(60)),
    };
    // The client may be gone.
    let _ = client.write_all(&answer);
}

/// The answer of OpenSSL to a request.
fn stamped(config: &str, file: &str, request: &[u8]) -> Vec<u8> {
    let (query, reply) = (format!("{file}.tsq"), format!("{file}.tsr"));
    std::fs::write(&query, request).unwrap();
    openssl(&["ts", "-reply", "-config", config, "-queryfile", &query, "-out", &reply]);
    std::fs::read(&reply).unwrap()
}

/// The time stamp of an answer, signed by another certificate.
fn signed_again(answer: &[u8], file: &str, signer: &str) -> Vec<u8> {
    let [answered, token, info, improper] = ["answer", "token", "info", "improper"].map(|end| format!("{file}.{end}"));
    std::fs::write(&answered, answer).unwrap();
    openssl(&["ts", "-reply", "-in", &answered, "-token_out", "-out", &token]);
    let der = ["-inform", "DER", "-outform", "DER"];
    openssl(&[&["cms", "-verify", "-noverify", "-in", &token, "-out", &info], &der[..2]].concat());
    let kind = ["-econtent_type", "id-smime-ct-TSTInfo", "-binary", "-nodetach", "-md", "sha256"];
    openssl(&[&["cms", "-sign", "-signer", signer, "-in", &info, "-out", &improper], &kind[..], &der[2..]].concat());
    let token = std::fs::read(&improper).unwrap();
    let length = u16::try_from(token.len() + 5).unwrap().to_be_bytes();
    // Granted, and the token.
    [b"\x30\x82", &length[..], b"\x30\x03\x02\x01\x00", &token].concat()
}

fn openssl(options: &[&str]) {
    let done = Command::new("openssl").args(options).output().unwrap();
    assert!(done.status.success(), "{options:?}: {}", String::from_utf8_lossy(&done.stderr));
}
