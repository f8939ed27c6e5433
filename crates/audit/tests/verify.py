"""A second implementation of docs/integrate/ledger-format.md, written from that page: checks a ledger directory, prints what it found as JSON.

It shares nothing with the gate, not even the language. Ed25519 is spelled out (RFC 8032) because Python's library has none.
Usage: verify.py DIR
"""
import base64, hashlib, json, pathlib, sys

P = 2**255 - 19
D = -121665 * pow(121666, P - 2, P) % P
L = 2**252 + 27742317777372353535851937790883648493


def sha(*parts):
    return hashlib.sha256(b"".join(parts)).digest()


def point(data):
    y = int.from_bytes(data, "little")
    sign, y = y >> 255, y & (2**255 - 1)
    square = (y * y - 1) * pow(D * y * y + 1, P - 2, P) % P
    x = pow(square, (P + 3) // 8, P)
    if (x * x - square) % P:
        x = x * pow(2, (P - 1) // 4, P) % P
    if y >= P or (x * x - square) % P:
        raise ValueError("no point")
    return (P - x if x & 1 != sign else x, y)


def add(a, b):
    (x, y), (u, v) = a, b
    t = D * x * y * u * v
    return ((x * v + y * u) * pow(1 + t, P - 2, P) % P, (y * v + x * u) * pow(1 - t, P - 2, P) % P)


def times(n, a):
    total = (0, 1)
    while n:
        total, a, n = (add(total, a) if n & 1 else total), add(a, a), n >> 1
    return total


def signed(key, text, signature):
    base = point((4 * pow(5, P - 2, P) % P).to_bytes(32, "little"))
    r, s = signature[:32], int.from_bytes(signature[32:], "little")
    k = int.from_bytes(hashlib.sha512(r + key + text).digest(), "little") % L
    return len(signature) == 64 and s < L and times(s, base) == add(point(r), times(k, point(key)))


def root(leaves):
    if len(leaves) < 2:
        return leaves[0] if leaves else sha()
    half = 1 << (len(leaves) - 1).bit_length() - 1
    return sha(b"\x01", root(leaves[:half]), root(leaves[half:]))


def peaks(leaves):
    found, start = [], 0
    for bit in reversed(range(len(leaves).bit_length())):
        if len(leaves) >> bit & 1:
            found.append(root(leaves[start : start + (1 << bit)]).hex())
            start += 1 << bit
    return "".join(found)


def check(folder):
    previous, leaves, open_intents = bytes(32), [], set()
    for segment in sorted(folder.glob("*.log")):
        assert segment.name == f"{len(leaves):020}.log", f"{segment.name} does not belong here"
        data = segment.read_bytes()
        assert not data or data.endswith(b"\n"), "the last line has no end"
        for line in data.split(b"\n")[:-1]:
            body, stated = line[:-75], line[-75:]
            record = json.loads(line)
            assert record["prev"] == previous.hex() and body.endswith(b',"prev":"' + record["prev"].encode() + b'"'), "chain"
            previous = sha(previous, body)
            assert stated == b',"hash":"' + previous.hex().encode() + b'"}', "hash"
            assert record["seq"] == len(leaves) and record["v"] == 1, "number"
            assert "tree" not in record or record["tree"] == peaks(leaves), "tree"
            if record["kind"] == "intent":
                open_intents.add(record["seq"])
            elif "intent" in record:
                open_intents.remove(record["intent"])
            leaves.append(sha(b"\x00", previous))
    covered = None
    if (folder / "checkpoint").exists():
        name, ident, key = (folder / "checkpoint.pub").read_text().strip().split("+", 2)
        key = base64.b64decode(key, validate=True)
        assert key[0] == 1 and sha(name.encode(), b"\n", key)[:4].hex() == ident, "key"
        text, signatures = (folder / "checkpoint").read_text(encoding="utf-8").split("\n\n")
        origin, size, stated = text.split("\n")
        covered = int(size)
        dash, signer, signature = signatures.rstrip("\n").split(" ")
        signature = base64.b64decode(signature, validate=True)
        assert (origin, dash, signer) == (name, "\u2014", name) and signature[:4].hex() == ident, "signature line"
        assert signed(key[1:], text.encode() + b"\n", signature[4:]), "signature"
        assert covered <= len(leaves) and base64.b64decode(stated) == root(leaves[:covered]), "root"
    return {"records": len(leaves), "head": previous.hex(), "root": root(leaves).hex(), "checkpoint": covered,
            "open_intents": len(open_intents)}


try:
    print(json.dumps(check(pathlib.Path(sys.argv[1]))))
except (AssertionError, ValueError, KeyError, IndexError) as error:
    print(json.dumps({"error": str(error)}))
