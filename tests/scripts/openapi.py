#!/usr/bin/env python3
"""Checks the OpenAPI document of the built server against the standard and against the server's behaviour.

    tests/scripts/openapi.py [EXAMPLES [SECONDS]]

openapi-spec-validator validates the document; schemathesis makes valid and invalid requests from it, and validates
statuses and bodies. Needs `pip install openapi-spec-validator schemathesis`, and target/release/verdigris.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request

from openapi_spec_validator import validate

HERE = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", HERE / "target")) / "release/verdigris"
TEMPLATE = "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant: "
# A request whose fields are valid may still be refused for their combination, so only invalid ones are checked.
CHECKS = "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"
CHECKS += ",negative_data_rejection"


def address(log):
    """The address of the server, once it listens."""
    for _ in range(600):
        for line in log.read_text().splitlines():
            if line.startswith("listening at "):
                return line.split()[-1]
        time.sleep(0.1)
    raise SystemExit("the server did not start")


def main():
    examples, seconds = (*sys.argv[1:], *["20", "120"][len(sys.argv) - 1 :])
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        shutil.copytree(HERE / "fixtures/models/tale-small", folder / "teller")
        (folder / "teller/chat_template.jinja").write_text(TEMPLATE)
        key = [PROGRAM, "key", "new", "my.key", "--model", "teller"]
        subprocess.run(key, cwd=folder, check=True, capture_output=True)
        subprocess.run([PROGRAM, "key", "report", "report.pem"], cwd=folder, check=True, capture_output=True)
        options = ["--port", "0", "--model", "teller", "--key", "my.key", "--max-tokens", "8"]
        options += ["--report-key", "report.pem", "--input-marks", "report", "--strict"]
        # A file, since a pipe would not be read meanwhile.
        with open(folder / "log", "w") as log:
            server = subprocess.Popen([PROGRAM, "serve", *options], cwd=folder, stderr=log)
        try:
            url = address(folder / "log")
            document = json.load(urllib.request.urlopen(f"{url}/openapi.json", timeout=10))
            validate(document)
            print(f"the document is one of OpenAPI {document['openapi']}, with {len(document['paths'])} addresses")
            run = ["schemathesis", "run", f"{url}/openapi.json", "--checks", CHECKS, "--max-examples", examples]
            run += ["--phases", "coverage,fuzzing", "--seed", "1", "--request-timeout", "60", "--warnings", "off"]
            run += ["--suppress-health-check", "all", "--max-time", seconds]
            status = subprocess.run([pathlib.Path(sys.executable).parent / run[0], *run[1:]], cwd=folder).returncode
        finally:
            server.terminate()
            server.wait(30)
        sys.exit(status)


main()
