#include "data/parquet/schema.h"

#include <cstring>
#include <iterator>

#include "core/error.h"
#include "core/utf8.h"
#include "data/json_values.h"
#include "data/parquet/thrift.h"

namespace dml::parquet {
namespace {

using Type = Thrift::Type;
constexpr std::size_t kMaxNodes = 10'000;
constexpr int kDepth = 30;

struct Element {
  Node node;
  std::int64_t children = 0;
};

// The logical type of a number in the union LogicalType, or in the older ConvertedType.
Logical logical_of(std::int64_t id) {
  static constexpr Logical kLogical[] = {Logical::other, Logical::text,    Logical::map,   Logical::list,
                                         Logical::text,  Logical::decimal, Logical::date,  Logical::other,
                                         Logical::other, Logical::other,   Logical::other, Logical::other,
                                         Logical::json,  Logical::other,   Logical::uuid,  Logical::half};
  return id >= 0 && id < std::ssize(kLogical) ? kLogical[id] : Logical::other;
}

Logical converted_of(std::int64_t id) {
  static constexpr Logical kConverted[] = {Logical::text,
                                           Logical::map,
                                           Logical::map,
                                           Logical::list,
                                           Logical::text,
                                           Logical::decimal,
                                           Logical::date,
                                           Logical::time_millis,
                                           Logical::time_micros,
                                           Logical::timestamp_millis,
                                           Logical::timestamp_micros,
                                           Logical::unsigned_number,
                                           Logical::unsigned_number,
                                           Logical::unsigned_number,
                                           Logical::unsigned_number,
                                           Logical::other,
                                           Logical::other,
                                           Logical::other,
                                           Logical::other,
                                           Logical::json};
  return id >= 0 && id < std::ssize(kConverted) ? kConverted[id] : Logical::other;
}

// A number of an enumeration of `count` values.
template <class Enumeration>
Enumeration enumerated(Thrift& in, Type type, std::int64_t count, const char* what) {
  const std::int64_t number = in.integer(type);
  if (number < 0 || number >= count) in.fail(what, number);
  return static_cast<Enumeration>(number);
}

// Reads the union LogicalType; units and signs are nested structs.
Logical read_logical(Thrift& in) {
  Logical found = Logical::none;
  in.fields([&](int id, Type type) {
    constexpr int kTime = 7, kTimestamp = 8;
    if ((id == kTime || id == kTimestamp) && type == Type::structure) {
      const bool of_day = id == kTime;
      found = of_day ? Logical::time_millis : Logical::timestamp_millis;
      in.fields([&](int inner, Type kind) {
        if (inner != 2 || kind != Type::structure) return in.skip(kind);
        in.fields([&](int unit, Type unit_kind) {
          if (of_day) found = unit == 1 ? Logical::time_millis : unit == 2 ? Logical::time_micros : Logical::time_nanos;
          else
            found = unit == 1   ? Logical::timestamp_millis
                    : unit == 2 ? Logical::timestamp_micros
                                : Logical::timestamp_nanos;
          in.skip(unit_kind);
        });
      });
    } else if (id == 10 && type == Type::structure) {
      found = Logical::none;
      in.fields([&](int inner, Type kind) {
        if (inner == 2 && (kind == Type::yes || kind == Type::no))
          found = in.truth(kind) ? Logical::none : Logical::unsigned_number;
        else in.skip(kind);
      });
    } else {
      found = logical_of(id);
      in.skip(type);
    }
  });
  return found;
}

Element read_element(Thrift& in) {
  Element e;
  Logical converted = Logical::none;
  in.fields([&](int id, Type type) {
    switch (id) {
      case 1:
        e.node.physical = enumerated<Physical>(in, type, 8, "unknown physical type {}");
        break;
      case 2:
        e.node.length = in.integer(type);
        break;
      case 3:
        e.node.repetition = enumerated<Node::Repetition>(in, type, 3, "unknown repetition {}");
        break;
      case 4:
        e.node.name = in.text(type);
        break;
      case 5:
        e.children = in.integer(type);
        break;
      case 6:
        converted = converted_of(in.integer(type));
        break;
      case 7:
        e.node.scale = in.integer(type);
        break;
      case 10:
        if (type == Type::structure) e.node.logical = read_logical(in);
        else in.skip(type);
        break;
      default:
        in.skip(type);
    }
  });
  if (e.node.logical == Logical::none) e.node.logical = converted;
  if (find_invalid_utf8(e.node.name) != std::string::npos || e.node.name.find('\n') != std::string::npos)
    in.fail("a column's name is not valid UTF-8 in one line");
  return e;
}

class FooterReader {
 public:
  FooterReader(std::string_view bytes, const std::string& path) : bytes_(bytes), path_(path) {}

