// dml serve: the model behind an OpenAI-compatible HTTP server.
#include <signal.h>
#include <sys/stat.h>

#include "cli/answering_options.h"
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "core/lines.h"
#include "core/log.h"
#include "core/text.h"
#include "prompt/chat_formats.h"
#include "serve/api_server.h"
#include "serve/batch.h"
#include "serve/origin.h"

namespace dml {
namespace {

constexpr std::int64_t kUsualPort = 8080;

struct Serve {
  AnsweringOptions model;
  std::optional<std::string> host, api_key, api_key_file, chat_template, input, output;
  std::optional<std::int64_t> port, slots, context, queue;
  std::vector<std::string> adapters, origins;
  bool no_auth = false, resume = false;
  Options options{
      "serve",
      "serve (RECIPE | --base-model DIR) [--adapter NAME=DIR …] [--host ADDRESS] [--port N] [--api-key KEY] …",
      {"dml serve recipe.yml                     then open http://127.0.0.1:8080",
       "dml serve --base-model DIR --port 9000",
       "dml serve --base-model DIR --adapter pirate=outputs/lora --adapter chef=outputs/chef",
       "dml serve recipe.yml --input batch.jsonl --output answers.jsonl   answers a file and exits"}};
  Serve() {
    options.about(
        "Serves the model over HTTP with the OpenAI API: /v1/chat/completions, /v1/completions, /v1/responses, "
        "/v1/embeddings and /v1/models, with streams, and a chat page at /. The base and any number of adapters answer "
        "over one copy of the weights; requests choose by `model`. Requests are batched; an answer does not depend on "
        "the other requests. It listens on this machine only unless --host says otherwise, which needs a key. After "
        "SIGTERM or Ctrl-C, running answers are completed. With --input it answers a file of requests in OpenAI's "
        "batch format without listening. docs/serve.md describes it.");
    model.add_model_to(options);
    options.texts("adapter", adapters, "an adapter directory and the name it answers under, NAME=DIR or DIR", "DIR");
    options.text("host", host,
                 fmt::format("the address to listen on ({}); any other one needs a key", HttpOptions().host),
                 "ADDRESS");
    options.integer("port", port, fmt::format("the port to listen on ({}); 0: any free port", kUsualPort));
    options.text("api-key", api_key, "the key that clients must send; better in a file: other users see command lines",
                 "KEY");
    options.text("api-key-file", api_key_file,
                 "a file of keys, one a line, # begins a comment; only its owner may read it", "FILE");
    options.flag("no-auth", no_auth, "allow an address other than this machine's without a key");
    options.texts("cors-origin", origins,
                  "origin of a web page that may use the server, such as https://example.com; *: all", "ORIGIN");
    options.text("chat-template", chat_template, "a built-in chat template or a Jinja file, instead of the model's",
                 "FILE|NAME");
    options.values("chat-template", chat_format_names());
    options.integer("slots", slots,
                    fmt::format("number of requests answered at a time ({})", ServedOptions::kUsualSlots));
    options.integer("context", context,
                    fmt::format("maximum number of tokens of prompt and answer together (the model's, at most {})",
                                ServedOptions::kUsualContext));
    model.add_precision_to(options);
    options.integer("queue", queue,
                    fmt::format("number of requests that may wait ({}); further ones get 429", ServerOptions().queue));
    options.text("input", input,
                 "answer the requests of a file, one {\"custom_id\", \"method\", \"url\", \"body\"} a line, then exit",
                 "FILE");
    options.text("output", output, "the file for the answers to --input, as OpenAI's batches have them", "FILE");
    options.flag("resume", resume,
                 "continue FILE.partial, which an interrupted run with the same options has left, or a complete FILE");
    model.add_threads_to(options);
  }
};

std::vector<std::string> read_keys(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0) throw IoError(path, "cannot be read");
  if (status.st_mode & 077) throw UserError("--api-key-file: {} can be read by others; chmod 600 {}", path, path);
  std::vector<std::string> keys;
  const std::string file = read_file(path, 1 << 20);
  for (const Line line : Lines(file)) {
    const std::string_view text = trim(line.text), key = text.substr(0, text.find_first_of(" \t"));
    if (key.empty() || key[0] == '#') continue;
    const std::string_view rest = trim(text.substr(key.size()));
    if (!rest.empty() && rest[0] != '#')
      throw UserError("--api-key-file: {}:{}: expected one key per line, without spaces", path, line.number);
    keys.emplace_back(key);
  }
  if (keys.empty()) throw UserError("--api-key-file: {} has no key", path);
  return keys;
}

std::string read_origin(const std::string& text) {
  const std::string origin = browser_origin(text);
  if (origin.empty())
    throw UserError("--cors-origin: '{}' is not an origin, such as https://example.com or http://localhost:3000", text);
  return origin;
}

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || host.starts_with("127."); }

