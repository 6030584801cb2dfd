// Takes a layer through the calls that TensorRT makes: create, describe, clone, size the workspace, enqueue.
#include <NvInferRuntime.h>

#include <cstring>
#include <memory>
#include <vector>

#include "cpspec/kernels.h"

using namespace nvinfer1;

namespace {

struct Tensor {
    void* data;
    const int64_t* shape;
    int32_t rank;
    int32_t type;
};

PluginTensorDesc description_of(const Tensor& tensor) {
    PluginTensorDesc description{};
    description.dims.nbDims = tensor.rank;
    for (int32_t d = 0; d < tensor.rank; ++d) description.dims.d[d] = tensor.shape[d];
    description.type = static_cast<DataType>(tensor.type);
    description.format = TensorFormat::kLINEAR;
    return description;
}

// Symbolic sizes are the addresses of these.
struct Symbols {
    std::vector<std::vector<IDimensionExpr>> of_inputs;
    std::vector<DimsExprs> shapes;

    explicit Symbols(const std::vector<Tensor>& inputs) {
        for (const Tensor& input : inputs) of_inputs.emplace_back(size_t(input.rank));
        for (size_t i = 0; i < inputs.size(); ++i) {
            DimsExprs shape{};
            shape.nbDims = inputs[i].rank;
            for (int32_t d = 0; d < inputs[i].rank; ++d) shape.d[d] = &of_inputs[i][size_t(d)];
            shapes.push_back(shape);
        }
    }

    int64_t value(const IDimensionExpr* symbol, const std::vector<Tensor>& inputs) const {
        for (size_t i = 0; i < inputs.size(); ++i)
            for (size_t d = 0; d < of_inputs[i].size(); ++d)
                if (&of_inputs[i][d] == symbol) return inputs[i].shape[d];
        return -1;
    }
};

}  // namespace

// 0 when the layer ran; otherwise the number of the step that refused. `tensors` are the inputs, then the outputs.
extern "C" CPSPEC_API int32_t simulate_layer(const char* name, const Tensor* tensors, int32_t inputs, int32_t outputs) {
    const auto creator = stand_in_registry().find({"", name});
    if (creator == stand_in_registry().end()) return 1;
    const std::vector<Tensor> ins(tensors, tensors + inputs), outs(tensors + inputs, tensors + inputs + outputs);
    std::unique_ptr<IPluginV3> made(creator->second->createPlugin("layer", nullptr, TensorRTPhase::kBUILD));
    auto* core = static_cast<IPluginV3OneCore*>(made->getCapabilityInterface(PluginCapabilityType::kCORE));
    auto* build = static_cast<IPluginV3OneBuild*>(made->getCapabilityInterface(PluginCapabilityType::kBUILD));
    if (std::strcmp(core->getPluginName(), name) != 0 || build->getNbOutputs() != outputs) return 2;
    // What an engine that is read again looks for.
    if (stand_in_registry().find({core->getPluginNamespace(), core->getPluginName()}) != creator) return 9;

    std::vector<DynamicPluginTensorDesc> all;
    for (int32_t i = 0; i < inputs + outputs; ++i) {
        const PluginTensorDesc description = description_of(tensors[i]);
        all.push_back({description, description.dims, description.dims, description.dims});
    }
    for (int32_t i = 0; i < inputs + outputs; ++i)
        if (!build->supportsFormatCombination(i, all.data(), inputs, outputs)) return 3;
    std::vector<DataType> types(static_cast<size_t>(outputs));
    if (build->getOutputDataTypes(types.data(), outputs, nullptr, inputs)) return 4;
    const Symbols symbols(ins);
    std::vector<DimsExprs> shapes(static_cast<size_t>(outputs));
    IExprBuilder expressions;
    if (build->getOutputShapes(symbols.shapes.data(), inputs, nullptr, 0, shapes.data(), outputs, expressions))
        return 5;
    for (size_t o = 0; o < outs.size(); ++o) {
        if (types[o] != static_cast<DataType>(outs[o].type) || shapes[o].nbDims != outs[o].rank) return 6;
        for (int32_t d = 0; d < outs[o].rank; ++d)
            if (symbols.value(shapes[o].d[d], ins) != outs[o].shape[d]) return 7;
    }

    std::unique_ptr<IPluginV3> placed(made->clone());
    auto* runtime = static_cast<IPluginV3OneRuntime*>(placed->getCapabilityInterface(PluginCapabilityType::kRUNTIME));
    const size_t workspace_bytes = build->getWorkspaceSize(all.data(), inputs, all.data() + inputs, outputs);
    std::vector<char> workspace(workspace_bytes + 1, char(0x5a));
    std::vector<PluginTensorDesc> descriptions;
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Tensor& tensor : ins) {
        descriptions.push_back(description_of(tensor));
        in.push_back(tensor.data);
    }
    for (const Tensor& tensor : outs) out.push_back(tensor.data);
    const int32_t status =
        runtime->enqueue(descriptions.data(), nullptr, in.data(), out.data(), workspace.data(), nullptr);
    if (workspace.back() != char(0x5a)) return 8;
    return status == CPSPEC_OK ? 0 : 100 + status;
}
