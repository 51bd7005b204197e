// Masks against those of tools/make_mask_golden.py, which finds them by a rule of its own: span for span.
#include <gmock/gmock.h>

#include "core/files.h"
#include "prompt/chat_template.h"
#include "recipe/recipe.h"

namespace dml {
namespace {

TrainOnEnd train_on_end(const std::string& name) {
  if (name == "all") return TrainOnEnd::all;
  if (name == "last") return TrainOnEnd::last;
  return name == "none" ? TrainOnEnd::none : TrainOnEnd::turn;
}

TEST(MaskGolden, AgreesSpanForSpan) {
  const Json cases = read_json(DML_SOURCE_DIR "/tests/golden/masks.json");
  int compared = 0;
  for (const Json& c : cases)
    for (const Json& mask : c["masks"]) {
      const Json& options = mask["options"];
      Json messages = c["messages"];
      DatasetEntry entry;
      entry.type.name = "chat_template";
      entry.chat_template = c["template"].get<std::string>();
      entry.train_on_eos = train_on_end(options.value("train_on_eos", "turn"));
      entry.train_on_turns = options.value("train_on_turns", 0);
      if (options.contains("roles_to_train"))
        entry.roles_to_train = options["roles_to_train"].get<std::vector<std::string>>();
      if (options.contains("flags")) {
        entry.message_field_training = "train";
        for (std::size_t i = 0; i < messages.size(); ++i) messages[i]["train"] = options["flags"][i] == 1;
      }
      PromptContext context;
      context.dataset = &entry;
      context.bos_token = "<s>";
      context.eos_token = c["eos"].get<std::string>();
      context.train_on_inputs = options.value("train_on_inputs", false);

      std::string text;
      std::vector<std::vector<std::size_t>> trained;
      const Rendered rendered = make_chat_template(context)->render(Json{{"messages", messages}}).at(0);
      for (const Piece& p : rendered.segments.at(0).pieces()) {
        if (p.trained && !trained.empty() && trained.back()[1] == text.size()) trained.back()[1] += p.text.size();
        else if (p.trained) trained.push_back({text.size(), text.size() + p.text.size()});
        text += p.text;
      }
      ASSERT_EQ(text, c["text"].get<std::string>()) << *entry.chat_template;
      EXPECT_EQ(Json(trained), mask["learned"]) << *entry.chat_template << ' ' << dump(options) << '\n' << text;
      ++compared;
    }
  EXPECT_GT(compared, 300);
}

}  // namespace
}  // namespace dml
