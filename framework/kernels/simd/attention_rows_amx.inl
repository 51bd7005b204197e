// Attention forward on AMX tiles: Sᵀ = K Qᵀ and Oᵀ += Vᵀ Pᵀ, with queries along a vector. In one turn the scores of the
// next visit, the exponentials of this one and the sums of the one before are made.
template <int Parts>
class RowsOnTiles {
 public:
  explicit RowsOnTiles(const AttentionRows& task) : t_(task) {
    Pieces pieces(panels_ * (per_panel_ + 4 * width_ * kPanel) + 2 * kTilePanels * per_panel_ +
                  2 * (kTilePanels * kPanelFloats * 4 + panel_bytes<Parts>(kTileKeys)));
    q_ = pieces.bytes(panels_ * per_panel_);
    o_ = pieces.floats(panels_ * width_ * kPanel);
    k_ = pieces.bytes(kTilePanels * per_panel_);
    v_ = pieces.bytes(kTilePanels * per_panel_);
    for (int i = 0; i < 2; ++i)
      s_[i] = pieces.floats(kTilePanels * kPanelFloats), p_[i] = pieces.bytes(panel_bytes<Parts>(kTileKeys));
  }

  void run() {
    pack_panels<Parts>(pack_b<Parts, float>, false, t_.rows, e_, t_.q.row(t_.row) + col_, t_.q.cols, q_);
    __builtin_memset(o_, 0, static_cast<std::size_t>(panels_ * width_ * kPanel) * sizeof(float));
    for (std::int64_t i = 0; i < panels_; ++i)
      for (int j = 0; j < kPanel; ++j) stats_[i].top[j] = -__builtin_inff(), stats_[i].sum[j] = 0;
    _tile_loadconfig(&kShapes);
    Visit before{}, now{}, next = first_visit();
    for (int turn = 0; next.any() || now.any() || before.any(); turn ^= 1) {
      if (next.any() && pack(next.key, keys_packed_, false, t_.k, k_))
        if (const std::int64_t after = next.key + kTileKeys; after < end())
          soon_ = {keys_at(after), e_, t_.k.cols, {t_.k.row(after) + kv_, t_.v.row(after) + kv_}};
      if (before.any()) {
        pack(before.key, values_packed_, true, t_.v, v_);
        scale_sums(before.panel);
      }
      if (now.any()) find_largest(now, s_[turn]);
      const std::int64_t e_panels = before.any() ? width_ / kPanel : 0;
      auto score = [&](std::int64_t i) {
        return Product<Parts>{width_, k_ + (next.seen.first + i) * per_panel_, q_ + next.panel * per_panel_,
                              s_[turn ^ 1] + i * kPanelFloats, false};
      };
      auto sum = [&](std::int64_t i) {
        return Product<Parts>{before.seen.count() * kPanel,
                              v_ + i * panel_bytes<Parts>(up_to_panels(keys_at(before.key))) +
                                  panel_bytes<Parts>(before.seen.first * kPanel),
                              p_[turn ^ 1], o_ + (before.panel * width_ + i * kPanel) * kPanel, true};
      };
      Beside beside(
          now.seen.count() * kTile, next.seen.count() * score(0).steps() + e_panels * sum(0).steps(),
          soon_, [&](std::int64_t i) __attribute__((always_inline)) { exponentials(now, s_[turn], i, p_[turn]); });
      for (std::int64_t i = 0; i < next.seen.count(); ++i) score(i).make(beside);
      for (std::int64_t i = 0; i < e_panels; ++i) sum(i).make(beside);
      beside.rest();
      before = now, now = next, next = visit_after(next);
    }
    _tile_release();
    put_out();
  }

 private:
  static constexpr std::int64_t kTileKeys = 128, kTilePanels = kTileKeys / kPanel;

  // One panel of queries meets the panels of one tile of keys.
  struct Visit {
    std::int64_t key = -1, panel = 0;
    PanelRange seen;
    bool any() const { return !seen.empty(); }
  };
  // Of 32 queries: largest score as an exponent of two, what is taken from it (the same, if there is one), what the
  // sums before the visit are multiplied with, sum of exponentials.
  struct alignas(64) Stats {
    float top[kPanel], base[kPanel], factor[kPanel], sum[kPanel];
  };

  std::int64_t end() const { return t_.row + t_.rows; }
  std::int64_t keys_at(std::int64_t key) const { return end() - key < kTileKeys ? end() - key : kTileKeys; }
  Sight sight(std::int64_t panel, std::int64_t key) const { return {t_.shape, t_.row + panel * kPanel, key}; }

  Visit first_visit() const {
    std::int64_t key = t_.begin;
    if (const std::int64_t seen = t_.row - t_.shape.window + 1; t_.shape.window > 0 && seen > key)
      key += (seen - key) / kTileKeys * kTileKeys;
    return visit_from(key, 0);
  }
  Visit visit_after(const Visit& v) const { return v.any() ? visit_from(v.key, v.panel + 1) : Visit{}; }
  Visit visit_from(std::int64_t key, std::int64_t panel) const {
    for (; key < end(); key += kTileKeys, panel = 0)
      for (; panel < panels_; ++panel)
        if (PanelRange seen(up_to_panels(keys_at(key)) / kPanel,
                            [&](std::int64_t i) { return sight(panel, key + i * kPanel); });
            !seen.empty())
          return {key, panel, seen};
    return {};
  }

