// The part of a batch that a pass has to compute: documents with a label and, after the last layer, rows with a label.
#pragma once

#include <cstdint>
#include <span>

#include "core/arena.h"
#include "core/matrix.h"
#include "core/packed_batch.h"
#include "core/random.h"
#include "model/rope_tables.h"
#include "nn/pass.h"

namespace dml {

/// The positions with a label, and their labels, as dense arrays.
struct Labeled {
  std::span<std::int32_t> rows;
  std::span<Token> labels;
};
Labeled labeled_rows(const PackedBatch& batch, std::int64_t count, Arena& arena);

/// A batch without documents that have no label, and optionally without what a document shares with the previous one
/// (PackedBatch::shared) before its first label.
struct TrimmedBatch {
  PackedBatch batch;
  std::span<std::int32_t> documents;  // the index of each in the given batch
  SharedPrefixes shared = {};
};
/// every_token: keeps all tokens, since router losses count them. labeled: the tokens of a document up to its last
/// label. shared_prefixes: of these, shared prefixes once.
enum class Trim { every_token, labeled, shared_prefixes };
/// A bounding dry run keeps every token. A dry run does not write the copies.
TrimmedBatch trimmed(const PackedBatch& given, Arena& arena, Trim how);

/// The documents for rope; their lengths include tokens that are not computed.
std::span<RopeDocument> rope_documents(const PackedBatch& given, const TrimmedBatch& trimmed_batch, Arena& arena);

/// Adds NEFTune's noise to the embeddings x; the noise is that of the whole given batch.
void add_noise(double alpha, const Random& random, const PackedBatch& given, const TrimmedBatch& trimmed_batch, Mat x);

}  // namespace dml
