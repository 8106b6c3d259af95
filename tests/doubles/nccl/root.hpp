#pragma once
// A communicator's root: a thread of the process that asked for the unique id, through which its processes
// meet.
#include <nccl.h>

namespace nccl_check::doubles {

// Starts one, and writes where it listens into the id. False: no socket could be had.
bool start_root(ncclUniqueId& id);
// A connection to that id's root; -1: it is not there, or this is no such id.
int connect_to_root(const ncclUniqueId& id);

}  // namespace nccl_check::doubles
