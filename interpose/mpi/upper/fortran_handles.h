// Converts handles to Fortran integers and back. MPICH's are the C handles. Open MPI's predefined handles
// have fixed numbers (mpif-handles.h); others are the vid, which is larger. UH, any thread.
#pragma once

#include "interpose/mpi/upper/shim.h"

namespace cropdl::shim {

template <Kind K>
MPI_Fint to_fortran(Vid vid) {
  if constexpr (!std::is_pointer_v<typename HandleOf<K>::type>)
    return static_cast<MPI_Fint>(handle_out<K>(vid));
  if (vid_index(vid) < HandleOf<K>::count) {
    const int number = HandleOf<K>::fortran[vid_index(vid)];
    return number >= 0 ? number : static_cast<MPI_Fint>(vid_index(vid) == 0 ? 0 : vid);
  }
  return static_cast<MPI_Fint>(vid);
}

template <Kind K>
typename HandleOf<K>::type from_fortran(MPI_Fint number) {
  if constexpr (!std::is_pointer_v<typename HandleOf<K>::type>)
    return static_cast<typename HandleOf<K>::type>(number);
  if (number >= 1 << 24) {
    const Vid vid = static_cast<Vid>(number);
    return handle_out<K>(
        seam::vid_kind(vid) == K ? vid : make_vid(K, 0));  // the number of another kind's handle is invalid
  }
  for (uint32_t i = 0; i < HandleOf<K>::count; ++i)
    if (HandleOf<K>::fortran[i] == number) return handle_out<K>(make_vid(K, i));
  return handle_out<K>(make_vid(K, 0));
}

inline MPI_Fint handle_to_fortran(Vid vid) {
  return with_kind(vid, [vid]<Kind K>() { return to_fortran<K>(vid); });
}

}  // namespace cropdl::shim
