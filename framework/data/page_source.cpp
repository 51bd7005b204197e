#include "data/page_source.h"

namespace dml {

const char* const kPageBeforeData = R"html(<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<title>dml inspect</title>
<style>
:root { color-scheme: light dark; --paper: #fff; --ink: #1d1f21; --soft: #6b7075; --line: #d9dce0; --panel: #f5f6f8;
  --chosen: #dbe9ff; --trained: #d3f0d6; --trained-ink: #0b4d18; --special: #8a5a00; --hit: #ffe27a; --warn: #8a3b00; --bar: #5b8def; }
@media (prefers-color-scheme: dark) { :root { --paper: #16181b; --ink: #e4e6e9; --soft: #989ea5; --line: #34383d; --panel: #1e2125;
  --chosen: #223a5e; --trained: #173f20; --trained-ink: #a9e9b5; --special: #f0b34d; --hit: #7a6300; --warn: #ffb27a; --bar: #7ea6f5; } }
* { box-sizing: border-box; }
html, body { height: 100%; margin: 0; }
body { display: flex; flex-direction: column; background: var(--paper); color: var(--ink); font: 14px/1.45 system-ui, sans-serif; }
header, form { padding: 8px 14px; border-bottom: 1px solid var(--line); }
h1 { font-size: 15px; margin: 0; display: inline; }
.soft { color: var(--soft); }
details { margin-top: 4px; }
details pre { margin: 6px 0 0; white-space: pre-wrap; font: 12px/1.5 ui-monospace, monospace; max-height: 30vh; overflow: auto; }
.warning { color: var(--warn); }
form { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; background: var(--panel); }
label { display: inline-flex; gap: 5px; align-items: center; white-space: nowrap; }
input, select { font: inherit; color: inherit; background: var(--paper); border: 1px solid var(--line); border-radius: 4px; padding: 2px 6px; }
input[type=search] { width: 17em; }
input[type=number] { width: 5.5em; }
select { max-width: 19em; }
#bars { display: flex; align-items: flex-end; gap: 1px; height: 26px; }
#bars i { width: 9px; background: var(--bar); min-height: 1px; }
main { flex: 1; display: flex; min-height: 0; }
#list { width: 37%; min-width: 250px; overflow-y: auto; border-right: 1px solid var(--line); position: relative; outline: none; }
#list > div { position: relative; }
.item { position: absolute; left: 0; right: 0; height: 46px; padding: 4px 12px; border-bottom: 1px solid var(--line); cursor: pointer; overflow: hidden; }
.item[aria-selected=true] { background: var(--chosen); }
.item div { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }
.item .top { font-size: 12px; color: var(--soft); }
#row { flex: 1; overflow: auto; padding: 12px 18px; min-width: 0; }
#row h2 { font-size: 14px; margin: 0 0 2px; overflow-wrap: anywhere; }
#text { margin: 12px 0; white-space: pre-wrap; overflow-wrap: anywhere; font: 13px/1.75 ui-monospace, monospace; color: var(--soft); }
#text .trained, .legend .trained { background: var(--trained); color: var(--trained-ink); border-bottom: 2px solid; padding-bottom: 1px; }
#text .special, .legend .special { color: var(--special); font-weight: 600; outline: 1px solid; outline-offset: -1px; border-radius: 3px; padding: 0 1px; }
#text .hit { background: var(--hit); }
#text.edges span { border-right: 1px solid var(--soft); }
#text.ids span::after { content: attr(data-id); font-size: 9px; vertical-align: super; margin: 0 2px; color: var(--soft); }
.legend span { margin-right: 10px; }
@media (max-width: 700px) { main { flex-direction: column; } #list { width: auto; height: 40%; border-right: 0; border-bottom: 1px solid var(--line); } }
</style>
</head>
<body>
<header>
  <h1 id="title"></h1> <span class="soft" id="scope"></span>
  <details id="about"><summary id="about-line">Summary</summary><pre id="summary"></pre></details>
</header>
<form id="filters" onsubmit="return false">
  <label>Search <input type="search" id="q" placeholder="text, press /"></label>
  <label>Rows <select id="kind"></select></label>
  <label>Source <select id="file"></select></label>
  <label>Trained % <input type="number" id="trained0" min="0" max="100" placeholder="from" aria-label="trained at least"><input type="number" id="trained1" min="0" max="100" placeholder="to" aria-label="trained at most"></label>
  <label>Tokens <input type="number" id="tokens0" min="0" placeholder="from" aria-label="tokens at least"><input type="number" id="tokens1" min="0" placeholder="to" aria-label="tokens at most"></label>
  <label>Sort <select id="sort"><option value="">as they are</option><option value="long">longest first</option><option value="short">shortest first</option><option value="most">most trained first</option><option value="least">least trained first</option></select></label>
  <strong id="count"></strong>
  <span id="bars" title="tokens per row, doubling from bar to bar"></span>
</form>
<main>
  <div id="list" role="listbox" tabindex="0" aria-label="rows"><div id="items"></div></div>
  <section id="row" aria-live="polite"></section>
</main>
<noscript>This page needs its own script to show the rows.</noscript>
<script type="application/json" id="data">)html";

const char* const kPageAfterData = R"html(</script>
<script>
'use strict';
const data = JSON.parse(document.getElementById('data').textContent);
const $ = id => document.getElementById(id);
const make = (tag, className, text) => { const e = document.createElement(tag); if (className) e.className = className; if (text !== undefined) e.textContent = text; return e; };
const grouped = n => String(n).replace(/\B(?=(\d{3})+$)/g, '\u202f');
const HEIGHT = 46;
const controls = ['q', 'kind', 'file', 'trained0', 'trained1', 'tokens0', 'tokens1', 'sort'];
const view = { ids: false, edges: false };

const rows = data.rows;
rows.forEach((r, i) => {
  r.key = r.kind === 'dropped' ? 'dropped:' + i : r.kind + ':' + r.row;
  r.tokens = r.ids ? r.ids.length : 0;
  r.trained = r.runs ? r.runs.reduce((sum, n, k) => sum + (k % 2 ? n : 0), 0) : 0;
  r.share = r.tokens ? 100 * r.trained / r.tokens : 0;
  r.place = data.sources[r.file] + data.between[r.file] + r.line;
});
let found = [], chosen = null;

// What cannot be seen is written out, so that no row can play with the page.
function visible(text) {
  return text.replace(/[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g,
    c => '\\u' + c.charCodeAt(0).toString(16).padStart(4, '0')).replace(/\t/g, '\u21e5\t').replace(/\n/g, '\u23ce\n');
}

function body(r) { return r.kind === 'dropped' ? r.reason + ' ' + r.detail : r.text; }
function lower(r) { return r.low ??= (body(r) + ' ' + r.place).toLowerCase(); }

// Templates begin alike: a row is known by what was searched for, or by what stands around its first trained token.
function snippet(r) {
  if (r.kind === 'dropped') return (r.detail.startsWith(r.place) ? '' : r.place + ' ') + r.detail;
  const q = $('q').value.toLowerCase(), hit = q ? r.text.toLowerCase().indexOf(q) : -1;
  const at = hit >= 0 ? hit - 30 : r.runs[0] && r.runs.length > 1 ? r.ends[r.runs[0] - 1] - 70 : 0;
  return (at > 0 ? '\u2026' : '') + r.text.slice(Math.max(0, at), Math.max(0, at) + 160);
}

function filter() {
  const value = id => $(id).value, number = (id, unset) => value(id) === '' ? unset : Number(value(id));
  const q = value('q').toLowerCase(), kind = value('kind'), file = value('file');
  const l0 = number('trained0', -1), l1 = number('trained1', 101), t0 = number('tokens0', -1), t1 = number('tokens1', Infinity);
  found = rows.filter(r => (!kind || kind === r.kind || kind === 'dropped ' + r.reason) && (file === '' || r.file === Number(file)) &&
    r.share >= l0 && r.share <= l1 && r.tokens >= t0 && r.tokens <= t1 && (!q || lower(r).includes(q)));
  const by = { long: (a, b) => b.tokens - a.tokens, short: (a, b) => a.tokens - b.tokens, most: (a, b) => b.share - a.share, least: (a, b) => a.share - b.share }[value('sort')];
  if (by) found.sort(by);
  $('count').textContent = grouped(found.length) + ' of ' + grouped(rows.length);
  bars();
  $('list').scrollTop = 0;
  if (!found.includes(chosen)) chosen = found[0] || null;
  show();
}

function bars() {
  const counts = [];
  for (const r of found) if (r.tokens) { const b = Math.floor(Math.log2(r.tokens)); counts[b] = (counts[b] || 0) + 1; }
  const most = Math.max(1, ...counts.filter(Boolean));
  $('bars').replaceChildren(...Array.from(counts, (n, b) => {
    const bar = make('i'); bar.style.height = 26 * (n || 0) / most + 'px'; bar.title = grouped(2 ** b) + ' to ' + grouped(2 ** (b + 1) - 1) + ' tokens: ' + (n || 0) + ' rows'; return bar;
  }));
}

function items() {
  const list = $('list'), first = Math.max(0, Math.floor(list.scrollTop / HEIGHT) - 5);
  const last = Math.min(found.length, first + Math.ceil(list.clientHeight / HEIGHT) + 10);
  $('items').style.height = found.length * HEIGHT + 'px';
  $('items').replaceChildren(...found.slice(first, last).map((r, i) => {
    const item = make('div', 'item');
    item.style.top = (first + i) * HEIGHT + 'px';
    item.setAttribute('role', 'option');
    item.setAttribute('aria-selected', r === chosen);
    item.append(make('div', 'top', r.kind === 'dropped' ? 'dropped: ' + r.reason : r.kind + ' ' + r.row + ' \u00b7 ' + grouped(r.tokens) + ' tokens \u00b7 ' + r.share.toFixed(0) + ' % trained'),
      make('div', '', visible(snippet(r)).replace(/\s+/g, ' ')));
    item.onclick = () => { chosen = r; show(); };
    return item;
  }));
}

function tokens(r) {
  const text = make('div'), q = $('q').value.toLowerCase(), low = r.text.toLowerCase();
  text.id = 'text';
  text.className = (view.ids ? 'ids ' : '') + (view.edges ? 'edges' : '');
  const special = new Set(r.special), labels = new Map(r.labels);
  let begin = 0, run = 0, left = r.runs[0], hit = q && low.length === r.text.length ? low.indexOf(q) : -1;
  for (let i = 0; i < r.tokens; ++i) {
    while (left === 0) left = r.runs[++run];
    --left;
    const end = r.ends[i], trained = run % 2 === 1;
    while (hit >= 0 && hit + q.length <= begin) hit = low.indexOf(q, hit + q.length);
    const classes = [trained && 'trained', special.has(i) && 'special', hit >= 0 && hit < end && hit + q.length > begin && 'hit'].filter(Boolean);
    const span = make('span', classes.join(' '), visible(r.text.slice(begin, end)) || '\u00b7');
    span.dataset.id = r.ids[i];
    span.title = 'token ' + i + ', id ' + r.ids[i] + (trained ? ', trained' + (labels.has(i) ? ' as ' + labels.get(i) : '') : ', read') + (special.has(i) ? ', special' : '');
    text.append(span);
    begin = end;
  }
  return text;
}

function show() {
  items();
  const box = $('row'), r = chosen;
  box.replaceChildren();
  if (!r) { box.append(make('p', 'soft', 'No row is like that.')); return remember(); }
  box.append(make('h2', '', r.kind === 'dropped' ? r.place : r.kind + ' ' + r.row + ', ' + r.place));
  if (r.kind === 'dropped') {
    box.append(make('p', '', 'dropped: ' + r.reason), make('p', 'soft', r.detail));
    return remember();
  }
  const line = make('div', 'soft', grouped(r.tokens) + ' tokens, ' + grouped(r.trained) + ' trained (' + r.share.toFixed(1) + ' %)');
  const legend = make('div', 'legend soft');
  legend.append(make('span', 'trained', 'trained'), make('span', '', 'read'), make('span', 'special', 'special'));
  for (const [name, caption] of [['ids', 'ids'], ['edges', 'token edges']]) {
    const label = make('label', '', ''), box2 = make('input');
    box2.type = 'checkbox'; box2.checked = view[name];
    box2.onchange = () => { view[name] = box2.checked; $('text').classList.toggle(name, box2.checked); remember(); };
    label.append(box2, caption, ' ');
    legend.append(label);
  }
  box.append(line, legend, tokens(r));
  box.scrollTop = 0;
  remember();
}

// The state stands after the '#', so that a link leads to a row.
function remember() {
  const state = new URLSearchParams();
  for (const id of controls) if ($(id).value) state.set(id, $(id).value);
  for (const name in view) if (view[name]) state.set(name, 1);
  if (chosen) state.set('row', chosen.key);
  try { history.replaceState(null, '', '#' + state); } catch (e) { /* a page in a sandbox has no history */ }
}

function recall() {
  const state = new URLSearchParams(location.hash.slice(1));
  for (const id of controls) $(id).value = state.get(id) || '';
  for (const name in view) view[name] = state.has(name);
  chosen = rows.find(r => r.key === state.get('row')) || null;
  const wanted = chosen;
  filter();
  if (wanted && found.includes(wanted)) $('list').scrollTop = Math.max(0, found.indexOf(wanted) - 3) * HEIGHT;
}

function step(by) {
  const i = Math.min(found.length - 1, Math.max(0, found.indexOf(chosen) + by));
  chosen = found[i] || null;
  const list = $('list');
  if (i * HEIGHT < list.scrollTop) list.scrollTop = i * HEIGHT;
  if ((i + 1) * HEIGHT > list.scrollTop + list.clientHeight) list.scrollTop = (i + 1) * HEIGHT - list.clientHeight;
  show();
}

const kinds = new Map([['', 'all']]);
for (const r of rows) kinds.set(r.kind, r.kind === 'dropped' ? 'dropped' : r.kind);
for (const r of rows) if (r.reason) kinds.set('dropped ' + r.reason, 'dropped: ' + r.reason);
for (const [value, caption] of kinds) { const o = make('option', '', caption); o.value = value; $('kind').append(o); }
for (const [value, caption] of [['', 'all'], ...data.sources.map((name, i) => [i, name])]) { const o = make('option', '', caption); o.value = value; $('file').append(o); }
document.title = data.title + ' \u2013 dml inspect';
$('title').textContent = data.title;
$('scope').textContent = data.scope;
const warnings = data.summary.filter(line => line.startsWith('warning: '));
for (const line of data.summary) $('summary').append(make('span', line.startsWith('warning: ') ? 'warning' : '', line + '\n'));
if (warnings.length) { $('about-line').className = 'warning'; $('about-line').textContent = 'Summary, ' + warnings.length + (warnings.length > 1 ? ' warnings' : ' warning'); }
let pause;
$('q').oninput = () => { clearTimeout(pause); pause = setTimeout(filter, 150); };
for (const id of controls) if (id !== 'q') $(id).oninput = filter;
$('list').onscroll = items;
addEventListener('resize', items);
addEventListener('hashchange', recall);
addEventListener('keydown', e => {
  if (e.ctrlKey || e.metaKey || e.altKey) return;
  const typing = /^(INPUT|SELECT)$/.test(document.activeElement.tagName);
  if (e.key === 'Escape' && typing) document.activeElement.blur();
  if (typing) return;
  const by = { j: 1, ArrowDown: 1, k: -1, ArrowUp: -1, PageDown: 10, PageUp: -10 }[e.key];
  if (by) { e.preventDefault(); step(by); }
  if (e.key === '/') { e.preventDefault(); $('q').focus(); }
});
recall();
</script>
</body>
</html>
)html";

}  // namespace dml
