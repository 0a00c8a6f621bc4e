//! Files of `torch.save`, each made from one of torch's own by changing the part that a test is about.

use std::fs;
use std::io::{Cursor, Read, Write};
use std::path::{Path, PathBuf};

use verdigris_checkpoint::{CheckpointError, Dtype, TorchFile};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

fn path() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../fixtures/golden/sharded/zero1/global_step1/mp_rank_00_model_states.pt")
}

/// The file, with the contents of each file in its archive changed.
fn changed(change: impl Fn(&str, Vec<u8>) -> Vec<u8>) -> Vec<u8> {
    let mut archive = ZipArchive::new(Cursor::new(fs::read(path()).unwrap())).unwrap();
    let mut out = ZipWriter::new(Cursor::new(Vec::new()));
    for index in 0..archive.len() {
        let mut file = archive.by_index(index).unwrap();
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes).unwrap();
        let name = file.name().unwrap().into_owned();
        out.start_file(&*name, SimpleFileOptions::default().compression_method(CompressionMethod::Stored)).unwrap();
        out.write_all(&change(name.split_once('/').unwrap().1, bytes)).unwrap();
    }
    out.finish().unwrap().into_inner()
}

/// The file with another pickle.
fn with_pickle(pickle: &[u8]) -> Result<TorchFile, CheckpointError> {
    let change = |name: &str, bytes| if name == "data.pkl" { pickle.to_vec() } else { bytes };
    TorchFile::in_memory("a.pt".as_ref(), changed(change))
}

/// The pickle of a tensor: its storage's class and name, offset, size and stride.
fn tensor(class: &str, key: &str, view: &[u8]) -> Vec<u8> {
    let mut pickle = b"\x80\x02ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\n".to_vec();
    pickle.extend_from_slice(class.as_bytes());
    pickle.extend_from_slice(b"\nX\x01\x00\x00\x00");
    pickle.extend_from_slice(key.as_bytes());
    pickle.extend_from_slice(b"X\x03\x00\x00\x00cpuK\x03tQ");
    [&pickle[..], view, b"\x89Ntr\x00\x00\x00\x00R."].concat()
}

#[track_caller]
fn fails(file: Result<TorchFile, CheckpointError>, said: &str) {
    let fault = file.unwrap_err().to_string();
    assert!(fault.contains(said), "{fault:?} should say {said:?}");
}

#[track_caller]
fn tensor_fails(pickle: &[u8], said: &str) {
    let file = with_pickle(pickle).unwrap();
    let fault = file.tensor(file.root()).unwrap_err().to_string();
    assert!(fault.contains(said), "{fault:?} should say {said:?}");
}

#[test]
fn files_of_other_formats() {
    let read = |bytes: &[u8]| TorchFile::in_memory("a.pt".as_ref(), bytes.to_vec());
    let legacy = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M\xe9\x03.";
    fails(
        read(legacy),
        "a.pt: it is of the format that torch wrote before version 1.6: load it in torch and save it again",
    );
    fails(read(b""), "a.pt is truncated or damaged");
    fails(read(b"PK\x03\x04"), "a.pt is truncated or damaged");
    let swapped = changed(|name, bytes| match name {
        "byteorder" => b"big".to_vec(),
        _ => bytes,
    });
    fails(read(&swapped), "its numbers are big-endian");
    fails(with_pickle(b"\x80\x02"), "the pickle is damaged at byte 2: it ends before it is whole");
    fails(TorchFile::open("none.pt".as_ref()), "cannot read none.pt");
    fails(TorchFile::open(env!("CARGO_MANIFEST_DIR").as_ref()), "it is a folder, a pipe or a device");
    assert!(read(&changed(|_, bytes| bytes)).is_ok());
}

/// The compression method is a number in two headers of each file; that of `deflate` is 8.
#[test]
fn compressed_files() {
    let mut bytes = changed(|_, bytes| bytes);
    for (magic, at) in [(b"PK\x03\x04", 8), (b"PK\x01\x02", 10)] {
        let headers: Vec<usize> = bytes.windows(4).enumerate().filter(|(_, it)| it == magic).map(|(i, _)| i).collect();
        headers.iter().for_each(|header| bytes[header + at] = 8);
    }
    fails(TorchFile::in_memory("a.pt".as_ref(), bytes), "files in it are compressed");
}

/// `data/0` holds three numbers of 32 bits.
#[test]
fn tensors_and_what_is_none() {
    let view = |offset: u8, size: u8, stride: u8| [b'K', offset, b'K', size, 0x85, b'K', stride, 0x85];
    let file = with_pickle(&tensor("FloatStorage", "0", &view(0, 3, 1))).unwrap();
    let found = file.tensor(file.root()).unwrap();
    assert_eq!((found.dtype(), found.shape()), (Dtype::F32, &[3][..]));
    for (offset, size, stride) in [(1, 3, 1), (0, 4, 1), (0, 2, 3), (0, 4, 0), (200, 1, 1)] {
        tensor_fails(&tensor("FloatStorage", "0", &view(offset, size, stride)), "a tensor reaches past data/0");
    }
    tensor_fails(&tensor("DoubleStorage", "0", &view(0, 3, 1)), "a tensor reaches past data/0");
    tensor_fails(&tensor("FloatStorage", "z", &view(0, 1, 1)), "it has no data/z");
    tensor_fails(&tensor("QInt8Storage", "0", &view(0, 1, 1)), "numbers of the type QInt8Storage");
    tensor_fails(&tensor("FloatStorage", "0", b"K\x00K\x01K\x01"), "is where a tensor should be");
    tensor_fails(b"\x80\x02K\x07.", "a number is where a tensor should be");
    tensor_fails(b"\x80\x02ctorchao\nNf4\n)R.", "an instance of torchao.Nf4 is where a tensor should be");
    tensor_fails(b"\x80\x02ctorch._utils\n_rebuild_qtensor\n)R.", "is made by torch._utils._rebuild_qtensor");
}
