// Attributes, ids and contexts of streams. An attribute is kept by value with its stream; for streams without
// a handle (0, 1, 2), with their device or thread. LH, LH FS base, any thread.
#include <atomic>
#include <cstring>
#include <optional>
#include <vector>

#include "interpose/cuda/lower/contexts.h"
#include "interpose/cuda/lower/devices.h"
#include "interpose/cuda/lower/names.h"
#include "interpose/cuda/lower/real.h"

using namespace cropdl::cuda;

namespace {

constexpr uint64_t kStreamAttribute = 0x3f5a'61b7'0c2d'94e1;  // kind of state: any number that no other has

static_assert(sizeof(cudaLaunchAttributeValue) == sizeof(CUstreamAttrValue));

bool own_default(uint64_t word, bool own) {
  return word == reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD) || (own && word == 0);
}

// Attributes that were ever set, and the one that a stream is made with: a copy can change no others.
std::atomic<uint64_t> ever_set{uint64_t{1} << CU_STREAM_ATTRIBUTE_PRIORITY};
void was_set(int32_t attribute) {
  if (attribute >= 0 && attribute < 64) ever_set |= uint64_t{1} << attribute;
}

// The bytes of the union that the attribute has. The program may leave anything in the others.
size_t bytes_of(int32_t attribute) {
  switch (attribute) {
    case CU_STREAM_ATTRIBUTE_ACCESS_POLICY_WINDOW:
      return offsetof(CUaccessPolicyWindow, missProp) + sizeof(CUaccessPolicyWindow::missProp);
    case CU_STREAM_ATTRIBUTE_SYNCHRONIZATION_POLICY:
      return sizeof(CUsynchronizationPolicy);
    case CU_STREAM_ATTRIBUTE_PRIORITY:
      return sizeof(int);
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
      return sizeof(CUlaunchMemSyncDomainMap);
    case CU_STREAM_ATTRIBUTE_MEM_SYNC_DOMAIN:
      return sizeof(CUlaunchMemSyncDomain);
    default:
      return sizeof(CUstreamAttrValue);
  }
}

// `own`: stream 0 is the thread's own default stream.
void keep_attribute(uint64_t stream, bool own, int32_t attribute, const void* value) {
  was_set(attribute);
  const bool of_thread = own_default(stream, own);
  const int32_t device = of_thread ? rt::current_device() : -1;  // a thread has one per device
  rt::Key key;
  key.value(attribute);
  key.value(stream);
  key.value(device);
  rt::RecipeWriter recipe;
  recipe.value(device);
  recipe.handle(of_thread ? reinterpret_cast<uint64_t>(CU_STREAM_PER_THREAD) : stream);
  recipe.value(attribute);
  CUstreamAttrValue kept{};
  memcpy(&kept, value, bytes_of(attribute));
  recipe.array(reinterpret_cast<const char*>(&kept), sizeof kept);
  const uint64_t of = rt::is_virtual(stream) ? stream : of_thread ? rt::kOfThread : rt::kOfCurrent;
  rt::keep_state(of, kDriver, driver::kFn_cuStreamSetAttribute, kStreamAttribute, key, recipe);
}

// The values of the thread's own default stream, on each device, before the program's first change. The
// stream belongs to the lower half's thread, which serves other threads of the program later.
struct OwnBefore {
  int device;
  CUstreamAttrID attribute;
  CUstreamAttrValue value;
};
thread_local std::vector<OwnBefore> own_before;

void note_own_before(int device, int32_t attribute) {
  OwnBefore one{device, static_cast<CUstreamAttrID>(attribute), {}};
  for (const OwnBefore& known : own_before)
    if (known.device == device && known.attribute == one.attribute) return;
  if (CROPDL_DRIVER(cuStreamGetAttribute)(CU_STREAM_PER_THREAD, one.attribute, &one.value) == CUDA_SUCCESS)
    own_before.push_back(one);
}

struct Value {
  bool known;
  CUstreamAttrID attribute;
  CUstreamAttrValue value;
  const char* bytes() const { return reinterpret_cast<const char*>(&value); }
};
std::vector<Value> values_of(CUstream real, bool own) {
  std::vector<Value> all;
  for (int n = 0; n < 64; ++n) {
    if ((ever_set >> n & 1) == 0) continue;
    const auto a = static_cast<CUstreamAttrID>(n);
    Value v{};
    v.attribute = a;
    const CUresult r = own ? CROPDL_DRIVER(cuStreamGetAttribute_ptsz)(real, a, &v.value)
                           : CROPDL_DRIVER(cuStreamGetAttribute)(real, a, &v.value);
    v.known = r == CUDA_SUCCESS;
    all.push_back(v);
  }
  return all;
}

