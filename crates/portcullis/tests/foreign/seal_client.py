"""A SEAL client written from the protocol alone: attest once, then sign each call. Says what happened as one JSON line.

usage: seal_client.py URL CONTEXT TOOL ARGUMENTS [--bearer TOKEN] [--workload ID] [--times N]

It behaves like the public SDKs do: an Authorization header at most when attesting and never after, timestamps as ISO 8601 with
milliseconds, a random request id, the result read from `payload.result`, failures from `status` and `error.message`.
"""

import argparse
import base64
import json
import secrets
import urllib.error
import urllib.request
from datetime import datetime, timezone

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

ATTEST_SECONDS = 10
INVOKE_SECONDS = 30


class SealError(Exception):
    pass


def post(url, body, headers, seconds):
    request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json", **headers})
    try:
        with urllib.request.urlopen(request, timeout=seconds) as response:
            return response.status, json.load(response)
    except urllib.error.HTTPError as error:
        return error.code, json.loads(error.read() or b"{}")


def canonical(payload, token, seconds):
    signed = {"payload": payload, "security_token": token, "timestamp": seconds}
    return json.dumps(signed, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode("utf-8")


class Client:
    def __init__(self, url, workload, context):
        self.url = url.rstrip("/")
        self.workload = workload
        self.context = context
        self.key = Ed25519PrivateKey.generate()
        self.token = None

    def attest(self, bearer):
        public = self.key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        body = {
            "public_key": base64.b64encode(public).decode(),
            "workload_id": self.workload,
            "security_context": self.context,
        }
        headers = {"Authorization": f"Bearer {bearer}"} if bearer else {}
        status, said = post(f"{self.url}/v1/seal/attest", body, headers, ATTEST_SECONDS)
        if status != 200 or said.get("status") == "error":
            raise SealError(f"attestation failed: {said.get('message')}")
        self.token = said["security_token"]
        return said

    def call(self, tool, arguments):
        payload = {
            "jsonrpc": "2.0",
            "id": "req-" + secrets.token_hex(8),
            "method": "tools/call",
            "params": {"name": tool, "arguments": arguments},
        }
        now = datetime.now(timezone.utc)
        signature = self.key.sign(canonical(payload, self.token, int(now.timestamp())))
        envelope = {
            "protocol": "seal/v1",
            "security_token": self.token,
            "signature": base64.b64encode(signature).decode(),
            "payload": payload,
            "timestamp": now.strftime("%Y-%m-%dT%H:%M:%S.") + f"{now.microsecond // 1000:03d}Z",
        }
        status, said = post(f"{self.url}/v1/seal/invoke", envelope, {}, INVOKE_SECONDS)
        if said.get("status") == "error":
            raise SealError(f"{status} {said['error']['code']}: {said['error']['message']}")
        return said["payload"]["result"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("url")
    parser.add_argument("context")
    parser.add_argument("tool")
    parser.add_argument("arguments")
    parser.add_argument("--bearer")
    parser.add_argument("--workload", default="python-client")
    parser.add_argument("--times", type=int, default=1)
    args = parser.parse_args()
    client = Client(args.url, args.workload, args.context)
    results, errors = [], []
    attested = {}
    try:
        attested = client.attest(args.bearer)
        for _ in range(args.times):
            results.append(client.call(args.tool, json.loads(args.arguments)))
    except SealError as error:
        errors.append(str(error))
    print(json.dumps({"attested": bool(attested), "execution": attested.get("execution_id"), "results": results, "errors": errors}))


main()
