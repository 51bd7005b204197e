// The engine against python3-jinja2 (goldens, and the published chat templates when they are at hand), its errors and
// its limits.
#include "jinja/template.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "core/error.h"
#include "core/files.h"
#include "core/json.h"

namespace dml::jinja {
namespace {

namespace fs = std::filesystem;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string render(std::string_view source, const Json& context = Json::object()) {
  return Template(source, "T").render(from_json(context)).text;
}
std::string error_of(std::string_view source, const Json& context = Json::object()) {
  try {
    return "rendered: " + render(source, context).substr(0, 100);
  } catch (const UserError& e) {
    return e.what();
  }
}

TEST(Jinja, AgreesWithPythonOnEveryGolden) {
  const Json golden = read_json(DML_SOURCE_DIR "/tests/golden/jinja.json");
  const Value context = from_json(golden["context"]);
  for (auto& c : golden["cases"]) {
    const std::string source = c["template"];
    std::string got, error;
    try {
      got = Template(source, "T").render(context).text;
    } catch (const UserError& e) {
      error = e.what();
    }
    if (c.contains("error")) EXPECT_NE(error, "") << source << " gave " << got;
    else EXPECT_EQ(got, c["expected"].get<std::string>()) << source << " " << error;
  }
}

TEST(Jinja, RendersThePublishedChatTemplates) {
  const fs::path folder = DML_SOURCE_DIR "/../shared/data/chat-templates/cases";
  if (!fs::exists(folder)) GTEST_SKIP() << "no published templates at " << folder;
  for (auto& entry : fs::directory_iterator(folder)) {
    const Json file = read_json(entry.path().string());
    const Template t(read_file((folder / file["template"].get<std::string>()).string()), file["name"]);
    for (auto& c : file["cases"]) {
      const std::string id = file["name"].get<std::string>() + "/" + c["id"].get<std::string>();
      std::string got, error;
      try {
        got = t.render(from_json(c["context"])).text;
      } catch (const UserError& e) {
        error = e.what();
      }
      if (c.contains("error")) EXPECT_NE(error, "") << id;
      else EXPECT_EQ(got, c["expected"].get<std::string>()) << id << " " << error;
    }
  }
}

// As jinja2.StrictUndefined does it: only tests and filters like default() take an undefined value.
TEST(Jinja, AStrictRenderRefusesUndefinedValues) {
  const auto strict = [](const std::string& source) {
    try {
      return Template(source, "T").render(from_json({{"a", 1}}), {.strict = true}).text;
    } catch (const UserError& e) {
      return std::string(e.what());
    }
  };
  for (const char* source :
       {"{{ b }}", "{% if b %}x{% endif %}", "{{ not b }}", "{{ b or a }}", "{{ b and a }}", "{{ 1 if b else 2 }}",
        "{% for x in b %}{% endfor %}", "{{ b | tojson }}", "{% for x in [1] if b %}{% endfor %}"}) {
    EXPECT_THAT(strict(source), HasSubstr("'b' is undefined")) << source;
    EXPECT_THAT(error_of(source), AnyOf(StartsWith("rendered: "), HasSubstr("'b' is undefined"))) << source;
  }
  EXPECT_EQ(strict("{{ a }}{{ b | default(2) }}{{ b is defined }}"), "12False");
}

TEST(JinjaErrors, NameThePosition) {
  EXPECT_EQ(error_of("a\n  {{ 1 + }}"), "T:2:10: expected an expression, got '}}'");
  EXPECT_EQ(error_of("é{{ nope() }}"), "T:1:5: 'nope' is undefined");
  EXPECT_EQ(error_of("{{ a.b.c }}", {{"a", Json::object()}}), "T:1:7: 'dict object' has no attribute 'b'");
  EXPECT_EQ(error_of("{% if x %}\n"), "T:1:4: 'if' is not closed: expected '{% endif %}'");
  EXPECT_EQ(error_of("{{ raise_exception('only ' ~ 2) }}"), "T:1:4: only 2");
  EXPECT_THAT(error_of("{{ x | uper }}"), HasSubstr("did you mean 'upper'"));
  EXPECT_THAT(error_of("{{ x is strin }}"), HasSubstr("did you mean 'string'"));
  EXPECT_THAT(error_of("{% include 'secrets' %}"), HasSubstr("'include' is not supported"));
  EXPECT_THAT(error_of("{% extends 'x' %}"), HasSubstr("'extends' is not supported"));
  EXPECT_THAT(error_of("{% import 'x' as y %}"), HasSubstr("'import' is not supported"));
  EXPECT_THAT(error_of("a \xff b"), HasSubstr("T:1:3: this is not UTF-8"));
}

TEST(JinjaLimits, StopEndlessTemplates) {
  EXPECT_THAT(error_of("{{ range(10**12) }}"), HasSubstr("Range too big"));
  EXPECT_THAT(error_of("{{ 'x' * 10**9 }}"), HasSubstr("16 MiB"));
  EXPECT_THAT(error_of("{{ [0] * 10**9 }}"), HasSubstr("a list of more than"));
  EXPECT_THAT(error_of("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}"), HasSubstr("recursion"));
  EXPECT_THAT(error_of("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}"),
              HasSubstr("steps"));
  EXPECT_THAT(
      error_of("{% set ns = namespace(s='xx') %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}"),
      HasSubstr("24 MiB"));
  EXPECT_THAT(error_of("{% set ns = namespace(s=[]) %}{% for i in range(9999) %}{% set ns.s = [ns.s] %}{% endfor %}"),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of("{% for i in range(9999) %}{{ 'x' * 99999 }}{% endfor %}"), HasSubstr("16 MiB"));
  EXPECT_THAT(error_of("{{ '%0999999999d' % 1 }}"), HasSubstr("width"));
  EXPECT_THAT(error_of(std::string(300 << 10, 'x')), HasSubstr("at most 256 KiB"));
  EXPECT_THAT(error_of("{{ " + std::string(100000, '(') + std::string(100000, ')') + " }}"),
              HasSubstr("nested too deeply"));
  EXPECT_THAT(error_of("{{ " + std::string(100000, '-') + "1 }}"), HasSubstr("nested too deeply"));
  std::string sum = "{{ 1";
  for (int i = 0; i < 50000; ++i) sum += "+1";
  EXPECT_THAT(error_of(sum + " }}"), HasSubstr("nested too deeply"));
  std::string ifs;
  for (int i = 0; i < 5000; ++i) ifs += "{% if 1 %}";
  EXPECT_THAT(error_of(ifs), HasSubstr("nested too deeply"));
}

TEST(JinjaLimits, BoundMemoryAndComparisons) {
  EXPECT_THAT(
      error_of("{% set ns = namespace(s=[]) %}{% for i in range(99) %}{% set ns.s = ns.s + ['x' * 1000000 ~ i] %}"
               "{% endfor %}"),
      HasSubstr("take more than 24 MiB"));
  EXPECT_THAT(error_of("{{ ('a ' * 1000000).split() | length }}"), HasSubstr("take more than 24 MiB"));
  EXPECT_THAT(
      error_of("{% set ns = namespace(s={}) %}{% for i in range(99999) %}{% set ns.s = dict(ns.s, **{i|string: i}) %}"
               "{% endfor %}"),
      HasSubstr("steps"));
  EXPECT_THAT(error_of("{{ ([['x' * 1000000] * 9] * 9999) | map('first') | sort(case_sensitive=true) | length }}"),
              HasSubstr("steps"));
  EXPECT_THAT(error_of("{% set ns = namespace(a=[1], b=[1]) %}{% for i in range(99) %}{% set ns.a = [ns.a, ns.a] %}"
                       "{% set ns.b = [ns.b, ns.b] %}{% endfor %}{{ ns.a == ns.b }}"),
              HasSubstr("steps"));
  // what a long conversation needs
  EXPECT_EQ(render("{% for m in messages %}{{ m | trim }}{% endfor %}",
                   {{"messages", Json::array({std::string(6 << 20, 'x'), std::string(6 << 20, 'y')})}})
                .size(),
            std::size_t{12} << 20);
}

TEST(JinjaLimits, AllowReferenceCycles) {
  EXPECT_EQ(render("{% set ns = namespace() %}{% set ns.self = ns %}{% macro f() %}{% endmacro %}{% set ns.f = f %}ok"),
            "ok");
  EXPECT_EQ(
      render("{% set ns = namespace() %}{% for i in range(20000) %}{% set ns.n = namespace(n=ns.n) %}{% endfor %}ok"),
      "ok");
}

TEST(Jinja, HasNoAccessToTheHost) {
  EXPECT_EQ(render("{{ ''.__class__ }}{{ x.__init__ }}", {{"x", 1}}), "");
  EXPECT_THAT(error_of("{{ ''.__class__.__mro__ }}"), HasSubstr("no attribute '__class__'"));
  EXPECT_THAT(error_of("{{ [].append(1) }}"), HasSubstr("cannot change values"));
}

}  // namespace
}  // namespace dml::jinja
