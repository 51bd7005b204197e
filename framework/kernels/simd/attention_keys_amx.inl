// Attention backward on AMX tiles: S = Q Kᵀ and dP = dO Vᵀ, with keys along a vector, then dVᵀ += dOᵀ P, dKᵀ += Qᵀ dS
// and dQ = dS K. In one turn the scores of the next panel of queries, the gradient of this one and some of the sums of
// the visit before are made.
template <int Parts>
class KeysOnTiles {
 public:
  explicit KeysOnTiles(const AttentionKeys& task) : t_(task) {
    const std::int64_t keys_bytes = kKeys / kPanel * per_panel_, query_bytes = kTilePanels * per_panel_;
    const std::int64_t sums = kKeys * width_;
    Pieces pieces(
        2 * keys_bytes + width_ / kPanel * panel_bytes<Parts>(kKeys) + 4 * query_bytes +
        4 * (2 * sums + kTileQueries * width_) +
        2 * (8 * kPanelFloats + 2 * panel_bytes<Parts>(kTileQueries) + kTilePanels * panel_bytes<Parts>(kKeys)));
    k_ = pieces.bytes(keys_bytes);
    v_ = pieces.bytes(keys_bytes);
    k_transposed_ = pieces.bytes(width_ / kPanel * panel_bytes<Parts>(kKeys));
    for (char** to : {&q_, &dout_, &q_transposed_, &dout_transposed_}) *to = pieces.bytes(query_bytes);
    dk_ = pieces.floats(sums);
    dv_ = pieces.floats(sums);
    dq_ = pieces.floats(kTileQueries * width_);
    for (int i = 0; i < 2; ++i) {
      s_[i] = pieces.floats(kPanelFloats);
      dp_[i] = pieces.floats(kPanelFloats);
      p_[i] = pieces.bytes(panel_bytes<Parts>(kTileQueries));
      ds_[i] = pieces.bytes(panel_bytes<Parts>(kTileQueries));
      ds_rows_[i] = pieces.bytes(kTilePanels * panel_bytes<Parts>(kKeys));
    }
  }

  void run() {
    _tile_loadconfig(&kShapes);
    for (key_ = t_.begin + t_.strip * kKeys; key_ < t_.end; key_ += t_.strips * kKeys) run_keys();
    _tile_release();
  }

 private:
  // In one part, reading and writing the sums takes longer than multiplying, so that a tile has more queries.
  static constexpr std::int64_t kKeys = AttentionKeys::kKeys, kTileQueries = Parts == 1 ? 128 : 64,
                                kTilePanels = kTileQueries / kPanel;

  // A tile of queries of one head meets one panel of keys: those of its panels that see some of it, one after the
  // other.
  struct Visit {
    std::int64_t head = 0, row = 0, number = 0, tile = -1, keys = 0;  // keys: the panel of this run
    PanelRange seen;
    std::int64_t panel = 0;  // the one at hand
    bool any() const { return !seen.empty(); }
    bool last() const { return panel + 1 == seen.last; }
  };
  // Of the queries of a tile; lse as an exponent of two.
  struct alignas(64) Stats {
    float lse[kTileQueries], dots[kTileQueries];
  };

  std::int64_t rows_at(std::int64_t row) const {
    return seen_until_ - row < kTileQueries ? seen_until_ - row : kTileQueries;
  }
  Sight sight(std::int64_t row, std::int64_t panel, std::int64_t keys) const {
    return {t_.shape, row + panel * kPanel, key_ + keys * kPanel};
  }

  Visit step_after(Visit v) const {
    if (!v.any()) return {};
    if (v.last()) return visit_from(v.head, v.row, v.number + 1, v.tile, v.keys + 1);
    ++v.panel;
    return v;
  }
  Visit visit_from(std::int64_t head, std::int64_t row, std::int64_t visit, std::int64_t tile,
                   std::int64_t keys) const {
    for (; head < (t_.kv + 1) * group_; ++head, row = key_)
      for (; row < seen_until_; row += kTileQueries, ++tile, keys = 0)
        for (; keys < key_panels_; ++keys)
          if (PanelRange seen(up_to_panels(rows_at(row)) / kPanel, [&](std::int64_t i) { return sight(row, i, keys); });
              !seen.empty())
            return {head, row, visit, tile, keys, seen, seen.first};
    return {};
  }

