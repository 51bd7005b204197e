// Controlling and following a run: terms of the loss, weights in bfloat16, a learning rate that follows evaluations,
// rows dropped by their scores, runs compared and followed.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/files.h"
#include "e2e/workshop.h"

namespace dml::e2e {
namespace {

using testing::HasSubstr;
using testing::Not;

class Steering : public Workshop {
 protected:
  void SetUp() override { alpaca("rows.jsonl", 40); }
  std::map<std::string, std::string> trained(const std::string& name, const Keys& keys, int ranks = 1,
                                             const Words& more = {}) {
    const Ended e = train(ranks, recipe(name + ".yml", keys + Keys{{"output_dir", at(name)}}), more);
    EXPECT_EQ(e.exit, 0) << name << ": " << e.err;
    return e.exit == 0 ? results_in(at(name)) : std::map<std::string, std::string>{};
  }
  static Keys short_run() { return {{"max_steps", "4"}, {"eval_steps", "2"}, {"save_steps", "2"}}; }
};

TEST_F(Steering, SmoothedLossesAreLoggedBesideThePlainOne) {
  const Keys keys = tiny_model() + short_run() + Keys{{"label_smoothing_factor", "0.1"}, {"z_loss", "1e-3"}};
  const auto one = trained("one", keys), plain = trained("plain", tiny_model() + short_run());
  ASSERT_FALSE(one.empty());
  EXPECT_NE(one.at("model.safetensors"), plain.at("model.safetensors"));
  const auto lines = json_lines(at("one/metrics.jsonl")), without = json_lines(at("plain/metrics.jsonl"));
  ASSERT_EQ(lines.size(), without.size());
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (lines[i].contains("event")) {
      EXPECT_FALSE(lines[i].contains("eval_nll")) << lines[i];
      continue;
    }
    EXPECT_GT(lines[i]["loss"].get<double>(), lines[i]["nll"].get<double>());
    EXPECT_FALSE(without[i].contains("nll"));
    if (lines[i]["step"] == 1) {  // the same sum; the loss is multiplied by the rounded inverse of the count
      EXPECT_DOUBLE_EQ(lines[i]["nll"].get<double>(), without[i]["loss"].get<double>());
    }
  }
  expect_refused(train(1, recipe("bad.yml", keys + Keys{{"metric_for_best_model", "nll"}})), 2,
                 {"bad.yml:", "'metric_for_best_model' is 'nll', which this run does not measure", "eval_loss"});
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  EXPECT_TRUE(trained("parts", keys + Keys{{"distribution", "zero3"}}, 2) == one) << "a head in parts";
}

TEST_F(Steering, DynamicFineTuningLogsItsLossBesideCrossEntropy) {
  const Keys keys = tiny_model() + short_run(), dft = keys + Keys{{"use_dynamic_finetuning", "true"}};
  const auto one = trained("one", dft), plain = trained("plain", keys);
  ASSERT_FALSE(one.empty());
  EXPECT_NE(one.at("model.safetensors"), plain.at("model.safetensors"));
  const auto lines = json_lines(at("one/metrics.jsonl")), without = json_lines(at("plain/metrics.jsonl"));
  EXPECT_EQ(lines.at(0)["loss"], without.at(0)["loss"]) << "the evaluation before training";
  for (std::size_t i = 0; i < lines.size(); ++i)
    if (lines[i]["step"] == 1) {
      EXPECT_NEAR(lines[i]["nll"].get<double>(), without.at(i)["loss"].get<double>(), 1e-5);
      EXPECT_LT(lines[i]["loss"].get<double>(), lines[i]["nll"].get<double>());
    }
  EXPECT_TRUE(trained("named", keys + Keys{{"objective", "dft"}}) == one);
  expect_refused(train(1, recipe("bad.yml", dft + Keys{{"z_loss", "1e-4"}})), 2,
                 {"bad.yml:", "objective: dft", "z_loss"});
  expect_refused(train(1, recipe("bad.yml", dft + Keys{{"objective", "nll"}})), 2,
                 {"bad.yml:", "'use_dynamic_finetuning' means objective: dft"});
  if (!has_mpirun()) GTEST_SKIP() << "mpirun is not there: ranks were not compared";
  EXPECT_TRUE(trained("ranks", dft + Keys{{"distribution", "zero2"}}, 2) == one);
}

TEST_F(Steering, BitsPerByteDivideByTheBytesOfTrainedText) {
  const std::vector<std::string> answers = {"A red house.", "Grüße aus Köln 😀", "no"};
  std::string rows;
  std::size_t bytes = 0;
  for (const std::string& answer : answers) {
    rows += fmt::format(R"({{"instruction": "Say it.", "input": "", "output": "{}"}})", answer) + "\n";
    bytes += answer.size();
  }
  write("validation.jsonl", rows);
  const Keys keys = tiny_model() + short_run() +
                    Keys{{"val_set_size", "0"},
                         {"test_datasets", fmt::format("[{{path: {}, type: alpaca}}]", at("validation.jsonl"))},
                         {"eval_metrics", "[bits_per_byte]"},
                         {"metric_for_best_model", "bits_per_byte"}};
  ASSERT_FALSE(trained("one", keys).empty());
  const std::string path = recipe("measured.yml", keys + Keys{{"output_dir", at("one")}});
  const Ended e = dml({"evaluate", path, "--json"});
  ASSERT_EQ(e.exit, 0) << e.err;
  const Json measured = json_lines(write("lines.jsonl", e.out)).at(0);
  const auto tokens = measured.at("trained_tokens").get<double>();
  int evaluations = 0;
  double last = 0;
  for (const Json& line : json_lines(at("one/metrics.jsonl")))
    if (line.contains("eval_bits_per_byte")) {
      ++evaluations;
      const double bits = line["loss"].get<double>() * tokens / std::log(2.0);
      last = line["eval_bits_per_byte"].get<double>();
      EXPECT_NEAR(last, bits / static_cast<double>(bytes), 1e-4);
    }
  EXPECT_NEAR(measured.at("bits_per_byte").get<double>(), last, 1e-5);
  EXPECT_EQ(evaluations, 3);
  expect_refused(train(1, recipe("bad.yml", tiny_model() + Keys{{"eval_metrics", "[bits_per_bite]"}})), 2,
                 {"bad.yml:", "bits_per_byte"});
  const Ended without = train(1, recipe("bad.yml", keys + Keys{{"test_datasets", "[]"}}));
  EXPECT_EQ(without.exit, 2);
  EXPECT_THAT(without.err, HasSubstr("'eval_metrics': there is no validation data"));
}

// Frozen weights of a float32 base are not rounded: neither in training nor in checkpoints and the result.
TEST_F(Steering, WeightsInBf16BesideFrozenOnesAreSavedAsTheyWereTrained) {
  const Keys keys = short_run() + Keys{{"base_model", base_directory()},
                                       {"bf16_weights", "stochastic"},
                                       {"unfrozen_parameters", "[\"model.layers.1.\"]"},
                                       {"val_set_size", "8"}};
  ASSERT_FALSE(trained("one", keys).empty());
  double last = 0;
  for (const Json& line : json_lines(at("one/metrics.jsonl")))
    if (line.value("event", "") == "eval") last = line.at("loss").get<double>();
  const std::string path = recipe("measured.yml", keys + Keys{{"output_dir", at("one")}});
  const Ended e = dml({"evaluate", path, "--json"});
  ASSERT_EQ(e.exit, 0) << e.err;
  EXPECT_EQ(json_lines(write("lines.jsonl", e.out)).at(1).at("loss").get<double>(), last);
}

TEST_F(Steering, WeightsInBf16HaveTheSameBitsOnRanksAndResumed) {
  for (const char* how : {"stochastic", "kahan"}) {
    SCOPED_TRACE(how);
    const Keys keys = tiny_model() + short_run() + Keys{{"bf16_weights", how}};
    const auto one = trained("one", keys);
    ASSERT_FALSE(one.empty());
    EXPECT_THAT(one.at("config.json"), HasSubstr("bfloat16"));
    EXPECT_THAT(read_file(at("one/checkpoint-2/model.safetensors")).substr(0, 400), HasSubstr("BF16"));
    EXPECT_TRUE(trained("resumed", keys, 1, {"--resume", at("one/checkpoint-2")}) == one);
    if (has_mpirun()) {
      EXPECT_TRUE(trained("sharded", keys + Keys{{"distribution", "zero1"}}, 2) == one);
    }
    for (const char* folder : {"one", "resumed", "sharded"}) std::filesystem::remove_all(at(folder));
  }
  expect_refused(train(1, recipe("bad.yml", tiny_model() + Keys{{"bf16_weights", "kahan"}, {"ema_decay", "0.9"}})), 2,
                 {"bad.yml:", "'bf16_weights'", "'ema_decay'"});
  expect_refused(train(1, recipe("bad.yml", tiny_model() + Keys{{"bf16_weights", "kahn"}})), 2, {"kahan"});
}

TEST_F(Steering, TheLearningRateFallsOnAPlateau) {
  // Nothing is an improvement by 100, so it falls with every evaluation after the first one after training began.
  const Keys keys =
      tiny_model() + Keys{{"max_steps", "6"},
                          {"eval_steps", "2"},
                          {"save_steps", "2"},
                          {"learning_rate", "1e-3"},
                          {"warmup_steps", "0"},
                          {"lr_scheduler", "reduce_lr_on_plateau"},
                          {"lr_scheduler_kwargs", "{factor: 0.5, patience: 0, threshold: 100, threshold_mode: abs}"}};
  trained("one", keys);
  std::vector<double> rates;
  for (const Json& line : json_lines(at("one/metrics.jsonl")))
    if (!line.contains("event")) rates.push_back(line["lr"]);
  EXPECT_EQ(rates, (std::vector<double>{1e-3, 1e-3, 1e-3, 1e-3, 5e-4, 5e-4}));
  EXPECT_TRUE(trained("resumed", keys, 1, {"--resume", at("one/checkpoint-4")}) == results_in(at("one")));
  expect_refused(train(1, recipe("bad.yml", keys + Keys{{"val_set_size", ""}, {"eval_steps", ""}})), 2,
                 {"reduce_lr_on_plateau"});
}

TEST_F(Steering, RowsAreDroppedByWhatScoresSay) {
  const Keys keys = tiny_lora() + short_run() + Keys{{"val_set_size", ""}, {"eval_steps", ""}};
  const std::string r = recipe("r.yml", keys), scores = at("scores.jsonl");
  Ended e = dml({"score", r, "--adapter", "none", "--output", scores});
  ASSERT_EQ(e.exit, 0) << e.err;
  const auto all = json_lines(scores);
  ASSERT_EQ(all.size(), 40u);
  double highest = 0;
  std::string place;
  for (const Json& row : all)
    if (row["loss"].get<double>() > highest) highest = row["loss"], place = row["place"];
  e = dml({"inspect", r, "--scores", scores, "--rows", "2"});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.out, testing::StartsWith(fmt::format("loss {:.4f}", highest)));
  EXPECT_THAT(e.out, HasSubstr(place));
  e = dml({"inspect", r, "--scores", scores, "--by", "row", "--rows", "3", "--json"});
  EXPECT_EQ(json_lines(write("three.jsonl", e.out)).size(), 3u);
  for (const auto& [split, rows] : {std::pair{"train", 36u}, {"validation", 4u}}) {
    e = dml({"inspect", r, "--scores", scores, "--rows", "99", "--json", "--split", split, "--val_set_size", "4"});
    EXPECT_EQ(json_lines(write("split.jsonl", e.out)).size(), rows) << split << e.err;
  }
  EXPECT_THAT(dml({"inspect", r, "--scores", scores, "--by", "los"}).err, HasSubstr("did you mean 'loss'"));

