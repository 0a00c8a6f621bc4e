"""Other programs judge what verdigris-c2pa signed: the C2PA's own library checks the store and the hard binding,
another implementation of A.8 and A.9 the frame. In turn verdigris-c2pa judges what they framed."""

import hashlib
import io
import json
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path

import c2pa
import c2pa_text

PROGRAM = str(Path(sys.argv[1]).resolve())
PLAIN = "The na\u00efve captain went to the caf\u00e9 by the quiet sea.\nHe left a red sail there.\n"


def run(*arguments, expect=0):
    done = subprocess.run([PROGRAM, *map(str, arguments)], capture_output=True)
    assert done.returncode == expect, (arguments, done)
    return done.stdout


def judged(store, text, anchors=None):
    """The verdict of the C2PA's library on a store and the bytes that it belongs to."""
    context = None
    if anchors:
        context = c2pa.Context.from_dict({"trust": {"user_anchors": anchors}})
    reader = c2pa.Reader("text/plain", io.BytesIO(text), manifest_data=store, context=context)
    return reader.get_validation_state(), json.loads(reader.json())


def faults(told, placed):
    """The faults that the library finds. It also looks for the manifest in the bytes, although it does not support
    text: if the manifest is in a text, the error that the exclusion does not match its location is ignored."""
    found = told["validation_results"]["activeManifest"]["failure"]
    where = "data hash exclusion does not match the manifest location in the asset"
    return [each for each in found if not (placed and each.get("explanation") == where)]


def matches(told):
    """Whether the hash is that of the text without the excluded part."""
    return "assertion.dataHash.match" in {
        each["code"] for each in told["validation_results"]["activeManifest"]["success"]
    }


def verified(path, *options, expect=0):
    return json.loads(run("verify", path, "--json", *options, expect=expect))["manifest"]


def main():
    folder = Path(tempfile.mkdtemp())
    run("certificate", folder / "ada", "--signer", "Ada")
    root = (folder / "ada.root.pem").read_text()
    signing = ["--certificate", folder / "ada.cert.pem", "--private-key", folder / "ada.key.pem"]
    signing += ["--scheme", "native", "--key-id", "my", "--model", "tale"]
    plain = folder / "plain.txt"
    plain.write_text(PLAIN, encoding="utf-8", newline="")

    # A sidecar.
    sidecar = folder / "plain.txt.c2pa"
    run("sign", plain, *signing, "--manifest", "sidecar")
    stores = [("sidecar", sidecar.read_bytes(), plain.read_bytes())]
    # In a comment: another program finds it.
    signed = run("sign", plain, *signing, "--manifest", "md").decode()
    found = c2pa_text.extract_structured(signed)
    stores.append(("structured", c2pa_text.decode_data_uri(found.reference), signed.encode()))
    # In invisible characters: another program finds it and accepts its format.
    signed = run("sign", plain, *signing).decode()
    store, start, length = c2pa_text.find_wrapper_info(signed)
    assert c2pa_text.validate_text(signed).valid, c2pa_text.validate_text(signed)
    whole = signed.encode()
    assert whole[:start] + whole[start + length :] == PLAIN.encode(), (start, length)
    stores.append(("text", store, signed.encode()))

    for name, store, text in stores:
        placed = name != "sidecar"
        state, told = judged(store, text, root)
        assert not faults(told, placed) and matches(told), (name, state, told)
        assert placed or state == "Trusted", (name, state, told)
        untrusted = [each["code"] for each in faults(judged(store, text)[1], placed)]
        assert untrusted == ["signingCredential.untrusted"], (name, untrusted)
        manifest = told["manifests"][told["active_manifest"]]
        assertions = {each["label"]: each["data"] for each in manifest["assertions"]}
        actions = [each["action"] for each in assertions["c2pa.actions.v2"]["actions"]]
        assert actions == ["c2pa.created", "c2pa.watermarked.unbound"], actions
        binding = assertions["c2pa.soft-binding"]
        assert (binding["alg"], binding["alg-params"]) == ("verdigris.watermark.1", "native"), binding
        assert binding["blocks"][0]["value"] == "my", binding
        assert manifest["signature_info"]["common_name"] == "Ada", manifest["signature_info"]
        # The library notices a changed letter.
        _, told = judged(store, text.replace(b"captain", b"Captain"), root)
        assert not matches(told) and faults(told, placed), (name, told)
        # It also notices a changed byte of the claim.
        at = store.find(b"trainedAlgorithmicMedia")
        _, told = judged(store[:at] + b"T" + store[at + 1 :], text, root)
        assert faults(told, placed), (name, told)
        print(f"{name}: {len(store)} bytes of store, as c2pa-python {c2pa.sdk_version()} judges it")

    # The hash of A.8 is of the composed text, as composed by another library.
    _, clean = c2pa_text.extract_manifest(unicodedata.normalize("NFD", signed))
    assert clean == PLAIN
    decomposed = folder / "decomposed.txt"
    decomposed.write_text(unicodedata.normalize("NFD", signed), encoding="utf-8", newline="")
    assert verified(decomposed)["verdict"] == "valid"
    digest = hashlib.sha256(unicodedata.normalize("NFC", PLAIN).encode()).digest()
    assert digest in stores[2][1]

    # A store that they frame is found here; it was made for another location, so its binding does not match.
    text = folder / "theirs.txt"
    text.write_text(c2pa_text.embed_manifest(PLAIN, stores[0][1]), encoding="utf-8", newline="")
    theirs = verified(text, expect=4)
    assert theirs["place"] == "text" and theirs["codes"] == ["assertion.dataHash.malformed"], theirs
    # Framed with the padding that the specification requires, a manifest of ours is at its original position.
    padded = c2pa_text.encode_wrapper_padded(store, 3 + (13 + len(store)) * 4 + 6)
    text.write_text(PLAIN + padded, encoding="utf-8", newline="")
    assert verified(text)["verdict"] == "valid", verified(text)


main()
