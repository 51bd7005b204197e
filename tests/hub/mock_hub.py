#!/usr/bin/env python3
"""A mock of the Hugging Face Hub on two loopback ports: the endpoint, and the host that large files come from.

usage: mock_hub.py FOLDER PORT_FILE

FOLDER/models/ORG/NAME/... and FOLDER/datasets/ORG/NAME/... are repositories; files from 1 kB on are in LFS. Writes "ENDPOINT_PORT
CDN_PORT" to PORT_FILE and ends when its standard input does. What it does wrong is in FOLDER/faults.json, read at each request:

  {"NAME": [COUNT, ARGUMENT], ...}   the next COUNT requests that the fault applies to are answered so

Every request is a line of FOLDER/requests.log: port, method, path, Range, Authorization.
"""
import base64
import hashlib
import http.server
import json
import os
import random
import re
import sys
import threading
import urllib.parse

ROOT, PORT_FILE = sys.argv[1], sys.argv[2]
LFS_FROM = 1000
LOCK = threading.Lock()
PORTS = {}
COMMITS = []          # what was committed, as JSON lines
PARTS = {}            # of uploads: url path -> bytes


def fault(name, chance=None):
    """The argument of a fault that is to happen now, or None."""
    with LOCK:
        try:
            faults = json.load(open(os.path.join(ROOT, "faults.json")))
        except FileNotFoundError:
            return None
        if name not in faults:
            return None
        count, argument = faults[name]
        if "rate" in faults and random.random() > faults["rate"][0]:
            return None
        if count <= 0:
            return None
        faults[name][0] = count - 1
        with open(os.path.join(ROOT, "faults.json.new"), "w") as out:
            json.dump(faults, out)
        os.replace(os.path.join(ROOT, "faults.json.new"), os.path.join(ROOT, "faults.json"))
        return argument


KEPT = {}             # path -> (state of the file, its bytes, their digest)


def kept(repository, path):
    name = os.path.join(ROOT, repository, path)
    about = os.stat(name)
    state = (about.st_size, about.st_mtime_ns, about.st_ino)
    with LOCK:
        if name not in KEPT or KEPT[name][0] != state:
            with open(name, "rb") as file:
                data = file.read()
            KEPT[name] = (state, data, digest(data))
        return KEPT[name]


def content(repository, path):
    return kept(repository, path)[1]


def files(repository):
    top = os.path.join(ROOT, repository)
    out = []
    for folder, _, names in os.walk(top):
        out += [os.path.relpath(os.path.join(folder, name), top) for name in names]
    return sorted(out)


