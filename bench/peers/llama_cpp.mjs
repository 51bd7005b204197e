// llama.cpp (npm node-llama-cpp) generating several sequences at a time: node llama_cpp.mjs FOLDER GGUF THREADS TOKENS CLIENTS….
// Prints, for each number of clients, tokens a second from the first token of the last sequence on; for pN, tokens a second of
// reading a prompt of N tokens.
import { createRequire } from 'node:module';
import path from 'node:path';
import { pathToFileURL } from 'node:url';

const [folder, file, threads, tokens, ...clients] = process.argv.slice(2);
const require = createRequire(path.join(path.resolve(folder), 'x.js'));
const { getLlama } = await import(pathToFileURL(require.resolve('node-llama-cpp')).href);
const llama = await getLlama({ gpu: false, maxThreads: +threads, logLevel: 'error', build: 'never' });
const model = await llama.loadModel({ modelPath: file });
const result = {};
async function reading(length) {
  const context = await model.createContext({ sequences: 1, contextSize: length + 64, batchSize: 512, threads: +threads });
  const sequence = context.getSequence();
  const prompt = Array.from({ length }, (_, i) => 100 + (i * 17) % 20000);
  const begin = performance.now();
  for await (const _ of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) break;
  const rate = length / ((performance.now() - begin) / 1000);
  await context.dispose();
  return rate;
}
for (const wanted of clients) {
  if (wanted.startsWith('p')) {
    result[wanted] = await reading(+wanted.slice(1));
    continue;
  }
  const count = +wanted;
  const context = await model.createContext({ sequences: count, contextSize: 512, batchSize: 512, threads: +threads });
  const begun = [];
  let done = 0;
  async function write(number) {
    const sequence = context.getSequence();
    const prompt = Array.from({ length: 16 }, (_, i) => 100 + (number * 131 + i * 17) % 20000);
    let n = 0;
    for await (const _ of sequence.evaluate(prompt, { temperature: 0, yieldEogToken: true })) {
      if (n === 0) begun.push(performance.now());
      else if (begun.length === count) ++done;
      if (++n > +tokens) break;
    }
  }
  await Promise.all(Array.from({ length: count }, (_, i) => write(i)));
  result[count] = done / ((performance.now() - Math.max(...begun)) / 1000);
  await context.dispose();
}
console.log(JSON.stringify(result));
process.exit(0);
