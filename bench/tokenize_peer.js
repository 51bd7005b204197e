// The Rust tokenizers' rate on the texts of tokenize_bench:  npm i tokenizers && node tokenize_peer.js DATA_DIR [NAME …]
// encodeBatch spreads over RAYON_NUM_THREADS threads. A pass is over DML_MB megabytes (100), batch by batch.
const { Tokenizer } = require('tokenizers'), fs = require('fs');
const data = process.argv[2];
const rows = JSON.parse(fs.readFileSync(data + '/datasets/alpaca/alpaca_en_demo.json', 'utf8')).map(r => `${r.instruction}\n${r.input}\n${r.output}`);
const plain = fs.readFileSync(data + '/datasets/text/tinyshakespeare.txt', 'latin1');
for (let i = 0; i < plain.length; i += 4096) rows.push(plain.slice(i, i + 4096));
const bytes = rows.reduce((n, r) => n + Buffer.byteLength(r), 0);
(async () => {
  const names = process.argv.length > 3 ? process.argv.slice(3) : ['gpt2', 'qwen2.5', 'llama3', 'llama2'];
  const copies = Math.floor(1e6 * (process.env.DML_MB || 100) / bytes) + 1;
  for (const name of names) {
    const t = Tokenizer.fromFile(`${data}/tokenizers/${name}/tokenizer.json`);
    await t.encodeBatch(rows.slice(0, 100), null, { addSpecialTokens: false });
    const start = process.hrtime.bigint();
    for (let i = 0; i < copies; ++i) await t.encodeBatch(rows, null, { addSpecialTokens: false });
    const seconds = Number(process.hrtime.bigint() - start) / 1e9;
    console.log(`rust/${name} ${(bytes * copies / seconds / 1e6).toFixed(2)} MB/s`);
  }
})();
