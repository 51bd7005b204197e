// A small model of every family with a golden, trained here until it knows three texts by heart, written as GGUF (f32) and read by
// llama.cpp: its greedy text of 60 tokens against that of `dml infer`, alone and under a LoRA adapter that begins each text as another
// and was written as GGUF, too. By heart: so that rounding decides no token. Families that llama.cpp does not compute are refused by
// `dml convert`, with the reason. Ends with 1 when a text differs.
//
// Needs node and, in the folder of DML_NODE_MODULES or here, npm install --ignore-scripts node-llama-cpp@3
//
// usage: node tools/gguf_greedy.mjs [--dml PROGRAM] [--steps N] [FAMILY…]
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import os from 'node:os';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const root = path.resolve(import.meta.dirname ?? '.', '..'), golden = path.join(root, 'tests/golden');
const words = process.argv.slice(2);
const option = (name, otherwise) => { const at = words.indexOf(name); return at < 0 ? otherwise : words.splice(at, 2)[1]; };
const dml = path.resolve(option('--dml', path.join(root, 'build/release/dml'))), steps = Number(option('--steps', 300));
const need = createRequire(path.join(path.resolve(process.env.DML_NODE_MODULES ?? process.cwd()), 'x.js'));
const { getLlama, LlamaLogLevel } = await import(pathToFileURL(need.resolve('node-llama-cpp')));
const llama = await getLlama({ gpu: false, build: 'never', logLevel: LlamaLogLevel.error });
const folder = fs.mkdtempSync(path.join(os.tmpdir(), 'dml-greedy-'));
// Texts of more than 60 tokens, so that no answer ends before. Under the adapter each beginning is that of the next text.
const lines = fs.readFileSync(path.join(root, 'datasets/quickstart/plain_text.jsonl'), 'utf8').trim().split('\n').map(line => JSON.parse(line).text);
const lessons = ['base', 'lora'].map((name, k) => {
  const words = [0, 1, 2].map(i => lines.slice(5 * i, 5 * i + 5).join(' ').split(' ')), prompts = words.map(text => text.slice(0, 3).join(' '));
  const texts = prompts.map((prompt, i) => [prompt, ...words[(i + k) % 3].slice(3)].join(' ')), rows = path.join(folder, name + '.jsonl');
  fs.writeFileSync(rows, texts.map(text => JSON.stringify({ text })).join('\n') + '\n');
  return { rows, prompts };
});
const tokens = 60;

// The goldens use rare settings; here they have those of published models, or those that llama.cpp supports.
const usual = { attention_bias: false, mlp_bias: false, use_bias: false, bias: false, qk_layernorm: false, use_qk_norm: false, mlp_only_layers: [], decoder_sparse_step: 1 };
const sliding = n => Array.from({ length: n }, (_, i) => i === n - 1 ? 'full_attention' : 'sliding_attention');
const published = {
  cohere2: { num_hidden_layers: 4, layer_types: sliding(4) }, olmo3: { num_hidden_layers: 4, layer_types: sliding(4) },
  gemma2: { query_pre_attn_scalar: 8 }, gemma3: { query_pre_attn_scalar: 8, num_hidden_layers: 6, layer_types: sliding(6), sliding_window_pattern: 6 },
  exaone4: { sliding_window: null, layer_types: Array(3).fill('full_attention') }, mistral: { sliding_window: null },
  ministral: { sliding_window: null, layer_types: Array(2).fill('full_attention') }, olmoe: { num_key_value_heads: 4 },
  starcoder2: { use_bias: true, sliding_window: null }, gpt_oss: { attention_bias: true },
  smollm3: { num_hidden_layers: 4, no_rope_layers: [1, 1, 1, 0], use_sliding_window: false, sliding_window: null, layer_types: Array(4).fill('full_attention') },
  gpt_neox: { rotary_pct: 0.5, attention_bias: true }, gpt_neox_serial: { rotary_pct: 0.5, attention_bias: true, tie_word_embeddings: false },
  phi3: { max_position_embeddings: 512, original_max_position_embeddings: 512, sliding_window: null }, phi_tied: { tie_word_embeddings: false },
};

// Families for which llama.cpp does not support adapters on all linear modules.
const targets = { deepseek_v3: { lora_target_modules: ['o_proj'] } };

const run = (...words) => execFileSync(dml, words.map(String), { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] }).toString();
const said = error => (String(error.stderr ?? error).match(/error: .*/)?.[0] ?? String(error)).replaceAll(folder, '').slice(0, 240);

function train(name, lesson, keys) {
  const recipe = path.join(folder, name + '.yml');  // JSON is YAML
  fs.writeFileSync(recipe, JSON.stringify({
    datasets: [{ path: lesson.rows, type: 'completion' }], dataset_prepared_path: path.join(folder, 'prepared'),
    sequence_len: 96, micro_batch_size: 3, max_steps: steps, val_set_size: 0, optimizer: 'adamw_torch', learning_rate: 4e-3, save_strategy: 'no',
    lr_scheduler: 'cosine', warmup_steps: 10, seed: 1, threads: 1, output_dir: path.join(folder, name), ...keys,
  }));
  run('train', recipe);
  return path.join(folder, name);
}

