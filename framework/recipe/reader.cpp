// Only the events of yaml-cpp are used; the tree is built here, because yaml-cpp's own tree silently takes the first of
// two equal keys, keeps `<<` as a key, does not bound the expansion of aliases, and allows an alias inside its own
// anchor. What its scanner accepts wrongly (invalid UTF-8, control characters, unterminated quotes) is checked on the
// text.
#include "recipe/reader.h"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <istream>
#include <streambuf>
#include <unordered_map>

#include "core/utf8.h"

namespace dml::recipe {
namespace {

constexpr std::size_t kMaxNodes = 100'000;               // after the expansion of aliases
constexpr std::size_t kMaxBytes = std::size_t{8} << 20;  // sum of the lengths of their texts
constexpr std::size_t kDeepest = 64;

/// Thrown to stop parsing: the place and the problem.
struct Stop {
  Place place;
  std::string text;
};

Place place_of(const YAML::Mark& mark) { return {mark.line + 1, mark.column + 1}; }

Place place_at(std::string_view text, std::size_t offset) {
  auto before = text.substr(0, offset);
  auto line = std::ranges::count(before, '\n');
  auto start = before.rfind('\n');
  return {static_cast<int>(line) + 1, static_cast<int>(offset - (start == before.npos ? 0 : start + 1)) + 1};
}

void check_text(std::string_view text) {
  if (text.size() > kMaxRecipeBytes)
    throw Stop{{1, 1}, fmt::format("has {} bytes; the limit for a recipe is {}", text.size(), kMaxRecipeBytes)};
  if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff")) throw Stop{{1, 1}, "is UTF-16; save it as UTF-8"};
  std::size_t open = 0;  // depth of open brackets; yaml-cpp would queue a token for each
  for (std::size_t i = 0; i < text.size(); ++i) {
    open += text[i] == '[' || text[i] == '{';
    if (open > kMaxNodes) throw Stop{place_at(text, i), fmt::format("more than {} brackets", kMaxNodes)};
    auto c = static_cast<unsigned char>(text[i]);
    if (c < 0x20 && c != '\t' && c != '\n' && c != '\r')
      throw Stop{place_at(text, i), fmt::format("control character 0x{:02x}", c)};
    if (c == '\t' && (i == 0 || text[i - 1] == '\n')) {
      auto next = text.find_first_not_of("\t ", i);
      if (next != text.npos && std::string_view("\r\n#").find(text[next]) == std::string_view::npos)
        throw Stop{place_at(text, i), "the line is indented with a tab; YAML allows only spaces"};
    }
  }
  if (auto bad = find_invalid_utf8(text); bad != text.npos)
    throw Stop{place_at(text, bad),
               fmt::format("byte 0x{:02x} is not valid UTF-8", static_cast<unsigned char>(text[bad]))};
}

/// Whether the quoted scalar at `offset` is terminated.
bool quote_ends(std::string_view text, std::size_t offset) {
  while (offset < text.size() && (text[offset] == '&' || text[offset] == '!'))  // skips anchors and tags
    offset = text.find_first_not_of(" \t\r\n", std::min(text.find_first_of(" \t\r\n", offset), text.size()));
  if (offset >= text.size() || (text[offset] != '"' && text[offset] != '\'')) return true;
  char quote = text[offset];
  for (std::size_t i = offset + 1; i < text.size(); ++i) {
    if (text[i] == '\\' && quote == '"') ++i;
    else if (text[i] == quote && quote == '\'' && i + 1 < text.size() && text[i + 1] == quote) ++i;
    else if (text[i] == quote) return true;
  }
  return false;
}

class Builder : public YAML::EventHandler {
 public:
  Builder(std::string_view text, Report& report) : text_(text), report_(report) {}
  Node root;

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    Node node;
    node.place = place_of(mark);
    add(std::move(node), anchor);
  }
  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    check_tag(mark, tag);
    if (tag != "?" && !quote_ends(text_, static_cast<std::size_t>(mark.pos)))
      throw Stop{place_of(mark), "the quote that opens here is not closed"};
    Node node;
    node.kind = Node::Kind::scalar;
    node.plain = tag == "?";
    node.text = value;
    node.place = place_of(mark);
    if (tag == "tag:yaml.org,2002:null") node.kind = Node::Kind::null;
    add(std::move(node), anchor);
  }
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    auto found = anchors_.find(anchor);
    if (found == anchors_.end()) throw Stop{place_of(mark), "the alias refers to the node that contains it"};
    count(found->second.nodes, found->second.bytes, place_of(mark));
    Node copy = found->second.node;
    copy.place = place_of(mark);
    add(std::move(copy), 0, false);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    open(Node::Kind::list, mark, tag, anchor);
  }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    open(Node::Kind::map, mark, tag, anchor);
  }
  void OnSequenceEnd() override { close(); }
  void OnMapEnd() override {
    merge(stack_.back());
    close();
  }

 private:
  struct Frame {
    Node node;
    YAML::anchor_t anchor = 0;
    std::size_t nodes = 0, bytes = 0;             // counters at the beginning of this node
    bool has_key = false;                         // map: node.keys is one longer than node.items
    std::unordered_map<std::string, Place> seen;  // map: its own keys, without merged ones
    std::vector<Node> merged;                     // map: values of `<<`
  };
  struct Anchored {
    Node node;
    std::size_t nodes, bytes;
  };

  static void check_tag(const YAML::Mark& mark, const std::string& tag) {
    static constexpr std::string_view kKnown[] = {"", "?", "!", "str", "int", "float", "bool", "null", "map", "seq"};
    std::string_view name = tag;
    if (name.starts_with("tag:yaml.org,2002:")) name.remove_prefix(18);
    if (std::ranges::find(kKnown, name) == std::end(kKnown))
      throw Stop{place_of(mark), fmt::format("the tag '{}' is not supported; remove it", shown(tag))};
  }

  void count(std::size_t nodes, std::size_t bytes, Place place) {
    nodes_ += nodes, bytes_ += bytes;
    if (nodes_ > kMaxNodes || bytes_ > kMaxBytes)
      throw Stop{place, fmt::format("more than {} entries or {} MB of text after the expansion of aliases", kMaxNodes,
                                    kMaxBytes >> 20)};
  }

  void open(Node::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor) {
    check_tag(mark, tag);
    Place place = place_of(mark);
    if (stack_.size() >= kDeepest) throw Stop{place, fmt::format("nested deeper than {} levels", kDeepest)};
    if (wants_key()) throw Stop{place, "a key must be a string, not a list or a table"};
    Frame frame;
    frame.node.kind = kind;
    frame.node.place = place;
    frame.anchor = anchor;
    frame.nodes = nodes_, frame.bytes = bytes_;
    stack_.push_back(std::move(frame));
  }

  void close() {
    Frame frame = std::move(stack_.back());
    stack_.pop_back();
    count(1, 0, frame.node.place);
    if (frame.anchor) anchors_[frame.anchor] = {frame.node, nodes_ - frame.nodes, bytes_ - frame.bytes};
    put(std::move(frame.node));
  }

  void add(Node node, YAML::anchor_t anchor, bool counts = true) {
    if (counts) count(1, node.text.size(), node.place);
    if (anchor) anchors_[anchor] = {node, 1, node.text.size()};
    put(std::move(node));
  }

  bool wants_key() const {
    return !stack_.empty() && stack_.back().node.kind == Node::Kind::map && !stack_.back().has_key;
  }

  void put(Node node) {
    if (stack_.empty()) {
      root = std::move(node);
      return;
    }
    Frame& frame = stack_.back();
    if (wants_key()) {
      if (!node.is_scalar()) throw Stop{node.place, node.is_null() ? "the key is missing" : "a key must be a string"};
      frame.node.keys.push_back(std::move(node));
      frame.has_key = true;
      return;
    }
    if (frame.node.kind == Node::Kind::map) {
      frame.has_key = false;
      const Node& key = frame.node.keys.back();
      if (key.plain && key.text == "<<") {
        frame.merged.push_back(std::move(node));
        frame.node.keys.pop_back();
        return;
      }
      auto [first, is_new] = frame.seen.emplace(key.text, key.place);
      if (!is_new) {
        report_.error(key.place,
                      fmt::format("'{}' is set twice; the first is in line {}", shown(key.text), first->second.line));
        frame.node.keys.pop_back();
        return;
      }
    }
    frame.node.items.push_back(std::move(node));
  }

  /// Adds the keys of `<<: *base` or `<<: [*a, *b]` that the map does not have; earlier maps take precedence.
  void merge(Frame& frame) {
    for (Node& value : frame.merged) {
      std::vector<Node> maps;
      if (value.kind == Node::Kind::list) maps = std::move(value.items);
      else maps.push_back(std::move(value));
      for (Node& from : maps) {
        if (from.kind != Node::Kind::map) throw Stop{from.place, "'<<' needs a table (or a list of tables) to merge"};
        for (std::size_t i = 0; i < from.keys.size(); ++i)
          if (frame.seen.emplace(from.keys[i].text, from.keys[i].place).second) {
            frame.node.keys.push_back(std::move(from.keys[i]));
            frame.node.items.push_back(std::move(from.items[i]));
          }
      }
    }
  }

  std::string_view text_;
  Report& report_;
  std::vector<Frame> stack_;
  std::unordered_map<YAML::anchor_t, Anchored> anchors_;
  std::size_t nodes_ = 0, bytes_ = 0;
};

