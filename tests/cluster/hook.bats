#!/usr/bin/env bats
# shellcheck disable=SC2119  # policy takes its lines or none
# The other way in: everything from plugstack.conf, by the hook plugin.

source "$BATS_TEST_DIRNAME/gate_common.bash"

setup_file() {
  gate_cluster --hosts 4 --gate hook
}

@test "healthy nodes pass" {
  run cluster_as alice srun -N4 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: pass n\[1-4\]: all_reduce' <<<"$output"
}

@test "the slow node alone is drained and no user code runs" {
  cluster_shape n3 200mbit
  run cluster_as alice srun -N4 --nccl-check touch ran
  [ "$status" -ne 0 ]
  grep -q 'nccl-check: slow n3: send/recv ' <<<"$output"
  only_out n3
  [ ! -e "$CLUSTER/home/alice/ran" ]
}

@test "the job's file goes with the job" {
  job=$(cluster_submit alice -N2 --nccl-check --wrap true)
  cluster_wait_job "$job" COMPLETED 40
  cluster_wait_until 10 test ! -e "$CLUSTER/host/n1/run/nccl-check/jobs/$job.json"
}
