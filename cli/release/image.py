"""Copies an image in the format of `docker save` without the random names in its configuration, so that two builds give
the same bytes: python3 cli/release/image.py IN.tar OUT.tar.gz."""

import gzip
import hashlib
import io
import json
import sys
import tarfile


def main():
    with tarfile.open(sys.argv[1]) as image:
        read = lambda name: image.extractfile(name).read()
        (described,) = json.loads(read("manifest.json"))
        config = json.loads(read(described["Config"]))
        layers = [read(layer) for layer in described["Layers"]]
    # Those of the container in which the image was made.
    config.pop("container", None)
    for part in ("config", "container_config"):
        config.get(part, {}).pop("Hostname", None)
    text = json.dumps(config, sort_keys=True).encode()
    names = [f"{hashlib.sha256(layer).hexdigest()}.tar" for layer in layers]
    described |= {"Config": f"{hashlib.sha256(text).hexdigest()}.json", "Layers": names}
    files = [*zip(names, layers), (described["Config"], text), ("manifest.json", json.dumps([described]).encode())]
    with open(sys.argv[2], "wb") as out, gzip.GzipFile("", "wb", 9, out, mtime=0) as packed:
        with tarfile.open(fileobj=packed, mode="w", format=tarfile.USTAR_FORMAT) as image:
            for name, content in files:
                entry = tarfile.TarInfo(name)
                entry.size, entry.mode = len(content), 0o444
                image.addfile(entry, io.BytesIO(content))


main()
