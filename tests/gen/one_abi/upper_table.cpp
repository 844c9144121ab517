// The upper half's part of the runtime, for tests: the table is where runtime.h put its address.
#include "interpose/gen/one_abi/upper.h"
#include "slots.h"

namespace cropdl::one_abi {
void* const* const volatile* lower_table() { return one_abi_test::slot(CROPDL_SLOT); }
}  // namespace cropdl::one_abi