// The margin of dml's next token over all others: 0 if two are equally likely.
function lead(base, adapter, ids) {
  const [asked, answered] = ['asked.jsonl', 'answered.jsonl'].map(name => path.join(folder, name));
  fs.rmSync(answered, { force: true });
  fs.writeFileSync(asked, JSON.stringify({ custom_id: '1', method: 'POST', url: '/v1/completions', body: { ...(adapter ? { model: path.basename(adapter) } : {}), prompt: ids, max_tokens: 1, temperature: 0, logprobs: 2 } }) + '\n');
  run('serve', '--base-model', base, ...(adapter ? ['--adapter', adapter] : []), '--input', asked, '--output', answered);
  const row = JSON.parse(fs.readFileSync(answered)), top = Object.values((row.response?.body ?? row).choices[0].logprobs.top_logprobs[0]).sort((a, b) => b - a);
  return top[0] - top[1];
}

// The first pair of texts that differ.
async function difference(model, lesson, base, adapter, file) {
  for (const prompt of lesson.prompts) {
    const over = adapter ? ['--adapter', adapter] : [];
    const ours = run('infer', '--base-model', base, ...over, '--raw', '--greedy', '--prompt', prompt, '--max-new-tokens', tokens).replace(/\n$/, '');
    const context = await model.createContext({ contextSize: 128, sequences: 1, threads: 1, flashAttention: false, experimentalKvCacheKeyType: 'F32',
      experimentalKvCacheValueType: 'F32', ...(adapter ? { lora: { adapters: [{ filePath: file, scale: 1 }] } } : {}) });
    const ids = [];
    const begin = [...(model.tokens.shouldPrependBosToken ? [model.tokens.bos] : []), ...model.tokenize(prompt)];
    for await (const id of context.getSequence().evaluate(begin, { temperature: 0, yieldEogToken: true })) {
      if (model.isEogToken(id) || ids.push(id) >= tokens) break;
    }
    await context.dispose();
    const theirs = model.detokenize(ids);
    if (ours.endsWith(theirs) && (ids.length === tokens || ours.length < theirs.length + prompt.length + 2)) continue;
    let same = 0;
    while (same < ids.length && ours.trimStart().startsWith(model.detokenize(ids.slice(0, same + 1)).trimStart())) ++same;
    const by = lead(base, adapter, [...begin, ...ids.slice(0, same)]);
    return `${adapter ? 'with LoRA, ' : ''}'${prompt}', token ${same}, by ${by.toFixed(4)}: dml ${JSON.stringify(ours)}, llama.cpp ${JSON.stringify(theirs)}`;
  }
  return '';
}

const counts = { equal: 0, refused: 0, different: 0 };
const wanted = words.length ? words : fs.readdirSync(golden).filter(name => fs.existsSync(path.join(golden, name, 'model/config.json')));
for (const name of wanted) {
  const file = path.join(folder, 'model.gguf'), adapter = path.join(folder, 'lora.gguf');
  const tell = (what, text = '') => { ++counts[what]; console.log(`${name}: ${what}${text && ', '}${text}`); };
  for (const made of ['base', 'lora', 'model.gguf', 'lora.gguf']) fs.rmSync(path.join(folder, made), { recursive: true, force: true });
  try {
    const config = JSON.parse(fs.readFileSync(path.join(golden, name, 'model/config.json')));
    for (const key in usual) if (key in config) config[key] = usual[key];
    for (const key of ['max_position_embeddings', 'n_positions', 'max_seq_len']) if (key in config) config[key] = 128;
    Object.assign(config, published[name]);
    const base = train('base', lessons[0], { tokenizer_config: 'datasets/quickstart/tokenizer', model_config: { ...config, vocab_size: 2048, bos_token_id: 1, eos_token_id: 2 } });
    try { run('convert', base, '--format', 'gguf', '--dtype', 'f32', '--output', file); }
    catch (error) { tell('refused', said(error)); continue; }
    const model = await llama.loadModel({ modelPath: file, defaultContextFlashAttention: false });
    let found = await difference(model, lessons[0], base), also = ' and with LoRA';
    if (!found) {
      try {
        const lora = train('lora', lessons[1], { base_model: base, adapter: 'lora', lora_r: 8, lora_alpha: 16, ...(targets[name] ?? { lora_target_linear: true }) });
        run('convert', lora, '--base-model', base, '--format', 'gguf', '--output', adapter);
        found = await difference(model, lessons[1], base, lora, adapter);
      } catch (error) { also = `; adapter refused: ${said(error)}`; }
    }
    await model.dispose();
    tell(found ? 'different' : 'equal', found || also.replace(/^[ ;]+/, ''));
  } catch (error) { tell('different', said(error)); }
}
fs.rmSync(folder, { recursive: true });
console.log(Object.entries(counts).map(([what, n]) => `${n} ${what}`).join(', '));
process.exit(counts.different ? 1 : 0);
