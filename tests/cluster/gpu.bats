#!/usr/bin/env bats
# The whole gate on four hosts with eight GPUs each that are stand-ins: healthy ones pass, every fault ends in its class,
# names its GPU, link, NIC or node in time, and leaves no process and no shared memory.

source "$BATS_TEST_DIRNAME/gpu_common.bash"

setup_file() {
  cluster_up --hosts 4 --gpus 8 --gate prolog
  export CLUSTER
}

gpu3="GPU 3 \(0000:3f:00.0\): "

# ---- healthy

@test "32 healthy GPUs pass, and their user reads what they can do" {
  check "${whole[@]}"
  allowed "pass n\[1-4\]: all_reduce 1 MiB on 4x8 SIMULATED H200: 3[67][0-9] GB/s busbw, limit 290 .*, over IB mlx5_0:1, "
  [ "$(grep -c nccl-check: <<<"$output")" -eq 1 ]
}

@test "a job with one GPU of every node is measured by what one GPU can do" {
  check -N4 --gpus-per-node=1 -p shared
  allowed "pass n\[1-4\]: all_reduce 1 MiB on 4x1 SIMULATED H200: 4[78].[0-9] GB/s busbw, limit 37.5 "
}

@test "one GPU of one node has no bus bandwidth, and that is said" {
  check -N1 --gpus-per-node=1 -p shared
  allowed "pass n1: GPU 0 \(0000:1b:00.0\): device memory 4[0-9]{3} GB/s, limit 3442 .*no bus bandwidth"
}

# Whoever touches GPU 0 or 1 hangs.
@test "two GPUs of eight are measured, and another job's are not touched" {
  simulate <<<"$(fault n1 hang stage=context gpu=0; fault n1 hang stage=context gpu=1)"
  other=$(cluster_submit alice -p shared -w n1 --gpus-per-node=2 --wrap "sleep 60")
  cluster_wait_job "$other" RUNNING
  check -N1 -w n1 --gpus-per-node=2 -p shared
  cluster_exec ctl scancel "$other"
  allowed "pass n1: all_reduce 1 MiB on 2 SIMULATED H200: 3[67][0-9] GB/s"
}

# ---- slow

@test "slow memory, a slow link between two GPUs, a slow host link, slow collectives: each names its part" {
  simulate <<<"$(fault n1 slow_memory gpu=5; fault n2 slow_link gpu=2 peer=5; fault n3 slow_host_link gpu=7
    fault n4 slow_collectives gpu=6)"
  check_apart
  accused_apart slow n1 "GPU 5 \(0000:57:00.0\): device memory 2[01][0-9]{2} GB/s, limit 3442 "
  accused_apart slow n2 "GPU 2 with GPU 5: peer copy 18[0-9] GB/s, limit 315 "
  accused_apart slow n3 "GPU 7 \(0000:6f:00.0\): copy to the device 2[78].[0-9] GB/s, limit 4[0-9.]+ .*copy from the device"
  accused_apart slow n4 "all_reduce 1 MiB on 8 GPUs: 18[0-9] GB/s busbw, limit 290 "
}

@test "a slow GPU of one node in a job of four: that node alone is drained" {
  simulate <<<"$(fault n2 slow_memory gpu=5)"
  check "${whole[@]}"
  accused slow n2 "GPU 5 \(0000:57:00.0\): device memory "
  says "the job is cancelled: n2 is out, start it again"
}

@test "a slow NIC of one GPU: the pairs name its node and its GPU" {
  gpu_policy 15
  simulate <<<"$(fault n3 slow_nic gpu=3)"
  check "${whole[@]}"
  accused slow n3 "send/recv 19[0-9] GB/s with n[124], n[124]( and n[124])?, slowest on GPU 3 \(0000:3f:00.0\): 24.0 GB/s of the usual 4[78].[0-9], limit "
}

@test "a slow node that is throttled: the reason is shown" {
  simulate <<<"$(fault n1 slow_collectives gpu=0; fault n1 throttled gpu=0 reason=power_brake)"
  check -N1 -w n1 --gpus-per-node=8
  accused slow n1 "all_reduce .*GPU 0 \(0000:1b:00.0\): slowed down by power brake while measuring"
}

# ---- wrong data

