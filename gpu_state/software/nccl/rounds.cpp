#include "gpu_state/software/nccl/rounds.h"

#include <algorithm>

#include "gpu_state/software/nccl/buffers.h"

namespace cropdl::nccl {

namespace {

constexpr size_t kAlignment = 256;
size_t aligned(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

bool is_message(const Call& call) { return call.kind == Kind::kSend || call.kind == Kind::kReceive; }

// Whether both buffers may be the same memory.
bool works_in_place(const Call& call) {
  return call.kind == Kind::kAllReduce || call.kind == Kind::kReduce || call.kind == Kind::kBroadcast;
}

// The blocks for which a piece needs memory, on the rank that needs most: pieces are equal on all ranks.
size_t most_blocks(const Call& call, int ranks) {
  const Blocks at_root = blocks_of(call, call.root, ranks);
  if (is_message(call) || works_in_place(call)) return 1;
  return at_root.read + at_root.written;
}

size_t elements_of_a_piece(const Call& call, int ranks) {
  constexpr size_t kRoom = kStaging - 4 * kAlignment;
  const size_t most = kRoom / most_blocks(call, ranks) / size_of(call.datatype);
  return std::max<size_t>(1, std::min(call.count, most));
}

// The copies between `blocks` blocks of the program's buffer, from element `first` of each on, and a place in
// the staging memory.
void add_copies(std::vector<StagedCopy>* to, const void* buffer, size_t blocks, const Call& call,
                size_t first, size_t count, size_t at) {
  const size_t size = size_of(call.datatype);
  const auto* begin = static_cast<const std::byte*>(buffer) + first * size;
  if (count == call.count) {  // the blocks are next to each other
    if (const size_t bytes = blocks * count * size; bytes != 0) to->push_back({begin, at, bytes});
    return;
  }
  for (size_t block = 0; block < blocks; block++)
    to->push_back({begin + block * call.count * size, at + block * count * size, count * size});
}

// Adds elements [first, first + count) of the call, behind what the round has.
void add_piece(Round* round, const Call& call, size_t first, size_t count, int rank, int ranks) {
  const size_t size = size_of(call.datatype);
  const Blocks here = blocks_of(call, rank, ranks);
  const bool in_place = works_in_place(call);
  StagedCall piece{call};
  piece.call.count = count;
  const auto reserve = [&](size_t bytes) {
    const size_t at = round->bytes;
    round->bytes += aligned(bytes);
    return at;
  };
  piece.send = reserve((in_place ? 1 : here.read) * count * size);
  piece.receive = in_place ? piece.send : reserve(here.written * count * size);
  add_copies(&round->in, call.send, here.read, call, first, count, piece.send);
  const bool stays = call.kind == Kind::kBroadcast && call.root == rank && call.send == call.receive;
  if (!stays) add_copies(&round->out, call.receive, here.written, call, first, count, piece.receive);
  if (call.device_scalar) {
    piece.scalar = reserve(size);
    round->in.push_back({call.device_scalar, piece.scalar, size});
  }
  round->calls.push_back(piece);
}

}  // namespace

std::vector<Round> rounds_of(const std::vector<Call>& calls, int rank, int ranks) {
  const bool together = calls.size() > 1 && std::any_of(calls.begin(), calls.end(), is_message);
  std::vector<Round> rounds(1);
  for (const Call& call : calls) {
    const size_t most = elements_of_a_piece(call, ranks);
    size_t first = 0;
    do {
      const size_t count = std::min(most, call.count - first);
      Round one;
      add_piece(&one, call, first, count, rank, ranks);
      if (!together && rounds.back().bytes + one.bytes > kStaging) rounds.emplace_back();
      add_piece(&rounds.back(), call, first, count, rank, ranks);
      first += count;
    } while (first < call.count);
  }
  return rounds;
}

}  // namespace cropdl::nccl