def digest(data):
    if len(data) >= LFS_FROM:
        return hashlib.sha256(data).hexdigest()
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def commit_of(repository):
    all_of_it = "".join(name + kept(repository, name)[2] for name in files(repository))
    return hashlib.sha1(all_of_it.encode()).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *words):
        pass

    def port(self):
        return self.server.server_address[1]

    def note(self):
        line = [str(self.port()), self.command, self.path, self.headers.get("Range", "-"), self.headers.get("Authorization", "-")]
        with LOCK, open(os.path.join(ROOT, "requests.log"), "a") as out:
            out.write(" ".join(line) + "\n")

    def answer(self, status, body=b"", headers=(), kind="application/json", cut=None, length=True):
        if isinstance(body, (dict, list)):
            body = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", kind)
        if length:
            self.send_header("Content-Length", str(len(body)))
        for name, value in headers:
            self.send_header(name, value)
        if cut is not None:
            self.send_header("Connection", "close")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body if cut is None else body[:cut])
        if cut is not None:
            self.wfile.flush()
            self.connection.shutdown(2)
            self.close_connection = True

    def refused(self):
        """The faults that any request may meet."""
        if (seconds := fault("429")) is not None:
            self.answer(429, {"error": "too many requests"}, [("Retry-After", str(seconds))])
        elif (status := fault("status")) is not None:
            self.answer(status, {"error": "the server has a problem"})
        elif fault("hang up") is not None:
            self.connection.shutdown(2)
            self.close_connection = True
        elif fault("html") is not None:
            self.answer(200, b"<html>Please log in</html>", kind="text/html")
        else:
            return False
        return True

    def send_content(self, data, head=()):
        """A file, in whole or in part, with the faults of transfers."""
        asked = self.headers.get("Range")
        head = list(head)
        if (cut := fault("cut")) is not None:
            cut = cut if cut >= 0 else random.randrange(len(data) + 1)
        if fault("wrong bytes") is not None:
            data = bytes([data[0] ^ 1]) + data[1:] if data else data
        if fault("416") is not None:
            return self.answer(416, b"", head)
        if fault("longer") is not None:
            return self.answer(200, data + b"more", head)
        if fault("chunked") is not None:
            self.send_response(200)
            for name, value in head:
                self.send_header(name, value)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for at in range(0, len(data), 700):
                piece = data[at:at + 700]
                self.wfile.write(b"%x\r\n" % len(piece) + piece + b"\r\n")
            return self.wfile.write(b"0\r\n\r\n")
        if asked and fault("no ranges") is None and (match := re.fullmatch(r"bytes=(\d+)-(\d*)", asked)):
            begin = int(match[1])
            end = int(match[2]) + 1 if match[2] else len(data)
            if begin >= len(data):
                return self.answer(416, b"", head)
            head.append(("Content-Range", "bytes %d-%d/%d" % (begin, min(end, len(data)) - 1, len(data))))
            return self.answer(206, data[begin:end], head, "application/octet-stream", cut)
        self.answer(200, data, head, "application/octet-stream", cut)

    def do_HEAD(self):
        self.do_GET()

    def do_GET(self):
        self.note()
        if self.refused():
            return
        url = urllib.parse.urlparse(self.path)
        path = urllib.parse.unquote(url.path)
        if path.startswith("/cdn/"):
            kind, org, name, file = path[5:].split("/", 3)
            return self.send_content(content(os.path.join(kind, org, name), file))
        if match := re.fullmatch(r"/api/(models|datasets)/([^/]+/[^/]+)/(revision|tree)/([^?]+)", path):
            return self.listing(os.path.join(match[1], match[2]), match[3], match[4])
        if match := re.fullmatch(r"/(datasets/)?([^/]+/[^/]+)/resolve/([^/]+|refs/.*?)/(.+)", path):
            return self.resolve((match[1] or "models/") + match[2], match[4])
        self.answer(404, {"error": "no such page"})

    def access(self, repository):
        owner = repository.split("/")[1]
        if owner == "gated":
            self.answer(403, {"error": "Access to this model is restricted"}, [("X-Error-Code", "GatedRepo")])
        elif owner == "private" and self.headers.get("Authorization") != "Bearer secret-token":
            self.answer(401, {"error": "Invalid username or password."})
        elif not os.path.isdir(os.path.join(ROOT, repository)):
            self.answer(404, {"error": "Repository not found"}, [("X-Error-Code", "RepoNotFound")])
        else:
            return True
        return False

    def listing(self, repository, what, revision):
        if repository == "models/old/name":
            return self.answer(307, b"", [("Location", self.path.replace("old/name", "org/model"))])
        if not self.access(repository):
            return
        commit = commit_of(repository)
        if revision not in ("main", "v1", "refs/pr/1", commit):
            return self.answer(404, {"error": "Invalid rev id"}, [("X-Error-Code", "RevisionNotFound")])
        names = files(repository)
        if what == "revision":
            return self.answer(200, {"sha": commit, "siblings": [{"rfilename": name} for name in names]})
        if (path := fault("bad name")) is not None:
            return self.answer(200, [{"type": "file", "path": path, "size": 1, "oid": "0" * 40}])
        start = int(urllib.parse.parse_qs(urllib.parse.urlparse(self.path).query).get("cursor", ["0"])[0])
        page, head = [], []
        for name in names[start:start + 4]:
            data = content(repository, name)
            entry = {"type": "file", "path": name, "size": len(data), "oid": kept(repository, name)[2] if len(data) < LFS_FROM else "0" * 40}
            if len(data) >= LFS_FROM:
                entry["lfs"] = {"oid": kept(repository, name)[2], "size": len(data), "pointerSize": 130}
            page.append(entry)
        if start + 4 < len(names):
            head = [("Link", '<http://127.0.0.1:%d%s?recursive=true&cursor=%d>; rel="next"' % (self.port(), self.path.split("?")[0], start + 4))]
        self.answer(200, page, head)

    def resolve(self, repository, path):
        if not self.access(repository):
            return
        if fault("not a hub") is not None:
            return self.answer(200, b"hello", kind="text/plain")
        if path not in files(repository):
            return self.answer(404, {"error": "Entry not found"}, [("X-Error-Code", "EntryNotFound")])
        if (text := fault("change")) is not None:   # the repository is pushed to meanwhile
            with open(os.path.join(ROOT, repository, path), "w") as out:
                out.write(text)
        data = content(repository, path)
        head = [("X-Repo-Commit", commit_of(repository)), ("X-Linked-Etag" if len(data) >= LFS_FROM else "ETag", '"%s"' % kept(repository, path)[2])]
        if fault("redirect loop") is not None:
            return self.answer(302, b"", head + [("Location", self.path)])
        if fault("redirect to a file") is not None:
            return self.answer(302, b"", head + [("Location", "file:///etc/passwd")])
        if len(data) >= LFS_FROM:
            place = "http://127.0.0.1:%d/cdn/%s/%s" % (PORTS["cdn"], repository, path)
            return self.answer(302, b"", head + [("Location", place), ("X-Linked-Size", str(len(data)))])
        self.send_content(data, head)

    def body(self):
        return self.rfile.read(int(self.headers.get("Content-Length", 0)))

    def do_POST(self):
        body = self.body()
        self.note()
        if self.refused():
            return
        path = urllib.parse.unquote(self.path)
        if self.port() == PORTS["endpoint"] and path.startswith("/api") and self.headers.get("Authorization") != "Bearer secret-token":
            return self.answer(401, {"error": "Invalid username or password."})
        if path == "/api/repos/create":
            made = json.loads(body)
            place = os.path.join(ROOT, made["type"] + "s", made["organization"], made["name"])
            if os.path.isdir(place):
                return self.answer(409, {"error": "You already created this repo"})
            os.makedirs(place)
            with open(os.path.join(ROOT, "created.json"), "w") as out:
                json.dump(made, out)
            return self.answer(200, {"url": "http://hub/" + made["name"]})
        if re.fullmatch(r"/api/(models|datasets)/.+/preupload/.+", path):
            asked = json.loads(body)["files"]
            return self.answer(200, {"files": [{"path": f["path"], "uploadMode": "lfs" if f["size"] >= LFS_FROM else "regular"} for f in asked]})
        if path.endswith("/info/lfs/objects/batch"):
            return self.answer(200, {"objects": [self.upload_of(o) for o in json.loads(body)["objects"]]})
        if path.startswith("/complete/"):
            done = json.loads(body)
            data = b"".join(PARTS[p["etag"].strip('"')] for p in sorted(done["parts"], key=lambda p: p["partNumber"]))
            PARTS[done["oid"]] = data
            return self.answer(200, {})
        if path.startswith("/verify/"):
            asked = json.loads(body)
            good = hashlib.sha256(PARTS[asked["oid"]]).hexdigest() == asked["oid"]
            return self.answer(200 if good else 422, {})
        if match := re.fullmatch(r"/api/(models|datasets)/(.+)/commit/(.+)", path):
            return self.commit(os.path.join(match[1], match[2]), body)
        self.answer(404, {"error": "no such page"})

    def upload_of(self, thing):
        oid, size = thing["oid"], thing["size"]
        if oid in PARTS:
            return {"oid": oid, "size": size}
        place = "http://127.0.0.1:%d" % PORTS["cdn"]
        verify = {"href": "%s/verify/%s" % (place, oid)}
        if size < 5000:
            return {"oid": oid, "size": size, "actions": {"upload": {"href": "%s/put/%s" % (place, oid)}, "verify": verify}}
        header = {"chunk_size": "2000"}
        for i in range((size + 1999) // 2000):
            header["%05d" % (i + 1)] = "%s/put/%s-%d" % (place, oid, i + 1)
        return {"oid": oid, "size": size, "actions": {"upload": {"href": "%s/complete/%s" % (place, oid), "header": header}, "verify": verify}}

    def do_PUT(self):
        body = self.body()
        self.note()
        if self.refused():
            return
        name = self.path.rsplit("/", 1)[1]
        with LOCK:
            PARTS[name] = body
        self.answer(200, b"", [("ETag", '"%s"' % name)])

    def commit(self, repository, body):
        for line in body.decode().splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "header":
                continue
            place = os.path.join(ROOT, repository, value["path"])
            os.makedirs(os.path.dirname(place), exist_ok=True)
            with open(place, "wb") as out:
                out.write(PARTS[value["oid"]] if entry["key"] == "lfsFile" else base64.b64decode(value["content"]))
        self.answer(200, {"commitUrl": "http://hub/commit/" + commit_of(repository), "commitOid": commit_of(repository)})


def serve(name):
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    PORTS[name] = server.server_address[1]
    threading.Thread(target=server.serve_forever, daemon=True).start()


random.seed(7)
serve("endpoint")
serve("cdn")
with open(PORT_FILE + ".new", "w") as out:
    out.write("%d %d" % (PORTS["endpoint"], PORTS["cdn"]))
os.replace(PORT_FILE + ".new", PORT_FILE)
sys.stdin.read()
