// Stream-ordered memory (cudaMallocAsync, cudaFreeAsync) from the arena. A block that was freed in a stream
// may be had again in that stream at once, for the stream is in order; elsewhere when the stream has come to
// where it was freed, which an event there tells. What is done goes back to the arena, but for as much as the
// pool is to keep. Not for streams that are being captured. LH, LH FS base, any thread.
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
  // All outlive it.
  Pools(const Driver& driver, Blocks& blocks, Arena& arena);

  // The pool of that name, made if there is none. nullptr: the heap is full.
  Pool* pool(uint64_t key, int device);
  Pool* known(uint64_t key) const;  // nullptr: nothing was ever allocated from it

  // As cuMemAllocFromPoolAsync says. Pool::keep and Pool::most are the caller's to set.
  CUresult allocate(Pool* pool, uint64_t size, CUstream stream, Block** block);
  // Blocks of cudaMalloc's, too. CUDA_ERROR_INVALID_VALUE: it was freed already.
  CUresult free(Block* block, CUstream stream);
  // Not ordered: whoever calls has waited for all work that may still use it.
  void release(Block* block);

  // Back to the arena: what is kept of the pool, down to so many bytes; of all pools, what streams have come
  // to and no pool keeps; likewise, and what pools keep of that device; all that waits and no pool keeps,
  // when all devices are idle.
  void trim(Pool* pool, uint64_t keep);
  void collect();
  void reclaim(int device);
  void settle();
  // The device's context has ended, and with it the work of its streams and what the device had.
  void forget(int device);
  // The pool's memory is open to these peers, a bit for each, and to no other. After an error it is as it
  // was.
  CUresult open_to(Pool* pool, uint32_t peers);
  // The program has destroyed it.
  void destroy(Pool* pool);

 private:
  struct Freed {
    Block* block;
    CUevent event;
    CUcontext context;
    int device;  // of the stream that it was freed in
  };
  struct Events {  // of a context, to be used again
    int device = -1;
    std::vector<CUevent> events;
  };
  struct Queue {             // of one stream, by its id: a handle may come again as another stream's
    std::list<Freed> order;  // as they were freed
    std::multimap<uint64_t, std::list<Freed>::iterator> by_room;
  };

  Block* of_stream(Pool* pool, uint64_t room, uint64_t stream);
  Block* kept(Pool* pool, uint64_t room);
  void collect(bool all);
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
  std::multimap<std::pair<Pool*, uint64_t>, Block*> kept_;  // by room: nobody uses them any more
  std::map<CUcontext, Events> events_;
};

}  // namespace cropdl::memory