  Footer read() {
    if (bytes_.size() < 12) fail(fmt::format("{} bytes, too short for a Parquet file", bytes_.size()));
    if (!bytes_.starts_with("PAR1")) fail("no Parquet file: it does not begin with 'PAR1'");
    if (bytes_.ends_with("PARE")) fail("the file is encrypted");
    if (!bytes_.ends_with("PAR1")) fail("it does not end with 'PAR1': the file was cut off");
    std::uint32_t length = 0;
    std::memcpy(&length, bytes_.data() + bytes_.size() - 8, 4);
    if (length > bytes_.size() - 12) fail(fmt::format("a footer of {} bytes in a file of {}", length, bytes_.size()));
    Thrift in(bytes_.substr(bytes_.size() - 8 - length, length), path_ + ": footer");
    in.fields([&](int id, Type type) {
      if (id == 2) in.elements(type, [&](Type) { add_element(in); });
      else if (id == 3) out_.rows = in.integer(type);
      else if (id == 4) in.elements(type, [&](Type) { out_.groups.push_back(read_group(in)); });
      else in.skip(type);
    });
    build();
    check();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(std::string_view text) const { throw UserError("{}: {}", path_, text); }

  void add_element(Thrift& in) {
    if (elements_.size() >= kMaxNodes) in.fail("a schema of more than {} nodes", kMaxNodes);
    elements_.push_back(read_element(in));
  }

  RowGroupPlace read_group(Thrift& in) {
    RowGroupPlace group;
    in.fields([&](int id, Type type) {
      if (id == 1) in.elements(type, [&](Type) { group.chunks.push_back(read_chunk(in)); });
      else if (id == 3) group.rows = in.integer(type);
      else in.skip(type);
    });
    return group;
  }

  Chunk read_chunk(Thrift& in) {
    Chunk chunk;
    in.fields([&](int id, Type type) {
      if (id == 1) in.fail("a column lies in another file");
      if (id != 3 || type != Type::structure) return in.skip(type);
      in.fields([&](int inner, Type kind) {
        switch (inner) {
          case 1:
            chunk.physical = enumerated<Physical>(in, kind, 8, "unknown physical type {}");
            break;
          case 4:
            chunk.codec = in.integer(kind);
            break;
          case 5:
            chunk.values = in.integer(kind);
            break;
          case 6:
            chunk.unpacked = in.integer(kind);
            break;
          case 7:
            chunk.compressed = in.integer(kind);
            break;
          case 9:
            chunk.data_at = in.integer(kind);
            break;
          case 11:
            chunk.dictionary_at = in.integer(kind);
            break;
          default:
            in.skip(kind);
        }
      });
    });
    return chunk;
  }

  void build() {
    if (elements_.empty()) fail("footer: no schema");
    next_ = 0;
    out_.root = build_node(0, 0, 0);
    if (next_ != elements_.size()) fail("footer: the schema has nodes that belong to none");
    if (out_.root.is_leaf()) fail("footer: no columns");
    collect(out_.root);
  }

  Node build_node(int def, int rep, int depth) {
    if (next_ >= elements_.size()) fail("footer: the schema has fewer nodes than it says");
    if (depth > kDepth) fail("footer: the schema is nested too deeply");
    const Element& e = elements_[next_++];
    Node node = e.node;
    put_text(node.name, node.key);
    node.key += ':';
    if (depth > 0) {
      node.def = def + (node.repetition != Node::Repetition::required);
      node.rep = rep + (node.repetition == Node::Repetition::repeated);
    }
    node.first_leaf = leaves_;
    if (e.children < 0 || e.children > static_cast<std::int64_t>(elements_.size()))
      fail("footer: a node with a wrong number of children");
    for (std::int64_t i = 0; i < e.children; ++i) node.children.push_back(build_node(node.def, node.rep, depth + 1));
    if (e.children == 0) {
      if (node.physical == Physical::none) fail(fmt::format("footer: column '{}' has no type", node.name));
      if (node.physical == Physical::fixed && (node.length < 0 || node.length > (1 << 20)))
        fail(fmt::format("footer: column '{}' has values of {} bytes", node.name, node.length));
      ++leaves_;
    }
    node.leaves = leaves_ - node.first_leaf;
    return node;
  }

  void collect(const Node& node) {
    if (node.is_leaf()) out_.columns.push_back(&node);
    for (const Node& child : node.children) collect(child);
  }

  void check() {
    std::int64_t rows = 0;
    for (std::size_t g = 0; g < out_.groups.size(); ++g) {
      RowGroupPlace& group = out_.groups[g];
      if (group.chunks.size() != out_.columns.size())
        fail(fmt::format("row group {}: {} columns, the schema has {}", g, group.chunks.size(), out_.columns.size()));
      if (group.rows < 0 || group.rows > out_.rows - rows)
        fail(fmt::format("row group {}: {} rows, the footer has {} left", g, group.rows, out_.rows - rows));
      rows += group.rows;
      for (std::size_t c = 0; c < group.chunks.size(); ++c) {
        Chunk& k = group.chunks[c];
        const auto size = static_cast<std::int64_t>(bytes_.size());
        const std::int64_t begin = k.dictionary_at > 0 && k.dictionary_at < k.data_at ? k.dictionary_at : k.data_at;
        if (k.physical != out_.columns[c]->physical || k.values < 0 || begin < 4 || k.compressed < 0 || begin > size ||
            k.compressed > size - begin)
          fail(fmt::format("row group {}, column '{}': its type or place is wrong", g, out_.columns[c]->name));
        k.begin = static_cast<std::size_t>(begin), k.end = static_cast<std::size_t>(begin + k.compressed);
      }
    }
    if (rows != out_.rows) fail(fmt::format("footer: {} rows, its row groups have {}", out_.rows, rows));
  }

  std::string_view bytes_;
  const std::string& path_;
  std::vector<Element> elements_;
  std::size_t next_ = 0, leaves_ = 0;
  Footer out_;
};

}  // namespace

Footer read_footer(std::string_view bytes, const std::string& path) { return FooterReader(bytes, path).read(); }

}  // namespace dml::parquet
