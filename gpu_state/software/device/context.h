// Contexts, what is current in a thread, and the error that stays. A kernel's fault breaks its context: from
// then on every call answers with that error, as on a device (CUDA Driver API, "Error handling"; the runtime
// calls these errors sticky). A context's structure is never given back to the allocator, so that a stale
// handle is known for one: what goes when it ends is what others own for it (when_a_context_ends).
#pragma once

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string_view>

namespace cropdl::device {
class Device;
class Stream;
}  // namespace cropdl::device

struct CUctx_st {
  cropdl::device::Device* device = nullptr;
  bool is_primary = false;
  std::atomic<unsigned> flags{0};
  std::atomic<uint64_t> id{0};     // cuCtxGetId; a primary context gets a new one after each reset
  std::atomic<bool> alive{false};  // else calls answer CUDA_ERROR_CONTEXT_IS_DESTROYED
  // Of a primary context: held while it ends, so that who retains it then gets a new life, and by whoever
  // counts.
  std::mutex life;
  int retained = 0;
  std::atomic<int> error{0};                      // CUresult that stays, also over a reset
  std::atomic<size_t> limits[CU_LIMIT_MAX] = {};  // cuCtxSetLimit, cuCtxGetLimit
  std::atomic<int> cache{0};                      // CUfunc_cache
  CUstream legacy = nullptr;                      // what stream 0 and CU_STREAM_LEGACY mean here
};

namespace cropdl::device {

// The calling thread's context, or null. (The stack of cuCtxPushCurrent is behind it.)
CUcontext current();
void set_current(CUcontext context);  // null: the top of the stack is taken away

// Whose work the calling thread does: on streams' threads while they run a library's work, else null.
CUcontext& working_for();

// What nearly every function of the API begins with: CUDA_ERROR_NOT_INITIALIZED before cuInit (and in a
// child that was forked after it), CUDA_ERROR_INVALID_CONTEXT without a current one,
// CUDA_ERROR_CONTEXT_IS_DESTROYED, the error that stays.
CUresult enter(CUcontext* context);
// The same without the error that stays, for calls that a broken context still answers.
CUresult enter_even_if_broken(CUcontext* context);
// For calls that need no context: CUDA_ERROR_NOT_INITIALIZED or CUDA_SUCCESS.
CUresult initialized();
// Of a handle that the caller gave: CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, the error
// that stays.
CUresult check(CUcontext context);

// Breaks the context, once, and says why on stderr in one line.
void break_context(CUcontext context, CUresult error, std::string_view why);

// Contexts end by cuCtxDestroy and by the reset or last release of a primary one. Whoever keeps things for
// contexts gives back here what he has for this one; before that the context's work has been waited for. All
// are called in the order below, once for each context that ends, on the thread that ends it.
enum class Keeper { kStreams, kLibraries, kModules, kMemory };
bool when_a_context_ends(Keeper who, void (*give_back)(CUcontext context));  // true: for static initialisers

// context.cpp: the calls.
CUresult create_context(Device& device, unsigned flags, CUcontext* context);  // is then on top of the stack
CUresult destroy_context(CUcontext context);
CUresult retain_primary(Device& device, CUcontext* context);
CUresult release_primary(Device& device);
CUresult reset_primary(Device& device);
void push(CUcontext context);
CUresult pop(CUcontext* context);

}  // namespace cropdl::device
