#!/usr/bin/env python3
"""The chat page of `dml serve` in a headless Chromium: types, clicks and reads as a person would. --screens FOLDER keeps pictures."""
import argparse, base64, json, os, shutil, subprocess, sys, tempfile, time
from server import PATIENCE, Server, arguments, soon

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument('--screens', default='')
a, words = arguments(parser)
program = next((p for p in ('chromium', 'chromium-browser', 'google-chrome') if shutil.which(p)), None)
if not program:
    print('skipped: there is no Chromium')
    sys.exit(0)


class Browser:
    """One page, driven over the pipes of --remote-debugging-pipe (messages of the DevTools protocol, ended by NUL)."""

    def __init__(self, folder):
        to_it, self.out = os.pipe()
        self.into, from_it = os.pipe()

        def pipes():
            os.dup2(to_it, 13), os.dup2(from_it, 14)
            os.dup2(13, 3), os.dup2(14, 4)

        self.process = subprocess.Popen(
            [program, '--headless=new', '--no-sandbox', '--disable-gpu', '--disable-dev-shm-usage', '--no-first-run', '--remote-debugging-pipe',
             f'--user-data-dir={folder}', 'about:blank'], pass_fds=(3, 4), preexec_fn=pipes, stderr=subprocess.DEVNULL)
        os.close(to_it), os.close(from_it)
        self.number, self.pending, self.session, self.outside, self.errors = 0, b'', None, [], []
        target = self.call('Target.createTarget', url='about:blank')['targetId']
        self.session = self.call('Target.attachToTarget', targetId=target, flatten=True)['sessionId']
        for domain in ('Page', 'Runtime', 'Network', 'Accessibility'): self.call(domain + '.enable')
        self.call('Browser.setDownloadBehavior', behavior='allow', downloadPath=folder)
        self.folder = folder

    def call(self, method, **params):
        self.number += 1
        message = {'id': self.number, 'method': method, 'params': params}
        if self.session and not method.startswith(('Target.', 'Browser.')): message['sessionId'] = self.session
        os.write(self.out, json.dumps(message).encode() + b'\0')
        while True:
            while b'\0' not in self.pending:
                more = os.read(self.into, 1 << 20)
                if not more: raise SystemExit('the browser has ended')
                self.pending += more
            text, self.pending = self.pending.split(b'\0', 1)
            answer = json.loads(text)
            if answer.get('method') == 'Network.requestWillBeSent': self.outside.append(answer['params']['request']['url'])
            if answer.get('method') == 'Runtime.exceptionThrown': self.errors.append(str(answer['params']['exceptionDetails'])[:300])
            if answer.get('id') == self.number:
                if 'error' in answer: raise RuntimeError(f'{method}: {answer["error"]}')
                return answer['result']

    def js(self, text):
        r = self.call('Runtime.evaluate', expression=text, awaitPromise=True, returnByValue=True)
        if 'exceptionDetails' in r: raise RuntimeError(text + ': ' + str(r['exceptionDetails'])[:300])
        return r['result'].get('value')

    def until(self, text, seconds=PATIENCE):
        begin = time.time()
        while not (value := self.js(text)):
            if time.time() - begin > seconds: raise AssertionError('never true: ' + text)
            time.sleep(0.03)
        return value

    def key(self, key, modifiers=0, text=''):
        code = {'Enter': 13, 'Escape': 27, 'ArrowUp': 38, 'ArrowRight': 39, 'Tab': 9, 'n': 78}.get(key, 0)
        for kind in ('keyDown', 'keyUp'):
            self.call('Input.dispatchKeyEvent', type=kind, key=key, windowsVirtualKeyCode=code, modifiers=modifiers,
                      **({'text': '\r' if key == 'Enter' and not modifiers else text} if kind == 'keyDown' and (text or key == 'Enter') else {}))

    def type(self, text):
        self.call('Input.insertText', text=text)

    def size(self, width, height, dark=False):
        self.call('Emulation.setDeviceMetricsOverride', width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.call('Emulation.setEmulatedMedia', features=[{'name': 'prefers-color-scheme', 'value': 'dark' if dark else 'light'}])

    def picture(self, name):
        if a.screens:
            with open(os.path.join(a.screens, name + '.png'), 'wb') as f:
                f.write(base64.b64decode(self.call('Page.captureScreenshot', format='png')['data']))

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=PATIENCE)


def whole_json(path):
    """What a download holds; None until all of it is there."""
    try:
        with open(path) as f: return json.load(f)
    except (FileNotFoundError, json.JSONDecodeError):
        return None


