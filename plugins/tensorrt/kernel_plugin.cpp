#include "kernel_plugin.h"

#include <new>

namespace cpspec {

using namespace nvinfer1;

namespace {

bool holds(Holds expected, DataType type) {
    switch (expected) {
        case Holds::any_float:
            return type == DataType::kFLOAT || type == DataType::kHALF || type == DataType::kBF16;
        case Holds::float32: return type == DataType::kFLOAT;
        case Holds::int32: return type == DataType::kINT32;
        case Holds::int64: return type == DataType::kINT64;
    }
    return false;
}

DataType type_of(Holds expected) {
    return expected == Holds::int64 ? DataType::kINT64 : expected == Holds::int32 ? DataType::kINT32 : DataType::kFLOAT;
}

}  // namespace

cpspec_dtype Call::dtype(int tensor) const {
    const DataType type = inputs[tensor].type;
    return type == DataType::kHALF ? CPSPEC_FLOAT16 : type == DataType::kBF16 ? CPSPEC_BFLOAT16 : CPSPEC_FLOAT32;
}

IPluginCapability* KernelPlugin::getCapabilityInterface(PluginCapabilityType type) noexcept {
    switch (type) {
        case PluginCapabilityType::kCORE: return static_cast<IPluginV3OneCore*>(this);
        case PluginCapabilityType::kBUILD: return static_cast<IPluginV3OneBuild*>(this);
        case PluginCapabilityType::kRUNTIME: return static_cast<IPluginV3OneRuntime*>(this);
    }
    return nullptr;
}

IPluginV3* KernelPlugin::clone() noexcept { return new (std::nothrow) KernelPlugin(spec_, run_, workspace_); }

bool KernelPlugin::supportsFormatCombination(int32_t position, const DynamicPluginTensorDesc* tensors, int32_t inputs,
                                             int32_t outputs) noexcept {
    if (inputs != int32_t(spec_.inputs.size()) || outputs != int32_t(spec_.outputs.size())) return false;
    const PluginTensorDesc& tensor = tensors[position].desc;
    const TensorSpec& expected = position < inputs ? spec_.inputs[position] : spec_.outputs[position - inputs];
    return tensor.format == PluginFormat::kLINEAR && holds(expected.holds, tensor.type);
}

int32_t KernelPlugin::getOutputDataTypes(DataType* types, int32_t outputs, const DataType*, int32_t) const noexcept {
    for (int32_t output = 0; output < outputs; ++output) types[output] = type_of(spec_.outputs[output].holds);
    return 0;
}

int32_t KernelPlugin::getOutputShapes(const DimsExprs* shapes, int32_t inputs, const DimsExprs*, int32_t,
                                      DimsExprs* output_shapes, int32_t outputs, IExprBuilder&) noexcept {
    if (inputs != int32_t(spec_.inputs.size())) return -1;
    for (int32_t input = 0; input < inputs; ++input)
        if (shapes[input].nbDims != int32_t(spec_.inputs[input].sizes.size())) return -1;
    for (int32_t output = 0; output < outputs; ++output) {
        const std::vector<SizeOf>& sizes = spec_.outputs[output].sizes;
        output_shapes[output].nbDims = int32_t(sizes.size());
        for (size_t d = 0; d < sizes.size(); ++d)
            output_shapes[output].d[d] = shapes[sizes[d].input].d[sizes[d].dimension];
    }
    return 0;
}

int32_t KernelPlugin::enqueue(const PluginTensorDesc* input_descriptions, const PluginTensorDesc*,
                              const void* const* inputs, void* const* outputs, void* workspace,
                              cudaStream_t stream) noexcept {
    return int32_t(run_(Call{input_descriptions, inputs, outputs, workspace, stream}));
}

}  // namespace cpspec
