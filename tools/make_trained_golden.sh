#!/bin/sh
# Goldens for tests/tokenizer/train_test.cpp: what Hugging Face's Rust library reads in a tokenizer.json of `dml tokenizer train`.
#   npm i tokenizers && tools/make_trained_golden.sh DML OUT_DIR        (from the folder with node_modules)
set -e
dml=$1 out=$2 source=$(cd "$(dirname "$0")/.." && pwd) tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
for kind in bpe unigram; do
  "$dml" tokenizer train "$source/datasets/quickstart/plain_text.jsonl" --output "$tmp/$kind" --vocab-size 500 --model $kind \
    --special '<|im_start|>' --special '<|im_end|>' --token '### Instruction:' --token '\n\n'
  cp "$tmp/$kind/tokenizer.model" "$out/trained_$kind.model"
done
cat > "$tmp/ask.js" <<'JS'
const { Tokenizer } = require('tokenizers'), fs = require('fs');
const [folder, out] = process.argv.slice(2);
const texts = ['A lion sleeps in the cave.', ' A lion', 'A  lion   sleeps', 'lines\n\nand\nlines\n\n\n', '### Instruction:\nSay it.', '<|im_start|>user\nHi<|im_end|>\n',
  'aaaaaaa', 'ababababab', '12345 3.14', 'café naïve e\u0301', '漢字 🙂', '▁mark', '', ' ', '\tdef f(x):\n\t\treturn x', 'The sea, the sea! "Where?"', 'A lion</s>A lion', 'zzzzqqqq'];
(async () => {
  const all = { texts };
  for (const kind of ['bpe', 'unigram']) {
    const t = Tokenizer.fromFile(`${folder}/${kind}/tokenizer.json`), rows = [];
    for (const text of texts) {
      const ids = (await t.encode(text, null, { addSpecialTokens: false })).getIds();
      rows.push({ ids, special: (await t.encode(text, null, { addSpecialTokens: true })).getIds(), decoded: await t.decode(ids, false) });
    }
    all[kind] = rows;
  }
  fs.writeFileSync(out, JSON.stringify(all) + '\n');
})();
JS
NODE_PATH=$PWD/node_modules node "$tmp/ask.js" "$tmp" "$out/trained.json"
