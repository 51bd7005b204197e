// Helpers for packing, common to all register blocks.

// Of two vectors cut into runs of Step lanes: their even runs interleaved, or their odd ones.
template <int Step, bool Odd, int... Lane>
DML_INLINE V alternate(V low, V high, std::integer_sequence<int, Lane...>) {
  return __builtin_shuffle(low, high, VI{((Lane & Step ? W - Step : 0) + (Odd ? Step : 0) + Lane)...});
}
template <int Step>
DML_INLINE void turn_round(V (&x)[W]) {
#pragma GCC unroll 16
  for (int i = 0; i < W; ++i)
    if ((i & Step) == 0) {
      V low = x[i], high = x[i + Step];
      x[i] = alternate<Step, false>(low, high, std::make_integer_sequence<int, W>{});
      x[i + Step] = alternate<Step, true>(low, high, std::make_integer_sequence<int, W>{});
    }
}
// W × W values transposed in registers: in every round, pairs of vectors swap the halves of a coarser grid.
DML_INLINE void turn(V (&x)[W]) {
  if constexpr (W > 8) turn_round<8>(x);
  if constexpr (W > 4) turn_round<4>(x);
  turn_round<2>(x);
  turn_round<1>(x);
}

// Prefetches cache lines a few at a time: many at once would occupy the buffers that the inner loop's loads need.
class Fetch {
 public:
  // Divides the lines of `ahead` among `blocks` register blocks; a call of some() prefetches up to `at_once` lines.
  Fetch(PrefetchRange ahead, std::int64_t blocks, std::int64_t at_once = 1) : ahead_(ahead), at_once_(at_once) {
    std::int64_t lines = ahead.rows * ((ahead.width + kLine - 1) / kLine);
    each_ = (lines + blocks - 1) / blocks;
  }
  static constexpr std::int64_t kLine = 64;  // bytes

  DML_INLINE void begin_block() { left_ = each_; }
  DML_INLINE void some() {
    for (std::int64_t i = 0; i < at_once_ && left_ > 0 && row_ < ahead_.rows; ++i) {
      --left_;
      __builtin_prefetch(ahead_.data + at_, 0, 2);
      at_ += kLine;
      if (at_ >= ahead_.width) at_ = 0, ahead_.data += ahead_.stride, ++row_;
    }
  }

 private:
  PrefetchRange ahead_;
  std::int64_t at_once_, each_, left_ = 0, row_ = 0, at_ = 0;
};
