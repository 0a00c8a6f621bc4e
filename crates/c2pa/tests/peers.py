"""Other programs judge what verdigris-c2pa signed: the C2PA's own library checks the store and the hard binding,
another implementation of A.8 and A.9 the frame. In turn verdigris-c2pa judges what they framed."""

import hashlib
import http.server
import io
import json
import shutil
import subprocess
import sys
import tempfile
import threading
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


def authority(folder):
    """Starts a time-stamping authority made of OpenSSL; its address and its root."""

    def openssl(*arguments):
        subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "9", "-subj", "/O=Tests/CN=Root")
    openssl("req", *key, "-keyout", "tsa.key", "-out", "tsa.csr", "-subj", "/O=Tests/CN=Clock")
    usage = "extendedKeyUsage=critical,timeStamping\nkeyUsage=critical,digitalSignature\nbasicConstraints=CA:FALSE\n"
    (folder / "usage").write_text(usage + "subjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n")
    signed = ["-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "9", "-extfile", "usage"]
    openssl("x509", "-req", "-in", "tsa.csr", *signed, "-out", "tsa.pem")
    (folder / "serial").write_text("01\n")
    (folder / "tsa.cnf").write_text(
        "[tsa]\ndefault_tsa=one\n[one]\nserial=serial\nsigner_cert=tsa.pem\ncerts=ca.pem\nsigner_key=tsa.key\n"
        "signer_digest=sha256\ndefault_policy=1.2.3.4\ndigests=sha256\ness_cert_id_alg=sha256\n"
    )

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            (folder / "query").write_bytes(self.rfile.read(int(self.headers["content-length"])))
            openssl("ts", "-reply", "-config", "tsa.cnf", "-queryfile", "query", "-out", "reply")
            self.send_response(200)
            self.send_header("content-type", "application/timestamp-reply")
            self.end_headers()
            self.wfile.write((folder / "reply").read_bytes())

        def log_message(self, *_):
            pass

    server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"http://127.0.0.1:{server.server_port}/", (folder / "ca.pem").read_text()


def stamped(folder, signing, plain, root):
    """The library trusts the time stamp of a signature, with the roots of signer and authority, and only then."""
    if not shutil.which("openssl"):
        print("SKIPPED: openssl is missing, so no other program has judged a time stamp", file=sys.stderr)
        return
    url, clock = authority(folder)
    store = folder / "stamped.c2pa"
    run("sign", plain, *signing, "--timestamp-url", url, "--manifest", "sidecar", "-o", store)
    for anchors, trusted in [(root + clock, True), (root, False)]:
        state, found = judged(store.read_bytes(), plain.read_bytes(), anchors)
        codes = {each["code"] for each in found["validation_results"]["activeManifest"]["success"]}
        assert (state, "timeStamp.trusted" in codes) == ("Trusted", trusted), (state, found)
        assert not faults(found, False), found
    print("sidecar: its time stamp is trusted by c2pa-python")


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

    stamped(folder, signing, plain, root)

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