def idle(b): b.until("running === null && !document.getElementById('send').classList.contains('hide')")


def run(b, server):
    checks = []

    begun = time.time()

    def check(what, good):
        if os.environ.get("DML_TIMES"): print(f"{time.time() - begun:.1f}", what, flush=True)
        checks.append(what)
        if not good: raise AssertionError(what)

    many = server.ask('GET', '/v1/models')[1]['data']
    b.size(1100, 800)
    b.call('Page.navigate', url=f'http://127.0.0.1:{server.port}/')
    b.until("document.readyState === 'complete' && models.length > 0")
    check('every model can be chosen', b.js("$('model').options.length") == len(many))
    check('the message box has the keyboard', b.js("document.activeElement.id") == 'text')
    b.picture('empty')

    b.js("$('max_tokens').value = 40; $('temperature').value = 1; $('temperature').dispatchEvent(new Event('input')); $('seed').value = 3")
    check('a slider shows its value', b.js("document.querySelector('output[for=temperature]').textContent") == '1')
    b.type('Tell me of a cat.')
    b.key('Enter')
    b.until("document.querySelectorAll('.assistant .text')[0]?.textContent.length > 0")
    idle(b)
    first = b.js("turns[1].answers[0].content")
    check('an answer came', first)
    check('a screen reader hears it, once and whole', b.js("$('said').textContent") == first)
    check('it came as a stream with its speed', 'tokens' in b.js("document.querySelector('.assistant .who').textContent"))
    check('every token has its probability', b.js("turns[1].answers[0].tokens.length") > 1)
    if b.js("document.querySelectorAll('.tok').length"):
        box = b.js("(() => { const r = document.querySelectorAll('.tok')[1].getBoundingClientRect(); return [r.x + 2, r.y + r.height / 2]; })()")
        b.call('Input.dispatchMouseEvent', type='mouseMoved', x=box[0], y=box[1])
        check('the pointer shows it', '%' in b.until("!$('tip').classList.contains('hide') && $('tip').textContent"))
        b.picture('probabilities')
        b.call('Input.dispatchMouseEvent', type='mouseMoved', x=1, y=1)
        b.js("document.querySelector('.acts button').focus()")
        b.key('Tab')
        check('the Tab key reaches the first token', b.js("document.activeElement === document.querySelector('.tok') && !$('tip').classList.contains('hide')"))
        b.key('ArrowRight')
        check('arrows move among the tokens, which say what they are', b.js("document.activeElement === document.querySelectorAll('.tok')[1] && document.activeElement.getAttribute('aria-describedby') === 'tip' && $('tip').textContent.includes('%')"))
        b.key('Tab')
        check('and are left by the Tab key', b.js("document.activeElement.textContent === 'Copy' && $('tip').classList.contains('hide')"))

    b.js("$('seed').value = 4; [...document.querySelectorAll('.acts button')].find(x => x.textContent === 'Retry').click()")
    idle(b)
    check('retry answers again', b.js("turns.length") == 2)

    b.js("document.querySelector('.user .acts button').click()")
    check('edit opens the message', b.js("document.activeElement.value") == 'Tell me of a cat.')
    b.js("document.activeElement.value = 'Tell me of a dog.'")
    b.key('Enter')
    idle(b)
    check('an edited message is asked again', b.js("turns[0].content") == 'Tell me of a dog.' and b.js("turns.length") == 2)

    b.js("$('system').value = 'You are a pirate.'; $('max_tokens').value = 1500; $('logprobs')")
    b.js("$('text').focus()")
    b.type('Go on for long.')
    b.key('Enter')
    b.until("turns.length === 4 && turns[3].answers[0].content.length > 20")
    check('the system prompt is sent', b.js("history(0)[0].content") == 'You are a pirate.')
    b.key('Escape')
    idle(b)
    stopped = b.js("turns[3].answers[0].rate")
    check('Escape stops an answer', stopped == 'stopped' or 'tokens' in stopped)
    check('the server stops as well', soon(lambda: not server.gauge('dml_num_requests_running')))

    b.js("$('copy').click()")
    row = soon(lambda: whole_json(b.folder + '/conversation.jsonl'))
    check('the conversation is a row of a chat dataset', [m['role'] for m in row['messages']] == ['system', 'user', 'assistant', 'user', 'assistant'])
    b.key('n', modifiers=1)
    check('Alt+N begins anew', b.js("turns.length") == 0)
    node = b.call('Runtime.evaluate', expression="$('file')")['result']['objectId']

    def open_row(text):
        with open(b.folder + '/row.json', 'w') as f: f.write(text)
        b.call('DOM.setFileInputFiles', files=[b.folder + '/row.json'], objectId=node)

    open_row(json.dumps(row) + '\n' + json.dumps({'messages': []}))
    b.until("turns.length === 4")
    check('a row is read again', b.js("$('system').value") == 'You are a pirate.' and b.js("turns[0].content") == 'Tell me of a dog.')
    open_row(json.dumps({'messages': [{'role': 'system', 'content': 'x'}, {'role': 'user', 'content': 'y'}, {'role': 'tool', 'content': 'z'}]}))
    b.until("$('note').textContent.includes('role tool')")
    check('a refused row changes nothing', b.js("$('system').value") == 'You are a pirate.' and b.js("turns.length") == 4 and b.js("turns[0].content") == 'Tell me of a dog.')
    for text in (json.dumps(row, indent=1), json.dumps([row, {}], indent=1)):
        b.js("reset(); $('system').value = ''")
        open_row(text)
        b.until("turns.length === 4 && $('system').value === 'You are a pirate.'")
        check('so is a file of JSON', b.js("history(0)") == row['messages'])
    b.js("$('text').focus()")
    b.type('word ' * 4000)  # longer than the context
    b.key('Enter')
    b.until("turns.at(-1).answers?.[0].error")
    idle(b)
    check('a failed answer is no message', b.js("turns.length") == 6 and b.js("history(0)") == row['messages'])

    b.js("$('max_tokens').value = 24")
    if len(many) > 1:
        b.js("$('side').click()")
        b.js("$('text').focus()")
        b.type('Side by side.')
        b.key('Enter')
        b.until("document.querySelectorAll('.pair').length > 0")
        idle(b)
        check('two models answer side by side', b.js("turns.at(-1).answers.length") == 2 and b.js("new Set(turns.at(-1).answers.map(x => x.model)).size") == 2)
        check('both have answered', b.js("turns.at(-1).answers.every(x => x.content && !x.error)"))
        b.picture('beside')
    b.js("$('text').focus()")
    b.key('ArrowUp')
    check('the arrow edits the last message', b.js("document.activeElement.tagName") == 'TEXTAREA' and b.js("document.activeElement.id") != 'text')
    b.key('Escape')
    check('Escape leaves the message as it was', b.js("document.activeElement.id") == 'text' and not b.js("document.querySelector('.user textarea')"))

    names = [n for n in b.call('Accessibility.getFullAXTree')['nodes'] if not n.get('ignored') and n.get('role', {}).get('value') in
             ('button', 'textbox', 'combobox', 'slider', 'checkbox', 'spinbutton', 'log', 'searchbox')]
    unnamed = [n['role']['value'] for n in names if not n.get('name', {}).get('value')]
    check('a screen reader has a name for every control: ' + str(unnamed), not unnamed)
    check('and knows where the messages are', any(n['role']['value'] == 'log' for n in names))
    b.js("$('more').open = true")
    b.size(1280, 800)
    b.picture('settings')
    b.size(1280, 800, dark=True)
    b.picture('dark')
    b.size(380, 700, dark=True)
    check('a phone scrolls in one direction only', b.until("innerWidth == 380 && document.documentElement.scrollWidth <= 380"))
    check('dark is dark', b.until("getComputedStyle(document.body).backgroundColor == 'rgb(21, 23, 27)'"))
    b.picture('phone-dark-settings')
    b.js("$('more').open = false")
    b.picture('phone-dark')
    b.size(400, 800)
    b.picture('phone')
    outside = [u for u in b.outside if not u.startswith((f'http://127.0.0.1:{server.port}/', 'data:', 'about:', 'blob:'))]
    check('nothing else was asked for: ' + str(outside), not outside)
    check('no script failed: ' + str(b.errors), not b.errors)
    return len(checks)


if a.screens: os.makedirs(a.screens, exist_ok=True)
server = Server(a.dml, *words)
with tempfile.TemporaryDirectory(prefix='dml-browser-', ignore_cleanup_errors=True) as folder:
    b = Browser(folder)
    try:
        count = run(b, server)
        print(f'the chat page holds: {count} checks')
        failed = False
    except (AssertionError, RuntimeError) as e:
        print('FAILED', e)
        b.picture('failed')
        failed = True
    b.end()
status = server.end()
sys.exit(failed or status != 0)
