"""`dml serve` as a child process on a free port of the loopback address, and plain requests to it. Used by the scripts beside."""
import atexit, http.client, json, os, re, signal, socket, subprocess, threading, time

PATIENCE = 250  # seconds that only a hang takes, however slow and busy the machine is


def soon(reached):
    """Looks again and again; what `reached` gave when PATIENCE was over, if it never was true."""
    begin = time.time()
    while not (found := reached()) and time.time() - begin < PATIENCE: time.sleep(0.03)
    return found


class Server:
    def __init__(self, dml, *words):
        self.process = subprocess.Popen([dml, 'serve', *words, '--port', '0'], stderr=subprocess.PIPE, text=True)
        atexit.register(self.process.kill)  # where a script fails before end()
        self.lines, self.port = [], None
        for line in self.process.stderr:
            self.lines.append(line)
            if found := re.search(r'listening on http://127\.0\.0\.1:(\d+)', line):
                self.port = int(found[1])
                break
        if self.port is None:
            raise SystemExit('the server does not start: ' + ''.join(self.lines))
        threading.Thread(target=lambda: self.lines.extend(self.process.stderr), daemon=True).start()

    def ask(self, method, path, body=None, timeout=PATIENCE):
        """(status, JSON or text)"""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)
        c.request(method, path, None if body is None else json.dumps(body), {'Content-Type': 'application/json'})
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        try:
            return r.status, json.loads(text)
        except json.JSONDecodeError:
            return r.status, text

    def events(self, path, body, timeout=PATIENCE):
        """The events of a stream, one by one; leaving the loop closes the connection."""
        c = http.client.HTTPConnection('127.0.0.1', self.port, timeout=timeout)
        try:
            c.request('POST', path, json.dumps({**body, 'stream': True}), {'Content-Type': 'application/json'})
            r = c.getresponse()
            if r.status != 200:
                yield {'error': {'message': r.read().decode(), 'status': r.status}}
                return
            for line in r:
                if line.startswith(b'data: ') and line.strip() != b'data: [DONE]':
                    yield json.loads(line[6:])
        finally:
            c.close()

    def connect(self, timeout=PATIENCE):
        s = socket.create_connection(('127.0.0.1', self.port), timeout)
        s.settimeout(timeout)
        return s

    def gauge(self, name):
        for line in self.ask('GET', '/metrics')[1].splitlines():
            if line.startswith(name + '{') or line.startswith(name + ' '):
                return float(line.rsplit(' ', 1)[1])
        return None

    def rss(self):
        """kB"""
        with open(f'/proc/{self.process.pid}/status') as f:
            return int(re.search(r'VmRSS:\s+(\d+)', f.read())[1])

    def cpu(self):
        """seconds of processor time"""
        with open(f'/proc/{self.process.pid}/stat') as f:
            fields = f.read().rsplit(')', 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf('SC_CLK_TCK')

    def end(self):
        """exit status after SIGTERM"""
        self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return 'still running'


def arguments(parser):
    """Options that all scripts share; returns (parsed, words for dml serve)."""
    parser.add_argument('--dml', required=True, help='the program')
    parser.add_argument('--base-model', required=True)
    parser.add_argument('--adapter', action='append', default=[], help='NAME=DIR')
    a = parser.parse_args()
    words = ['--base-model', a.base_model, '--chat-template', 'qwen_25']
    for text in a.adapter:
        words += ['--adapter', text]
    return a, words
