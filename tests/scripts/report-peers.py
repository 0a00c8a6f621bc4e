#!/usr/bin/env python3
"""Verifies signed detection reports of the built program with JOSE libraries of others, and the other way round.

    tests/scripts/report-peers.py

Needs `pip install jwcrypto joserfc`, and target/release/verdigris.
"""

import hashlib
import json
import os
import pathlib
import subprocess
import tempfile

from joserfc import jws as joserfc_jws
from joserfc.jwk import KeySet
from joserfc.jwk import OKPKey
from jwcrypto import jwk, jws

HERE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "release/verdigris"
REGISTRY = joserfc_jws.JWSRegistry(algorithms=["EdDSA"])


def run(folder, *arguments, statuses=(0,)):
    done = subprocess.run([PROGRAM, *arguments], cwd=folder, capture_output=True, text=True)
    assert done.returncode in statuses, (arguments, done)
    return done.stdout


def with_jwcrypto(signed, key):
    found = jws.JWS()
    found.allowed_algs = ["EdDSA"]
    found.deserialize(signed, key)
    return found.payload


def with_joserfc(signed, key):
    found = joserfc_jws.deserialize_json(json.loads(signed), key, registry=REGISTRY)
    return found.payload


def refuses(verify, signed, key):
    try:
        verify(signed, key)
    except Exception:
        return
    raise AssertionError(f"{verify.__name__} accepts a changed report")


def main():
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        text = "Many words are in this text, and none of them is marked. " * 20
        (folder / "text.txt").write_text(text)
        run(folder, "key", "new", "my.key")
        pem = run(folder, "key", "report", "report.pem")
        jwks = run(folder, "key", "report", "report.pem", "--public", "--jwks")
        (folder / "jwks.json").write_text(jwks)
        detect = ["detect", "text.txt", "--key", "my.key", "--report", "signed.json", "--report-key", "report.pem"]
        run(folder, *detect, statuses=(0, 1))
        signed = (folder / "signed.json").read_text()
        changed = json.loads(signed)
        changed["payload"] = changed["payload"][:50] + ("A" if changed["payload"][50] != "A" else "B") + changed["payload"][51:]

        keys = jwk.JWKSet.from_json(jwks)
        kid = json.loads(jwks)["keys"][0]["kid"]
        from_pem = jwk.JWK.from_pem(pem.encode())
        assert from_pem.thumbprint() == kid, (from_pem.thumbprint(), kid)
        assert OKPKey.import_key(pem).thumbprint() == kid
        for verify, key in [
            (with_jwcrypto, keys.get_key(kid)), (with_jwcrypto, from_pem),
            (with_joserfc, KeySet.import_key_set(json.loads(jwks))), (with_joserfc, OKPKey.import_key(pem)),
        ]:
            report = json.loads(verify(signed, key))
            assert report["format"] == "verdigris-report-1", report
            assert report["content"] == {"sha256": hashlib.sha256(text.encode()).hexdigest(), "bytes": len(text)}, report
            refuses(verify, json.dumps(changed), key)

        # A report that another library has signed is valid, too.
        (folder / "report.pub.pem").write_text(pem)
        private = jwk.JWK.from_pem((folder / "report.pem").read_bytes())
        theirs = jws.JWS(json.dumps(report))
        header = {"alg": "EdDSA", "kid": kid, "typ": "verdigris-report+json"}
        theirs.add_signature(private, None, json.dumps(header), None)
        (folder / "theirs.json").write_text(theirs.serialize())
        for key in ["report.pub.pem", "jwks.json"]:
            run(folder, "verify-report", "theirs.json", "--public-key", key, "--text", "text.txt")
    print("jwcrypto and joserfc verify our reports and have our thumbprint, and theirs are verified here")


main()
