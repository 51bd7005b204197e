#include "hub/fetch.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>

#include "core/closest.h"
#include "core/error.h"
#include "core/files.h"
#include "core/log.h"
#include "core/row_file_names.h"
#include "core/size_text.h"
#include "hub/file_patterns.h"
#include "hub/transfer.h"

namespace dml {
namespace fs = std::filesystem;
namespace {

bool belongs_to_dataset(const std::string& path) {
  const bool hidden = path.starts_with('.') || path.find("/.") != path.npos;
  return !hidden && (has_row_extension(path) || is_archive_name(path) || fits("*README.md", path));
}

// Logs progress every few seconds while it exists.
class Progress {
 public:
  Progress(std::string what, const std::atomic<std::uint64_t>& arrived, std::uint64_t all)
      : thread_([this, what = std::move(what), &arrived, all](std::stop_token stop) {
          constexpr auto kEvery = std::chrono::seconds(5);
          const auto start = std::chrono::steady_clock::now();
          std::unique_lock guard(mutex_);
          while (!wake_.wait_for(guard, stop, kEvery, [&] { return stop.stop_requested(); })) {
            const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
            const auto here = static_cast<double>(arrived.load());
            log_info("{}: {} of {}, {:.1f} MB/s", what, size_text(arrived), size_text(all), here / seconds / 1e6);
          }
        }) {}

 private:
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread thread_;
};

class Download {
 public:
  Download(const HubClient& client, const FetchRequest& request, const HubListing& listing,
           const std::vector<HubFile>& files)
      : client_(client),
        request_(request),
        listing_(listing),
        cache_(hub_cache_directory()),
        repository_(cache_ + "/" + hub_folder_name(request.kind, request.name.id)),
        locks_(cache_ + "/.locks/" + hub_folder_name(request.kind, request.name.id)) {
    std::set<std::string> blobs;
    for (const HubFile& file : files)
      if (files_.push_back(file); blobs.insert(file.digest).second)
        transfers_.push_back(std::make_unique<Transfer>(file, repository_ + "/blobs", locks_, request.range_bytes));
  }

  std::string snapshot() const { return repository_ + "/snapshots/" + listing_.commit; }

  std::uint64_t missing() const {
    std::uint64_t bytes = 0;
    for (const auto& transfer : transfers_) bytes += transfer->file().size - transfer->already_there();
    return bytes;
  }

  // `whole`: all requested files are in the listing.
  void run(bool whole = true) {
    for (const char* folder : {"/blobs", "/refs"}) make_directories(repository_ + folder);
    make_directories(locks_);
    const std::string name = locks_ + "/dml-fetch.lock";
    std::optional<FileLock> lock = FileLock::try_for(name);
    if (!lock) {
      log_info("{}: waiting for the process that downloads it", request_.name.text());
      lock = FileLock::wait_for(name);
    }
    check_room();
    fetch_all();
    for (const HubFile& file : files_) link(file);
    if (whole && !is_hub_commit(request_.name.revision)) write_reference();
    remove_parts();
  }

 private:
  void check_room() const {
    const std::uint64_t needed = missing();
    std::error_code unknown;
    const fs::space_info space = fs::space(repository_, unknown);
    if (!unknown && needed > space.available)
      throw UserError("{}: {} are needed, {} are free; HF_HOME or HF_HUB_CACHE names another folder", cache_,
                      size_text(needed), size_text(space.available));
  }

  void fetch_all() {
    std::atomic<std::uint64_t> arrived = 0;
    std::uint64_t all = 0, ranges = 0;
    for (const auto& transfer : transfers_) all += transfer->file().size, ranges += transfer->ranges();
    const Progress progress(request_.name.text(), arrived, all);
    const auto workers = std::min<std::uint64_t>(ranges, static_cast<std::uint64_t>(request_.connections));
    std::vector<std::jthread> threads;
    for (std::uint64_t i = 0; i < workers; ++i) threads.emplace_back([&] { work(arrived); });
    threads.clear();
    if (error_) std::rethrow_exception(error_);
  }

  void work(std::atomic<std::uint64_t>& arrived) {
    while (true) {
      Transfer* transfer = nullptr;
      std::uint64_t range = 0;
      {
        const std::lock_guard guard(mutex_);
        if (error_) return;
        while (file_ < transfers_.size() && range_ == transfers_[file_]->ranges()) ++file_, range_ = 0;
        if (file_ == transfers_.size()) return;
        transfer = transfers_[file_].get();
        range = range_++;
      }
      try {
        transfer->fetch(client_,
                        client_.resolve(request_.kind, request_.name.id, listing_.commit, transfer->file().path), range,
                        arrived);
      } catch (...) {
        const std::lock_guard guard(mutex_);
        if (!error_) error_ = std::current_exception();
      }
    }
  }