  void run_keys() {
    const std::int64_t keys = t_.end - key_ < kKeys ? t_.end - key_ : kKeys, at = t_.kv * e_;
    key_panels_ = up_to_panels(keys) / kPanel;
    seen_until_ = t_.end;
    if (t_.shape.window > 0 && key_ + keys - 1 + t_.shape.window < t_.end)
      seen_until_ = key_ + keys - 1 + t_.shape.window;
    pack_keys(keys, at);
    packed_ = transposed_ = known_ = -1;
    Visit before{}, now{}, next = visit_from(t_.kv * group_, key_, 0, 0, 0);
    std::int64_t made = 0, sums = 0;  // products of the visit before
    for (int turn = 0; next.any() || now.any() || before.any(); turn ^= 1) {
      make_ready(next, now, before);
      Product<Parts> score, dp;
      if (next.any()) {
        score = {width_, q_ + next.panel * per_panel_, k_ + next.keys * per_panel_, s_[turn ^ 1], false};
        dp = {width_, dout_ + next.panel * per_panel_, v_ + next.keys * per_panel_, dp_[turn ^ 1], false};
      }
      // The products of the visit before are spread over the panels of this one.
      const std::int64_t turns = now.any() ? now.seen.last - now.panel : 1,
                         until = made + (sums - made + turns - 1) / turns;
      std::int64_t steps = score.steps() + dp.steps();
      for (std::int64_t i = made; i < until; ++i) steps += sum(before, i).steps();
      Beside beside(
          now.any() ? kTile : 0, steps,
          soon_, [&](std::int64_t i) __attribute__((always_inline)) { gradient(now, s_[turn], dp_[turn], i); });
      if (next.any()) score.make(beside), dp.make(beside);
      const bool finishes = made < until && until == sums && sums > 2 * width_ / kPanel;
      for (; made < until; ++made) sum(before, made).make(beside);
      beside.rest();
      if (finishes) add_dq(before);
      if (!now.any() || now.last()) {
        const bool tile_ends = next.tile != now.tile;
        before = now;
        made = 0;
        sums = now.any() ? width_ / kPanel * (2 + (tile_ends ? up_to_panels(rows_at(now.row)) / kPanel : 0)) : 0;
      }
      now = next, next = step_after(next);
    }
    put_out(keys, dk_, t_.shape.scale, t_.dk);
    put_out(keys, dv_, 1, t_.dv);
  }

  void pack_keys(std::int64_t keys, std::int64_t at) {
    pack_panels<Parts>(pack_b<Parts, float>, false, keys, e_, t_.k.row(key_) + at, t_.k.cols, k_);
    pack_panels<Parts>(pack_b<Parts, float>, false, keys, e_, t_.v.row(key_) + at, t_.v.cols, v_);
    pack_panels<Parts>(pack_b<Parts, float>, true, keys, e_, t_.k.row(key_) + at, t_.k.cols, k_transposed_);
    __builtin_memset(dk_, 0, static_cast<std::size_t>(kKeys * width_) * sizeof(float));
    __builtin_memset(dv_, 0, static_cast<std::size_t>(kKeys * width_) * sizeof(float));
  }
  // What the three visits of a turn need of their tiles of queries: packed for scores, transposed for sums, statistics.
  void make_ready(const Visit& next, const Visit& now, const Visit& before) {
    if (next.any() && packed_ != next.tile) {
      packed_ = next.tile;
      pack_queries(next, false, q_, dout_);
      const std::int64_t col = next.head * e_, after = next.row + kTileQueries;
      if (after < seen_until_)
        soon_ = {
            kTileQueries, e_, t_.q.cols, {t_.q.row(after) + col, t_.dout.row(after) + col, t_.dq.row(next.row) + col}};
    }
    if (before.any() && transposed_ != before.tile) {
      transposed_ = before.tile;
      pack_queries(before, true, q_transposed_, dout_transposed_);
    }
    if (now.any() && known_ != now.tile) {
      known_ = now.tile;
      find_stats(now);
    }
  }
  void pack_queries(const Visit& v, bool transposed, char* q, char* dout) {
    const std::int64_t col = v.head * e_;
    pack_panels<Parts>(pack_a<Parts>, transposed, rows_at(v.row), e_, t_.q.row(v.row) + col, t_.q.cols, q);
    pack_panels<Parts>(pack_a<Parts>, transposed, rows_at(v.row), e_, t_.dout.row(v.row) + col, t_.dout.cols, dout);
  }
  void find_stats(const Visit& v) {
    for (std::int64_t i = 0; i < kTileQueries; ++i) {  // a query that does not exist has no probabilities
      const bool exists = i < rows_at(v.row);
      stats_.lse[i] = exists ? t_.lse.row(v.row + i)[v.head] * kLog2e : __builtin_inff();
      stats_.dots[i] = exists ? t_.dots.row(v.row + i)[v.head] : 0;
    }
  }

