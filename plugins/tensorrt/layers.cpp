// The layers: CpspecDraft, CpspecScore and CpspecAccept, and their registration.
//
//   draft   hidden [M, W], heads [N, V, W], hidden_rows, head_rows [R], temperature, top_k, top_p [R],
//           seeds, streams, frames [R]  ->  logits, probabilities [R, V], codes, errors [R]
//   score   the same without seeds, streams and frames  ->  logits, probabilities [R, V], errors [R]
//   accept  target [sum(counts + 1), V], draft [sum(counts), V], drafts [sum(counts)], counts, last, seeds, frames [A]
//           ->  accepted, codes [A]
#include <new>

#include "../cuda/launch.h"
#include "kernel_plugin.h"

namespace cpspec {
namespace {

using namespace nvinfer1;

enum HeadInput { kHidden, kHeads, kHiddenRows, kHeadRows, kTemperature, kTopK, kTopP, kSeeds, kStreams, kFrames };

const SizeOf kRows{kHiddenRows, 0}, kVocabulary{kHeads, 1};

TensorSpec vector_of(Holds holds) { return {holds, {{0, 0}}}; }
TensorSpec matrix_of(Holds holds) { return {holds, {{0, 0}, {0, 1}}}; }
TensorSpec per_row(Holds holds) { return {holds, {kRows}}; }
TensorSpec per_row_and_code() { return {Holds::float32, {kRows, kVocabulary}}; }

const TensorSpec kHeadsTensor{Holds::any_float, {{0, 0}, {0, 1}, {0, 2}}};

const LayerSpec kDraft{"CpspecDraft",
                       {matrix_of(Holds::any_float), kHeadsTensor, vector_of(Holds::int64), vector_of(Holds::int64),
                        vector_of(Holds::float32), vector_of(Holds::int32), vector_of(Holds::float32),
                        vector_of(Holds::int64), vector_of(Holds::int32), vector_of(Holds::int32)},
                       {per_row_and_code(), per_row_and_code(), per_row(Holds::int64), per_row(Holds::int32)}};

const LayerSpec kScore{"CpspecScore",
                       {matrix_of(Holds::any_float), kHeadsTensor, vector_of(Holds::int64), vector_of(Holds::int64),
                        vector_of(Holds::float32), vector_of(Holds::int32), vector_of(Holds::float32)},
                       {per_row_and_code(), per_row_and_code(), per_row(Holds::int32)}};

enum AcceptInput { kTarget, kDraftLaw, kDrafts, kCounts, kLast, kAcceptSeeds, kAcceptFrames };

const LayerSpec kAccept{"CpspecAccept",
                        {matrix_of(Holds::float32), matrix_of(Holds::float32), vector_of(Holds::int64),
                         vector_of(Holds::int64), vector_of(Holds::int64), vector_of(Holds::int64),
                         vector_of(Holds::int32)},
                        {{Holds::int64, {{kCounts, 0}}}, {Holds::int64, {{kCounts, 0}}}}};

cpspec_heads heads_of(const Call& call) {
    return {call.in<void>(kHeads), call.dtype(kHeads), call.size(kHeads, 0), call.size(kHeads, 1),
            call.size(kHeads, 2)};
}

cpspec_head_rows rows_of(const Call& call) {
    return {call.in<void>(kHidden),         call.dtype(kHidden),          call.size(kHidden, 0),
            call.in<int64_t>(kHiddenRows), call.in<int64_t>(kHeadRows), call.size(kHiddenRows, 0)};
}

cpspec_filter_rows filters_of(const Call& call) {
    return {call.in<float>(kTemperature), call.in<int32_t>(kTopK), call.in<float>(kTopP)};
}

size_t arrivals_bytes(const DynamicPluginTensorDesc* inputs) {
    return size_t(inputs[kHiddenRows].max.d[0]) * sizeof(uint32_t);
}

size_t nothing(const DynamicPluginTensorDesc*) { return 0; }

// TensorRT's workspace holds anything, so the counters are cleared in every call.
cpspec_status clear_arrivals(const Call& call) {
    return clear("arrivals", call.workspace, size_t(call.size(kHiddenRows, 0)) * sizeof(uint32_t), call.stream);
}

cpspec_status run_draft(const Call& call) {
    const cpspec_heads heads = heads_of(call);
    const cpspec_head_rows rows = rows_of(call);
    const cpspec_filter_rows filters = filters_of(call);
    const cpspec_noise_rows noise{call.in<uint64_t>(kSeeds), call.in<uint32_t>(kStreams), call.in<uint32_t>(kFrames)};
    CPSPEC_CHECK(clear_arrivals(call));
    return cpspec_draft(&heads, &rows, &filters, &noise, call.out<float>(0), static_cast<uint32_t*>(call.workspace),
                        call.out<float>(1), call.out<int64_t>(2), call.out<int32_t>(3), call.stream);
}

cpspec_status run_score(const Call& call) {
    const cpspec_heads heads = heads_of(call);
    const cpspec_head_rows rows = rows_of(call);
    const cpspec_filter_rows filters = filters_of(call);
    CPSPEC_CHECK(clear_arrivals(call));
    return cpspec_score(&heads, &rows, &filters, call.out<float>(0), static_cast<uint32_t*>(call.workspace),
                        call.out<float>(1), call.out<int32_t>(2), call.stream);
}

cpspec_status run_accept(const Call& call) {
    const cpspec_drafts drafts{nullptr, call.in<int64_t>(kCounts), call.in<int64_t>(kDrafts), call.size(kCounts, 0)};
    return cpspec_accept_rejection(call.in<float>(kTarget), call.in<float>(kDraftLaw), call.size(kTarget, 1), &drafts,
                                   call.in<int64_t>(kLast), call.in<uint64_t>(kAcceptSeeds),
                                   call.in<uint32_t>(kAcceptFrames), call.out<int64_t>(0), call.out<int64_t>(1),
                                   call.stream);
}

// Makes the layer of its operation; there is nothing to configure and nothing to serialise.
template <const LayerSpec& kSpec, KernelPlugin::Run kRun, KernelPlugin::Workspace kWorkspace>
class Creator : public IPluginCreatorV3One {
public:
    IPluginV3* createPlugin(const char*, const PluginFieldCollection*, TensorRTPhase) noexcept override {
        return new (std::nothrow) KernelPlugin(kSpec, kRun, kWorkspace);
    }
    const PluginFieldCollection* getFieldNames() noexcept override { return &no_fields_; }
    const char* getPluginName() const noexcept override { return kSpec.name; }
    const char* getPluginVersion() const noexcept override { return "1"; }
    const char* getPluginNamespace() const noexcept override { return kNamespace; }

private:
    PluginFieldCollection no_fields_{0, nullptr};
};

using DraftCreator = Creator<kDraft, run_draft, arrivals_bytes>;
using ScoreCreator = Creator<kScore, run_score, arrivals_bytes>;
using AcceptCreator = Creator<kAccept, run_accept, nothing>;

REGISTER_TENSORRT_PLUGIN(DraftCreator);
REGISTER_TENSORRT_PLUGIN(ScoreCreator);
REGISTER_TENSORRT_PLUGIN(AcceptCreator);

}  // namespace
}  // namespace cpspec
