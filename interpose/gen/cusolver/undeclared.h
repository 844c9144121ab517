/* All headers of libcusolver. Read by castxml, as C. */
#pragma once

#include <cusolverDn.h>
#include <cusolverRf.h>
#include <cusolverSp.h>
#include <cusolverSp_LOWLEVEL_PREVIEW.h>