ServerOptions server_options(const Serve& in) {
  ServerOptions out;
  out.http.host = in.host.value_or(out.http.host);
  out.http.port = static_cast<std::uint16_t>(within("port", in.port.value_or(kUsualPort), 0, 65535));
  if (in.api_key && in.api_key_file) throw UserError("set only one of --api-key and --api-key-file");
  if (in.api_key) out.keys = {*in.api_key};
  if (in.api_key_file) out.keys = read_keys(*in.api_key_file);
  if (!is_loopback(out.http.host) && out.keys.empty() && !in.no_auth)
    throw UserError(
        "--host {}: anyone who can reach this address could use the model; set --api-key-file FILE (or --no-auth to "
        "allow that)",
        out.http.host);
  for (const std::string& origin : in.origins) out.origins.push_back(read_origin(origin));
  out.queue =
      static_cast<std::size_t>(within("queue", in.queue.value_or(static_cast<std::int64_t>(out.queue)), 1, 100000));
  return out;
}

// Blocks SIGTERM and SIGINT in this thread and those created later; this thread waits for them.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGTERM);
    sigaddset(&set_, SIGINT);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void wait() {
    int taken = 0;
    sigwait(&set_, &taken);
  }
  void let_through() { pthread_sigmask(SIG_UNBLOCK, &set_, nullptr); }

 private:
  sigset_t set_{};
};

int answer_requests_of(const Serve& in, const ServedModels& models) {
  log_info("{}", models.description());
  const BatchCount count = answer_batch(models, *in.input, *in.output, in.resume);
  log_info("{}: {}", *in.output, count.text());
  return 0;
}

void check_serve_words(const Serve& in) {
  in.model.check("serve");
  if (in.input.has_value() != in.output.has_value())
    throw UserError("--input FILE and --output FILE require each other");
  if (in.resume && !in.input) throw UserError("--resume requires --input");
  if (in.input &&
      (in.host || in.port || in.api_key || in.api_key_file || in.no_auth || !in.origins.empty() || in.queue))
    throw UserError("--input: the file is answered without listening; leave out --host, --port, --queue and the keys");
}

ServedOptions served_options(const Serve& in) {
  ServedOptions out;
  out.base_model = in.model.base_model, out.adapters = in.adapters, out.chat_template = in.chat_template;
  if (in.slots) out.slots = within("slots", *in.slots, 1, 1024);
  if (in.context) out.context = within("context", *in.context, 2, std::int64_t{1} << 30);
  out.cache = in.model.cache();
  return out;
}

int run_serve(const std::vector<std::string>& words) {
  constexpr std::chrono::seconds kPatience{10};  // for running answers at shutdown
  Serve in;
  in.options.parse(words);
  check_serve_words(in);
  const ServerOptions server = server_options(in);
  const ServedOptions served = served_options(in);
  const std::optional<RecipeFile> file = in.model.start();
  const Recipe* recipe = file ? &file->recipe : nullptr;
  if (in.input) require_free_rows(*in.output, {*in.input}, file ? &*file : nullptr);
  in.model.set_precision();
  if (in.input) return answer_requests_of(in, ServedModels(recipe, served));
  StopSignals signals;
  const ServedModels models(recipe, served);
  ApiServer api(models, server);
  log_info("{}", models.description());
  const std::string host =
      server.http.host.find(':') == std::string::npos ? server.http.host : "[" + server.http.host + "]";
  log_info("listening on http://{}:{}", host, api.port());
  signals.wait();
  log_info("closing; completing running answers");
  signals.let_through();  // the next signal ends the process at once
  api.finish(kPatience);
  return 0;
}

}  // namespace

Command serve_command() {
  return {"serve", "serves the model over HTTP with the OpenAI API and a chat page",
          [] { return Serve().options.page(); }, run_serve};
}

}  // namespace dml