  void link(const HubFile& file) const {
    const std::string place = snapshot() + "/" + file.path, fresh = fmt::format("{}.dml-{}", place, getpid());
    std::string target = "../../blobs/" + file.digest;
    for (char c : file.path) target.insert(0, c == '/' ? "../" : "");
    make_directories(fs::path(place).parent_path());
    std::error_code error;
    if (fs::is_symlink(fs::symlink_status(place, error)) && fs::read_symlink(place, error) == target) return;
    fs::create_symlink(target, fresh, error);
    if (!error) fs::rename(fresh, place, error);
    if (error) throw IoError(fmt::format("{}: cannot be linked: {}", place, error.message()));
  }

  void write_reference() const {
    const std::string path = repository_ + "/refs/" + request_.name.revision;
    if (file_exists(path) && read_file(path, 4096) == listing_.commit) return;
    make_directories(fs::path(path).parent_path());
    write_file(path, listing_.commit);
  }

  // Removes partial downloads of files that were replaced on the Hub. Requires the lock, so that no other process
  // writes here.
  void remove_parts() const {
    std::set<std::string> listed;
    for (const HubFile& file : listing_.files) listed.insert(file.digest);
    std::error_code error;
    for (fs::directory_iterator it(repository_ + "/blobs", error), end; !error && it != end; it.increment(error)) {
      const std::string name = it->path().filename();
      const bool partial = name.ends_with(Transfer::kIncomplete) || name.ends_with(Transfer::kParts);
      if (partial && !listed.contains(name.substr(0, name.find('.')))) unlink(it->path().c_str());
    }
  }

  const HubClient& client_;
  const FetchRequest& request_;
  const HubListing& listing_;
  const std::string cache_, repository_, locks_;
  std::vector<HubFile> files_;
  std::vector<std::unique_ptr<Transfer>> transfers_;  // one per distinct content
  std::mutex mutex_;
  std::size_t file_ = 0;
  std::uint64_t range_ = 0;
  std::exception_ptr error_;
};

// Keeps the names of all files of the commit beside its snapshot, which may hold only some of them.
void remember(const HubListing& listing, const FetchRequest& request) {
  std::set<std::string> names;
  for (const HubFile& file : listing.files) names.insert(file.path);
  write_listed_files(
      hub_cache_directory() + "/" + hub_folder_name(request.kind, request.name.id) + "/snapshots/" + listing.commit,
      names);
}

// Downloads only the card, which lists the files. Returns the snapshot folder.
std::string fetch_card(const HubClient& client, const FetchRequest& request, const HubListing& listing) {
  std::vector<HubFile> card;
  std::ranges::copy_if(listing.files, std::back_inserter(card),
                       [](const HubFile& file) { return file.path == "README.md"; });
  Download download(client, request, listing, card);
  if (!card.empty()) download.run(false);
  return download.snapshot();
}

// The files of a snapshot. Those by huggingface_hub have no list and count as complete.
std::vector<std::string> listed_names(const std::string& folder) {
  if (const auto listed = listed_files(folder)) return {listed->begin(), listed->end()};
  std::vector<std::string> names;
  std::error_code unreadable;
  for (fs::recursive_directory_iterator it(folder, unreadable), end; !unreadable && it != end; it.increment(unreadable))
    if (!it->is_directory(unreadable)) names.push_back(it->path().lexically_relative(folder).string());
  return names;
}

// Whether the cache has all selected files.
bool holds_all(const std::string& folder, const FileChoice& choose) {
  const std::vector<std::string> names = listed_names(folder);
  try {
    const std::vector<std::string> chosen = choose(folder, names);
    return !chosen.empty() &&
           std::ranges::all_of(chosen, [&](const std::string& file) { return file_exists(folder + "/" + file); });
  } catch (const UserError&) {
    return false;
  }
}

// Whether the cache has what a request asks for.
bool holds(const std::string& folder, const FetchRequest& request) {
  if (request.choose) return holds_all(folder, request.choose);
  if (request.include.empty()) return request.kind != HubKind::model || lacking_parts(folder, {}).empty();
  const std::vector<std::string> names = listed_names(folder);
  return std::ranges::all_of(request.include, [&](const std::string& pattern) {
    return std::ranges::any_of(
        names, [&](const std::string& name) { return fits(pattern, name) && file_exists(folder + "/" + name); });
  });
}

// Whether a name of a recipe or an option, which is not in the cache, is one of the Hub and no path whose last
// component is wrong.
bool is_on_hub(const std::optional<HubName>& name) {
  std::error_code unknown;
  return name && name->id.find('/') != std::string::npos && !fs::exists(fs::path(name->id).parent_path(), unknown);
}

std::string download_for_run(const HubClient& client, HubKind kind, const HubName& name, const FileChoice& choose) {
  FetchRequest request;
  request.kind = kind;
  request.name = name;
  request.choose = choose;
  log_info("{} {}: downloading from {}", name_of(kind), name.text(), client.options().endpoint);
  return fetch_from_hub(client, request).folder;
}

}  // namespace

std::vector<HubFile> chosen_files(const std::vector<HubFile>& files, const FetchRequest& request,
                                  const std::string& folder) {
  std::vector<std::string> names;
  for (const HubFile& file : files) names.push_back(file.path);
  std::set<std::string> chosen;
  if (request.choose) std::ranges::copy(request.choose(folder, names), std::inserter(chosen, chosen.end()));
  std::vector<HubFile> out;
  std::ranges::copy_if(files, std::back_inserter(out), [&](const HubFile& file) {
    if (request.choose) return chosen.contains(file.path);
    if (!request.include.empty()) return fits_any(request.include, file.path);
    return request.kind == HubKind::model ? belongs_to_model(file.path) : belongs_to_dataset(file.path);
  });
  for (const std::string& pattern : request.include)
    if (std::ranges::none_of(names, [&](const std::string& name) { return fits(pattern, name); }))
      throw UserError("{} {}: no file matches '{}'{}", name_of(request.kind), request.name.text(), pattern,
                      did_you_mean(pattern, names));
  if (out.empty())
    throw UserError(
        "{} {}: has no file that dml reads by itself; --include (data_files in a recipe) chooses among: {}",
        name_of(request.kind), request.name.text(),
        fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(std::min<std::size_t>(names.size(), 10)),
                  ", "));
  std::ranges::stable_sort(
      out, {}, &HubFile::size);  // small files first: an unusable config is found before the weights are downloaded
  return out;
}

