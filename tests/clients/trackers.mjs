// The logs of a run for TensorBoard and Weights & Biases, read with other people's programs: records by the checksums of
// @roboflow/tfrecords and zlib, messages by protobufjs.   node trackers.mjs RUN [FOLDER WITH node_modules]
// The messages are those of TensorFlow's event.proto, summary.proto and tensor.proto, and of wandb's wandb_internal.proto.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { createRequire } from 'node:module';
import path from 'node:path';
import zlib from 'node:zlib';

const [run, folder] = process.argv.slice(2);
const require = createRequire(folder ? path.join(path.resolve(folder), 'x.js') : import.meta.url);
let protobuf, tfrecords;
try {
  protobuf = require('protobufjs');
  tfrecords = require('@roboflow/tfrecords/src/tensorFlowHelpers.js');
} catch {
  console.log('skipped: the npm packages protobufjs and @roboflow/tfrecords are not there');
  process.exit(0);
}
const { root } = protobuf.parse(`syntax = "proto3";
  message Shape {}
  message Tensor { int32 dtype = 1; Shape tensor_shape = 2; repeated bytes string_val = 8; }
  message PluginData { string plugin_name = 1; }
  message Metadata { PluginData plugin_data = 1; }
  message Value { string tag = 1; float simple_value = 2; string node_name = 7; Tensor tensor = 8; Metadata metadata = 9; }
  message Summary { repeated Value value = 1; }
  message Event { double wall_time = 1; int64 step = 2; string file_version = 3; Summary summary = 5; }
  message Item { string key = 1; repeated string nested_key = 2; string value_json = 16; }
  message Config { repeated Item update = 1; }
  message Step { int64 num = 1; }
  message History { repeated Item item = 1; Step step = 2; }
  message Run { string run_id = 1; string project = 3; Config config = 4; string display_name = 8; string host = 13; }
  message Exit { int32 exit_code = 1; int32 runtime = 2; }
  message Version { string producer = 1; string min_consumer = 2; }
  message Header { Version version_info = 1; }
  message Record { int64 num = 1; History history = 2; Config summary = 3; Run run = 17; Exit exit = 18; Header header = 21; }`,
{ keepCase: true });
const file = (where, pattern) => {
  const found = fs.readdirSync(where, { recursive: true }).find((name) => pattern.test(name));
  assert(found, `no ${pattern} in ${where}`);
  return fs.readFileSync(path.join(where, found));
};
const metrics = fs.readFileSync(path.join(run, 'metrics.jsonl'), 'utf8').trim().split('\n').map((line) => JSON.parse(line));
const steps = metrics.filter((m) => 'loss' in m && !('event' in m));

// TensorBoard: the masked checksums of every length and every event, and the losses of every step.
const masked = (bytes) => {
  const crc = tfrecords.crc32c(bytes);
  return (((crc >>> 15) | (crc << 17)) + 0xa282ead8) >>> 0;
};
const events = file(run, /tfevents/);
const losses = new Map();
let texts = 0, first = true;
for (let at = 0; at < events.length;) {
  const size = Number(events.readBigUInt64LE(at));
  assert.equal(events.readUInt32LE(at + 8), masked(events.subarray(at, at + 8)));
  const data = events.subarray(at + 12, at + 12 + size);
  assert.equal(events.readUInt32LE(at + 12 + size), masked(data));
  const event = root.lookupType('Event').decode(data);
  if (first) assert.equal(event.file_version, 'brain.Event:2');
  first = false;
  for (const value of event.summary?.value ?? []) {
    if (value.tag === 'train/loss') losses.set(Number(event.step), value.simple_value);
    if (value.tensor) {
      assert.equal(value.tensor.dtype, 7);  // DT_STRING
      assert.equal(value.metadata.plugin_data.plugin_name, 'text');
      ++texts;
    }
  }
  at += 16 + size;
}
for (const step of steps) assert.equal(losses.get(step.step), Math.fround(step.loss));
assert(texts > 0);

// W&B: LevelDB's log, its checksums, and a row of history for every step.
const log = file(run, /\.wandb$/);
assert.equal(log.subarray(0, 4).toString(), ':W&B');
assert.equal(log.readUInt16LE(4), 0xbee1);
const records = [];
let pieces = [];
for (let at = 7; at < log.length;) {
  const left = 32768 - at % 32768;
  if (left < 7) { at += left; continue; }
  const size = log.readUInt16LE(at + 4), type = log[at + 6];
  if (zlib.crc32) assert.equal(log.readUInt32LE(at), zlib.crc32(log.subarray(at + 6, at + 7 + size)));
  pieces.push(log.subarray(at + 7, at + 7 + size));
  if (type === 1 || type === 4) {
    records.push(root.lookupType('Record').decode(Buffer.concat(pieces)));
    pieces = [];
  }
  at += 7 + size;
}
records.forEach((record, i) => assert.equal(Number(record.num), i + 1));
assert.match(records[0].header.version_info.producer, /^dml /);
assert(records[1].run.config.update.some((item) => item.key === 'learning_rate'));
for (const step of steps) {
  const row = records.find((record) => Number(record.history?.step?.num ?? -1) === step.step);
  const item = row.history.item.find((i) => i.key === 'train/loss');
  assert.equal(JSON.parse(item.value_json), step.loss);
}
assert.equal(records.at(-1).exit.exit_code, 0);
console.log(`the trackers' files hold: ${losses.size} losses, ${texts} texts, ${records.length} records`);
