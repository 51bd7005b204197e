#include "cli/train_words.h"

namespace dml {

TrainWords::TrainWords() {
  options.about(
      "Prepares the data if necessary, trains, and writes into output_dir: the adapter or model, checkpoints, "
      "metrics.jsonl, report.html, loss.svg and the recipe. Ctrl-C or SIGTERM saves a checkpoint and stops with exit "
      "code 75; dml resume continues. Where one micro-batch cannot feed all cores of this host, several ranks "
      "(processes) compute different micro-batches at the same time, with the same result; 'ranks' and 'threads' of "
      "the recipe fix their numbers.");
  options.positional("RECIPE", recipe, "the recipe");
  options.text("resume", resume, "auto: from the newest checkpoint; DIR: from this checkpoint; none: a new run",
               "auto|DIR|none");
  options.take_overrides(overrides);
}

}  // namespace dml
