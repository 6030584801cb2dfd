// One TensorRT layer per operation of the C interface: what the three layers have in common.
//
// TensorRT has no unsigned tensors: seeds (uint64), streams and frames (uint32) arrive as int64 and int32 with the same
// bits. Every tensor is linear. Ids out of range count as absent, as in every call of the CUDA library.
#pragma once

#include <NvInferRuntime.h>

#include <vector>

#include "cpspec/kernels.h"

namespace cpspec {

// What a tensor may hold: one type, or any float type of the interface.
enum class Holds { any_float, float32, int32, int64 };

// Where REGISTER_TENSORRT_PLUGIN puts a creator. An engine looks for it under the namespace that the layer states.
constexpr const char* kNamespace = "";

// A tensor of a layer: what it holds, and its sizes. Each size of an output is a size of an input.
struct SizeOf {
    int input, dimension;
};
struct TensorSpec {
    Holds holds;
    std::vector<SizeOf> sizes;  // of an output; an input has only its rank, which is this list's length
};

struct LayerSpec {
    const char* name;
    std::vector<TensorSpec> inputs, outputs;
};

// The tensors of one call.
struct Call {
    const nvinfer1::PluginTensorDesc* inputs;
    const void* const* input;
    void* const* output;
    void* workspace;
    cpspec_stream stream;

    int64_t size(int tensor, int dimension) const { return inputs[tensor].dims.d[dimension]; }
    template <class Element>
    const Element* in(int tensor) const { return static_cast<const Element*>(input[tensor]); }
    template <class Element>
    Element* out(int tensor) const { return static_cast<Element*>(output[tensor]); }
    cpspec_dtype dtype(int tensor) const;
};

class KernelPlugin : public nvinfer1::IPluginV3,
                     public nvinfer1::IPluginV3OneCore,
                     public nvinfer1::IPluginV3OneBuild,
                     public nvinfer1::IPluginV3OneRuntime {
public:
    using Run = cpspec_status (*)(const Call& call);
    using Workspace = size_t (*)(const nvinfer1::DynamicPluginTensorDesc* inputs);

    KernelPlugin(const LayerSpec& spec, Run run, Workspace workspace) : spec_(spec), run_(run), workspace_(workspace) {}

    nvinfer1::IPluginCapability* getCapabilityInterface(nvinfer1::PluginCapabilityType type) noexcept override;
    nvinfer1::IPluginV3* clone() noexcept override;

    const char* getPluginName() const noexcept override { return spec_.name; }
    const char* getPluginVersion() const noexcept override { return "1"; }
    const char* getPluginNamespace() const noexcept override { return kNamespace; }

    int32_t getNbOutputs() const noexcept override { return int32_t(spec_.outputs.size()); }
    int32_t configurePlugin(const nvinfer1::DynamicPluginTensorDesc*, int32_t, const nvinfer1::DynamicPluginTensorDesc*,
                            int32_t) noexcept override { return 0; }
    bool supportsFormatCombination(int32_t position, const nvinfer1::DynamicPluginTensorDesc* tensors, int32_t inputs,
                                   int32_t outputs) noexcept override;
    int32_t getOutputDataTypes(nvinfer1::DataType* types, int32_t outputs, const nvinfer1::DataType* input_types,
                               int32_t inputs) const noexcept override;
    int32_t getOutputShapes(const nvinfer1::DimsExprs* shapes, int32_t inputs, const nvinfer1::DimsExprs* shape_inputs,
                            int32_t shape_input_count, nvinfer1::DimsExprs* output_shapes, int32_t outputs,
                            nvinfer1::IExprBuilder& builder) noexcept override;
    size_t getWorkspaceSize(const nvinfer1::DynamicPluginTensorDesc* inputs, int32_t,
                            const nvinfer1::DynamicPluginTensorDesc*, int32_t) const noexcept override {
        return workspace_(inputs);
    }

    int32_t onShapeChange(const nvinfer1::PluginTensorDesc*, int32_t, const nvinfer1::PluginTensorDesc*,
                          int32_t) noexcept override { return 0; }
    int32_t enqueue(const nvinfer1::PluginTensorDesc* input_descriptions, const nvinfer1::PluginTensorDesc*,
                    const void* const* inputs, void* const* outputs, void* workspace,
                    cudaStream_t stream) noexcept override;
    nvinfer1::IPluginV3* attachToContext(nvinfer1::IPluginResourceContext*) noexcept override { return clone(); }
    const nvinfer1::PluginFieldCollection* getFieldsToSerialize() noexcept override { return &no_fields_; }

private:
    const LayerSpec& spec_;
    Run run_;
    Workspace workspace_;
    nvinfer1::PluginFieldCollection no_fields_{0, nullptr};
};

}  // namespace cpspec
