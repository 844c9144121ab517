// Contexts, a thread's current context, and the sticky error. A kernel's fault breaks its context: every
// later call returns that error, as on a device (CUDA Driver API, "Error handling"). A context's structure is
// never freed, so that a stale handle is recognised; when a context ends, only what others own for it is
// released (when_a_context_ends).
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
  std::atomic<bool> alive{false};  // false: calls return CUDA_ERROR_CONTEXT_IS_DESTROYED
  // Of a primary context. Held while the context ends, so that a thread that then retains it starts a new
  // life, and while `retained` changes.
  std::mutex life;
  int retained = 0;
  std::atomic<int> error{0};                      // sticky CUresult, also over a reset
  std::atomic<size_t> limits[CU_LIMIT_MAX] = {};  // cuCtxSetLimit, cuCtxGetLimit
  std::atomic<int> cache{0};                      // CUfunc_cache
  CUstream legacy = nullptr;  // the meaning of stream 0 and CU_STREAM_LEGACY in this context
};

namespace cropdl::device {

// The calling thread's context, or null: the top of the stack of cuCtxPushCurrent.
CUcontext current();
void set_current(CUcontext context);  // null: pops the top of the stack

// The context whose library work the calling thread runs. Null except on streams' threads.
CUcontext& working_for();

// Nearly every API function begins with it. CUDA_ERROR_NOT_INITIALIZED before cuInit (and in a child forked
// after it), CUDA_ERROR_INVALID_CONTEXT without a current context, CUDA_ERROR_CONTEXT_IS_DESTROYED, the
// sticky error.
CUresult enter(CUcontext* context);
// The same without the sticky error, for calls that work in a broken context.
CUresult enter_even_if_broken(CUcontext* context);
// For calls that need no context: CUDA_ERROR_NOT_INITIALIZED or CUDA_SUCCESS.
CUresult initialized();
// Checks a handle from the caller: CUDA_ERROR_INVALID_CONTEXT, CUDA_ERROR_CONTEXT_IS_DESTROYED, the sticky
// error.
CUresult check(CUcontext context);

// Breaks the context, once, and prints the reason on stderr in one line.
void break_context(CUcontext context, CUresult error, std::string_view why);

// A context ends by cuCtxDestroy, and a primary one by its reset or last release. Registers a function that
// then releases what its module keeps for the context. The functions run in the order below, once per
// context, on the thread that ends it; the first one waits for the context's work.
enum class Keeper { kWork, kStreams, kEvents, kLibraries, kModules, kMemory };
// returns true, for static initialisers
bool when_a_context_ends(Keeper who, void (*give_back)(CUcontext context));

// context.cpp: the calls.
CUresult create_context(Device& device, unsigned flags, CUcontext* context);  // pushes it onto the stack
CUresult destroy_context(CUcontext context);
CUcontext primary_of(Device& device);  // alive only while retained
CUresult retain_primary(Device& device, CUcontext* context);
CUresult release_primary(Device& device);
CUresult reset_primary(Device& device);
void push(CUcontext context);
CUresult pop(CUcontext* context);

}  // namespace cropdl::device
