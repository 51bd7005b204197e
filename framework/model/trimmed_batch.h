// The part of a batch that a pass has to compute: no documents without a label, and after the last layer only rows with
// a label.
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

/// The positions that feed a label, and their labels, as dense lists.
struct Labelled {
  std::span<std::int32_t> rows;
  std::span<Token> labels;
};
Labelled labelled_rows(const PackedBatch& batch, std::int64_t count, Arena& arena);

/// Documents without a label are left out, and what a document shares with the one before it (PackedBatch::shared), up
/// to its first label.
struct TrimmedBatch {
  PackedBatch batch;
  std::span<std::int32_t> documents;  // the number that each has in the given batch
  SharedBeginnings shared = {};
};
/// every_token: as the losses of routers count them; shared_once: useful tokens, what documents share only once.
enum class Trim { every_token, useful, shared_once };
/// A bound assumes that every token is used. A dry run does not write the copies.
TrimmedBatch trimmed(const PackedBatch& given, Arena& arena, Trim how);

/// A document has its whole length, however much of it is computed.
std::span<RopeDocument> rope_documents(const PackedBatch& given, const TrimmedBatch& trimmed_batch, Arena& arena);

/// NEFTune's noise on embeddings, as if the given batch were computed as a whole.
void add_noise(double alpha, const Random& random, const PackedBatch& given, const TrimmedBatch& trimmed_batch, Mat x);

}  // namespace dml
