// Parquet and Arrow files of many writers and codecs, each with its rows as JSON lines beside it, for the tests of data/parquet
// and data/arrow (DML_TABLES names the folder). Needs node and, in the folder of DML_NODE_MODULES or here,
//   npm install @duckdb/node-api hyparquet-writer parquet-wasm apache-arrow nodejs-polars
//
// usage: node tools/make_tables.mjs FOLDER [ROWS]
import fs from 'node:fs';
import path from 'node:path';
import { createRequire } from 'node:module';

const folder = process.argv[2], count = Number(process.argv[3] ?? 3000);
const need = createRequire(path.join(process.env.DML_NODE_MODULES ?? process.cwd(), 'x.js'));
fs.mkdirSync(folder, { recursive: true });

// Columns of what datasets hold. `nested`: also lists and structs, which not every writer has.
let state = 1;
const random = n => { state = (state * 1103515245 + 12345) % 2147483648; return Math.floor(state / 65536) % n; };
const words = ['the', 'Grüße', '日本語', 'quick', '"quoted"', 'line\nbreak', '\\', '🙂', 'brown', 'fox'];
const text = n => Array.from({ length: n }, () => words[random(words.length)]).join(' ');
const rows = Array.from({ length: count }, (_, i) => ({
  id: i, text: i % 50 === 0 ? text(400) : text(random(30)), source: words[i % 3], score: i % 7 === 0 ? null : i / 8, flag: i % 3 === 0,
  tags: i % 11 === 0 ? null : Array.from({ length: i % 4 }, (_, k) => words[(i + k) % 10]),
  messages: Array.from({ length: i % 5 }, (_, k) => ({ role: k % 2 ? 'assistant' : 'user', content: text(random(12)) })),
}));
const flat = rows.map(({ id, text, source, score, flag }) => ({ id, text, source, score, flag }));

function write(name, bytes, of) {
  if (bytes) fs.writeFileSync(path.join(folder, name), bytes);
  fs.writeFileSync(path.join(folder, name + '.jsonl'), of.map(r => JSON.stringify(r)).join('\n') + '\n');
}

async function duckdb() {
  const { DuckDBInstance } = need('@duckdb/node-api');
  const db = await (await DuckDBInstance.create(':memory:')).connect();
  const source = path.join(folder, 'rows.jsonl');
  fs.writeFileSync(source, rows.map(r => JSON.stringify(r)).join('\n') + '\n');
  await db.run(`CREATE TABLE t AS SELECT * FROM read_json('${source}', format='newline_delimited', columns={id:'BIGINT',text:'VARCHAR',source:'VARCHAR',score:'DOUBLE',flag:'BOOLEAN',tags:'VARCHAR[]',messages:'STRUCT(role VARCHAR, content VARCHAR)[]'})`);
  for (const codec of ['uncompressed', 'snappy', 'gzip', 'zstd', 'brotli', 'lz4_raw'])
    for (const version of ['V1', 'V2'])
      for (const group of [2048, 100000]) {
        const name = `duckdb-${codec}-${version}-${group}.parquet`;
        await db.run(`COPY (SELECT * FROM t ORDER BY id) TO '${path.join(folder, name)}' (FORMAT parquet, COMPRESSION ${codec}, PARQUET_VERSION ${version}, ROW_GROUP_SIZE ${group})`);
        write(name, null, rows);
      }
  fs.unlinkSync(source);
}

function arrowTable(arrow, dictionary) {
  const { Field, Utf8, Int32, Float64, Bool, List, Struct, Dictionary, vectorFromArray, Table } = arrow;
  const message = new Struct([new Field('role', new Utf8(), true), new Field('content', new Utf8(), true)]);
  const list = type => new List(new Field('item', type, true));
  return new Table({
    id: vectorFromArray(rows.map(r => r.id), new Int32()), text: vectorFromArray(rows.map(r => r.text), new Utf8()),
    source: vectorFromArray(rows.map(r => r.source), dictionary ? new Dictionary(new Utf8(), new Int32()) : new Utf8()),
    score: vectorFromArray(rows.map(r => r.score), new Float64()), flag: vectorFromArray(rows.map(r => r.flag), new Bool()),
    tags: vectorFromArray(rows.map(r => r.tags), list(new Utf8())), messages: vectorFromArray(rows.map(r => r.messages), list(message)),
  });
}

