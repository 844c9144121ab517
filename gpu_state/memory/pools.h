// Stream-ordered memory (cudaMallocAsync, cudaFreeAsync) from the arena. The same stream, which is in order,
// may reuse a freed block immediately; others, once the event recorded at the free has completed. It then
// returns to the arena, unless the pool keeps it. Not for streams being captured. LH, LH FS base, any thread.
#pragma once

#include <list>
#include <map>
#include <vector>

#include "gpu_state/memory/arena.h"
#include "gpu_state/memory/blocks.h"
#include "gpu_state/memory/driver.h"

namespace cropdl::memory {

class Pools {
 public:
  // All three must outlive it.
  Pools(const Driver& driver, Blocks& blocks, Arena& arena);

  // The pool with that key, made if there is none. nullptr: the heap is full.
  Pool* pool(uint64_t key, int device);
  Pool* known(uint64_t key) const;  // nullptr: nothing was ever allocated from that pool

  // As cuMemAllocFromPoolAsync. The caller sets Pool::keep and Pool::most.
  CUresult allocate(Pool* pool, uint64_t size, CUstream stream, Block** block);
  // Also frees blocks of cudaMalloc. CUDA_ERROR_INVALID_VALUE: the block is already freed.
  CUresult free(Block* block, CUstream stream);
  // Not stream-ordered: the caller has waited for all work that may still use the block.
  void release(Block* block);

  // Return blocks to the arena. trim(): kept blocks of the pool, until it reserves at most `keep` bytes.
  // collect(): blocks of all pools whose streams have passed the free and that no pool keeps. reclaim():
  // these and the device's kept blocks. settle(), with all devices idle: all but what the pools keep.
  void trim(Pool* pool, uint64_t keep);
  void collect(bool all = false);
  void reclaim(int device);
  void settle() { collect(true); }
  // Call when the device's context has ended, and with it the device's memory and the work of its streams.
  void forget(int device);
  // Opens the pool's memory to these peers (a bit for each) and to no other. An error changes nothing.
  CUresult open_to(Pool* pool, uint32_t peers);
  // Call when the program has destroyed the pool.
  void destroy(Pool* pool);

 private:
  struct Freed {
    Block* block;
    CUevent event;
    CUcontext context;
    int device;  // of the stream in which it was freed
  };
  struct Events {  // of a context, for reuse
    int device = -1;
    std::vector<CUevent> events;
  };
  struct Queue {             // of one stream, by id: another stream may get the same handle
    std::list<Freed> order;  // in the order of the frees
    std::multimap<uint64_t, std::list<Freed>::iterator> by_room;
  };

  // Removes one from its queue. Its event can be used again, unless the context has ended.
  Block* take_out(Queue& queue, std::list<Freed>::iterator one, bool event_ended = false);
  Block* of_stream(Pool* pool, uint64_t room, uint64_t stream);
  Block* kept(Pool* pool, uint64_t room);
  void drop_kept(int device);
  void give_back(Block* block);
  void drop(Pool* pool);
  Block* hand_out(Pool* pool, Block* block, uint64_t size);
  static Pool* pool_of(const Block* block) { return reinterpret_cast<Pool*>(block->pool); }

  const Driver& driver_;
  Blocks& blocks_;
  Arena& arena_;
  std::map<uint64_t, Pool*> pools_;                         // by key
  std::map<uint64_t, Queue> queues_;                        // by stream
  std::multimap<std::pair<Pool*, uint64_t>, Block*> kept_;  // by room; no work uses them any more
  std::map<CUcontext, Events> events_;
};

}  // namespace cropdl::memory