  // The tile of keys or values is packed when the first visit needs it; then the last one is done with the tile before.
  // False if it was before.
  bool pack(std::int64_t key, std::int64_t& packed, bool transposed, ConstMat from, char* to) {
    if (packed == key) return false;
    pack_panels<Parts>(pack_a<Parts>, transposed, keys_at(key), e_, from.row(key) + kv_, from.cols, to);
    packed = key;
    return true;
  }

  DML_INLINE static VI distance(std::int64_t key, std::int64_t query) {
    return static_cast<std::int32_t>(key - query) - lane_numbers();
  }

  void find_largest(const Visit& v, const float* s) {
    Stats& stats = stats_[v.panel];
    for (std::int64_t c = 0; c < kPanel; c += W) {
      const V lowest = all(-__builtin_inff());
      V top[4] = {lowest, lowest, lowest, lowest};
      for (std::int64_t b = 0; b < v.seen.count(); ++b) {
        const Sight at = sight(v.panel, v.key + (v.seen.first + b) * kPanel);
        const bool whole = at.whole();
        for (std::int64_t k = 0; k < kPanel; ++k) {
          const V x = scores_.of(load(s + b * kPanelFloats + k * kPanel + c));
          top[k % 4] = max(whole ? x : at.apply(distance(k, c), x, lowest), top[k % 4]);
        }
      }
      const V old = load(stats.top + c), most = max(max(top[0], top[1]), max(top[2], top[3])) * scores_.unit;
      const V now = max(most, old), base = now == -__builtin_inff() ? V{} : now;  // a query may see nothing yet
      const V factor = power_of_two(old - base);
      store(stats.top + c, now);
      store(stats.base + c, base);
      store(stats.factor + c, factor);
      store(stats.sum + c, load(stats.sum + c) * factor);
    }
  }

  // Of two keys of a panel and all 32 queries.
  [[gnu::noinline]] void exponentials(const Visit& v, const float* s, std::int64_t unit, char* to) {
    Stats& stats = stats_[v.panel];
    const std::int64_t b = unit / kTile, i = unit % kTile;
    const Sight at = sight(v.panel, v.key + (v.seen.first + b) * kPanel);
    const bool whole = at.whole();
    s += b * kPanelFloats;
    to += b * panel_bytes<Parts>(kPanel);
#pragma GCC unroll 2
    for (std::int64_t c = 0; c < kPanel; c += W) {
      auto exponential = [&](std::int64_t k) __attribute__((always_inline)) {
        const V p = power_of_two<Parts>(scores_.of(load(s + k * kPanel + c)) * scores_.unit - load(stats.base + c));
        return whole ? p : at.apply(distance(k, c), p, V{});
      };
      const V first = exponential(first_step<Parts>(i)), second = exponential(first_step<Parts>(i) + kApart<Parts>);
      store(stats.sum + c, load(stats.sum + c) + first + second);
      store_pairs<Parts>(to + c / W * kTileBytes, i, first, second);
    }
  }

  void scale_sums(std::int64_t panel) {
    float* o = o_ + panel * width_ * kPanel;
    for (std::int64_t c = 0; c < kPanel; c += W) {
      const V factor = load(stats_[panel].factor + c);
      bool rose = false;
      for (int i = 0; i < W; ++i) rose |= factor[i] != 1;
      if (rose)
        for (std::int64_t j = 0; j < width_; ++j) store(o + j * kPanel + c, load(o + j * kPanel + c) * factor);
    }
  }

  void put_out() {
    auto* transposed = reinterpret_cast<float*>(q_);
    for (std::int64_t i = 0; i < panels_; ++i) {
      float* o = o_ + i * width_ * kPanel;
      for (std::int64_t j = 0; j < e_; ++j)
        for (std::int64_t c = 0; c < kPanel; c += W)
          store(o + j * kPanel + c, load(o + j * kPanel + c) / load(stats_[i].sum + c));
      avx512::table.transpose(e_, kPanel, o, kPanel, 1, transposed, e_);
      for (std::int64_t r = 0; r < kPanel && i * kPanel + r < t_.rows; ++r) {
        const std::int64_t row = t_.row + i * kPanel + r;
        __builtin_memcpy(t_.out.row(row) + col_, transposed + r * e_, static_cast<std::size_t>(e_) * sizeof(float));
        t_.lse.row(row)[t_.head] = stats_[i].top[r] * kLn2 + std::log(stats_[i].sum[r]);
      }
    }
  }

  const AttentionRows& t_;
  const std::int64_t e_ = t_.shape.head_dim, width_ = up_to_panels(e_), panels_ = up_to_panels(t_.rows) / kPanel;
  const std::int64_t per_panel_ = panel_bytes<Parts>(width_);  // bytes
  const std::int64_t col_ = t_.head * e_, kv_ = t_.head / (t_.shape.heads / t_.shape.kv_heads) * e_;
  char *q_, *k_, *v_, *p_[2];
  float *o_, *s_[2];  // Oᵀ of every panel of queries: (width, 32)
  const Scores scores_{t_.shape};
  Rows<2, kLinesOfStep<Parts>> soon_;
  std::int64_t keys_packed_ = -1, values_packed_ = -1;
  Stats stats_[AttentionRows::kMaxRows / kPanel];
};
template <int Parts>
void attention_rows(const AttentionRows& task) {
  RowsOnTiles<Parts>(task).run();
}