  // Of a pair of queries of a panel and all 32 keys: parts of P and dS, the latter still to be scaled.
  [[gnu::noinline]] void gradient(const Visit& v, const float* s, const float* dp, std::int64_t i) {
    const Sight at = sight(v.row, v.panel, v.keys);
    const bool whole = at.whole();
    V p[2][2], ds[2][2];  // of both queries, keys 0 to 15 and 16 to 31
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r)
#pragma GCC unroll 2
      for (int c = 0; c < 2; ++c) {
        const std::int64_t query = first_step<Parts>(i) + r * kApart<Parts>, from = query * kPanel + c * W;
        V x = load(s + from), slope{};
        if (scores_.cap > 0) {
          const V t = scores_.tanh_of(x);
          x = scores_.cap * t;
          slope = 1.f - t * t;
        }
        V y = power_of_two<Parts>(x * scores_.unit - stats_.lse[v.panel * kPanel + query]);
        if (!whole) y = at.apply(lane_numbers() + static_cast<std::int32_t>(c * W - query), y, V{});
        p[r][c] = y;
        ds[r][c] = y * (load(dp + from) - stats_.dots[v.panel * kPanel + query]);
        if (scores_.cap > 0) ds[r][c] *= slope;
      }
    char *to_p = p_[v.number & 1] + panel_bytes<Parts>(v.panel * kPanel),
         *to_ds = ds_[v.number & 1] + panel_bytes<Parts>(v.panel * kPanel);
    char* rows = ds_rows_[v.tile & 1] + v.panel * panel_bytes<Parts>(kKeys) + panel_bytes<Parts>(v.keys * kPanel);
#pragma GCC unroll 2
    for (int c = 0; c < 2; ++c) {
      store_pairs<Parts>(to_p + c * kTileBytes, i, p[0][c], p[1][c]);
      store_pairs<Parts>(to_ds + c * kTileBytes, i, ds[0][c], ds[1][c]);
    }
#pragma GCC unroll 2
    for (int r = 0; r < 2; ++r) store_row<Parts>(rows, first_step<Parts>(i) + r * kApart<Parts>, ds[r][0], ds[r][1]);
  }

  // What a visit adds to dVᵀ and dKᵀ; of the last visit of a tile, also dq of what the tile's queries see of these
  // keys.
  Product<Parts> sum(const Visit& v, std::int64_t i) const {
    const std::int64_t e_panels = width_ / kPanel, column = i % e_panels,
                       from = panel_bytes<Parts>(v.seen.first * kPanel);
    const std::int64_t depth = v.seen.count() * kPanel, to = (v.keys * width_ + column * kPanel) * kPanel;
    const std::int64_t transposed = column * panel_bytes<Parts>(up_to_panels(rows_at(v.row))) + from;
    if (i < e_panels) return {depth, dout_transposed_ + transposed, p_[v.number & 1] + from, dv_ + to, true};
    if (i < 2 * e_panels) return {depth, q_transposed_ + transposed, ds_[v.number & 1] + from, dk_ + to, true};
    const std::int64_t panel = i / e_panels - 2;
    const PanelRange keys(key_panels_, [&](std::int64_t j) { return sight(v.row, panel, j); });
    const std::int64_t first = panel_bytes<Parts>(keys.first * kPanel);
    return {keys.count() * kPanel, ds_rows_[v.tile & 1] + panel * panel_bytes<Parts>(kKeys) + first,
            k_transposed_ + column * panel_bytes<Parts>(key_panels_ * kPanel) + first,
            dq_ + (panel * width_ + column * kPanel) * kPanel, false};
  }
  void add_dq(const Visit& v) {
    for (std::int64_t r = 0; r < rows_at(v.row); ++r)
      for (std::int64_t i = 0; i < e_; i += kPanel)
        avx512::table.add_scaled(dq_ + (r / kPanel * width_ + i + r % kPanel) * kPanel, t_.shape.scale,
                                 t_.dq.row(v.row + r) + v.head * e_ + i, e_ - i < kPanel ? e_ - i : kPanel);
  }

  void put_out(std::int64_t keys, const float* from, float scale, Mat to) {
    auto* transposed = reinterpret_cast<float*>(q_);
    for (std::int64_t j = 0; j < keys; j += kPanel) {
      avx512::table.transpose(e_, kPanel, from + j * width_, kPanel, scale, transposed, e_);
      for (std::int64_t r = j; r < keys && r < j + kPanel; ++r)
        __builtin_memcpy(to.row(key_ + r) + t_.kv * e_, transposed + (r - j) * e_,
                         static_cast<std::size_t>(e_) * sizeof(float));
    }
  }

  const AttentionKeys& t_;
  const std::int64_t e_ = t_.shape.head_dim, width_ = up_to_panels(e_), group_ = t_.shape.heads / t_.shape.kv_heads;
  const std::int64_t per_panel_ = panel_bytes<Parts>(width_);  // bytes
  std::int64_t key_ = 0, key_panels_ = 0, seen_until_ = 0;     // of the run of keys at hand
  std::int64_t packed_ = -1, transposed_ = -1, known_ = -1;    // tiles of queries: what is ready of which
  char *k_, *v_, *k_transposed_, *q_, *dout_, *q_transposed_, *dout_transposed_;
  float *dk_, *dv_, *dq_;  // dKᵀ and dVᵀ of every panel of keys (width, 32); dq of every panel of queries, by blocks
  float *s_[2], *dp_[2];   // blocks, by turns
  char *p_[2], *ds_[2], *ds_rows_[2];  // parts of P and dS by visits, of dS for dq by tiles
  Stats stats_;
  const Scores scores_{t_.shape};
  Rows<3, kLinesOfStep<Parts>> soon_;
};
template <int Parts>
void attention_keys(const AttentionKeys& task) {
  KeysOnTiles<Parts>(task).run();
}
