#include "checkpoint/quantized.h"

#include "checkpoint/bitsandbytes.h"
#include "checkpoint/checkpoint_dir.h"
#include "checkpoint/content_digest.h"
#include "core/built_folder.h"
#include "core/error.h"
#include "core/hash.h"
#include "core/json.h"
#include "core/log.h"

namespace dml {
namespace {

constexpr JsonLimits kQuantizedManifestLimits{std::size_t{4} << 20, 16, 65536, 1u << 20};

std::string digest_of_base(const ModelFiles& base, const QuantizedLayout& layout, DType scheme,
                           const std::string& root) {
  Hasher h;
  h.text("quantized base").number(QuantizedBase::kVersion).text(dtype_row(scheme).name);
  h.text(content_digest(base.paths(), root + "/sources.json"));
  for (auto& m : layout.matrices)
    h.text(m.name).number(static_cast<std::uint64_t>(m.rows)).number(static_cast<std::uint64_t>(m.cols));
  return h.digest();
}

bool is_in_16_bits(const ModelFiles& base, const std::string& name) {
  if (is_bitsandbytes(base, name)) return is_bitsandbytes_in_16_bits(base, name);
  const TensorView* t = base.find(name);
  return t && dtype_bits(t->dtype) == 16;
}

// Returns the tensor with the expected dtype and shape, or throws a UserError.
const TensorView& expect(const SafetensorsFile& file, const TensorInfo& wanted) {
  const TensorView* t = file.find(wanted.name);
  if (!t) throw UserError("{}: tensor '{}' is missing", file.path(), wanted.name);
  bool same = t->dtype == wanted.dtype && std::ranges::equal(t->shape, wanted.shape) && t->aligned();
  if (!same)
    throw UserError("{}: tensor '{}' is {} {}, expected {} {}", file.path(), wanted.name, safetensors_name(t->dtype),
                    shape_text(t->shape), safetensors_name(wanted.dtype), shape_text(wanted.shape));
  return *t;
}

}  // namespace

QuantizedBase::QuantizedBase(const ModelSpec& spec, const ModelFiles& base, DType scheme, const std::string& root)
    : scheme_(scheme), layout_(quantized_layout(spec, scheme)) {
  make_directories(root);
  digest_ = digest_of_base(base, layout_, scheme, root);
  folder_ = root + "/" + digest_;
  if (ready_or_why(base, "found in").empty()) {
    remove_leftovers(root);
    return;
  }
  BuildLock lock(root, digest_);
  std::string why = ready_or_why(base, "built meanwhile by another process:");
  if (why.empty()) return;
  lock.remove_leftovers();
  build(spec, base, why);
}

// Loads the folder; returns "", or why it cannot be used.
std::string QuantizedBase::ready_or_why(const ModelFiles& base, const std::string& note) {
  if (!file_exists(folder_)) return "not cached yet";
  std::string problem = manifest_problem(folder_);
  if (problem.empty()) try {
      load(base);
      note_ = fmt::format("{} {}", note, folder_);
      return "";
    } catch (const UserError& e) {
      problem = e.what();
    }
  return problem;
}

void QuantizedBase::build(const ModelSpec& spec, const ModelFiles& base, const std::string& why) {
  log_info("quantizing {} matrices to {}: {}", layout_.matrices.size(), scheme_name(), why);
  {
    DirectoryWriter out(folder_, true);
    quantize_layers(spec, base, layout_, scheme_, out.path());
    write_manifest(out.path(), {{"kind", "quantized base"},
                                {"version", kVersion},
                                {"scheme", std::string(scheme_name())},
                                {"digest", digest_}});
    out.commit();
  }
  load(base);
  note_ = fmt::format("built in {}", folder_);
}

void QuantizedBase::load(const ModelFiles& base) {
  const std::string path = folder_ + "/manifest.json";
  Json manifest = read_json(path, kQuantizedManifestLimits);
  if (auto version = json_integer(manifest, "version", -1, path); version != kVersion)
    throw UserError("{}: version {}, expected {}", path, version, kVersion);
  if (json_string(manifest, "digest", "", path) != digest_) throw UserError("{}: is that of another base", path);
  files_.clear();
  tensors_.clear();
  bytes_ = 0;
  std::int64_t opened = -1;
  for (auto& m : layout_.matrices) {
    if (m.layer != opened) files_.emplace_back(folder_ + "/" + layer_file(opened = m.layer));
    StoredTensor t;
    t.dtype = scheme_;
    t.shape = m.shape;
    t.transposed = m.transposed;
    t.bf16_values = scheme_ == DType::nf4 && is_in_16_bits(base, m.name);
    auto bytes_of = [&](const TensorInfo& wanted) {
      std::span<const std::byte> bytes = expect(files_.back(), wanted).bytes;
      bytes_ += bytes.size();
      return bytes.data();
    };
    t.data = bytes_of(m.codes(scheme_));
    const TensorView* nested = scheme_ == DType::nf4 ? files_.back().find(m.scale_blocks().name) : nullptr;
    if (nested) {
      t.scale_codes = reinterpret_cast<const std::uint8_t*>(bytes_of(m.scale_codes()));
      t.scale_blocks = reinterpret_cast<const float*>(bytes_of(m.scale_blocks()));
    } else {
      t.scales = reinterpret_cast<const float*>(bytes_of(m.scales(scheme_)));
    }
    tensors_.emplace(m.name, std::move(t));
  }
}

std::optional<StoredTensor> QuantizedBase::find(const std::string& name) const {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? std::nullopt : std::optional(it->second);
}

std::int64_t QuantizedBase::weights() const {
  std::int64_t n = 0;
  for (auto& m : layout_.matrices) n += m.size();
  return n;
}

}  // namespace dml
