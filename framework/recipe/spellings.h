// How a recipe spells the values of enumerations.
#pragma once

#include <optional>
#include <string_view>

#include "core/dtype.h"
#include "core/placement.h"
#include "recipe/choices.h"

namespace dml::recipe {

/// A spelling of an enumeration's value; the first row of a value is how dml writes it. `notice` is printed if a recipe
/// uses the spelling.
template <class E>
struct EnumRow {
  const char* spelling;
  E value;
  const char* notice = nullptr;
};
template <class E>
inline constexpr EnumRow<E> kEnumRows[] = {};  // every enumeration of a recipe has its own
template <>
inline constexpr EnumRow<AdapterKind> kEnumRows<AdapterKind>[] = {
    {"none", AdapterKind::none}, {"lora", AdapterKind::lora}, {"qlora", AdapterKind::qlora}};
template <>
inline constexpr EnumRow<LoraInit> kEnumRows<LoraInit>[] = {
    {"true", LoraInit::kaiming},
    {"gaussian", LoraInit::gaussian},
    {"pissa", LoraInit::pissa},
    {"pissa_niter_4", LoraInit::pissa, "dml computes PiSSA exactly"},
    {"pissa_niter_16", LoraInit::pissa, "dml computes PiSSA exactly"},
    {"olora", LoraInit::olora},
    {"loftq", LoraInit::loftq},
    {"false", LoraInit::random}};
template <>
inline constexpr EnumRow<ExcessLength> kEnumRows<ExcessLength>[] = {{"drop", ExcessLength::drop},
                                                                    {"truncate", ExcessLength::truncate},
                                                                    {"raise", ExcessLength::raise},
                                                                    {"split_turns", ExcessLength::split_turns}};
template <>
inline constexpr EnumRow<BadRow> kEnumRows<BadRow>[] = {{"error", BadRow::error}, {"skip", BadRow::skip}};
template <>
inline constexpr EnumRow<TrainOnEnd> kEnumRows<TrainOnEnd>[] = {
    {"none", TrainOnEnd::none}, {"turn", TrainOnEnd::turn}, {"last", TrainOnEnd::last}, {"all", TrainOnEnd::all}};
template <>
inline constexpr EnumRow<Recompute> kEnumRows<Recompute>[] = {
    {"false", Recompute::none},
    {"true", Recompute::layer},
    {"mlp", Recompute::mlp},
    {"offload", Recompute::layer, "offload: on a CPU there is nothing to offload to; same as 'true'"},
    {"offload_disk", Recompute::layer, "offload_disk: same as 'true'"}};
template <>
inline constexpr EnumRow<DType> kEnumRows<DType>[] = {{"f32", DType::f32}, {"bf16", DType::bf16}};
template <>
inline constexpr EnumRow<std::optional<DType>> kEnumRows<std::optional<DType>>[] = {
    {"auto", std::nullopt}, {"f32", DType::f32}, {"bf16", DType::bf16}};
template <>
inline constexpr EnumRow<Bf16> kEnumRows<Bf16>[] = {{"false", Bf16::off},
                                                    {"true", Bf16::on},
                                                    {"auto", Bf16::automatic},
                                                    {"full", Bf16::on,
                                                     "full: weights and optimizer state stay float32, same as 'true'; "
                                                     "bf16_weights: stochastic rounds weights as well"}};
template <>
inline constexpr EnumRow<ThreadAffinity> kEnumRows<ThreadAffinity>[] = {
    {"auto", ThreadAffinity::automatic}, {"close", ThreadAffinity::close}, {"none", ThreadAffinity::none}};
template <>
inline constexpr EnumRow<Rl> kEnumRows<Rl>[] = {
    {"none", Rl::none},
    {"dpo", Rl::dpo},
    {"ipo", Rl::ipo, "rl: ipo is mapped to rl: dpo with dpo_loss_type: [ipo]"},
    {"orpo", Rl::orpo},
    {"simpo", Rl::simpo},
    {"cpo", Rl::cpo},
    {"kto", Rl::kto},
    {"grpo", Rl::grpo},
    {"gdpo", Rl::gdpo, "rl: gdpo is mapped to rl: grpo with trl.multi_objective_aggregation: normalize_then_sum"}};
template <>
inline constexpr EnumRow<Bf16Weights> kEnumRows<Bf16Weights>[] = {
    {"false", Bf16Weights::off}, {"kahan", Bf16Weights::kahan}, {"stochastic", Bf16Weights::stochastic}};
template <>
inline constexpr EnumRow<IntervalStrategy> kEnumRows<IntervalStrategy>[] = {
    {"auto", IntervalStrategy::automatic}, {"no", IntervalStrategy::never},    {"false", IntervalStrategy::never},
    {"steps", IntervalStrategy::steps},    {"epoch", IntervalStrategy::epoch}, {"best", IntervalStrategy::best}};
template <>
inline constexpr EnumRow<ReloraPrune> kEnumRows<ReloraPrune>[] = {
    {"magnitude", ReloraPrune::magnitude}, {"random", ReloraPrune::random}, {"reset", ReloraPrune::reset}};
template <>
inline constexpr EnumRow<FDivergence> kEnumRows<FDivergence>[] = {{"reverse_kl", FDivergence::reverse_kl},
                                                                  {"forward_kl", FDivergence::forward_kl},
                                                                  {"js_divergence", FDivergence::js_divergence},
                                                                  {"alpha_divergence", FDivergence::alpha_divergence}};
template <>
inline constexpr EnumRow<KtoLoss> kEnumRows<KtoLoss>[] = {{"kto", KtoLoss::kto},
                                                          {"apo_zero_unpaired", KtoLoss::apo_zero_unpaired}};
template <>
inline constexpr EnumRow<PolicyLoss> kEnumRows<PolicyLoss>[] = {{"dapo", PolicyLoss::dapo},
                                                                {"grpo", PolicyLoss::grpo},
                                                                {"dr_grpo", PolicyLoss::dr_grpo},
                                                                {"bnpo", PolicyLoss::bnpo}};
template <>
inline constexpr EnumRow<RatioLevel> kEnumRows<RatioLevel>[] = {{"token", RatioLevel::token},
                                                                {"sequence", RatioLevel::sequence}};
template <>
inline constexpr EnumRow<AdvantageScale> kEnumRows<AdvantageScale>[] = {{"group", AdvantageScale::group},
                                                                        {"true", AdvantageScale::group},
                                                                        {"batch", AdvantageScale::batch},
                                                                        {"none", AdvantageScale::none},
                                                                        {"false", AdvantageScale::none}};
template <>
inline constexpr EnumRow<RewardAggregation> kEnumRows<RewardAggregation>[] = {
    {"sum_then_normalize", RewardAggregation::sum_then_normalize},
    {"normalize_then_sum", RewardAggregation::normalize_then_sum}};
template <>
inline constexpr EnumRow<HubStrategy> kEnumRows<HubStrategy>[] = {{"end", HubStrategy::end},
                                                                  {"every_save", HubStrategy::every_save},
                                                                  {"checkpoint", HubStrategy::checkpoint},
                                                                  {"all_checkpoints", HubStrategy::all_checkpoints}};

/// How dml writes a value.
template <class E>
constexpr std::string_view spelling_of(E value) {
  for (const auto& row : kEnumRows<E>)
    if (row.value == value) return row.spelling;
  return "";
}

}  // namespace dml::recipe
