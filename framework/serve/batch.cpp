#include "serve/batch.h"

#include <fmt/format.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/files.h"
#include "core/interruption.h"
#include "core/json.h"
#include "core/lines.h"
#include "pipeline/kept_rows.h"
#include "serve/endpoints.h"
#include "serve/openai_answer.h"
#include "serve/service.h"

namespace dml {
namespace {

constexpr JsonLimits kLine{.bytes = std::size_t{64} << 20, .depth = 64, .object_keys = 65536};
constexpr JsonLimits kAnswer{.bytes = std::size_t{1} << 30, .depth = 128};
constexpr std::size_t kMaxErrors = 20;
constexpr std::chrono::seconds kLastStep{60};
constexpr std::chrono::milliseconds kLook{100};  // how often a signal is looked for

struct BatchRow {
  std::string custom_id, url;
  Json body;
};

BatchRow batch_row(const std::string& place, std::string_view line, std::set<std::string>& ids) {
  const Json row = parse_json(line, place, kLine);
  try {
    Fields f(row);
    const auto id = f.text("custom_id"), method = f.text("method"), url = f.text("url");
    if (!id || id->empty()) f.wrong("custom_id", "is missing");
    if (!ids.insert(*id).second) f.wrong("custom_id", fmt::format("is '{}', as in a line before", *id));
    if (method.value_or("POST") != "POST") f.wrong("method", fmt::format("is '{}', must be POST", *method));
    if (!url || !Endpoints::answers(*url))
      f.wrong("url", fmt::format("is '{}', must be one of {}", url.value_or(""), fmt::join(Endpoints::paths(), ", ")));
    const Json* body = f.find("body");
    if (!body || !body->is_object()) f.wrong("body", "must be an object");
    f.refuse_others({});
    if (body->contains("stream") && (*body)["stream"] == true) f.wrong("body.stream", "is not for batches");
    return {*id, *url, *body};
  } catch (const ApiError& e) {
    throw UserError("{}: {}", place, e.message);
  }
}

std::vector<BatchRow> batch_rows(const std::string& path) {
  std::vector<BatchRow> rows;
  Problems problems;
  std::set<std::string> ids;
  const std::string text = read_text_file(path);
  for (const Line line : Lines(text)) {
    if (problems.all().size() == kMaxErrors) break;
    if (line.blank()) continue;
    try {
      rows.push_back(batch_row(fmt::format("{}:{}", path, line.number), line.text, ids));
    } catch (const UserError& e) {
      problems.add(e.what());
    }
  }
  problems.raise();
  if (rows.empty()) throw UserError("{}: there are no rows", path);
  return rows;
}

// Stores the answer and wakes the threads that wait for one.
class KeptReply : public HttpReply {
 public:
  struct Arrival {
    std::mutex mutex;
    std::condition_variable changed;
  };
  explicit KeptReply(Arrival& arrival) : arrival_(arrival) {}

  void add_header(const std::string&, const std::string&) override {}
  void send(HttpResponse response) override {
    {
      const std::lock_guard lock(arrival_.mutex);
      response_ = std::move(response);
    }
    arrival_.changed.notify_all();
  }
  void begin(HttpResponse) override { DML_CHECK(false, "a batch has no streams"); }
  void write(std::string_view) override {}
  void finish() override {}
  bool gone() const override { return false; }
  /// Requires the mutex of Arrival.
  const std::optional<HttpResponse>& response() const { return response_; }

 private:
  Arrival& arrival_;
  std::optional<HttpResponse> response_;
};

std::string output_line(const BatchRow& row, const HttpResponse& response) {
  return dump(Json{{"id", fresh_id("batch_req_")},
                   {"custom_id", row.custom_id},
                   {"response",
                    {{"status_code", response.status},
                     {"request_id", fresh_id("req_")},
                     {"body", parse_json(response.body, "the answer", kAnswer)}}},
                   {"error", nullptr}});
}

void count_answer(BatchCount& count, int status) { ++(status == 200 ? count.answered : count.refused); }

// Counts the answers of the run that is continued. UserError unless they answer the first rows.
BatchCount earlier_answers(const std::vector<BatchRow>& rows, const KeptRows& out) {
  BatchCount count;
  out.require_at_most(rows.size());
  for (std::size_t i = 0; i < out.earlier().size(); ++i) {
    const Json row = parse_json(out.earlier()[i], out.place(i), kAnswer);
    if (!row.is_object() || row.value("custom_id", Json()) != rows[i].custom_id || !row.contains("response") ||
        !row["response"].is_object())
      out.refuse(i);
    count_answer(count, static_cast<int>(json_integer(row["response"], "status_code", 0, out.place(i))));
  }
  return count;
}

// Answers the rows after the earlier ones.
void answer_rows(const ServedModels& models, const std::vector<BatchRow>& rows, KeptRows& out, BatchCount& count) {
  Metrics metrics(models.list()[0].name);
  const Endpoints endpoints(models, metrics);
  const std::size_t together = 2 * models.engine_options().slots;
  KeptReply::Arrival arrival;
  std::deque<std::pair<std::size_t, std::shared_ptr<KeptReply>>> open;
  // Destroyed before the objects that it answers to.
  Service service(models.models(), models.engine_options(), together + 1, metrics);
  auto begin = [&](std::size_t i) {
    auto reply = std::make_shared<KeptReply>(arrival);
    open.emplace_back(i, reply);
    try {
      if (service.submit(endpoints.work(rows[i].url, rows[i].body, reply)) != Service::Admission::taken)
        reply->send(ApiError{503, "the engine is busy"}.response());
    } catch (const ApiError& e) {
      reply->send(e.response());
    } catch (const UserError& e) {
      reply->send(ApiError{400, e.what()}.response());
    }
  };
  for (std::size_t next = out.earlier().size(); next < rows.size() || !open.empty();) {
    while (next < rows.size() && open.size() < together) begin(next++);
    auto& [i, reply] = open.front();
    HttpResponse response;
    {
      std::unique_lock lock(arrival.mutex);
      while (!arrival.changed.wait_for(lock, kLook, [&] { return reply->response().has_value(); }))
        check_interruption();
      response = *reply->response();
    }
    count_answer(count, response.status);
    out.append(output_line(rows[i], response));
    open.pop_front();
  }
  service.finish(kLastStep);  // all are answered
  count.speed = service.speed();
}

}  // namespace

bool is_batch_file(const std::string& path) {
  const std::string text = read_text_file(path);
  for (const Line line : Lines(text)) {
    if (line.blank()) continue;
    try {
      const Json row = parse_json(line.text, path, kLine);
      return row.is_object() && row.contains("custom_id") && row.contains("body");
    } catch (const UserError&) {  // an unreadable file is reported where it is read
      return false;
    }
  }
  return false;
}

std::string BatchCount::text() const {
  return fmt::format("{} answered, {} refused. {}", answered, refused, speed.text());
}

BatchCount answer_batch(const ServedModels& models, const std::string& input, const std::string& output, bool resume) {
  const std::vector<BatchRow> rows = batch_rows(input);
  make_parent_directories(output);
  KeptRows out(output, resume);
  BatchCount count = earlier_answers(rows, out);
  out.fill(rows.size(), [&] { answer_rows(models, rows, out, count); });
  return count;
}

}  // namespace dml