Fetched fetch_from_hub(const HubClient& client, const FetchRequest& request) {
  const std::string what = fmt::format("{} {}", name_of(request.kind), request.name.text());
  if (hub_cache_directory().empty()) throw UserError("{}: set HF_HOME or HOME to say where the cache is", what);
  if (client.options().offline) {
    const auto folder = find_in_hub_cache(request.kind, request.name.text());
    if (folder && holds(*folder, request)) return {fs::path(*folder).filename().string(), *folder, {}, 0, 0};
    if (folder)
      throw UserError(
          "{}: HF_HUB_OFFLINE is set, nothing is downloaded; the cache has not all files that are asked for: {}", what,
          *folder);
    throw UserError("{}: HF_HUB_OFFLINE is set, nothing is downloaded{}", what,
                    missing_advice(request.kind, request.name.text()));
  }
  constexpr int kListings = 3;
  for (int listed = 1;; ++listed) {
    const HubListing listing = list_hub_files(client, request.kind, request.name);
    if (!request.dry_run) remember(listing, request);
    try {
      Fetched out{listing.commit, request.choose ? fetch_card(client, request, listing) : "", {}, 0, 0};
      out.files = chosen_files(listing.files, request, out.folder);
      Download download(client, request, listing, out.files);
      out.folder = download.snapshot();
      for (const HubFile& file : out.files) out.bytes += file.size;
      out.missing = download.missing();
      if (request.dry_run) return out;
      download.run();
      return out;
    } catch (const HubFileChanged& file) {
      if (listed == kListings)
        throw IoError(fmt::format("{}: '{}' keeps changing while it is downloaded", what, file.what()));
      log_info("{}: '{}' has changed on the Hub; listing it again", what, file.what());
    } catch (const HubDigestWrong& wrong) {  // damaged in transfer, or in an earlier process's partial download
      if (listed == kListings) throw;
      log_info("{}; trying again", wrong.what());
    }
  }
}

std::optional<std::string> hub_dataset_folder(const std::string& name, const FileChoice& choose) {
  auto found = find_in_hub_cache(HubKind::dataset, name);
  if (found && holds_all(*found, choose)) return found;
  const auto parsed = parse_hub_name(name);
  if (!is_on_hub(parsed)) return found;
  const HubClient client(HubOptions::from_environment());
  if (client.options().offline) return found;
  return download_for_run(client, HubKind::dataset, *parsed, choose);
}

std::optional<std::string> hub_model_folder(const std::string& name, const SnapshotParts& parts) {
  auto found = find_in_hub_cache(HubKind::model, name);
  const std::string lacking = found ? lacking_parts(*found, parts) : "";
  if (found && lacking.empty()) return found;
  const auto parsed = parse_hub_name(name);
  if (!found && !is_on_hub(parsed)) return found;
  const HubClient client(HubOptions::from_environment());
  if (found && client.options().offline) throw UserError(partial_model_text(name, *found, lacking));
  if (client.options().offline) return found;
  return download_for_run(client, HubKind::model, *parsed,
                          [&](const std::string&, const std::vector<std::string>& files) {
                            std::vector<std::string> chosen;
                            std::ranges::copy_if(files, std::back_inserter(chosen), [&](const std::string& file) {
                              return belongs_to_model(file) && (parts.weights || !holds_weights(file));
                            });
                            return chosen;
                          });
}

}  // namespace dml