/// Accepts only an empty document.
class NothingMore : public YAML::EventHandler {
 public:
  Place start;
  void OnDocumentStart(const YAML::Mark& mark) override { start = place_of(mark); }
  void OnDocumentEnd() override {}
  void OnNull(const YAML::Mark&, YAML::anchor_t) override {}
  void OnAlias(const YAML::Mark& mark, YAML::anchor_t) override { refuse(mark); }
  void OnScalar(const YAML::Mark& mark, const std::string&, YAML::anchor_t, const std::string&) override {
    refuse(mark);
  }
  void OnSequenceStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    refuse(mark);
  }
  void OnSequenceEnd() override {}
  void OnMapStart(const YAML::Mark& mark, const std::string&, YAML::anchor_t, YAML::EmitterStyle::value) override {
    refuse(mark);
  }
  void OnMapEnd() override {}

 private:
  [[noreturn]] static void refuse(const YAML::Mark& mark) {
    throw Stop{place_of(mark), "a second YAML document begins here; a recipe is one document"};
  }
};

/// A stream buffer over a text, without a copy.
struct View : std::streambuf {
  explicit View(std::string_view text) {
    char* begin = const_cast<char*>(text.data());
    setg(begin, begin, begin + text.size());
  }
};

}  // namespace

Node read_yaml(std::string_view text, Report& report) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  try {
    check_text(text);
    View view(text);
    std::istream stream(&view);
    YAML::Parser parser(stream);
    Builder builder(text, report);
    parser.HandleNextDocument(builder);
    NothingMore nothing;
    // One empty document may follow. More of them mean that yaml-cpp does not advance at a token that it cannot parse.
    for (int more = 0; parser.HandleNextDocument(nothing); ++more)
      if (more > 0) throw Stop{nothing.start, "this line does not continue anything above it"};
    return std::move(builder.root);
  } catch (const Stop& stop) {
    report.error(stop.place, stop.text);
  } catch (const YAML::Exception& e) {
    report.error(place_of(e.mark), "invalid YAML: " + e.msg);
  }
  report.raise();
  return {};
}

}  // namespace dml::recipe
