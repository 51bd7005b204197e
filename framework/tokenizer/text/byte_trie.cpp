#include "tokenizer/text/byte_trie.h"

namespace dml {

void ByteTrie::add(std::string_view key, std::int32_t value) {
  if (key.empty()) return;
  starts_key_[static_cast<unsigned char>(key[0])] = true;
  std::uint32_t node = 0;
  for (char c : key) {
    auto byte = static_cast<unsigned char>(c);
    std::uint32_t next = child(node, byte);
    if (next == 0) {
      if (values_.size() * 2 >= edges_.size()) {
        std::vector<Edge> old(edges_.size() * 2);
        old.swap(edges_);
        for (const Edge& e : old) {
          if (e.key == 0) continue;
          std::size_t at = slot(e.key, edges_.size());
          while (edges_[at].key != 0) at = (at + 1) & (edges_.size() - 1);
          edges_[at] = e;
        }
      }
      next = static_cast<std::uint32_t>(values_.size());
      values_.push_back(kNone);
      std::uint64_t edge = ((static_cast<std::uint64_t>(node) << 8) | byte) + 1;
      std::size_t at = slot(edge, edges_.size());
      while (edges_[at].key != 0) at = (at + 1) & (edges_.size() - 1);
      edges_[at] = {edge, next};
    }
    node = next;
  }
  values_[node] = value;
}

}  // namespace dml
