// Goldens for tests/tokenizer from Hugging Face's Rust library:  npm i tokenizers && node make_tokenizer_golden.js OUT.json
//
// "stages": one normalizer, pre-tokenizer or decoder each. To see what a stage did, its text runs through a BPE that knows
// nothing but the 256 bytes and ends every word with "</w>": the ids, read as bytes, are the rewritten text with its cuts.
// "patterns": regular expressions, by the words that Split makes with them; "replaced": by what Replace makes.
// "tokenizers": small whole ones, with ids.
const { Tokenizer } = require('tokenizers'), fs = require('fs'), os = require('os'), path = require('path');

const bytes = Object.fromEntries([...Array(256).keys()].map(b => ['<0x' + b.toString(16).toUpperCase().padStart(2, '0') + '>', b]));
const visible = { type: 'BPE', vocab: { ...bytes, '<unk>': 256 }, merges: [], byte_fallback: true, unk_token: '<unk>', end_of_word_suffix: '</w>' };
const whole = parts => ({ version: '1.0', added_tokens: [], normalizer: null, pre_tokenizer: null, post_processor: null, decoder: null, ...parts });
let count = 0;
function load(spec) {
  const file = path.join(os.tmpdir(), `golden-${process.pid}-${++count}.json`);
  fs.writeFileSync(file, JSON.stringify(spec));
  try { return Tokenizer.fromFile(file); } finally { fs.unlinkSync(file); }
}
const ids = async (t, text, special) => (await t.encode(text, null, { addSpecialTokens: special })).getIds();

const texts = ['Hello, world!', '  two  spaces ', "It's 2024: don't; I'LL", 'naïve café e\u0301 A\u030a\u0323', '漢字かな交じり文 ｶﾞ', 'ﬁ ① ½ Å ﷺ ™', '한국어 \u1112\u1161\u11ab',
  'tabs\tand\r\nlines\n\n', 'a-b_c (d) [e] $5+6=11 ~x^', 'ÀÉÎ İstanbul ΣΑΣ ß', 'x\u00a0y\u3000z\u200b\u200dw', '12 345٣٤ ⅷ', '🙂👍🏽 ok', ' ▁mark ▁', '\u0001\u007f\ufffd\ufeffz'];

const normalizers = ['NFC', 'NFD', 'NFKC', 'NFKD', 'Lowercase', 'StripAccents', 'Nmt', 'ByteLevel'].map(type => ({ type })).concat([
  { type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }, { type: 'Replace', pattern: { Regex: '\\s+' }, content: ' ' },
  { type: 'Replace', pattern: { Regex: '(\\d)' }, content: '#' },
  { type: 'Strip', strip_left: true, strip_right: false }, { type: 'Strip', strip_left: false, strip_right: true }, { type: 'Strip', strip_left: true, strip_right: true },
  { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true },
  { type: 'BertNormalizer', clean_text: false, handle_chinese_chars: false, strip_accents: true, lowercase: false },
  { type: 'Sequence', normalizers: [{ type: 'NFD' }, { type: 'StripAccents' }, { type: 'Lowercase' }] }]);
const split = (pattern, behavior, invert = false) => ({ type: 'Split', pattern, behavior, invert });
const behaviors = ['Removed', 'Isolated', 'MergedWithPrevious', 'MergedWithNext', 'Contiguous'];
const preTokenizers = [
  ...behaviors.flatMap(b => [split({ Regex: '[\\s\\-]' }, b), split({ String: ' ' }, b), split({ Regex: '\\w+' }, b, true)]),
  ...['always', 'first', 'never'].flatMap(s => [true, false].map(x => ({ type: 'Metaspace', replacement: '▁', prepend_scheme: s, split: x }))),
  { type: 'Metaspace', replacement: '_', prepend_scheme: 'always', split: true },
  { type: 'Digits', individual_digits: true }, { type: 'Digits', individual_digits: false },
  { type: 'Whitespace' }, { type: 'WhitespaceSplit' }, { type: 'BertPreTokenizer' },
  ...behaviors.map(behavior => ({ type: 'Punctuation', behavior })),
  { type: 'CharDelimiterSplit', delimiter: '-' },
  { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true }, { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: false },
  split({ Regex: "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" }, 'Isolated'),
  split({ Regex: "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+" }, 'Removed', true),
  { type: 'Sequence', pretokenizers: [{ type: 'WhitespaceSplit' }, { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true }, { type: 'Digits', individual_digits: true }] },
  { type: 'Sequence', pretokenizers: [{ type: 'Punctuation', behavior: 'MergedWithNext' }, { type: 'ByteLevel', add_prefix_space: true, use_regex: true, trim_offsets: true }] }];