  const std::string filter = fmt::format("{{path: {}, max_loss: {}}}", scores, highest - 1e-6);
  e = dml({"inspect", recipe("f.yml", keys + Keys{{"scores", filter}}), "--dropped"});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(e.out, HasSubstr(place + ": excluded by scores, loss "));
  // Where nothing is left, the list is still there, and the error says why.
  e = dml({"inspect", recipe("none.yml", keys + Keys{{"scores", fmt::format("{{path: {}, max_loss: 0}}", scores)}}),
           "--dropped"});
  EXPECT_EQ(e.exit, 2);
  EXPECT_EQ(std::ranges::count(e.out, '\n'), 40) << e.out;
  EXPECT_THAT(e.out, HasSubstr("rows.jsonl:40: excluded by scores, loss "));
  EXPECT_THAT(e.err, testing::AllOf(HasSubstr("no examples are left to train on: 40 dropped (40 excluded by scores)"),
                                    HasSubstr("the first: " + at("rows.jsonl") + ":1 (loss ")));
  expect_refused(dml({"preprocess", recipe("bad.yml", keys + Keys{{"scores", "{max_loss: 3}"}})}), 2, {"scores.path"});
  expect_refused(dml({"preprocess", recipe("bad.yml", keys + Keys{{"scores", "{path: nothing.jsonl}"}})}), 2,
                 {"nothing.jsonl"});
}

