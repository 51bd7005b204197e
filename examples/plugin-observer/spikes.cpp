// An observer, called between two steps: it keeps a moving average of the loss, writes steps whose loss is far above it
// to spikes.jsonl, and saves a checkpoint when there were several in a row. It survives a resumed run.
#include <dml/plugin.h>

#include <fstream>

namespace {

using namespace dml::plugin;

class Spikes : public Observer {
 public:
  explicit Spikes(const Json& arguments) : factor_(arguments["factor"]), in_a_row_(arguments["save_after"]) {}

  void on_start(const RunFacts& facts) override { path_ = facts.output_dir + "/spikes.jsonl"; }
  Action on_step(const StepMetrics& m) override {
    const bool spike = average_ > 0 && m.loss > factor_ * average_;
    average_ = average_ > 0 ? 0.9 * average_ + 0.1 * m.loss : m.loss;
    seen_ = spike ? seen_ + 1 : 0;
    if (spike) {
      std::ofstream out(path_, std::ios::app);
      out << Json{{"step", m.step}, {"loss", m.loss}, {"average", average_}} << "\n";
      if (!out) throw std::runtime_error(path_ + " cannot be written");
    }
    return {.save = seen_ == in_a_row_};
  }
  Json state() const override { return {{"average", average_}, {"seen", seen_}}; }
  void restore(const Json& state) override {
    average_ = state.at("average");
    seen_ = state.at("seen");
  }

 private:
  double factor_, average_ = 0;
  int in_a_row_, seen_ = 0;
  std::string path_;
};

}  // namespace

DML_PLUGIN("spikes", "1.0") {
  registry.add(Row<Observer>{"spikes",
                             "notes steps whose loss is far above its average",
                             [](const Json& arguments) { return std::make_unique<Spikes>(arguments); },
                             {{"factor", "times the average", 1.5, 1e6}, {"save_after", "spikes in a row", 3}}});
}
