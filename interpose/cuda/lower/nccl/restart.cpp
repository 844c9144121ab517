// Makes communicators again, on all ranks in the order of the identities, so that no rank waits for a later
// communicator while others wait for it. Ids are new; rank 0 of each sends its id. See library.h. START.
#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>

#include "base/format.h"
#include "base/words.h"
#include "interpose/cuda/lower/nccl/library.h"
#include "interpose/cuda/lower/nccl/state.h"
#include "interpose/one_abi/state.h"

namespace cropdl::cuda::nccl {
namespace {

constexpr char kNew = 'C', kGiven = 'G', kMember = 'M', kTrouble = 'T';  // first character of a line

template <class T>
bool from_hex(std::string_view text, T* to) {
  const auto found = bytes_of_hex(std::string(text));
  if (!found || found->size() != sizeof *to) return false;
  memcpy(to, found->data(), sizeof *to);
  return true;
}

std::string failed(const char* function, ncclResult_t code) {
  return formatted("{} fails when it is made again: {}", function, CROPDL_NCCL(ncclGetErrorString)(code));
}

// Skips finalized communicators: other members may have destroyed theirs already.
template <class F>
void each_made(F look) {
  each_communicator([&](Communicator* c) {
    if (c->stage != kPlanned && c->stage != kFinalized) look(c);
  });
}

bool wait_until_made(Communicator* c) {
  ncclResult_t now = ncclInProgress;
  while (CROPDL_NCCL(ncclCommGetAsyncError)(*real_place(c), &now) == ncclSuccess && now == ncclInProgress) {
  }
  return now == ncclSuccess;
}

Status make_objects_again(const Communicator* c) {
  const ncclComm_t comm = *real_place(c);
  ncclResult_t r = ncclSuccess;
  each<Operation>(c->operations, [&](Operation* o) {
    void* const scalar = o->residence == ncclScalarDevice ? o->scalar : o->immediate;
    ncclRedOp_t real{};
    if (r == ncclSuccess)
      r = CROPDL_NCCL(ncclRedOpCreatePreMulSum)(&real, scalar, o->type, o->residence, comm);
    one_abi::slot_of(o->word)->owner[0] = static_cast<uint64_t>(real);
  });
  if (r != ncclSuccess) return Error{failed("ncclRedOpCreatePreMulSum", r)};
  each<Registration>(c->registrations, [&](Registration* g) {
    if (r == ncclSuccess) r = CROPDL_NCCL(ncclCommRegister)(comm, g->buffer, g->bytes, &g->real);
  });
  if (r != ncclSuccess) return Error{failed("ncclCommRegister", r)};
  return {};
}

// `members`: those of one communicator in this process; one, unless the process uses several devices.
Status make_again(std::span<Communicator* const> members, const ncclUniqueId& id) {
  const bool together = members.size() > 1;
  if (together) CROPDL_NCCL(ncclGroupStart)();
  ncclResult_t code = ncclSuccess;
  for (Communicator* c : members) {
    if (!one_abi::make_current(c->device)) return Error{"there is no device {}", c->device};
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    if (c->has_config) config = c->config;
    const ncclResult_t r = CROPDL_NCCL(ncclCommInitRankConfig)(real_place(c), c->size, id, c->rank, &config);
    if (code == ncclSuccess) code = r;
  }
  if (together)
    if (const ncclResult_t r = CROPDL_NCCL(ncclGroupEnd)(); code == ncclSuccess) code = r;
  if (!went_on(code)) return Error{failed("ncclCommInitRankConfig", code)};
  for (Communicator* c : members) {
    if (!wait_until_made(c)) return Error{"ncclCommInitRankConfig fails when it is made again"};
    if (Status made = make_objects_again(c); !made) return made;
  }
  return {};
}

}  // namespace

Status restore() {
  state =
      one_abi::family ? reinterpret_cast<State*>(one_abi::family->members[one_abi::kMemberNccl]) : nullptr;
  if (state && state->version > kStateVersion)
    return Error{"cannot restart: the image was made by a newer version of CropDL; restart it with that one"};
  if (state && state->config_bytes != 0 && state->config_bytes != sizeof(ncclConfig_t))
    return Error{
        "cannot restart: the image's NCCL communicators are of a CropDL that was built for another NCCL; "
        "restart it with that one"};
  return {};
}

std::string told_at_restart() {
  std::string lines;
  ncclResult_t trouble = ncclSuccess;
  const auto tell = [&](char kind, const auto& what) {
    ncclUniqueId id;
    const ncclResult_t r = CROPDL_NCCL(ncclGetUniqueId)(&id);
    if (r == ncclSuccess)
      lines += kind + hex_digits(&what, sizeof what) + ' ' + hex_digits(&id, sizeof id) + '\n';
    else
      trouble = r;
  };
  each_made([&](Communicator* c) {
    if (c->rank == 0) tell(kNew, c->identity);
    lines += kMember + hex_digits(&c->identity, sizeof c->identity) + ' ' + std::to_string(c->size) + '\n';
  });
  if (state) each<GivenId>(state->given_ids, [&](const GivenId* given) { tell(kGiven, given->id); });
  return trouble == ncclSuccess ? lines : kTrouble + failed("ncclGetUniqueId", trouble);
}

Status make_communicators_again(std::span<const std::string> told) {
  std::map<uint64_t, ncclUniqueId> ids;
  std::map<uint64_t, int> members, sizes;  // by identity
  for (size_t rank = 0; rank < told.size(); ++rank) {
    std::string_view text = told[rank];
    if (text.starts_with(kTrouble)) return Error{"cannot restart: rank {}: {}", rank, text.substr(1)};
    while (!text.empty()) {
      const std::string_view line = text.substr(0, text.find('\n'));
      text.remove_prefix(std::min(text.size(), line.size() + 1));
      const size_t gap = line.find(' ');
      if (gap == line.npos) continue;
      const std::string_view what = line.substr(1, gap - 1), rest = line.substr(gap + 1);
      ncclUniqueId id{}, former{};
      uint64_t identity = 0;
      if (line[0] == kMember && from_hex(what, &identity)) {
        ++members[identity];
        std::from_chars(rest.begin(), rest.end(), sizes[identity]);
      }
      if (line[0] == kNew && from_hex(what, &identity) && from_hex(rest, &id)) ids[identity] = id;
      if (line[0] == kGiven && from_hex(what, &former) && from_hex(rest, &id)) add_real_id(former, id);
    }
  }
  // The remaining members would wait forever for the missing ones.
  for (const auto& [identity, there] : members)
    if (there != sizes[identity])
      return Error{"cannot restart: of the {} members of an NCCL communicator {} still have it",
                   sizes[identity], there};
  if (state)  // no other rank will join with an id with which some have joined
    each<GivenId>(state->given_ids, [&](GivenId* given) {
      if (members.contains(identity_from(hash_of(&given->id, 1)))) drop(state->given_ids, given);
    });
  std::vector<Communicator*> all;
  each_made([&](Communicator* c) { all.push_back(c); });
  std::ranges::sort(all, {}, [](const Communicator* c) { return std::pair(c->identity, c->rank); });
  const int device = all.empty() ? -1 : one_abi::current_device();
  for (size_t i = 0; i < all.size();) {
    size_t end = i + 1;
    while (end < all.size() && all[end]->identity == all[i]->identity) ++end;
    const auto id = ids.find(all[i]->identity);
    if (id == ids.end()) return Error{"cannot restart: no rank has the rank 0 of an NCCL communicator"};
    if (auto s = make_again(std::span(all).subspan(i, end - i), id->second); !s)
      return Error{"cannot restart: " + s.error().message};
    i = end;
  }
  if (device >= 0) one_abi::make_current(device);
  return {};
}

}  // namespace cropdl::cuda::nccl
