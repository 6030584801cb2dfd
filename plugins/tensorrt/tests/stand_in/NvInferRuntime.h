// A stand-in for the part of TensorRT's NvInferRuntime.h that the adapter touches, written from its documentation
// (TensorRT 10). It lets the adapter be compiled and its layers be called where the vendor's headers are not to be had.
// It proves nothing about TensorRT itself: only that the adapter is C++ and carries tensors to the right arguments.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>

#ifdef __CUDACC__
#include <cuda_runtime_api.h>
#else
using cudaStream_t = void*;
#endif

namespace nvinfer1 {

enum class DataType : int32_t { kFLOAT = 0, kHALF = 1, kINT8 = 2, kINT32 = 3, kBOOL = 4, kBF16 = 7, kINT64 = 8 };
enum class TensorFormat : int32_t { kLINEAR = 0, kCHW2 = 1 };
using PluginFormat = TensorFormat;
enum class PluginCapabilityType : int32_t { kCORE = 0, kBUILD = 1, kRUNTIME = 2 };
enum class TensorRTPhase : int32_t { kBUILD = 0, kRUNTIME = 1 };

struct Dims64 {
    int32_t nbDims;
    int64_t d[8];
};
using Dims = Dims64;

struct PluginTensorDesc {
    Dims dims;
    DataType type;
    TensorFormat format;
    float scale;
};

struct DynamicPluginTensorDesc {
    PluginTensorDesc desc;
    Dims min, max, opt;
};

class IDimensionExpr {};
class IExprBuilder {};
struct DimsExprs {
    int32_t nbDims;
    const IDimensionExpr* d[8];
};

struct PluginField;
struct PluginFieldCollection {
    int32_t nbFields;
    const PluginField* fields;
};

class IPluginResourceContext;

class IVersionedInterface {
public:
    virtual ~IVersionedInterface() noexcept = default;
};

class IPluginCapability : public IVersionedInterface {};

class IPluginV3 : public IVersionedInterface {
public:
    virtual IPluginCapability* getCapabilityInterface(PluginCapabilityType type) noexcept = 0;
    virtual IPluginV3* clone() noexcept = 0;
};

class IPluginV3OneCore : public IPluginCapability {
public:
    virtual const char* getPluginName() const noexcept = 0;
    virtual const char* getPluginVersion() const noexcept = 0;
    virtual const char* getPluginNamespace() const noexcept = 0;
};

class IPluginV3OneBuild : public IPluginCapability {
public:
    virtual int32_t configurePlugin(const DynamicPluginTensorDesc*, int32_t, const DynamicPluginTensorDesc*,
                                    int32_t) noexcept = 0;
    virtual int32_t getOutputDataTypes(DataType*, int32_t, const DataType*, int32_t) const noexcept = 0;
    virtual int32_t getOutputShapes(const DimsExprs*, int32_t, const DimsExprs*, int32_t, DimsExprs*, int32_t,
                                    IExprBuilder&) noexcept = 0;
    virtual bool supportsFormatCombination(int32_t, const DynamicPluginTensorDesc*, int32_t, int32_t) noexcept = 0;
    virtual int32_t getNbOutputs() const noexcept = 0;
    // Names parameters that it does not use, as the vendor's headers do.
    virtual size_t getWorkspaceSize(const DynamicPluginTensorDesc* inputs, int32_t input_count,
                                    const DynamicPluginTensorDesc* outputs, int32_t output_count) const noexcept {
        return 0;
    }
};

class IPluginV3OneRuntime : public IPluginCapability {
public:
    virtual int32_t onShapeChange(const PluginTensorDesc*, int32_t, const PluginTensorDesc*, int32_t) noexcept = 0;
    virtual int32_t enqueue(const PluginTensorDesc*, const PluginTensorDesc*, const void* const*, void* const*, void*,
                            cudaStream_t) noexcept = 0;
    virtual IPluginV3* attachToContext(IPluginResourceContext*) noexcept = 0;
    virtual const PluginFieldCollection* getFieldsToSerialize() noexcept = 0;
};

class IPluginCreatorV3One : public IVersionedInterface {
public:
    virtual IPluginV3* createPlugin(const char*, const PluginFieldCollection*, TensorRTPhase) noexcept = 0;
    virtual const PluginFieldCollection* getFieldNames() noexcept = 0;
    virtual const char* getPluginName() const noexcept = 0;
    virtual const char* getPluginVersion() const noexcept = 0;
    virtual const char* getPluginNamespace() const noexcept = 0;
};

// By namespace and name.
inline std::map<std::pair<std::string, std::string>, IPluginCreatorV3One*>& stand_in_registry() {
    static std::map<std::pair<std::string, std::string>, IPluginCreatorV3One*> creators;
    return creators;
}

template <class Creator>
struct StandInRegistrar {
    StandInRegistrar() { stand_in_registry()[{"", creator.getPluginName()}] = &creator; }
    Creator creator;
};

}  // namespace nvinfer1

#define REGISTER_TENSORRT_PLUGIN(name) static nvinfer1::StandInRegistrar<name> registrar_of_##name