@test "wrong data in memory, between GPUs, from the host, in a collective: each names its GPU" {
  simulate <<<"$(fault n1 corrupt stage=memory gpu=3 after=2; fault n2 corrupt stage=peer_copy gpu=3 peer=4
    fault n3 corrupt stage=host_copy gpu=3; fault n4 corrupt stage=collective gpu=3)"
  check_apart
  accused_apart corrupt n1 "${gpu3}device memory: 1 wrong elements, first GPU 3 "
  accused_apart corrupt n2 "GPU 3 with GPU 4: peer copy: "
  accused_apart corrupt n3 "${gpu3}copy from the device: 1 wrong elements, first GPU 3 "
  accused_apart corrupt n4 "all_reduce: [0-9]+ wrong elements, first GPU 3 \(0000:3f:00.0\), element [0-9]+: got "
}

@test "wrong data only between nodes: the pairs find the node" {
  gpu_policy 15
  simulate <<<"$(fault n3 corrupt stage=collective gpu=3)"
  check -o job "${whole[@]}"
  accused corrupt n3 "send/recv gave wrong data with n[124].*GPU 3 "
}

# ---- hangs, crashes, NCCL's own errors

@test "what hangs in a node's own part is hung and names its stage and its GPU" {
  gpu_policy 6
  simulate <<<"$(fault n1 hang stage=init; fault n2 hang stage=context gpu=3; fault n3 hang stage=comm_init gpu=3
    fault n4 hang stage=collective gpu=3)"
  check_apart
  accused_apart hung n1 "CUDA driver: the deadline passed in opening the libraries"
  accused_apart hung n2 "${gpu3}the deadline passed in making contexts"
  accused_apart hung n3 ".*GPU 3 .*: the deadline passed in NCCL's initialisation"
  accused_apart hung n4 ".*GPU 3 .*: the deadline passed in measuring all_reduce"
}

@test "a hang within one node of four: it alone is named and drained" {
  simulate <<<"$(fault n3 hang stage=kernel gpu=3)"
  check "${whole[@]}"
  accused hung n3 "${gpu3}the deadline passed in measuring device memory"
}

@test "a hang in a collective between nodes: fresh pairs find the node" {
  gpu_policy 15
  simulate <<<"$(fault n3 hang stage=collective gpu=3)"
  check -o job "${whole[@]}"
  accused hung n3 "send/recv hung with n[124] and n[124]"
}

@test "a worker that crashes: untested, with its stage, and nobody is drained" {
  simulate <<<"$(fault n1 crash stage=init; fault n2 crash stage=context gpu=3; fault n3 crash stage=comm_init gpu=3
    fault n4 crash stage=collective gpu=3)"
  check_apart
  allowed_apart untested n1 "the worker ended in stage open: killed by signal 11"
  allowed_apart untested n2 "the worker ended in stage open: killed by signal 11"
  allowed_apart untested n3 "the worker ended in stage all_reduce: killed by signal 11"
  allowed_apart untested n4 "the worker ended in stage all_reduce: killed by signal 11"
}

@test "a worker of four nodes crashes while all measure: the others are not accused" {
  simulate <<<"$(fault n3 crash stage=collective gpu=3)"
  check -o job "${whole[@]}"
  allowed "untested n3: the worker ended in stage all_reduce: killed by signal 11"
}

@test "NCCL's own error: its text, its GPU, and nobody is drained" {
  simulate <<<"$(fault n3 nccl_error stage=collective code=6 gpu=3 'text=connection closed by remote peer')"
  check "${whole[@]}"
  allowed "untested n3: ${gpu3}all_reduce failed: NCCL says .*\(6\): connection closed by remote peer" \
    "untested n\[1-4\]: all_reduce 1 MiB on 3x8 SIMULATED H200: "
}

# It stays, so the pairs find it: who fails with two partners that are fast with others.
@test "NCCL's own error between nodes: the pairs find the node" {
  gpu_policy 15
  simulate <<<"$(fault n3 nccl_error stage=collective code=6 gpu=3 'text=connection closed by remote peer')"
  check -o job "${whole[@]}"
  accused hung n3 "send/recv hung with n[124] and n[124]"
}

# ---- broken

