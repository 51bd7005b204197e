// A plug-in with a row of every kind, for plugin_test.cpp and e2e/plugins_test.cpp.
#include <dml/plugin.h>

#include <cmath>
#include <stdexcept>

namespace {

using namespace dml::plugin;

class Sgd : public Optimizer {
 public:
  explicit Sgd(const Json& a)
      : momentum_(a["momentum"]),
        fail_at_(a["fail_at"]),
        per_element_(a["per_element"]),
        per_parameter_(a["per_parameter"]) {
    if (momentum_ == 0.5) throw std::runtime_error("half a momentum");
  }
  StateNeeds state(const Parameter&) const override {
    return {.per_element = static_cast<int>(per_element_),
            .per_parameter = static_cast<std::int64_t>(per_parameter_),
            .whole = per_parameter_ > 0};
  }
  void step(const Slice& s, const Step& step) const override {
    if (static_cast<double>(step.number + 1) == fail_at_) throw std::runtime_error("no more steps");
    step.threads.ranges(static_cast<std::int64_t>(s.value.size()), [&](std::int64_t first, std::int64_t last) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) {
        s.state[i] =
            static_cast<float>(momentum_) * s.state[i] + static_cast<float>(step.gradient_scale) * s.gradient[i];
        s.value[i] -= static_cast<float>(s.learning_rate) * s.state[i];
      }
    });
  }

 private:
  double momentum_, fail_at_, per_element_, per_parameter_;
};

class VU16 : public Schedule {
 public:
  explicit VU16(const Json& a) : times_(a["times"]) {}
  double factor(const SchedulePosition& at) const override {
    if (times_ == 13) throw 13;  // NOLINT: no std::exception
    return std::pow(0.5, std::floor(at.progress() * times_));
  }

 private:
  double times_;
};

class Shout : public PromptFormat {
 public:
  Example example(const Json& row) const override {
    Example e = prompt(row);
    e.pieces.push_back({row.at("say").get<std::string>(), true});
    return e;
  }
  Example prompt(const Json& row) const override {
    if (row.contains("hush")) throw std::runtime_error("hush\nnow");
    return {{{"HEY "}}};
  }
  std::string fingerprint() const override { return "1"; }
};

// The mean over documents of −log p per token; the loss of token means, if all documents are as long.
class ByDocument : public Objective {
 public:
  explicit ByDocument(const Json& a) : fail_at_(a["fail_at"]) {}
  std::vector<std::string> terms() const override { return {"perplexities"}; }
  void score(std::span<const Document> documents, std::span<DocumentLoss> losses,
             std::span<double> sums) const override {
    if (++calls_ == fail_at_) throw std::runtime_error("lost count");
    for (std::size_t d = 0; d < documents.size(); ++d) {
      if (documents[d].tokens == 0) continue;
      const double loss = -documents[d].log_probability / documents[d].tokens;
      losses[d] = {loss, 1, -1 / documents[d].tokens};
      sums[0] += std::exp(loss);
    }
  }

 private:
  double fail_at_;
  mutable double calls_ = 0;
};

class Longer : public AnswerCheck {
 public:
  explicit Longer(const Json& a) : than_(a["than"].get<double>() - a["epsilon"].get<double>()) {}
  std::string problem_with(const Json& row) const override {
    if (row.contains("torn")) return "torn\napart";
    return row.contains("prompt") ? "" : "there is no prompt";
  }
  Verdict check(const Answer& answer, const Json&) override {
    if (answer.output == "throw") throw std::runtime_error("it broke");
    if (answer.output == "nan") return {.score = std::nan("")};
    return {.pass = static_cast<double>(answer.output.size()) > than_,
            .score = static_cast<double>(answer.output.size())};
  }

 private:
  double than_;
};

class Norm : public Evaluator {
 public:
  explicit Norm(const Json& a) : fail_on_rank_(a["fail_on_rank"]), metric_(a["metric"]), nan_(a["nan"]) {}
  std::vector<Metric> metrics() const override { return {{metric_}}; }
  std::vector<double> evaluate(ModelView& model) override {
    if (model.rank() == fail_on_rank_ - 1) throw std::runtime_error("cannot measure");
    if (nan_) return {std::nan("")};
    double sum = 0;
    model.parameters([&](std::string_view, std::span<const std::int64_t>, std::span<const float> values) {
      for (float v : values) sum += static_cast<double>(v) * v;
    });
    return {std::sqrt(model.sum(sum) / model.ranks())};
  }

