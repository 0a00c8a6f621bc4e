"""Writes the sources of the library for Python: python3 cli/release/sources.py SDIST FOLDER.

SDIST is what `maturin sdist` wrote. It lacks a file from outside the crates, and its lock file has the libraries of the
whole project: verdigris-VERSION.tar.gz has that file, and the libraries that it needs in its lock file.
verdigris-VERSION-vendored.tar.gz also has these libraries, as far as they are compiled on Linux, and Cargo's
configuration to take them from there, so that pip builds it without a network. Of others only descriptions are kept,
which Cargo reads. Times are SOURCE_DATE_EPOCH, so that files of two runs are equal."""

import gzip
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tarfile
import tempfile

ROOT = pathlib.Path(__file__).parents[2]
# The tokenizer of the built-in models, which is part of the library.
OUTSIDE = "fixtures/models/tale/tokenizer.json"
TARGETS = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"]


def run(folder, *command):
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(done.stderr)
    return done.stdout


def needed(folder):
    """The folders of the crates that are compiled on one of the systems."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--offline", "--filter-platform"]
    found = [json.loads(run(folder, *command, target))["packages"] for target in TARGETS]
    return {pathlib.Path(package["manifest_path"]).parent.name for packages in found for package in packages}


def empty(crate):
    """Leaves the description of a crate, and a library without contents."""
    checksums = json.loads((crate / ".cargo-checksum.json").read_text())
    description = (crate / "Cargo.toml").read_bytes()
    shutil.rmtree(crate)
    (crate / "src").mkdir(parents=True)
    (crate / "src/lib.rs").write_text("")
    (crate / "Cargo.toml").write_bytes(description)
    (crate / ".cargo-checksum.json").write_text(json.dumps({"files": {}, "package": checksums["package"]}))


def pack(folder, file):
    moment = int(os.environ["SOURCE_DATE_EPOCH"])

    def plain(entry):
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime, entry.mode = moment, entry.mode & 0o755 | 0o644
        return entry

    with open(file, "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as archive:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                archive.add(path, path.relative_to(folder.parent), recursive=False, filter=plain)


def main(sdist, out):
    with tempfile.TemporaryDirectory() as work:
        with tarfile.open(sdist) as archive:
            archive.extractall(work, filter="data")
        [folder] = pathlib.Path(work).iterdir()
        (folder / OUTSIDE).parent.mkdir(parents=True)
        shutil.copyfile(ROOT / OUTSIDE, folder / OUTSIDE)
        # It drops what is not needed from the lock file, too.
        config = run(folder, "cargo", "vendor", "--versioned-dirs", f"{work}/vendor").replace(f"{work}/", "")
        pack(folder, f"{out}/{folder.name}.tar.gz")
        (folder / ".cargo").mkdir()
        (folder / ".cargo/config.toml").write_text(config)
        (folder.parent / "vendor").rename(folder / "vendor")
        kept = needed(folder)
        for crate in sorted((folder / "vendor").iterdir()):
            if crate.name not in kept:
                empty(crate)
        pack(folder, f"{out}/{folder.name}-vendored.tar.gz")


if __name__ == "__main__":
    main(*sys.argv[1:])
