// Marks: which bytes of the rendered text came from which input.
#include <gtest/gtest.h>

#include "core/error.h"
#include "jinja/template.h"

namespace dml::jinja {
namespace {

/// The text with every marked range written as «mark:bytes».
std::string shown(const RenderResult& r) {
  std::string out;
  std::size_t at = 0;
  for (const Run& span : r.spans) {
    out += r.text.substr(at, span.begin - at) + "<" + std::to_string(span.mark) + ":" +
           r.text.substr(span.begin, span.end - span.begin) + ">";
    at = span.end;
  }
  return out + r.text.substr(at);
}
Value dict(std::vector<std::pair<std::string, Value>> items) {
  Dict d;
  for (auto& [k, v] : items) d.items.emplace_back(Text(k), v);
  return d;
}
std::string shown(std::string_view source) {
  const Value context = dict({{"a", Text("  Hello, World \n", 1)},
                              {"b", Text("né", 2)},
                              {"parts", Value::list({Text("p", 3), Text("q\n", 4)})},
                              {"tool", from_json(Json{{"city", "Os\"lo"}, {"n", 3}}, 5)}});
  return shown(Template(source, "T").render(context));
}

TEST(JinjaMarks, SurviveTheOperationsOfTemplates) {
  EXPECT_EQ(shown("{{ a }}"), "<1:  Hello, World \n>");
  EXPECT_EQ(shown("[{{ a | trim }}]"), "[<1:Hello, World>]");
  EXPECT_EQ(shown("{{ '[' + a.strip() + ']' + b }}"), "[<1:Hello, World>]<2:né>");
  EXPECT_EQ(shown("{{ a.strip()[2:5] ~ b[-1] }}"), "<1:llo><2:é>");
  EXPECT_EQ(shown("{{ a.strip().replace('World', 'W' + b) }}"), "<1:Hello, >W<2:né>");
  EXPECT_EQ(shown("{{ a.split(',')[1] | upper }}"), "<1: WORLD \n>");
  EXPECT_EQ(shown("{{ b | upper }}{{ b | capitalize }}{{ b | title }}{{ b | reverse }}"), "<2:NÉNéNéén>");
  EXPECT_EQ(shown("{{ parts | join('-') }}"), "<3:p>-<4:q\n>");
  EXPECT_EQ(shown("{% for p in parts %}{{ p }}{% endfor %}"), "<3:p><4:q\n>");
  EXPECT_EQ(shown("{{ '%s:%5s' % (b, b) }}"), "<2:né>:   <2:né>");
  EXPECT_EQ(shown("{% set x %}({{ b }}){% endset %}{{ x }}{{ x | length }}"), "(<2:né>)4");
  EXPECT_EQ(shown("{% macro m(t) %}<{{ t }}>{% endmacro %}{{ m(b) | trim }}"), "<<2:né>>");
  EXPECT_EQ(
      shown("{% set ns = namespace(t='') %}{% for p in parts %}{% set ns.t = ns.t + p %}{% endfor %}{{ ns.t | trim }}"),
      "<3:p><4:q>");
  EXPECT_EQ(shown("{{ tool | tojson }}"), "{\"<5:city>\": \"<5:Os\\\"lo>\", \"<5:n>\": 3}");
  EXPECT_EQ(shown("{{ tool }}"), "{'<5:city>': '<5:Os\"lo>', '<5:n>': 3}");
  EXPECT_EQ(shown("{{ b * 2 }}{{ (b, b) | join }}"), "<2:nénénéné>");
  EXPECT_EQ(shown("{{ a | trim | indent(2) }}{{ b | center(4) }}"), "<1:Hello, World> <2:né> ");
  EXPECT_EQ(shown("{{ a | trim | truncate(5, true, '.', 0) }}"), "<1:Hell>.");
}

TEST(JinjaMarks, AreLostOnlyWhereReported) {
  const Value context = dict({{"a", Text("x y", 1)}});
  const RenderResult r = Template("{{ a | urlencode }}", "T").render(context);
  EXPECT_EQ(shown(r), "x%20y");
  EXPECT_TRUE(r.marks_lost);
  EXPECT_FALSE(Template("{{ a | trim }}{{ a == 'x' }}", "T").render(context).marks_lost);
}

TEST(JinjaMarks, CoverGenerationBlocks) {
  const Value context = dict({{"a", Text("A", 7)}});
  const RenderResult r =
      Template("x{% generation %}{{ a }}!{% endgeneration %}y{% generation %}z{% endgeneration %}", "T")
          .render(context);
  EXPECT_EQ(shown(r), "x<7:A>!yz");
  ASSERT_EQ(r.generation.size(), 2u);
  EXPECT_EQ(r.generation[0], std::make_pair(std::size_t{1}, std::size_t{3}));
  EXPECT_EQ(r.generation[1], std::make_pair(std::size_t{4}, std::size_t{5}));
}

TEST(JinjaMarks, FollowGenerationThroughMacros) {
  const RenderResult r = Template("{% macro m() %}({% generation %}g{% endgeneration %}){% endmacro %}{{ m() }}", "T")
                             .render(Value(Dict{}));
  ASSERT_EQ(r.generation.size(), 1u);
  EXPECT_EQ(r.generation[0], std::make_pair(std::size_t{1}, std::size_t{2}));
}

}  // namespace
}  // namespace dml::jinja