// Where Oniguruma's syntax is not that of other libraries: [pattern, text, behavior of Split (Isolated), invert (false)].
const upper = '[\\p{Lu}\\p{Lt}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]', lower = '[\\p{Ll}\\p{Lm}\\p{Lo}\\p{M}&&[^\\p{Han}]]', end = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?";
const kimi = `[\\p{Han}]+|[^\\r\\n\\p{L}\\p{N}]?${upper}*${lower}+${end}|[^\\r\\n\\p{L}\\p{N}]?${upper}+${lower}*${end}|\\p{N}{1,3}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+`;
const cl100k = "'(?i:[sdmt]|ll|ve|re)|[^\\r\\n\\p{L}\\p{N}]?+\\p{L}++|\\p{N}{1,3}+| ?[^\\s\\p{L}\\p{N}]++[\\r\\n]*+|\\s++$|\\s*[\\r\\n]|\\s+(?!\\S)|\\s";
const bloom = ' ?[^(\\s|[.,!?…。，、।۔،])]+', groups = '(?=(\\d{3})+(?!\\d))', mixed = 'Hi, you! 你好。』、a कि 12345 ½² \n\n it\'s XMLHttp ';
const patterns = [
  ...[kimi, cl100k, bloom, groups].map(p => [p, mixed]), ...behaviors.flatMap(b => [[groups, '1234567 1234', b], [groups, '1234567 1234', b, true], ['x*', 'axxb', b], ['x*', 'axxb', b, true]]),
  ...['\\b', '\\B', '\\w', '[\\w]', '\\W', '[\\W]', '[^\\W_]+', '\\p{Word}', '[[:word:]]', '\\bकि\\b'].map(p => [p, 'ab_c कि ²a ½!']),
  ...['^.', '.$', '$', '^', '.\\Z', '.\\z', '\\A.', '(?m)b.', 'b.', '(?m:b.)a'].map(p => [p, 'ab\nab\n']),
  ...['Han', 'Hiragana', 'Katakana', 'Hani', 'han', 'Common', 'Arabic', '^Han'].flatMap(n => [[`\\p{${n}}`, '好。』、aかーカ،ـ'], [`[^\\P{${n}}]+`, '好。』、aかーカ،ـ']]),
  ...['alnum', 'alpha', 'ascii', 'blank', 'cntrl', 'digit', 'graph', 'lower', 'print', 'punct', 'space', 'upper', 'word', 'xdigit'].flatMap(n => [`[[:${n}:]]+`, `[[:^${n}:]]+`, `\\p{${n}}+`, `\\P{${n}}+`].map(p => [p, 'aG1 ½²٣$☺!_\t\n\u0001\u2028é\u0301ǅ\ue000'])),
  ...['Letter', 'Uppercase_Letter', 'lowercase letter', 'Number', 'Punctuation', 'Symbol', 'Mark', 'Separator', 'Other', 'LC', 'Assigned', 'Any', 'Lu', 'Alphabetic', 'White_Space'].map(n => [`\\p{${n}}+`, 'aG1 ½!+é\u0301ǅ\t']),
  ...['[a-z&&[^a-c]x-z]', '[^a-z&&aeiou]', '[a&&]', '[a-z&&b-y&&[^m]]', '[a[b[c]]]', '[]a]', '[^]a]', '[a[]b]]', '[a-c-e]', '[a-]', '[-a]', '[+--]', '[a&b]', '[\\d[^\\p{L}]]', '[^\\S\\n]', '(?<=[a-m&&[^a]])b', '[\\v\\b\\x61\\u0062]', '[\\101\\R]']
    .map(p => [p, 'abcmxyz AB-1+,.]&[éR\u000b\n\b']),
  ...['a{1,3}+', 'a{2}+', 'a{2}?', 'a{,2}', 'a{,2}+b', 'a{2,}?', 'a**', 'a+?+b', 'a++a', 'a?+a', '(?:a|b){1,2}+', '[ab&&a]{2}+', '\\w{2}+', '(a(b)){1,2}+', 'é{1,2}+'].map(p => [p, 'aaaab abab ééé a']),
  ...['a{', 'a{x}', 'a{,}', 'a{1', '\\Qa.\\E', '\\pL', '\\u0061', '\\v', '\\O', '\\h+', '\\H+', '\\x{61}', '\\i', '\\é', '\\/', '(?#()a', '(a)\\1', '(?<n>a)\\k<n>', '(?<n>a)\\g<n>'].map(p => [p, 'a{b a{x} a{,} a{1 Qa.E pL aa i é/ \u000b']),
  ...['a(?i)b|c', '(a(?i)b|c)d', '(?i:a)b', '(?x) a b # (c\n', '(?x: a [ ] ) b', '(?x-i)a (?-x)b c', '(?i)(?m)a.b'].map(p => [p, 'abAcBcaCab aBd aCd cd a b ab c a\nb'])];
