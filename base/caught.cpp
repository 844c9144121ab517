#include "base/caught.h"

namespace cropdl {

Error no_memory_left() {
  return Error{"this rank has no memory left for it; raise the limit (ulimit -v, or the job's)"};
}

}  // namespace cropdl