TEST_F(Steering, APieceOfADocumentIsShownAndJudgedByItself) {
  std::string text;
  for (int i = 0; i < 60; ++i) text += fmt::format("Story {} is long. ", i);
  write("long.jsonl", R"({"text": ")" + text + "\"}\n");
  const Keys keys = tiny_lora() + short_run() +
                    Keys{{"val_set_size", ""},
                         {"eval_steps", ""},
                         {"datasets", fmt::format("[{{path: {}, type: completion}}]", at("long.jsonl"))}};
  const std::string r = recipe("r.yml", keys), scores = at("scores.jsonl");
  Ended e = dml({"score", r, "--adapter", "none", "--output", scores});
  ASSERT_EQ(e.exit, 0) << e.err;
  const auto all = json_lines(scores);
  ASSERT_GE(all.size(), 2u);
  for (const Json& row : all) EXPECT_EQ(row["trained_tokens"].get<int>(), row["tokens"].get<int>() - 1);
  e = dml({"inspect", r, "--scores", scores, "--by", "row", "--rows", "1", "--lowest"});
  EXPECT_THAT(e.out, HasSubstr("\nrow 0, "));
  EXPECT_THAT(e.out, Not(HasSubstr("\nrow 1, ")));
  double highest = 0;
  for (const Json& row : all) highest = std::max(highest, row["loss"].get<double>());
  std::size_t above = 0;
  for (const Json& row : all) above += row["loss"].get<double>() > highest - 1e-6;
  const std::string filter = fmt::format("{{path: {}, max_loss: {}}}", scores, highest - 1e-6);
  e = dml({"inspect", recipe("f.yml", keys + Keys{{"scores", filter}}), "--dropped"});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(e.out, '\n')), above) << e.out;
}