const replaced = [['x*', 'axxb'], ['\\b', 'ab cd'], ['^', 'a\nb\n'], [groups, '1234567']];

const words = ['▁Hello', '▁world', '##ing', 'a</w>', 'Ġb', '<0xE4>', '<0xBD>', '<0xA0>', '<0xFF>', 'Ã©', '▁', '!', ' .', 'x '];
const lists = [[0, 1, 11], [0, 2, 3, 3], [4, 9, 9], [5, 6, 7, 0], [5, 6, 11, 8, 8], [10, 10, 0, 12], [13, 0, 13], [3], [8], []];
const strip = (start, stop) => ({ type: 'Strip', content: ' ', start, stop });
const replace = { type: 'Replace', pattern: { String: '▁' }, content: ' ' };
const decoders = [null, { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true }, { type: 'ByteFallback' }, { type: 'Fuse' }, replace, strip(1, 0), strip(0, 1),
  { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true }, { type: 'Metaspace', replacement: '▁', prepend_scheme: 'never', split: true },
  { type: 'WordPiece', prefix: '##', cleanup: true }, { type: 'WordPiece', prefix: '##', cleanup: false }, { type: 'BPEDecoder', suffix: '</w>' },
  { type: 'Sequence', decoders: [replace, { type: 'ByteFallback' }, { type: 'Fuse' }, strip(1, 0)] }];

