"""Describes the files of a release for those that install them: python3 cli/release/describe.py FOLDER REPOSITORY.

Writes into the folder, from Cargo.toml and from the files that are there: SHA256SUMS; install.sh; a formula for
Homebrew; manifests for winget; and provenance.json, a statement of SLSA's provenance (https://slsa.dev/provenance/v1)
in the format of in-toto, unsigned. REPOSITORY is its address, as https://github.com/OWNER/NAME."""

import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import time
import tomllib

ROOT = pathlib.Path(__file__).parents[2]

# Those that depend on the checksums of others.
DESCRIPTIONS = re.compile(r"SHA256SUMS|install\.sh|provenance\.json|verdigris\.rb|.*\.ya?ml")


def run(*command):
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()


class Release:
    def __init__(self, folder, repository):
        package = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
        self.folder, self.repository = folder, repository.rstrip("/")
        self.version, self.licence, self.summary = package["version"], package["license"], package["description"]
        self.url = f"{self.repository}/releases/download/v{self.version}"
        files = sorted(path for path in folder.iterdir() if path.is_file() and not DESCRIPTIONS.fullmatch(path.name))
        self.sums = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in files}

    def archive(self, target, kind):
        """The name and checksum of the archive for a target, if there is one."""
        name = f"verdigris-{self.version}-{target}.{kind}"
        return (name, self.sums[name]) if name in self.sums else None

    def write(self, name, text):
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def checksums(self):
        self.write("SHA256SUMS", "".join(f"{sum}  {name}\n" for name, sum in self.sums.items()))

    def installer(self):
        text = (ROOT / "cli/release/install.sh").read_text()
        for name, value in {"VERSION": self.version, "URL": self.url, "REPOSITORY": self.repository}.items():
            text = text.replace(f"@{name}@", value)
        self.write("install.sh", text)

    def formula(self):
        lines = [
            "class Verdigris < Formula",
            f'  desc "{self.summary.split(":")[0]}"',
            f'  homepage "{self.repository}"',
            f'  version "{self.version}"',
            f"  license any_of: {json.dumps(self.licence.split(' OR '))}",
            "",
        ]
        for processor, target in [("intel", "x86_64-unknown-linux-musl"), ("arm", "aarch64-unknown-linux-musl")]:
            if archive := self.archive(target, "tar.gz"):
                name, sum = archive
                lines += [f"  on_{processor} do", "    on_linux do", f'      url "{self.url}/{name}"']
                lines += [f'      sha256 "{sum}"', "    end", "  end", ""]
        lines += [
            "  # On macOS it is built from source.",
            "  on_macos do",
            f'    url "{self.repository}.git", tag: "v{self.version}"',
            '    depends_on "rust" => :build',
            "  end",
            "",
            "  def install",
            "    if OS.mac?",
            '      system "cargo", "install", *std_cargo_args(path: "cli")',
            "    else",
            '      bin.install "verdigris"',
            '      man1.install Dir["man/*.1"]',
            '      bash_completion.install "completions/verdigris.bash" => "verdigris"',
            '      zsh_completion.install "completions/_verdigris"',
            '      fish_completion.install "completions/verdigris.fish"',
            "    end",
            "  end",
            "",
            "  test do",
            '    assert_match version.to_s, shell_output("#{bin}/verdigris --version")',
            '    system bin/"verdigris", "key", "new", "my.key"',
            "  end",
            "end",
            "",
        ]
        self.write("verdigris.rb", "\n".join(lines))

    def winget(self):
        archive = self.archive("x86_64-pc-windows-gnu", "zip")
        if archive is None:
            return
        name, sum = archive
        owner = self.repository.split("/")[-2]
        common = {"PackageIdentifier": f"{owner}.Verdigris", "PackageVersion": self.version}
        kinds = {
            "": {"DefaultLocale": "en-US", "ManifestType": "version"},
            ".installer": {
                "InstallerType": "zip",
                "NestedInstallerType": "portable",
                "NestedInstallerFiles": [
                    {
                        "RelativeFilePath": f"{name.removesuffix('.zip')}\\verdigris.exe",
                        "PortableCommandAlias": "verdigris",
                    }
                ],
                "Installers": [
                    {"Architecture": "x64", "InstallerUrl": f"{self.url}/{name}", "InstallerSha256": sum.upper()}
                ],
                "ManifestType": "installer",
            },
            ".locale.en-US": {
                "PackageLocale": "en-US",
                "Publisher": owner,
                "PackageName": "Verdigris",
                "PackageUrl": self.repository,
                "License": self.licence,
                "ShortDescription": self.summary,
                "ManifestType": "defaultLocale",
            },
        }
        for kind, fields in kinds.items():
            # JSON is YAML.
            text = json.dumps(common | fields | {"ManifestVersion": "1.9.0"}, indent=2)
            self.write(f"winget/{owner}.Verdigris{kind}.yaml", text + "\n")

    def provenance(self):
        built = int(os.environ["SOURCE_DATE_EPOCH"])
        statement = {
            "_type": "https://in-toto.io/Statement/v1",
            "subject": [{"name": name, "digest": {"sha256": sum}} for name, sum in self.sums.items()],
            "predicateType": "https://slsa.dev/provenance/v1",
            "predicate": {
                "buildDefinition": {
                    "buildType": f"{self.repository}/blob/v{self.version}/docs/releasing.md",
                    "externalParameters": {"command": "cli/release/build", "version": self.version},
                    "internalParameters": {"rustc": run("rustc", "--version"), "cargo": run("cargo", "--version")},
                    "resolvedDependencies": [
                        {"uri": f"git+{self.repository}", "digest": {"gitCommit": run("git", "rev-parse", "HEAD")}},
                        {
                            "uri": "Cargo.lock",
                            "digest": {"sha256": hashlib.sha256((ROOT / "Cargo.lock").read_bytes()).hexdigest()},
                        },
                    ],
                },
                "runDetails": {
                    "builder": {"id": os.environ.get("VERDIGRIS_BUILDER", f"{self.repository}#local")},
                    # The time of the commit, so that two builds have the same statement.
                    "metadata": {"startedOn": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(built))},
                },
            },
        }
        self.write("provenance.json", json.dumps(statement, indent=2) + "\n")


def main():
    release = Release(pathlib.Path(sys.argv[1]), sys.argv[2])
    release.checksums()
    release.installer()
    release.formula()
    release.winget()
    release.provenance()


main()
