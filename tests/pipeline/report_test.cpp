#include "pipeline/report.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "core/files.h"
#include "pipeline/report_chart.h"
#include "pipeline/run_report.h"
#include "temporary_folder.h"

namespace dml {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;

Report sample_report(int steps) {
  Report r;
  r.title = "pirate-lora";
  r.subtitle = "LoRA r 8 on a base of 1.1M parameters";
  r.facts = {{"model", "outputs/<quickstart>/base"}, {"trained", "98,304 parameters"}};
  for (int s = 1; s <= steps; ++s) {
    r.steps.push_back({s, s / 100.0, 3 * std::exp(-s / 60.0) + 0.4 + 0.1 * std::sin(s * 1.7), 0.5 + 1.0 / s,
                       2e-3 * (1 + std::cos(3.14159 * s / steps)) / 2, 1024, 500, 4000 + 10.0 * (s % 7), 0.25,
                       200'000'000u + 1000u * static_cast<unsigned>(s)});
    if (s % 50 == 0) r.evals.push_back({s, s / 100.0, {{kEvalLoss, 3 * std::exp(-s / 60.0) + 0.45}}});
  }
  r.tables = {{"Data", {"file", "rows"}, {{"pirate.jsonl", "2400"}}}};
  r.samples = {{"Where does a fox live?", "A fox lives in the forest.", "Ahoy, matey! A fox be livin' in the forest."}};
  r.command = "dml launch -n 2 train recipe.yml '--lora_r=8'";
  r.recipe_name = "recipe.yml";
  r.recipe_text = "base_model: outputs/base  # <small>\n";
  return r;
}

/// Every tag closed in order: enough of XML to notice a forgotten quote or an unescaped '<'.
std::string unclosed(const std::string& xml) {
  std::vector<std::string> open;
  for (std::size_t i = xml.find('<'); i != std::string::npos; i = xml.find('<', i + 1)) {
    const std::size_t end = xml.find('>', i);
    if (end == std::string::npos) return "no '>'";
    const std::string tag = xml.substr(i + 1, end - i - 1);
    if (tag[0] == '!' || tag.back() == '/' || tag.rfind("meta", 0) == 0) continue;
    if (tag[0] != '/') {
      open.push_back(tag.substr(0, tag.find(' ')));
    } else if (open.empty() || open.back() != tag.substr(1)) {
      return tag;
    } else {
      open.pop_back();
    }
  }
  return open.empty() ? "" : open.back();
}

TEST(Report, IsOneWellFormedPageWithoutScriptOrNetwork) {
  const std::string page = report_html(sample_report(300));
  EXPECT_EQ(unclosed(page), "");
  EXPECT_THAT(page, Not(HasSubstr("<script")));
  EXPECT_THAT(page, Not(HasSubstr("http")));
  EXPECT_THAT(page, HasSubstr("prefers-color-scheme"));
  for (const char* part : {">Loss<", ">Learning rate<", ">Gradient norm", ">Tokens per second<", ">Evaluations<",
                           ">Before and after<", "98,304 parameters", "be livin&#39; in the forest", ">pirate.jsonl<",
                           "<pre class=\"command\">dml launch -n 2 train", "# &lt;small&gt;\n</pre>"}) {
    EXPECT_THAT(page, HasSubstr(part));
  }
  EXPECT_LT(page.size(), 120'000u);
}

TEST(Report, EscapesWhateverComesFromData) {
  Report r = sample_report(3);
  r.samples = {{"<script>alert(1)</script>", "a & b \"c\"", std::string("nul\0 bell\x07 bad\xff", 15)}};
  r.warnings = {"<b>"};
  const std::string page = report_html(r);
  EXPECT_EQ(unclosed(page), "");
  EXPECT_THAT(page, HasSubstr("&lt;script&gt;alert(1)&lt;/script&gt;"));
  EXPECT_THAT(page, HasSubstr("a &amp; b &quot;c&quot;"));
  EXPECT_THAT(page, HasSubstr("outputs/&lt;quickstart&gt;/base"));
  EXPECT_THAT(page, HasSubstr("bell\xef\xbf\xbd bad\xef\xbf\xbd"));
  EXPECT_THAT(page, HasSubstr("&lt;b&gt;"));
}

TEST(Report, OfARunWithoutStepsIsValid) {
  EXPECT_EQ(unclosed(report_html(Report{})), "");
  Report r = sample_report(2);
  r.steps[0].loss = NAN;
  r.steps[1].loss = INFINITY;
  const std::string page = report_html(r);
  EXPECT_EQ(unclosed(page), "");
  EXPECT_THAT(page, Not(HasSubstr("nan ")));
  EXPECT_THAT(page, Not(HasSubstr("inf ")));
}

TEST(Report, StaysSmallHoweverLongTheRunAndEndsWithTheLastEvaluation) {
  for (int steps : {200'000, 200'050, 2'500, 2'550}) {
    const std::string page = report_html(sample_report(steps));
    EXPECT_LT(page.size(), 250'000u);
    EXPECT_THAT(page, HasSubstr(fmt::format("<td class=\"n\">{}</td>", steps)));
  }
}

Report report_of(const std::vector<double>& losses, std::int64_t every = 100) {
  Report r;
  for (std::size_t i = 0; i < losses.size(); ++i)
    r.evals.push_back({every * static_cast<std::int64_t>(i),
                       double(i),
                       {{kEvalLoss, losses[i]}, {kEvalPerplexity, std::exp(losses[i])}}});
  return r;
}

TEST(Report, ShowsEveryMetricOfAnEvaluationInATable) {
  Report r = report_of({2, 1.25});
  r.evals[0].values.push_back({"eval_words_loss", 1.75});
  r.evals.push_back({150, 1.5, {{"accuracy", 0.625}}});
  EXPECT_EQ(headline(r).to, 1.25);
  const std::string page = report_html(r);
  for (const char* part : {">eval_words_loss<", ">accuracy<", ">1.7500<", ">0.6250<"})
    EXPECT_THAT(page, HasSubstr(part));
  EXPECT_THAT(page, Not(HasSubstr("nan")));
  EXPECT_THAT(page, HasSubstr(">perplexity<"));
  for (EvalMetrics& e : r.evals) std::erase_if(e.values, [](const auto& v) { return v.name == kEvalPerplexity; });
  EXPECT_THAT(report_html(r), Not(HasSubstr("perplexity"))) << "of preferences";
  EXPECT_EQ(headline(r).detail, "step 0 → 100; the best of all evaluations");
}

TEST(Report, HeadlineIsTheValidationLossOfTheStartAndOfTheResult) {
  Report r = report_of({2, 1.25, 1.5});
  Headline h = headline(r);
  EXPECT_EQ(h.what, "Validation loss");
  EXPECT_EQ(h.from, 2);
  EXPECT_EQ(h.to, 1.5);
  EXPECT_EQ(h.detail, "step 0 → 200, perplexity 7.389 → 4.482; best 1.25 at step 100");
  EXPECT_THAT(report_html(r), HasSubstr(R"(Validation loss 2 → <span class="to">1.5</span>)"));
  r.result_step = 100;  // load_best_model_at_end
  h = headline(r);
  EXPECT_EQ(h.to, 1.25);
  EXPECT_EQ(h.detail, "step 0 → 100, perplexity 7.389 → 3.49; the best of all evaluations");
  // A run that made things worse does not look like a success.
  EXPECT_THAT(report_html(report_of({1, 1.5})), HasSubstr(R"(<span class="to worse">1.5</span>)"));
  EXPECT_THAT(report_html(report_of({1, NAN})), HasSubstr(R"(<span class="to worse">not a number</span>)"));
}

TEST(Report, HeadlineWithoutValidationIsTheTrainingLoss) {
  Report r;
  for (int s = 1; s <= 20; ++s) r.steps.push_back({s, 0, 21.0 - s, 0, 0, 0, 0, 0, 0, 0});
  Headline h = headline(r);
  EXPECT_EQ(h.what, "Training loss");
  EXPECT_DOUBLE_EQ(h.from, 19.5);  // of 20, 19
  EXPECT_DOUBLE_EQ(h.to, 1.5);
  EXPECT_EQ(h.detail, "means of the first and the last 2 steps of 20 steps; no validation data");
  EXPECT_FALSE(h.worse);
  r.steps[1].loss = NAN;  // was skipped
  h = headline(r);
  EXPECT_DOUBLE_EQ(h.from, 20);
  EXPECT_DOUBLE_EQ(h.to, 1.5);
  // Losses that vary from step to step are not worse for a last tenth that is slightly higher.
  for (std::size_t s = 0; s < r.steps.size(); ++s) r.steps[s].loss = s % 2 ? 1 : 2;
  r.steps.back().loss = 1.25;
  h = headline(r);
  EXPECT_GT(h.to, h.from);
  EXPECT_FALSE(h.worse);
  EXPECT_EQ(headline(report_of({2})).what, "");
}

TEST(Report, HeadlineOfRewardsIsTheirMeanWithoutSkippedSteps) {
  Report r;
  for (int s = 1; s <= 20; ++s) {
    r.steps.push_back({s, 0, 0, 0, 0, 0, 0, 0, 0, 0});
    r.steps.back().values = {{"reward", s == 20 ? NAN : 0.05 * s}};
  }
  const Headline h = headline(r);
  EXPECT_EQ(h.what, "Reward");
  EXPECT_DOUBLE_EQ(h.from, 0.075);
  EXPECT_DOUBLE_EQ(h.to, 0.95);
  EXPECT_FALSE(h.worse);
}

TEST(Report, SamplesAreTheFirstAndTheLastTextOfAPrompt) {
  const auto samples =
      before_and_after({{0, "p", "e", "one"}, {0, "q", "", "two"}, {5, "p", "e", "three"}, {9, "p", "e", "four"}});
  ASSERT_EQ(samples.size(), 2u);
  EXPECT_EQ(samples[0].before, "one");
  EXPECT_EQ(samples[0].after, "four");
  EXPECT_EQ(samples[0].expected, "e");
  EXPECT_EQ(samples[1].after, "two");
  EXPECT_EQ(before_and_after({{5, "p", "", "late"}, {9, "p", "", "last"}})[0].before, "");  // none of the start
}

TEST(Report, WideTablesBecomeRowsWithLabelsOnAPhone) {
  Report r;
  r.tables = {{"Data", {"dataset", "rows", "examples", "tokens", "dropped"}, {{"a.jsonl", "2 400", "10", "5", "0"}}}};
  const std::string page = report_html(r);
  EXPECT_THAT(page, HasSubstr(R"(<table class="stack">)"));
  EXPECT_THAT(page, HasSubstr(R"(<td class="n" data-label="rows">2 400</td>)"));
  EXPECT_THAT(page, HasSubstr(R"(<td data-label="dataset">a.jsonl</td>)"));
}

TEST(Report, IsWrittenBesideAPictureOfTheLoss) {
  const testing_tools::TemporaryFolder folder;
  write_report(folder.path(), sample_report(100));
  const std::string picture = read_file(folder / "loss.svg");
  EXPECT_EQ(unclosed(picture), "");
  EXPECT_THAT(picture, HasSubstr("xmlns=\"http://www.w3.org/2000/svg\""));
  EXPECT_THAT(picture, HasSubstr(">Validation loss 1.754 → 1.017<"));
  EXPECT_THAT(picture, Not(HasSubstr("var(")));  // viewers of pictures know no variables
  EXPECT_TRUE(file_exists(folder / "report.html"));
}

TEST(Chart, TicksAreRound) {
  EXPECT_THAT(nice_ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_THAT(nice_ticks(1, 600, 6), ElementsAre(100, 200, 300, 400, 500, 600));
  EXPECT_THAT(nice_ticks(1, 1, 5), ElementsAre());
  EXPECT_THAT(nice_ticks(NAN, 1, 5), ElementsAre());
}

TEST(Chart, TicksOfALogarithmicAxisAreRound) {
  EXPECT_THAT(log_ticks(0.3, 6), ElementsAre(testing::DoubleEq(0.5), 1, 2, 5));
  EXPECT_THAT(log_ticks(1, 1e5), ElementsAre(1, 10, 100, 1e3, 1e4, 1e5));
  EXPECT_THAT(log_ticks(0, 5), ElementsAre());
}

TEST(Chart, LogarithmicAxisIsForPositiveValuesOverAWideRange) {
  const auto chart = [](double a, double b) { return Chart{"x", "", {{"", 1, false, false, {{1, a}, {2, b}}}}}; };
  EXPECT_TRUE(suits_log_axis(chart(8, 1)));
  EXPECT_FALSE(suits_log_axis(chart(7, 1)));
  EXPECT_FALSE(suits_log_axis(chart(8, 0)));
  EXPECT_FALSE(suits_log_axis(chart(8, -1)));
  // Ten times less is the same way down from 100 to 10 as from 10 to 1.
  Chart c{"x", "", {{"", 1, false, false, {{1, 100}, {2, 10}, {3, 1}}}}};
  c.log_y = true;
  const std::string svg = chart_svg(c, kSmallChart);
  const double top = 2.4 * kSmallChart.font, bottom = kSmallChart.height - 3 * kSmallChart.font;
  EXPECT_THAT(svg, HasSubstr(fmt::format(" {:.1f}L", top)));
  EXPECT_THAT(svg, HasSubstr(fmt::format(" {:.1f}L", (top + bottom) / 2)));
  EXPECT_THAT(svg, HasSubstr(fmt::format(" {:.1f}\"/>", bottom)));
  EXPECT_THAT(svg, HasSubstr("log scale"));
}

TEST(Chart, ALongCurveKeepsItsExtremesBesidePointsThatAreNotFinite) {
  Chart finite{"x", "", {{"", 1, false, false, {}}}}, broken = finite;
  for (int i = 0; i < 2400; ++i) {
    const ChartPoint p{double(i), i % 8 == 3 ? 5.0 : i % 8 == 5 ? -5.0 : 0.1 * (i % 7)};
    finite.series[0].points.push_back(p);
    broken.series[0].points.push_back(p);
    if (i % 8 == 0) broken.series[0].points.push_back({double(i), i % 16 ? NAN : INFINITY});
  }
  const auto count = [](const std::string& text, const std::string& part) {
    int found = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++found;
    return found;
  };
  const std::string svg = chart_svg(broken, kSmallChart);
  EXPECT_EQ(svg, chart_svg(finite, kSmallChart)) << "points without a value change nothing";
  EXPECT_EQ(count(svg.substr(svg.find("<path")), "M"), 1) << "one line without gaps";
}

TEST(Chart, TextIsTwelvePixelsHighWhenThePictureIsShownFourHundredWide) {
  EXPECT_GE(kPictureChart.font * 400 / kPictureChart.width, 12);
  EXPECT_GE(kNarrowChart.font * 360 / kNarrowChart.width, 12);  // a phone's screen without the page's margins
}

TEST(Chart, SmoothingOfAConstantIsTheConstantAndASlopeIsNotDelayed) {
  for (const ChartPoint& p : smoothed({{1, 4}, {2, 4}, {3, NAN}, {4, 4}}, 0.9)) EXPECT_NEAR(p.y, 4, 1e-12);
  std::vector<ChartPoint> slope;
  for (int i = 0; i < 401; ++i) slope.push_back({double(i), 2.0 * i});
  const std::vector<ChartPoint> line = smoothed(slope, 0.9);
  ASSERT_EQ(line.size(), slope.size());
  EXPECT_NEAR(line[200].y, 400, 1e-6);
  EXPECT_NEAR(line[400].y, 800 - 2 * 9, 1e-6);  // of the past alone: 0.9 / (1 − 0.9) points behind
}

TEST(Chart, KeepsASpikeOfALongRun) {
  Chart chart{"x", "", {{"", 1, false, false, {}}}};
  for (int i = 0; i < 100'000; ++i) chart.series[0].points.push_back({double(i), i == 77'777 ? 100.0 : 1.0});
  const std::string svg = chart_svg(chart, kSmallChart);
  EXPECT_LT(svg.size(), 20'000u);
  EXPECT_THAT(svg, HasSubstr(fmt::format(" {:.1f}", 2.4 * kSmallChart.font)));  // the top edge
}

}  // namespace
}  // namespace dml