async function arrows() {
  const arrow = need('apache-arrow');
  for (const dictionary of [false, true])
    for (const form of ['file', 'stream'])
      write(`arrowjs-${form}${dictionary ? '-dictionary' : ''}.arrow`, arrow.tableToIPC(arrowTable(arrow, dictionary), form), rows);
  const wasm = need('parquet-wasm');
  for (const codec of ['UNCOMPRESSED', 'SNAPPY', 'GZIP', 'BROTLI', 'LZ4_RAW', 'ZSTD'])
    for (const dictionary of [true, false])
      for (const version of ['V1', 'V2']) {
        const properties = new wasm.WriterPropertiesBuilder().setCompression(wasm.Compression[codec]).setDictionaryEnabled(dictionary)
          .setWriterVersion(wasm.WriterVersion[version]).setDataPageSizeLimit(20000).setMaxRowGroupSize(1000).build();
        const table = wasm.Table.fromIPCStream(arrow.tableToIPC(arrowTable(arrow, false), 'stream'));
        write(`arrow-rs-${codec}-${version}${dictionary ? '-dictionary' : ''}.parquet`, wasm.writeParquet(table, properties), rows);
      }
  write('arrow-rs.arrow', wasm.Table.fromIPCStream(arrow.tableToIPC(arrowTable(arrow, true), 'stream')).intoIPCStream(), rows);
}

async function hyparquet() {
  const { parquetWriteBuffer } = await import(need.resolve('hyparquet-writer').replace(/index\.js$/, 'node.js')).catch(() => import(need.resolve('hyparquet-writer')));
  for (const codec of ['SNAPPY', 'UNCOMPRESSED'])
    for (const rowGroupSize of [500, 100000])
      for (const encoding of ['PLAIN', undefined]) {
        const columnData = [
          { name: 'id', data: flat.map(r => r.id), type: 'INT32', encoding }, { name: 'text', data: flat.map(r => r.text), type: 'STRING', encoding },
          { name: 'source', data: flat.map(r => r.source), type: 'STRING', encoding }, { name: 'score', data: flat.map(r => r.score), type: 'DOUBLE', encoding },
          { name: 'flag', data: flat.map(r => r.flag), type: 'BOOLEAN' }];
        write(`hyparquet-${codec}-${rowGroupSize}-${encoding ?? 'auto'}.parquet`, Buffer.from(parquetWriteBuffer({ columnData, codec, rowGroupSize })), flat);
      }
}

async function polars() {
  const pl = need('nodejs-polars');
  const frame = pl.DataFrame({ id: flat.map(r => r.id), text: flat.map(r => r.text), source: flat.map(r => r.source), score: flat.map(r => r.score),
    flag: flat.map(r => r.flag), tags: rows.map(r => r.tags ?? []) });
  const of = rows.map(({ id, text, source, score, flag, tags }) => ({ id, text, source, score, flag, tags: tags ?? [] }));
  for (const compression of ['uncompressed', 'snappy', 'gzip', 'zstd']) {
    const name = `polars-${compression}.parquet`;
    frame.writeParquet(path.join(folder, name), { compression });
    write(name, null, of);
  }
  for (const compression of ['uncompressed', 'lz4', 'zstd']) {
    const name = `polars-${compression}.arrow`;
    frame.writeIPC(path.join(folder, name), { compression });
    write(name, null, of);
  }
}

for (const writer of [duckdb, arrows, hyparquet, polars])
  await writer().catch(problem => console.error(`${writer.name}: ${problem.message}`));
console.log(fs.readdirSync(folder).filter(name => name.endsWith('.parquet')).length + ' Parquet files, ' +
            fs.readdirSync(folder).filter(name => name.endsWith('.arrow')).length + ' Arrow files');