template <class F, class Id, class Attribute>
auto set_stream_attribute(RealFunction<F> set, CUstream stream, Id attribute, const Attribute* value) {
  rt::Call call;
  if (own_default(rt::word_of(stream), set.own)) note_own_before(rt::current_device(), attribute);
  const rt::Setting setting;
  const auto r = set(rt::real(stream, kind::cudaStream), attribute, value);
  if (static_cast<int>(r) == 0) keep_attribute(rt::word_of(stream), set.own, attribute, value);
  return r;
}

// No attribute of a stream is a handle (cuda.h, "CUstreamAttrID").
template <class F, class Id, class Attribute>
auto get_stream_attribute(RealFunction<F> get, CUstream stream, Id attribute, Attribute* value) {
  rt::Call call;
  return get(rt::real(stream, kind::cudaStream), attribute, value);
}

// Keeps the attributes that the call changed.
template <class F>
auto copy_stream_attributes(RealFunction<F> copy, CUstream to, CUstream from) {
  rt::Call call;
  const rt::Setting setting;
  const CUstream real = rt::real(to, kind::cudaStream);
  const std::vector<Value> before = values_of(real, copy.own);
  if (own_default(rt::word_of(to), copy.own))
    for (const Value& v : before) note_own_before(rt::current_device(), v.attribute);
  const auto r = copy(real, rt::real(from, kind::cudaStream));
  if (static_cast<int>(r) != 0) return r;
  const std::vector<Value> after = values_of(real, copy.own);
  for (size_t i = 0; i < after.size(); ++i)
    if (after[i].known &&
        (!before[i].known || memcmp(after[i].bytes(), before[i].bytes(), sizeof after[i].value) != 0))
      keep_attribute(rt::word_of(to), copy.own, after[i].attribute, &after[i].value);
  return r;
}

template <class F, class N>
auto number_of_stream(RealFunction<F> ask, CUstream stream, N* number) {
  rt::Call call;
  const auto r = ask(rt::real(stream, kind::cudaStream), number);
  if (static_cast<int>(r) != 0 || !number) return r;
  const uint64_t word = rt::word_of(stream);
  *number = rt::is_virtual(word)
                ? number_of(word, *number)
                : number_of_default_stream(rt::current_device(), own_default(word, ask.own), *number);
  return r;
}

void give_handle(CUcontext* real) {
  if (real) *real = virtual_context(*real);
}
// The program made the green context, so it has a handle.
void give_handle(CUgreenCtx* real) {
  if (real && *real)
    *real = rt::handle_of<CUgreenCtx>(rt::virtual_of(rt::word_of(*real), kind::cudaGreenContext));
}

template <class F, class... Context>
CUresult contexts_of_stream(RealFunction<F> ask, CUstream stream, Context*... contexts) {
  rt::Call call;
  const CUresult r = ask(rt::real(stream, kind::cudaStream), contexts...);
  if (r == CUDA_SUCCESS) (give_handle(contexts), ...);
  return r;
}

}  // namespace

void cropdl::cuda::put_back_own_stream() {
  for (const OwnBefore& one : own_before) {
    if (one.device < 0 || !device_used(one.device)) continue;
    const OnDevice on(one.device);
    if (on.fine()) CROPDL_DRIVER(cuStreamSetAttribute)(CU_STREAM_PER_THREAD, one.attribute, &one.value);
  }
  own_before.clear();
}

extern "C" {

int64_t again_cuStreamSetAttribute(rt::Again& from) {
  const auto device = from.value<int32_t>();
  const auto stream = rt::handle_of<CUstream>(from.handle());
  const auto attribute = from.value<int32_t>();
  const char* value = from.array<char>();
  was_set(attribute);
  std::optional<OnDevice> on;
  if (device >= 0) {
    on.emplace(device);
    note_own_before(device, attribute);
  }
  if (opened(kCudart))
    return CROPDL_CUDART(cudaStreamSetAttribute)(reinterpret_cast<cudaStream_t>(stream),
                                                 static_cast<cudaLaunchAttributeID>(attribute),
                                                 reinterpret_cast<const cudaLaunchAttributeValue*>(value));
  return CROPDL_DRIVER(cuStreamSetAttribute)(stream, static_cast<CUstreamAttrID>(attribute),
                                             reinterpret_cast<const CUstreamAttrValue*>(value));
}

CROPDL_CALLS(set_stream_attribute)
CROPDL_CALLS(get_stream_attribute)
CROPDL_CALLS(copy_stream_attributes)
CROPDL_CALLS(number_of_stream)
CROPDL_CALLS(contexts_of_stream)

}  // extern "C"
