// dml report: compares runs on one page, and writes charts as files.
#include "cli/options.h"
#include "cli/output.h"
#include "cli/stages.h"
#include "core/error.h"
#include "core/files.h"
#include "pipeline/comparison.h"

namespace dml {
namespace {

struct ReportWords {
  std::vector<std::string> folders;
  std::optional<std::string> output, charts;
  bool png = false;
  Options options{"report",
                  "report DIR… [--output FILE] [--charts DIR [--png]]",
                  {"dml report outputs/a outputs/b", "dml report outputs/a outputs/b --output comparison.html",
                   "dml report outputs/a --charts charts --png"}};
  ReportWords() {
    options.about(
        "Compares runs by their output: overlaid curves, the settings that differ, the last value of every "
        "metric, and the answers to the same prompts beside those of the base. Runs may still be in progress. "
        "The report of a single run, report.html, is written by the run itself.");
    options.positionals("DIR", folders, "output directories of runs");
    options.text("output", output, "the page to write; default: comparison.html", "FILE");
    options.text("charts", charts, "write the charts into this folder, each as an SVG file, in place of the page",
                 "DIR");
    options.flag("png", png, "with --charts: also as PNG files (needs rsvg-convert)");
  }
};

int run_report_command(const std::vector<std::string>& words) {
  ReportWords r;
  r.options.parse(words);
  if (r.png && !r.charts) throw UserError("--png needs --charts DIR");
  const std::string page = r.output.value_or("comparison.html");
  require_place_of_page("--output", page);
  const std::vector<FinishedRun> runs = read_runs(r.folders);
  if (r.charts) {
    for (const std::string& path : write_charts(*r.charts, comparison_charts(runs), r.png)) print(path + "\n");
    if (!r.output) return 0;
  }
  make_parent_directories(page);
  write_file(page, comparison_html(runs));
  print(page + "\n");
  return 0;
}

}  // namespace

Command report_command() {
  return {"report", "compares runs on an HTML page; writes charts", [] { return ReportWords().options.page(); },
          run_report_command};
}

}  // namespace dml
