#include "core/closest.h"

#include <gtest/gtest.h>

#include <functional>
#include <vector>

#include "core/error.h"
#include "core/registry.h"

namespace dml {
namespace {

using Names = std::vector<std::string>;

TEST(EditDistance, CountsInsertionsDeletionsAndReplacements) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);
}

TEST(EditDistance, CountsATranspositionAsOne) {
  EXPECT_EQ(edit_distance("lroa", "lora"), 1);
  EXPECT_EQ(edit_distance("ca", "abc"), 3);  // restricted: nothing is edited twice
}

TEST(EditDistance, IsSymmetric) {
  Names words{"learning_rate", "learnign_rate", "lr", "rate", ""};
  for (auto& a : words)
    for (auto& b : words) EXPECT_EQ(edit_distance(a, b), edit_distance(b, a)) << a << " " << b;
}

TEST(Closest, FindsATransposedName) { EXPECT_EQ(closest("lroa_r", Names{"lora_alpha", "lora_r", "seed"}), "lora_r"); }
TEST(Closest, IgnoresCaseAndDashes) {
  EXPECT_EQ(closest("Learning-Rate", Names{"seed", "learning_rate"}), "learning_rate");
}
TEST(Closest, FindsANameByItsBeginning) {
  EXPECT_EQ(closest("gradient", Names{"seed", "gradient_checkpointing"}), "gradient_checkpointing");
}
TEST(Closest, GivesNothingWhenNothingIsNear) { EXPECT_EQ(closest("banana", Names{"lora_r", "seed"}), ""); }
TEST(Closest, DoesNotMeasureVeryLongWords) { EXPECT_EQ(closest(std::string(100000, 'a'), Names{"a"}), ""); }

TEST(DidYouMean, NamesTheNearestElseAFewChoicesElseNothing) {
  EXPECT_EQ(did_you_mean("sede", Names{"seed", "lora_r"}), "; did you mean 'seed'?");
  EXPECT_EQ(did_you_mean("banana", Names{"seed", "lora_r"}), "; choose from seed, lora_r");
  EXPECT_EQ(did_you_mean("banana", Names(13, "seed_of_everything")), "");
}

struct Shape {
  int corners = 0;
};
using ShapeFactory = std::function<Shape()>;

Registry<ShapeFactory> shapes() {
  return {
      "shape",
      {{"triangle", "three corners", [] { return Shape{3}; }}, {"square", "four corners", [] { return Shape{4}; }}}};
}

TEST(Registry, FindsRowsByName) {
  auto table = shapes();
  EXPECT_EQ(table.at("square").make().corners, 4);
  EXPECT_EQ(table.find("circle"), nullptr);
  EXPECT_EQ(table.names(), (Names{"triangle", "square"}));
}

TEST(Registry, AnUnknownNameIsAUserErrorWithTheNearest) {
  auto table = shapes();
  try {
    table.at("sqaure");
    FAIL();
  } catch (const UserError& e) {
    EXPECT_STREQ(e.what(), "unknown shape 'sqaure'; did you mean 'square'?");
  }
}

TEST(Registry, AddedRowsComeLastAndReplaceRowsOfTheirName) {
  auto table = shapes();
  table.add({"pentagon", "five corners", [] { return Shape{5}; }});
  table.add({"square", "a cube's shadow", [] { return Shape{6}; }});
  EXPECT_EQ(table.names(), (Names{"triangle", "square", "pentagon"}));
  EXPECT_EQ(table.at("square").make().corners, 6);
}

}  // namespace
}  // namespace dml