TEST_F(Steering, RunsAreComparedAndFollowed) {
  const Keys keys = tiny_lora() + short_run() + Keys{{"generate_samples", "true"}, {"generation_max_new_tokens", "4"}};
  trained("first", keys);
  trained("second", keys + Keys{{"learning_rate", "3e-3"}});
  Ended e = dml({"report", at("first"), at("second"), "--output", at("pages/both.html")});
  ASSERT_EQ(e.exit, 0) << e.err;
  const std::string page = read_file(at("pages/both.html"));
  for (const char* part :
       {"2 runs", "Settings that differ", "learning_rate", "eval_loss", ">base<", ">second<", "<svg"})
    EXPECT_THAT(page, HasSubstr(part)) << part;
  EXPECT_THAT(page, Not(HasSubstr(">lora_r<")));
  e = dml({"report", at("first"), "--charts", at("charts")});
  EXPECT_EQ(e.exit, 0) << e.err;
  EXPECT_THAT(read_file(at("charts/eval_loss.svg")), HasSubstr("</svg>"));
  EXPECT_EQ(dml({"report", at("first"), at("nowhere")}).exit, 2);
  if (std::filesystem::exists("/usr/bin/rsvg-convert")) {
    EXPECT_EQ(dml({"report", at("first"), "--charts", at("charts"), "--png"}).exit, 0);
    EXPECT_EQ(read_file(at("charts/loss.png")).substr(1, 3), "PNG");
  }

  e = dml({"watch", at("first"), "--once"});
  EXPECT_EQ(e.exit, 0) << e.err;
  for (const char* part : {"4/4", "step 2: validation loss", "not running"}) EXPECT_THAT(e.out, HasSubstr(part));
  EXPECT_EQ(dml({"watch", at("nowhere")}).exit, 2);
  for (const Json& line : json_lines(at("first/metrics.jsonl")))
    if (line.value("event", "") == "sample") {
      EXPECT_EQ(line.contains("base"), line["step"] > 0) << line;
    }
  // Of an unfinished run, the number of steps that it recorded, or an estimate from the first step of an epoch of 3.
  const std::string line = R"({"step":1,"epoch":0.36363636363636365,"loss":1,"grad_norm":1,"lr":1e-3,"tokens":9,)"
                           R"("trained_tokens":9,"tok_s":1,"step_s":1,"mem":1,"time":1})";
  write("first/metrics.jsonl", line + "\n");
  EXPECT_THAT(dml({"watch", at("first"), "--once"}).out, HasSubstr("1/4"));
  std::filesystem::remove(at("first/run.json"));
  write("first/recipe.resolved.yml", "base_model: m\ndatasets: [{path: r.jsonl, type: completion}]\nnum_epochs: 4\n");
  EXPECT_THAT(dml({"watch", at("first"), "--once"}).out, HasSubstr("1/12"));
}

}  // namespace
}  // namespace dml::e2e
