// dml fetch, dml push: models and datasets of the Hugging Face Hub.
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/size_text.h"
#include "hub/fetch.h"
#include "hub/push.h"

namespace dml {
namespace {

struct Fetch {
  std::string name;
  std::optional<std::string> revision;
  FetchRequest request;
  bool dataset = false;
  Options options{"fetch",
                  "fetch ORG/NAME [--revision REVISION] [--include GLOB]... [--dataset] [--dry-run]",
                  {"dml fetch HuggingFaceTB/SmolLM2-135M-Instruct", "dml fetch org/model --revision v1.0",
                   "dml fetch org/model --include '*.gguf'", "dml fetch --dataset org/rows --include 'data/train-*'"}};
  Fetch() {
    options.about(
        "Downloads a model or dataset of the Hugging Face Hub into the cache that its other tools share (HF_HOME, "
        "HF_HUB_CACHE), and prints the folder. Files in the cache are not downloaded again, and interrupted downloads "
        "are continued; every file is checked against the digest that the Hub lists. The token is HF_TOKEN or the "
        "token file; HF_ENDPOINT names a mirror. By default, config, tokenizer and safetensors of a model are "
        "downloaded, and the data files of a dataset.");
    options.positional("ORG/NAME", name, "name of a model, or of a dataset");
    options.text("revision", revision, "branch, tag or commit; default: main", "REVISION");
    options.texts("include", request.include, "only files that match this pattern; may be repeated", "GLOB");
    options.flag("dataset", dataset, "the name is that of a dataset");
    options.flag("dry-run", request.dry_run, "list the files without downloading them");
  }
};

int run_fetch(const std::vector<std::string>& words) {
  Fetch in;
  in.options.parse(words);
  const auto name = parse_hub_name(in.name);
  if (!name) throw UserError("'{}' is not a repository name; expected org/name or org/name@revision", in.name);
  if (in.revision && in.name.find('@') != std::string::npos)
    throw UserError("'{}' names a revision already; leave out --revision", in.name);
  in.request.kind = in.dataset ? HubKind::dataset : HubKind::model;
  in.request.name = *name;
  if (in.revision) in.request.name.revision = *in.revision;
  if (!parse_hub_name(in.request.name.id + "@" + in.request.name.revision))
    throw UserError("--revision: '{}' is not a revision", *in.revision);
  const Fetched fetched = fetch_from_hub(HubClient(HubOptions::from_environment()), in.request);
  if (in.request.dry_run) {
    for (const HubFile& file : fetched.files) print(fmt::format("{:>12}  {}\n", size_text(file.size), file.path));
    print(fmt::format("{:>12}  in all at commit {}, {} of it not in the cache\n", size_text(fetched.bytes),
                      fetched.commit, size_text(fetched.missing)));
  } else {
    print(fetched.folder + "\n");
  }
  return 0;
}

struct PushWords {
  PushRequest request;
  std::optional<std::string> revision, message;
  bool dataset = false;
  Options options{
      "push",
      "push DIR ORG/NAME [--private] [--revision BRANCH] [--include GLOB]... [--dataset] [--message TEXT] [--dry-run]",
      {"dml push outputs/lora org/pirate-lora", "dml push outputs/merged org/pirate --private",
       "dml push outputs/lora org/pirate-lora --dry-run  what would be sent"}};
  PushWords() {
    options.about(
        "Uploads a result to a repository of the Hugging Face Hub, which is created if necessary: weights, "
        "configuration, tokenizer, template and model card; checkpoints, optimizer state and logs only where --include "
        "names them. All files become visible in one commit, or none. The token, which needs write access, is "
        "HF_TOKEN or the token file. Prints the address of the commit.");
    options.positional("DIR", request.folder, "the directory of a model or adapter, or of files of rows");
    options.positional("ORG/NAME", request.id, "the repository");
    options.flag("private", request.make_private, "create the repository as private");
    options.text("revision", revision, "branch; default: main", "BRANCH");
    options.texts("include", request.include, "push only files that match this pattern, of any kind; may be repeated",
                  "GLOB");
    options.flag("dataset", dataset, "the repository is a dataset");
    options.text("message", message, "summary of the commit");
    options.flag("dry-run", request.dry_run, "list the files without uploading them");
  }
};

int run_push(const std::vector<std::string>& words) {
  PushWords in;
  in.options.parse(words);
  in.request.kind = in.dataset ? HubKind::dataset : HubKind::model;
  if (in.revision) in.request.revision = *in.revision;
  if (in.message) in.request.message = *in.message;
  const Pushed pushed = push_to_hub(HubClient(HubOptions::from_environment()), in.request);
  if (in.request.dry_run) {
    for (const LocalFile& file : pushed.files) print(fmt::format("{:>12}  {}\n", size_text(file.size), file.path));
    print(fmt::format("{:>12}  in all, to {}\n", size_text(pushed.bytes), in.request.id));
  } else {
    print(pushed.url + "\n");
  }
  return 0;
}

}  // namespace

Command fetch_command() {
  return {"fetch", "downloads a model or dataset of the Hugging Face Hub", [] { return Fetch().options.page(); },
          run_fetch};
}
Command push_command() {
  return {"push", "uploads a result to the Hugging Face Hub", [] { return PushWords().options.page(); }, run_push};
}

}  // namespace dml
