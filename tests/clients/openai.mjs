// The official `openai` client against `dml serve`: node openai.mjs URL MODEL [FOLDER WITH node_modules].
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import path from 'node:path';

const [url, model, folder] = process.argv.slice(2);
const require = createRequire(folder ? path.join(path.resolve(folder), 'x.js') : import.meta.url);
let OpenAI;
try {
  ({ OpenAI } = require('openai'));
} catch {
  console.log('skipped: the npm package openai is not there');
  process.exit(0);
}
const client = new OpenAI({ baseURL: url + '/v1', apiKey: 'none', maxRetries: 0 });
const messages = [{ role: 'system', content: 'You tell stories.' }, { role: 'user', content: 'Tell me of a cat.' }];
const common = { model, messages, temperature: 0, max_tokens: 24 };
const tools = [{ type: 'function', function: { name: 'get_weather', description: 'the weather',
  parameters: { type: 'object', properties: { city: { type: 'string', maxLength: 8 }, days: { type: 'integer', minimum: 1, maximum: 9 } },
                required: ['city', 'days'], additionalProperties: false } } }];
let done = 0;
async function check(name, what) {
  try {
    await what();
    ++done;
  } catch (e) {
    console.log('FAILED', name, e);
    process.exitCode = 1;
  }
}

await check('models', async () => {
  const list = await client.models.list();
  assert(list.data.some(m => m.id === model));
  assert.equal((await client.models.retrieve(model)).id, model);
});
await check('chat', async () => {
  const r = await client.chat.completions.create({ ...common, logprobs: true, top_logprobs: 2 });
  assert.equal(r.object, 'chat.completion');
  assert.equal(r.choices[0].message.role, 'assistant');
  assert(['stop', 'length'].includes(r.choices[0].finish_reason));
  assert.equal(r.choices[0].logprobs.content.length, r.usage.completion_tokens);
  assert.equal(r.usage.total_tokens, r.usage.prompt_tokens + r.usage.completion_tokens);
});
await check('stream', async () => {
  const whole = await client.chat.completions.create(common);
  const stream = await client.chat.completions.create({ ...common, stream: true, stream_options: { include_usage: true } });
  let text = '', usage = null, finish = null, roles = 0;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? '';
    roles += chunk.choices[0]?.delta?.role ? 1 : 0;
    finish = chunk.choices[0]?.finish_reason ?? finish;
    usage = chunk.usage ?? usage;
  }
  assert.equal(text, whole.choices[0].message.content);
  assert.equal(finish, whole.choices[0].finish_reason);
  assert.equal(roles, 1);
  assert.equal(usage.completion_tokens, whole.usage.completion_tokens);
});
await check('stream helper', async () => {
  const runner = client.chat.completions.stream(common);
  const final = await runner.finalChatCompletion();
  assert.equal(final.choices[0].message.content, (await client.chat.completions.create(common)).choices[0].message.content);
});
await check('leaving a stream', async () => {
  const stream = await client.chat.completions.create({ ...common, max_tokens: 200, stream: true });
  for await (const _ of stream) break;
});
await check('tools', async () => {
  const r = await client.chat.completions.create({ ...common, max_tokens: 120, temperature: 1, seed: 5, tools, tool_choice: { type: 'function', function: { name: 'get_weather' } } });
  const call = r.choices[0].message.tool_calls[0];
  assert.equal(r.choices[0].finish_reason, 'tool_calls');
  assert.equal(call.function.name, 'get_weather');
  const given = JSON.parse(call.function.arguments);
  assert(given.city.length <= 8 && Number.isInteger(given.days) && given.days >= 1 && given.days <= 9);
  const next = await client.chat.completions.create({ ...common, tools, messages: [...messages, r.choices[0].message, { role: 'tool', tool_call_id: call.id, content: 'rain' }] });
  assert(next.choices.length === 1);
});
await check('tools in a stream', async () => {
  const final = await client.chat.completions.stream({ ...common, max_tokens: 120, seed: 7, temperature: 1, tools, tool_choice: 'required' }).finalChatCompletion();
  assert.equal(final.choices[0].message.tool_calls[0].function.name, 'get_weather');
  JSON.parse(final.choices[0].message.tool_calls[0].function.arguments);
});
await check('json_schema', async () => {
  const schema = { type: 'object', properties: { name: { type: 'string', maxLength: 10 }, age: { type: 'integer', minimum: 0, maximum: 99 }, tags: { type: 'array', items: { enum: ['a', 'b'] }, maxItems: 3 } },
                   required: ['name', 'age', 'tags'], additionalProperties: false };
  for (const seed of [1, 2, 3]) {
    const r = await client.chat.completions.create({ ...common, max_tokens: 150, temperature: 1, seed, response_format: { type: 'json_schema', json_schema: { name: 'person', strict: true, schema } } });
    const value = JSON.parse(r.choices[0].message.content);
    assert.deepEqual(Object.keys(value).sort(), ['age', 'name', 'tags']);
    assert(value.age >= 0 && value.age <= 99 && value.tags.every(t => ['a', 'b'].includes(t)));
  }
});
await check('embeddings', async () => {
  const plain = await client.embeddings.create({ model, input: ['one text', 'another'], encoding_format: 'float' });
  const coded = await client.embeddings.create({ model, input: ['one text', 'another'] });  // the client asks for base64
  assert.equal(plain.data.length, 2);
  const a = plain.data[0].embedding, b = coded.data[0].embedding;
  assert.equal(a.length, b.length);
  a.forEach((x, i) => assert(Math.abs(x - b[i]) < 1e-6));
  assert(Math.abs(a.reduce((s, x) => s + x * x, 0) - 1) < 1e-4);
});
await check('completions', async () => {
  const r = await client.completions.create({ model, prompt: ['Once upon', 'A dog'], max_tokens: 5, temperature: 0, echo: true, logprobs: 1 });
  assert.equal(r.choices.length, 2);
  assert(r.choices[0].text.startsWith('Once upon'));
  assert.equal(r.choices[0].logprobs.token_logprobs[0], null);
});
await check('responses', async () => {
  const r = await client.responses.create({ model, input: 'Tell me of a cat.', max_output_tokens: 12, temperature: 0 });
  assert.equal(typeof r.output_text, 'string');
});
await check('errors', async () => {
  const wrong = async (change, status, param) => {
    await assert.rejects(client.chat.completions.create({ ...common, ...change }), e => {
      assert.equal(e.status, status, e.message);
      assert.equal(e.param, param);
      assert(e.message.length > 20);
      return true;
    });
  };
  await wrong({ temperature: 9 }, 400, 'temperature');
  await wrong({ model: 'no-such-model' }, 404, 'model');
  await wrong({ messages: [] }, 400, 'messages');
  await wrong({ top_logprobs: 3 }, 400, 'top_logprobs');
  await wrong({ tool_choice: 'required' }, 400, 'tool_choice');
  await wrong({ response_format: { type: 'json_schema', json_schema: { name: 'x', schema: { type: 'nonsense' } } } }, 400, 'response_format');
  await wrong({ messages: [{ role: 'user', content: 'many words '.repeat(3000) }] }, 400, 'messages');
  await assert.rejects(client.chat.completions.create({ ...common, messages: [{ role: 'user', content: 'many words '.repeat(3000) }] }),
                       e => e.code === 'context_length_exceeded' && /\d+ tokens/.test(e.message));
});
console.log(`openai client: ${done} checks hold`);
