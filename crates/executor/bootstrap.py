#!/usr/bin/env python3
"""The executor for images with Python 3.8 or later: asks the gate for commands and answers with results.

It runs what it was sent and nothing else, each dispatch once, and keeps the last results so that an answer that was lost is posted again. What it is
told by its environment: AEGIS_EXECUTION_ID, AEGIS_ORCHESTRATOR_URL, and AEGIS_DISPATCH_TOKEN_FILE (read once and deleted) or AEGIS_DISPATCH_TOKEN;
AEGIS_WORKSPACE if another directory stands for /workspace. Plain standard library.
"""

import codecs
import collections
import contextlib
import ctypes
import http.client
import json
import os
import selectors
import signal
import subprocess
import time
import urllib.parse
import uuid

DOOR = "/v1/dispatch-gateway"
WORKSPACE = "/workspace"
OWN_WORDS = "[portcullis] "
REFUSED = OWN_WORDS + "the gate refused what the command printed as too large"
PATIENCE = 60.0  # seconds; longer than the gate keeps anybody waiting
LARGEST = 16 << 20  # bytes of an answer
KEPT = 8  # results, for posting again
FIRST_PAUSE, LONGEST_PAUSE, LEAST_PAUSE = 0.1, 5.0, 0.05
GRACE = 2.0  # seconds that a command may take to end after it was asked to
PR_SET_CHILD_SUBREAPER = 36
UNREACHABLE = 503

GOLDEN = {
    "USER": "agent", "LOGNAME": "agent", "LANG": "C.UTF-8", "TZ": "UTC", "TERM": "dumb", "TMPDIR": "/tmp", "SHELL": "/bin/sh",
    "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0", "NO_COLOR": "1", "CI": "1",
}
# What begins so, or is called so, is never given to a command; compared in capitals.
DENIED_BEGINNINGS = ("AWS_", "AZURE_", "GCP_", "GOOGLE_", "CI_", "AEGIS_", "PORTCULLIS_", "LD_", "DYLD_")
DENIED_NAMES = {
    "GITHUB_TOKEN", "OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GCONV_PATH", "BASH_ENV", "ENV", "IFS", "PYTHONSTARTUP", "NODE_OPTIONS",
    "GIT_EXEC_PATH",
}


class Gate:
    def __init__(self, url, token):
        parts = urllib.parse.urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise SystemExit(f"bootstrap.py: `{url}` is no address of a gate")
        kinds = {"http": http.client.HTTPConnection, "https": http.client.HTTPSConnection}
        self.connect = lambda: kinds[parts.scheme](parts.hostname, parts.port, timeout=PATIENCE)
        self.path = parts.path.rstrip("/") + DOOR
        self.headers = {"Authorization": f"Bearer {token}", "Content-Type": "application/json"}

    def post(self, message):
        """The status and what was told; 503 where the gate did not answer, or not so that it can be read."""
        body = json.dumps(message, ensure_ascii=False).encode("utf-8", "replace")
        connection = self.connect()
        try:
            # A gate that refuses a long body may answer before it has read it all.
            with contextlib.suppress(BrokenPipeError):
                connection.request("POST", self.path, body=body, headers=self.headers)
            answer = connection.getresponse()
            told = json.loads(answer.read(LARGEST + 1))
            return answer.status, told if isinstance(told, dict) else {}
        except ValueError:
            return (answer.status if answer.status != 200 else UNREACHABLE), {}
        except (OSError, http.client.HTTPException):
            return UNREACHABLE, {}
        finally:
            connection.close()