@test "a GPU that is gone, ECC errors, a row to be remapped, an NVLink that is down: broken, each names its GPU" {
  simulate <<<"$(fault n1 missing_gpu gpu=3; fault n2 ecc_errors gpu=3 value=2; fault n3 row_remap gpu=3 reason=pending
    fault n4 nvlinks_down gpu=3 link=4)"
  check_apart
  accused_apart broken n1 "GPU 3 of this job is not there: "
  accused_apart broken n2 "${gpu3}2 uncorrected ECC errors"
  accused_apart broken n3 "${gpu3}a row remapping waits for the GPU's reset"
  accused_apart broken n4 "${gpu3}17 of 18 NVLinks are up \(down: 4\)"
}

@test "a narrow PCIe link, a driver that was updated beneath, no fabric manager, no nvidia-uvm: broken, with what to do" {
  simulate <<<"$(fault n1 pcie_width gpu=3 value=8; fault n2 nvml_error code=18; fault n3 cuda_error stage=init code=802
    fault n4 cuda_error stage=init code=999)"
  check_apart
  accused_apart broken n1 "${gpu3}PCIe runs x8 of x16"
  accused_apart broken n2 ".*differ in version \(NVML error 18\) \(reload the nvidia modules or reboot the node\)"
  accused_apart broken n3 ".*fabric manager is not running.*802.*systemctl status nvidia-fabricmanager"
  accused_apart broken n4 ".*999.*nvidia-modprobe -u"
}

@test "a missing GPU of one node in a job of four: it alone is named and drained" {
  simulate <<<"$(fault n2 missing_gpu gpu=3)"
  check "${whole[@]}"
  accused broken n2 "GPU 3 of this job is not there: "
  [ "$(grep -c 'nccl-check: untested' <<<"$output")" -eq 0 ]
}

# ---- what can't be tested

@test "full memory, an old driver, an old NCCL, MIG: untested, each with its reason, and the jobs run" {
  simulate <<<"$(fault n1 cuda_error stage=allocate code=2 gpu=3; fault n1 busy gpu=3 value=4711
    printf '[host %s]\n%s\n' n2 'driver = 12040' n3 'nccl = 21700'; fault n4 mig gpu=3)"
  check_apart
  allowed_apart untested n1 "${gpu3}the GPU's memory is full .*processes on it: 4711 "
  allowed_apart untested n2 ".*libcuda.so.1: the driver is for CUDA 12.4, but this nccl-check was built with CUDA 1[0-9]"
  allowed_apart untested n3 ".*libnccl.so.2: NCCL 2.17.0 is too old, 2.18.0 or newer is needed"
  allowed_apart untested n4 "${gpu3}MIG is enabled"
}

@test "a GPU that a process has for itself is untested; the other nodes are measured all the same" {
  simulate <<<"$(fault n2 exclusive_process gpu=3; fault n2 busy gpu=3 value=4711)"
  check "${whole[@]}"
  allowed "untested n2: ${gpu3}its compute mode is EXCLUSIVE_PROCESS and a process has it; processes on it: 4711" \
    "untested n\[1-4\]: all_reduce 1 MiB on 3x8 SIMULATED H200: 3[67][0-9] GB/s busbw"
}

@test "nodes with different NCCLs: named, the job fails, nobody is drained" {
  simulate <<<$'[host n2]\nnccl = 22800'
  check "${whole[@]}"
  says "the job is cancelled: the nodes differ in NCCL: 2.28.0 on n2, 2.28.9 on n\[1,3-4\]"
  [ ! -e "$CLUSTER/home/alice/ran" ]
  only_out
}

@test "NCCL took sockets though there are InfiniBand ports: it says so" {
  simulate <<<"network = Socket"
  check -N2 --gpus-per-node=8
  allowed "slow n\[1-2\]: all_reduce .* 2.60 GB/s busbw, .*over Socket hs0; NCCL used Socket though 8 InfiniBand ports are active"
}

@test "a library that others could change is not opened: untested, and nobody is drained" {
  chmod o+w "$CLUSTER/gpu/libcuda.so.1"
  check "${whole[@]}" || failed=yes
  chmod o-w "$CLUSTER/gpu/libcuda.so.1"
  [ -z "${failed:-}" ]
  allowed "untested n\[1-4\]: /srv/gpu/libcuda.so.1: .*others than root can change.*chmod go-w"
}
