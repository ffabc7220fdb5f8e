// A GPU deals its streams out to hardware queues, 8 of them unless CUDA_DEVICE_MAX_CONNECTIONS says
// otherwise, and what waits in a queue holds up what is behind it, of other streams too. A rank
// that talks through NCCL has up to twelve streams beside NCCL's own, and messages of a pipeline
// must not hold each other up.
#pragma once

namespace stretto {

// Asks for as many queues as there can be, unless the user has said how many. Before the driver
// starts, and before any other thread.
void ask_for_gpu_queues();

// The user asked for fewer than a GPU has by itself; Megatron's scripts ask for one.
bool few_gpu_queues();

}  // namespace stretto