// ---- small whole tokenizers
const alphabet = (() => {
  const keep = b => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let n = 256;
  return [...Array(256).keys()].map(b => String.fromCodePoint(keep(b) ? b : n++));
})();
function trainBpe(text, start, count) {  // plain BPE over words, ties by first seen
  const list = text.split(/(?= )/).map(w => start(w)), merges = [];
  for (let k = 0; k < count; ++k) {
    const pairs = new Map();
    for (const w of list) for (let i = 0; i + 1 < w.length; ++i) pairs.set(w[i] + '\0' + w[i + 1], (pairs.get(w[i] + '\0' + w[i + 1]) || 0) + 1);
    const best = [...pairs].reduce((a, b) => (b[1] > a[1] ? b : a), ['', 1]);
    if (!best[0]) break;
    const [a, b] = best[0].split('\0');
    merges.push([a, b]);
    for (const w of list) for (let i = 0; i + 1 < w.length; ++i) if (w[i] === a && w[i + 1] === b) w.splice(i, 2, a + b);
  }
  return merges;
}
const corpus = 'the cat sat on the mat and the rat sat on the cat ; a small model learns that words end and other words begin ; naïve café naïve café ; 1 2 3 the then there these';
const numbered = list => Object.fromEntries([...new Set(list)].map((t, i) => [t, i]));
const byteMerges = trainBpe(corpus, w => [...Buffer.from(w)].map(b => alphabet[b]), 60);
const byteVocab = numbered([...alphabet, ...byteMerges.map(m => m.join(''))]);
const marked = corpus.replace(/ /g, '▁'), markMerges = trainBpe(marked, w => [...w], 50).filter(m => !/[^▁]▁/.test(m.join('')));
const closed = markMerges.filter((m, i) => m.every(p => [...p].length === 1 || markMerges.slice(0, i).some(q => q.join('') === p)));
const charVocab = extra => numbered([...extra, ...new Set(marked), ...closed.map(m => m.join(''))]);
const add = (id, content, more) => ({ id, content, single_word: false, lstrip: false, rstrip: false, normalized: false, special: false, ...more });
const pieces = [['<unk>', 0], ['<s>', 0], ['▁', -2], ['▁the', -2.5], ['▁c', -4], ['at', -3.5], ['▁cat', -6.1], ['c', -5], ['a', -4], ['t', -4], ['s', -4.2], ['▁s', -4.4], ['sat', -7], ['h', -6], ['e', -6], ['the', -4], ['n', -6], ['▁on', -5], ['é', -8], ['caf', -8], ['é▁', -9]];
const n = Object.keys(byteVocab).length;
const tokenizers = {
  byte_level: whole({ pre_tokenizer: { type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true }, decoder: decoders[1],
    added_tokens: [add(n, '<|end|>', { special: true }), add(n + 1, '<|e', {}), add(n + 2, 'cat!', { single_word: true }), add(n + 3, '<l>', { lstrip: true }), add(n + 4, '<r>', { rstrip: true, special: true }), add(n + 5, 'Rat', { normalized: true })],
    post_processor: { type: 'RobertaProcessing', sep: ['<|end|>', n], cls: ['<|end|>', n], trim_offsets: true, add_prefix_space: false },
    model: { type: 'BPE', vocab: byteVocab, merges: byteMerges } }),
  byte_level_lower: whole({ normalizer: { type: 'Lowercase' }, pre_tokenizer: { type: 'ByteLevel', add_prefix_space: true, trim_offsets: true, use_regex: true }, decoder: decoders[1],
    added_tokens: [add(n, '<END>', { normalized: true }), add(n + 1, '<End>', { normalized: false })],
    model: { type: 'BPE', vocab: byteVocab, merges: byteMerges.map(m => m.join(' ')), ignore_merges: true } }),
  marks_fallback: whole({ normalizer: { type: 'Sequence', normalizers: [{ type: 'Prepend', prepend: '▁' }, { type: 'Replace', pattern: { String: ' ' }, content: '▁' }] },
    decoder: decoders[decoders.length - 1], added_tokens: [add(0, '<unk>', { special: true }), add(1, '<s>', { special: true })],
    post_processor: { type: 'TemplateProcessing', single: [{ SpecialToken: { id: '<s>', type_id: 0 } }, { Sequence: { id: 'A', type_id: 0 } }], pair: [{ Sequence: { id: 'A', type_id: 0 } }, { Sequence: { id: 'B', type_id: 1 } }], special_tokens: { '<s>': { id: '<s>', ids: [1], tokens: ['<s>'] } } },
    model: { type: 'BPE', vocab: charVocab(['<unk>', '<s>', ...Object.keys(bytes)]), merges: closed, unk_token: '<unk>', fuse_unk: true, byte_fallback: true } }),
  marks_unk: whole({ pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false }, decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'first', split: false },
    added_tokens: [add(0, '<unk>', { special: true })], model: { type: 'BPE', vocab: charVocab(['<unk>']), merges: closed, unk_token: '<unk>', fuse_unk: false } }),
  marks_fused: whole({ model: { type: 'BPE', vocab: charVocab(['<unk>']), merges: closed, unk_token: '<unk>', fuse_unk: true } }),
  affixes: whole({ pre_tokenizer: { type: 'WhitespaceSplit' }, decoder: { type: 'BPEDecoder', suffix: '</w>' },
    model: { type: 'BPE', unk_token: '<unk>', continuing_subword_prefix: '##', end_of_word_suffix: '</w>', vocab: numbered(['<unk>', 'c', 't', '##a', '##t', '##t</w>', '##e</w>', '##h', 'ca', 'cat</w>', 'th', 'the</w>', 'a</w>', 's', 'sa']),
      merges: [['c', '##a'], ['t', '##h'], ['ca', '##t</w>'], ['th', '##e</w>'], ['s', '##a']] } }),
  unigram: whole({ normalizer: { type: 'NFC' }, pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true }, decoder: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: true },
    model: { type: 'Unigram', unk_id: 0, vocab: pieces } }),
  unigram_bytes: whole({ pre_tokenizer: { type: 'Metaspace', replacement: '▁', prepend_scheme: 'always', split: false }, model: { type: 'Unigram', unk_id: 0, byte_fallback: true, vocab: [...pieces, ...Object.keys(bytes).map(b => [b, -20])] } }),
  word_piece: whole({ normalizer: { type: 'BertNormalizer', clean_text: true, handle_chinese_chars: true, strip_accents: null, lowercase: true }, pre_tokenizer: { type: 'BertPreTokenizer' }, decoder: { type: 'WordPiece', prefix: '##', cleanup: true },
    added_tokens: [add(0, '[UNK]', { special: true }), add(1, '[CLS]', { special: true }), add(2, '[SEP]', { special: true })], post_processor: { type: 'BertProcessing', sep: ['[SEP]', 2], cls: ['[CLS]', 1] },
    model: { type: 'WordPiece', unk_token: '[UNK]', continuing_subword_prefix: '##', max_input_chars_per_word: 20, vocab: numbered(['[UNK]', '[CLS]', '[SEP]', 'the', 'cat', 'c', '##a', '##at', '##t', 'sat', 'naive', 'cafe', '!', '.', '漢', '##s']) } }),
  word_level: whole({ pre_tokenizer: { type: 'Whitespace' }, model: { type: 'WordLevel', unk_token: '<unk>', vocab: numbered(['<unk>', 'the', 'cat', '!', 'sat']) } })
};
const sentences = ['', ' ', 'the cat sat on the mat', 'the  cat', ' the cat ', 'thethe cats, naïve café!', 'the cat!the cat! cat!', 'a <|end|> b<|e<|end|>', 'x  <l>  y <r>   z', 'Rat rat ratRat', '<END><End> <end>', '<s>the</s><unk>',
  '漢字 the 🙂🙂 cat', 'these then\nthere\n\nqq zz', '[CLS] The Cat [SEP]', 'e\u0301 cafe\u0301 the', 'cattttt sssat', '▁the ▁ cat', 'catcatcatcatcatcatcatcat', 'THE CAT 123'];

