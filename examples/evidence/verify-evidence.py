#!/usr/bin/env python3
"""Verifies a file of `grapnel evidence`: verify-evidence.py PUBLIC.pem EVIDENCE.json

PUBLIC.pem must have come to you in another way than the file, and before you needed it: anybody can
make a key pair and sign anything with it. Exits 0 if the holder of the private key has signed every
byte of the file, 1 if not. Needs Python 3.8 and `openssl` 3.0; uses nothing of Grapnel.

The last line of the file is "signature":"128 hexadecimal digits"} and a line feed. The digits are an
Ed25519 signature (RFC 8032) of all bytes before that line.
"""
import json
import pathlib
import re
import subprocess
import sys
import tempfile

LAST_LINE = re.compile(rb'"signature":"([0-9a-f]{128})"}\n')


def split(data):
    """(the signed bytes, the signature); ValueError if the file has another form."""
    at = data.rfind(b"\n", 0, len(data) - 1) + 1
    last = LAST_LINE.fullmatch(data, at)
    if not last:
        raise ValueError("its last line is not a signature")
    return data[:at], bytes.fromhex(last[1].decode())


def verify(key, data):
    """The document of the file. ValueError: it is not what the holder of the key has signed."""
    signed, signature = split(data)
    with tempfile.TemporaryDirectory() as folder:
        for name, content in ("signed", signed), ("signature", signature):
            pathlib.Path(folder, name).write_bytes(content)
        done = subprocess.run(
            ["openssl", "pkeyutl", "-verify", "-pubin", "-inkey", str(key), "-rawin",
             "-in", f"{folder}/signed", "-sigfile", f"{folder}/signature"],
            capture_output=True, text=True)
    if done.returncode != 0:
        raise ValueError((done.stdout + done.stderr).strip() or "openssl failed")
    document = json.loads(data)
    if document.get("grapnel_evidence") != 1:
        raise ValueError("it is not evidence of a version that this script knows")
    return document


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        document = verify(sys.argv[1], pathlib.Path(sys.argv[2]).read_bytes())
    except (OSError, ValueError) as e:
        print(f"NOT VERIFIED: {sys.argv[2]}: {e}")
        sys.exit(1)
    event, request = document["event"], document["request"] or {}
    print(f"verified: signed with key {document['key']['id']}, exported {document['exported_at']}")
    print(f"event    {event['id']}, {event['type']} of source {event['source']}: {event['status']}")
    print(f"request  {event['received_at']}, body SHA-256 {request.get('body_sha256', '(deleted)')}")
    for a in document["attempts"]:
        print(f"attempt  {a['at']} {a['endpoint']} {a['n']}: {a['outcome']}, "
              f"{a['http_status'] or a['error']}")
    for a in document["acts"]:
        print(f"act      {a['at']} {a['actor']}: {a['command']}, {a['outcome']}")
    for sentence in document["missing"]:
        print(f"missing  {sentence}")


if __name__ == "__main__":
    main()
