#include "coord/transport.h"

#include "base/format.h"

namespace cropdl::coord {

const Transport& transport_of_hubs() { return local_transport(); }

const Transport* transport_of(const std::string& address) {
  for (const Transport* transport : {&local_transport()})
    if (address.starts_with(std::string(transport->kind()) + ":")) return transport;
  return nullptr;
}

Result<std::unique_ptr<Stream>> connect_to(const std::string& address, bool* refused) {
  *refused = false;
  if (const Transport* transport = transport_of(address)) return transport->connect(address, refused);
  return Error{
      formatted("control plane: {} is no address that this version of CropDL can connect to", address)};
}

}  // namespace cropdl::coord