(async () => {
  const out = { stages: [], tokenizers: [] };
  for (const [kind, list] of [['normalizer', normalizers], ['pre_tokenizer', preTokenizers]])
    for (const spec of list) {
      const t = load(whole({ model: visible, [kind]: spec })), rows = [];
      for (const text of texts) rows.push(Buffer.from(await ids(t, text, false)).toString('utf8'));
      out.stages.push({ kind, spec, rows });
    }
  out.patterns = [], out.replaced = [];
  const visibleWords = async (spec, text) => Buffer.from(await ids(load(whole({ model: visible, ...spec })), text, false)).toString('utf8');
  for (const [pattern, text, behavior = 'Isolated', invert = false] of patterns)
    out.patterns.push({ pattern, text, behavior, invert, words: await visibleWords({ pre_tokenizer: split({ Regex: pattern }, behavior, invert) }, text) });
  for (const [pattern, text] of replaced)
    out.replaced.push({ pattern, text, words: await visibleWords({ normalizer: { type: 'Replace', pattern: { Regex: pattern }, content: '#' } }, text) });
  out.words = words, out.lists = lists, out.texts = texts, out.sentences = sentences, out.decoders = [];
  for (const spec of decoders) {
    const t = load(whole({ model: { type: 'WordLevel', vocab: numbered(words), unk_token: '!' }, decoder: spec })), rows = [];
    for (const list of lists) rows.push(await t.decode(list, false));
    out.decoders.push({ spec, rows });
  }
  for (const [name, spec] of Object.entries(tokenizers)) {
    const t = load(spec), rows = [];
    for (const text of sentences) {
      const plain = await ids(t, text, false);
      rows.push({ ids: plain, special: await ids(t, text, true), decoded: await t.decode(plain, false), skipped: await t.decode(plain, true) });
    }
    out.tokenizers.push({ name, spec, rows });
  }
  fs.writeFileSync(process.argv[2], JSON.stringify(out).replace(/(,"(?:stages|patterns|replaced|tokenizers|words|lists|texts|sentences|decoders)":|\},\{"(?:kind|pattern|spec|name)")/g, '\n$1') + '\n');
})();