class Tail:
    """The end of each stream. Two pipes have no common order, so they share the room only at the last: what one does not need is the
    other's, and if both want more than half, each gets half."""

    def __init__(self, most):
        self.most, self.ends = most, {"stdout": bytearray(), "stderr": bytearray()}
        self.printed = {"stdout": 0, "stderr": 0}

    def push(self, stream, data):
        self.printed[stream] += len(data)
        end = self.ends[stream]
        end += data
        del end[:max(0, len(end) - self.most)]

    def texts(self):
        """Both streams, together no longer than the limit; whether some is missing; whether some was no text."""
        texts, is_cut, is_lossy = {}, False, False
        room = max(self.most // 2, self.most - len(self.ends["stdout"]))
        for stream in ("stderr", "stdout"):
            data = bytes(self.ends[stream][-room:]) if room > 0 else b""
            if self.printed[stream] > len(data):
                is_cut, broken = True, 0  # the cut may have gone through a character
                while broken < min(3, len(data)) and 0x80 <= data[broken] < 0xC0:
                    broken += 1
                data = data[broken:]
            try:
                texts[stream] = data.decode("utf-8")
            except UnicodeDecodeError:
                # What stands for bytes that are no text is longer than they were.
                whole = data.decode("utf-8", "replace").encode("utf-8")
                is_cut, is_lossy = is_cut or len(whole) > room, True
                texts[stream] = codecs.decode(whole[-room:], "utf-8", "ignore")
            room = self.most - len(texts["stderr"].encode("utf-8"))
        return texts["stdout"], texts["stderr"], is_cut, is_lossy


def is_allowed(name):
    capitals = name.upper()
    return bool(name) and "=" not in name and "\0" not in name and not capitals.startswith(DENIED_BEGINNINGS) and capitals not in DENIED_NAMES


def beneath(workspace, path):
    """What a path under /workspace is here."""
    inside = path == WORKSPACE or path.startswith(WORKSPACE + "/")
    if not inside or ".." in path.split("/"):
        raise ValueError(f"`{path}` is not inside {WORKSPACE}")
    return workspace + path[len(WORKSPACE):]


def descendants():
    """Every process below this one. As subreaper it is the parent of those whose own parent is gone."""
    children = collections.defaultdict(list)
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            with open(f"/proc/{int(name)}/stat", "rb") as file:
                children[int(file.read().rpartition(b")")[2].split()[1])].append(int(name))
    found, look = [], [os.getpid()]
    while look:
        below = children.get(look.pop(), [])
        found += below
        look += below
    return found


def kill_everything(leader):
    """Nothing of a command is left when it has ended, daemons included."""
    until = time.monotonic() + GRACE
    while True:
        left = [pid for pid in descendants() if pid != leader.pid or leader.poll() is None]
        if not left or time.monotonic() > until:
            return
        for pid in left:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        for pid in left:
            with contextlib.suppress(OSError):
                if pid != leader.pid:
                    os.waitpid(pid, os.WNOHANG)
        time.sleep(0.002)


def attend(leader, stdin, most, seconds):
    """Feeds and drains a command until it has ended, by itself or because its time has; what it printed, and whether its time had."""
    tail, deadline, warned, ended = Tail(most), time.monotonic() + seconds, None, None
    with selectors.DefaultSelector() as selector:
        for name, event in (("stdin", selectors.EVENT_WRITE), ("stdout", selectors.EVENT_READ), ("stderr", selectors.EVENT_READ)):
            os.set_blocking(getattr(leader, name).fileno(), False)
            selector.register(getattr(leader, name), event, name)
        while ended is None or selector.get_map():
            is_empty = True
            for key, _ in selector.select(0.02):
                try:
                    if key.data == "stdin":
                        stdin = stdin[os.write(key.fd, stdin[:1 << 16]) if stdin else 0:]
                        is_over = not stdin
                    else:
                        data = os.read(key.fd, 1 << 16)
                        tail.push(key.data, data)
                        is_empty = is_empty and not data
                        is_over = not data
                except BlockingIOError:
                    continue
                except OSError:
                    is_over = True
                if is_over:
                    selector.unregister(key.fileobj)
                    key.fileobj.close()
            now = time.monotonic()
            if ended is None and leader.poll() is not None:
                ended = now
                kill_everything(leader)
            elif ended is not None and now > ended + GRACE and is_empty:
                break  # only an empty pipe that something keeps open is given up by the clock
            elif ended is None and warned is None and now > deadline:
                warned = now
                with contextlib.suppress(OSError):
                    os.killpg(leader.pid, signal.SIGTERM)
            elif ended is None and warned is not None and now > warned + GRACE:
                kill_everything(leader)
    return tail, warned is not None


def execute(dispatch, workspace):
    argv = [dispatch.get("command", "")] + list(dispatch.get("args") or [])
    if argv[0].startswith(WORKSPACE + "/"):
        argv[0] = beneath(workspace, argv[0])
    env = dict(GOLDEN, PATH=os.environ.get("PATH", "/usr/local/bin:/usr/bin:/bin"), HOME=os.environ.get("HOME", "/tmp"))
    env.update({name: value for name, value in (dispatch.get("env_additions") or {}).items() if is_allowed(name)})
    cwd = beneath(workspace, dispatch.get("cwd") or WORKSPACE)
    pipe = subprocess.PIPE
    leader = subprocess.Popen(argv, cwd=cwd, env=env, stdin=pipe, stdout=pipe, stderr=pipe, start_new_session=True, bufsize=0)
    seconds, most = max(1, int(dispatch.get("timeout_secs", 60))), int(dispatch.get("max_output_bytes", 512 << 10))
    tail, timed_out = attend(leader, (dispatch.get("stdin") or "").encode("utf-8", "replace"), most, seconds)
    out, err, is_cut, lossy = tail.texts()
    code = leader.returncode
    posted = {
        "exit_code": code if code >= 0 else 128 - code, "stdout": out, "stderr": err, "truncated": is_cut,
        "stdout_bytes": tail.printed["stdout"], "stderr_bytes": tail.printed["stderr"],
    }
    if timed_out:
        if posted["stderr"] and not posted["stderr"].endswith("\n"):
            posted["stderr"] += "\n"
        posted["stderr"] += f"{OWN_WORDS}the command timed out after {seconds} seconds"
        posted.update(exit_code=-1, timed_out=True)
    elif code < 0:
        posted["signal"] = -code
    if lossy:
        posted["lossy"] = True
    return posted


def run(dispatch, workspace):
    begun, action = time.monotonic(), dispatch.get("action")
    posted = {"exit_code": -1, "stdout": "", "stderr": "", "truncated": False}
    if action == "ping":
        posted["exit_code"] = 0
    elif action == "exec":
        try:
            posted = execute(dispatch, workspace)
        except (OSError, ValueError, TypeError) as error:
            posted["stderr"] = f"{OWN_WORDS}the command could not be started: {error}"
    else:
        posted["stderr"] = f"unknown_action:{action}"
    return {**posted, "dispatch_id": dispatch.get("dispatch_id", ""), "duration_ms": int((time.monotonic() - begun) * 1000)}


def take(name):
    """A variable that no command finds afterwards."""
    value = os.environ.pop(name, "")
    if not value:
        raise SystemExit(f"bootstrap.py: {name} is not set")
    return value


def read_token():
    file = os.environ.pop("AEGIS_DISPATCH_TOKEN_FILE", "")
    if not file:
        return take("AEGIS_DISPATCH_TOKEN")
    with open(file, encoding="ascii") as opened:
        token = opened.read().strip()
    with contextlib.suppress(OSError):
        os.remove(file)
    return token


def serve():
    token, execution, workspace = read_token(), take("AEGIS_EXECUTION_ID"), os.environ.get("AEGIS_WORKSPACE") or WORKSPACE
    gate, kept, pause = Gate(take("AEGIS_ORCHESTRATOR_URL"), token), collections.OrderedDict(), FIRST_PAUSE
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    attach = {"type": "attach", "execution_id": execution, "protocol": 1, "actions": ["exec", "ping"], "instance": str(uuid.uuid4())}
    message = attach
    while True:
        status, told = gate.post(message)
        if status >= 500 and status != 501:
            time.sleep(pause)  # then the same message again: the gate knows what it has heard before
            pause = min(pause * 2, LONGEST_PAUSE)
            continue
        pause = FIRST_PAUSE
        kind = told.get("type") if status == 200 else None
        if kind == "final":
            return
        if kind == "idle":
            time.sleep(min(max(told.get("retry_after_ms", 0) / 1000, LEAST_PAUSE), LONGEST_PAUSE))
            message = attach
        elif kind == "dispatch":
            posted = kept.get(told.get("dispatch_id"))
            if posted is None:
                posted = kept[told.get("dispatch_id")] = run(told, workspace)
                if len(kept) > KEPT:
                    kept.popitem(last=False)
            message = {"type": "dispatch_result", "execution_id": execution, **posted}
        elif status == 401:
            raise SystemExit("bootstrap.py: the gate does not know this execution, or it is over")
        elif status == 409:
            message = attach  # the gate has nothing to conclude with it any more
        elif status == 413 and "stderr" in message and message["stderr"] != REFUSED:
            posted = kept[message["dispatch_id"]] = {**kept.get(message["dispatch_id"], {}), "stdout": "", "stderr": REFUSED, "truncated": True}
            message = {"type": "dispatch_result", "execution_id": execution, "dispatch_id": message["dispatch_id"], **posted}
        else:
            raise SystemExit(f"bootstrap.py: the gate answered {status}: {told.get('error')}: {told.get('message')}")


if __name__ == "__main__":
    serve()
