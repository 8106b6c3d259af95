#pragma once
// The measuring process: does what the gate says over the socket, one command after the other, until the
// socket closes.
namespace nccl_check::worker {
int worker_main();
}
