"""Writes a wheel that puts a static program on the PATH: python3 cli/release/program_wheel.py PROGRAM TARGET FOLDER.

Needs the library `wheel`. The same program gives the same bytes, if SOURCE_DATE_EPOCH is set."""

import pathlib
import sys
import tomllib
import zipfile

from wheel.wheelfile import WheelFile

NAME = "verdigris_cli"
ROOT = pathlib.Path(__file__).parents[2]

# A static program needs no libraries of the system, so it suits systems with and without glibc.
PLATFORMS = {
    "x86_64-unknown-linux-musl": "manylinux_2_17_x86_64.manylinux2014_x86_64.musllinux_1_1_x86_64",
    "aarch64-unknown-linux-musl": "manylinux_2_17_aarch64.manylinux2014_aarch64.musllinux_1_1_aarch64",
    "x86_64-pc-windows-gnu": "win_amd64",
}


def main():
    program, target, folder = pathlib.Path(sys.argv[1]), sys.argv[2], pathlib.Path(sys.argv[3])
    package = tomllib.loads((ROOT / "Cargo.toml").read_text())["workspace"]["package"]
    version, platforms = package["version"], PLATFORMS[target]
    about, licences = f"{NAME}-{version}.dist-info", ["LICENSE-APACHE", "LICENSE-MIT"]
    metadata = [
        "Metadata-Version: 2.4",
        f"Name: {NAME.replace('_', '-')}",
        f"Version: {version}",
        f"Summary: {package['description']}: the program",
        f"License-Expression: {package['license']}",
        *(f"License-File: {name}" for name in licences),
        "Requires-Python: >=3.8",
        "Description-Content-Type: text/markdown",
        "",
        (ROOT / "cli/release/pypi.md").read_text(),
    ]
    tags = [f"Tag: py3-none-{platform}" for platform in platforms.split(".")]
    about_wheel = ["Wheel-Version: 1.0", "Generator: verdigris", "Root-Is-Purelib: false", *tags, ""]
    with WheelFile(folder / f"{NAME}-{version}-py3-none-{platforms}.whl", "w", zipfile.ZIP_DEFLATED) as wheel:
        wheel.write(program, f"{NAME}-{version}.data/scripts/{program.name}")
        for name in licences:
            wheel.write(ROOT / name, f"{about}/licenses/{name}")
        wheel.writestr(f"{about}/METADATA", "\n".join(metadata))
        wheel.writestr(f"{about}/WHEEL", "\n".join(about_wheel))


main()