 private:
  double fail_on_rank_;
  std::string metric_;
  bool nan_;
};

class Watch : public Observer {
 public:
  explicit Watch(const Json& a) : fail_at_(a["fail_at"]), finish_at_(a["finish_at"]), stop_at_(a["stop_at"]) {}
  Action on_step(const StepMetrics& m) override {
    ++steps_;
    if (static_cast<double>(m.step) == fail_at_) throw std::runtime_error("seen enough");
    const auto step = static_cast<double>(m.step);
    return {.finish = step == finish_at_, .stop = step == stop_at_};
  }
  Json state() const override { return steps_; }
  void restore(const Json& state) override {
    steps_ = state;
    stop_at_ = 0;  // a resumed run goes to its end
  }

 private:
  double fail_at_, finish_at_, stop_at_;
  std::int64_t steps_ = 0;
};

// Every rank sends its gradients to all others, who add them up in the order of the ranks.
class Everybody : public Strategy {
 public:
  explicit Everybody(const Json& a) : fail_on_rank_(a["fail_on_rank"]), leave_out_(a["leave_out"]) {}
  void sum(std::size_t, std::span<float> gradient, Ranks& ranks) override {
    if (ranks.rank() == fail_on_rank_ - 1) throw std::runtime_error("left alone");
    const auto n = static_cast<std::size_t>(ranks.size());
    std::vector<std::vector<float>> all(n, std::vector<float>(gradient.size()));
    std::vector<std::span<const std::byte>> send(n, std::as_bytes(gradient));
    std::vector<std::span<std::byte>> receive;
    for (auto& one : all) receive.push_back(std::as_writable_bytes(std::span(one)));
    if (leave_out_ == "entry") send.pop_back();
    if (const auto me = static_cast<std::size_t>(ranks.rank()); leave_out_ == "bytes") receive[me] = {};
    ranks.exchange(send, receive);
    for (std::size_t i = 0; i < gradient.size(); ++i) {
      float sum = 0;
      for (auto& one : all) sum += one[i];
      gradient[i] = sum;
    }
  }
  std::int64_t memory(std::int64_t floats, int ranks) const override { return floats * 4 * ranks; }

 private:
  double fail_on_rank_;
  std::string leave_out_;
};

template <class Thing>
auto maker() {
  return [](const Json& arguments) {
    if constexpr (std::is_constructible_v<Thing, const Json&>) return std::make_unique<Thing>(arguments);
    else return std::make_unique<Thing>();
  };
}

}  // namespace

DML_PLUGIN("mine", "2.1") {
  // fail_at: the step or call that throws; fail_on_rank: the rank that does, from 1; 0: none.
  registry.add(Row<Optimizer>{"my_sgd",
                              "sgd",
                              maker<Sgd>(),
                              {{"momentum", "of the mean", 0.9, 1},
                               {"fail_at", "step", 0},
                               {"per_element", "floats", 1},
                               {"per_parameter", "floats", 0}},
                              {"mysgd"}});
  registry.add(Row<Schedule>{"halves",
                             "halves; 13 times: throws",
                             maker<VU16>(),
                             {{"times", "how often", 4}, {"power", "what drives it", "steam"}}});
  registry.add(Row<PromptFormat>{"shout", "say: a text", maker<Shout>()});
  registry.add(Row<Objective>{"by_document", "mean of documents", maker<ByDocument>(), {{"fail_at", "call", 0}}});
  registry.add(Row<AnswerCheck>{
      "longer", "longer than", maker<Longer>(), {{"than", "bytes", 3}, {"epsilon", "tolerated bytes", 0}}});
  registry.add(Row<Evaluator>{
      "norm",
      "norm of the weights",
      maker<Norm>(),
      {{"fail_on_rank", "from 1", 0}, {"metric", "its name", "eval_weight_norm"}, {"nan", "gives no number", false}}});
  registry.add(Row<Observer>{
      "watch", "watches", maker<Watch>(), {{"fail_at", "step", 0}, {"finish_at", "step", 0}, {"stop_at", "step", 0}}});
  registry.add(Row<Strategy>{"everybody",
                             "all to all",
                             maker<Everybody>(),
                             {{"fail_on_rank", "from 1", 0}, {"leave_out", "of an exchange", ""}}});
}
