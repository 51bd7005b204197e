// The fixture of the tests of commands, which are in one file per group of them.
#pragma once

#include <gmock/gmock.h>

#include <string>
#include <vector>

#include "e2e/workshop.h"

namespace dml::e2e {

class Commands : public Workshop {
 protected:
  std::string out_of(Words words) const {
    Ended e = dml(words);
    EXPECT_EQ(e.exit, 0) << words[0] << ": " << e.err;
    return e.out;
  }
  // The indented words of the overview, up to its examples.
  Words all_commands() const {
    std::string overview = out_of({"--help"});
    overview.resize(overview.find("\nexamples:"));
    Words commands;
    for (std::size_t at = overview.find("\n  "); at != std::string::npos; at = overview.find("\n  ", at + 3))
      commands.push_back(overview.substr(at + 3, overview.find(' ', at + 3) - at - 3));
    return commands;
  }
  // A LoRA run whose adapter says something else than its base.
  void train_adapter() const {
    Ended e = train(1, recipe("lora.yml", tiny_lora() + Keys{{"learning_rate", "2e-2"}, {"lora_dropout", "0"}}));
    ASSERT_EQ(e.exit, 0) << e.err;
  }
  double loss_of(const Words& words, std::size_t row) const {
    std::string text = out_of(words);
    std::vector<Json> lines = json_lines(write("lines.jsonl", text));
    return lines.at(row).at("loss").get<double>();
  }
};

}  // namespace dml::e2e
