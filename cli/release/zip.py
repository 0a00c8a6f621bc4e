"""Writes a ZIP archive of the files that standard input names, in that order: python3 cli/release/zip.py FILE."""

import os
import sys
import time
import zipfile

# The format has no earlier year and counts two seconds.
moment = max(time.gmtime(int(os.environ["SOURCE_DATE_EPOCH"]))[:6], (1980, 1, 1, 0, 0, 0))
with zipfile.ZipFile(sys.argv[1], "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
    for name in sys.stdin.read().splitlines():
        entry = zipfile.ZipInfo(name, moment)
        entry.external_attr = 0o644 << 16
        with open(name, "rb") as file:
            archive.writestr(entry, file.read(), zipfile.ZIP_DEFLATED, 9)
