"""Prints the licences of all libraries in the program: python3 cli/release/licences.py TARGET FEATURES.

Each text is printed once, with the names of the libraries that it is the licence of. A library whose package has no
such file is listed with the name of its licence."""

import collections
import json
import pathlib
import re
import subprocess
import sys

FILES = re.compile(r"(licen[cs]e|copying|notice|unlicense)", re.IGNORECASE)


def packages(target, features):
    """The libraries that are compiled into the program for the target, without this project's own."""
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--filter-platform", target]
    command += ["--features", features]
    metadata = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    known = {package["id"]: package for package in metadata["packages"]}
    edges = {node["id"]: node["deps"] for node in metadata["resolve"]["nodes"]}
    program = next(id for id, package in known.items() if package["name"] == "verdigris-cli")
    reached, open_ = {program}, [program]
    while open_:
        for edge in edges[open_.pop()]:
            is_linked = any(kind["kind"] is None for kind in edge["dep_kinds"])
            if is_linked and edge["pkg"] not in reached:
                reached.add(edge["pkg"])
                open_.append(edge["pkg"])
    # Packages of a registry have a source.
    linked = (known[id] for id in reached)
    libraries = (package for package in linked if package["source"])
    return sorted(libraries, key=lambda package: (package["name"], package["version"]))


def main():
    target, features = sys.argv[1:]
    texts, without = collections.defaultdict(list), []
    for package in packages(target, features):
        name = f"{package['name']} {package['version']} ({package['license'] or 'see its file'})"
        folder = pathlib.Path(package["manifest_path"]).parent
        files = sorted(path for path in folder.iterdir() if path.is_file() and FILES.match(path.name))
        for path in files:
            texts[path.read_text(errors="replace").strip()].append(name)
        if not files:
            without.append(name)
    print("The program verdigris contains these libraries, under their licences.\n")
    for text, names in sorted(texts.items(), key=lambda item: item[1]):
        print("=" * 100)
        print("\n".join(dict.fromkeys(names)))
        print("-" * 100)
        print(text)
        print()
    if without:
        print("=" * 100)
        print("Their packages contain no text of a licence, only its name:")
        print("\n".join(without))


main()
