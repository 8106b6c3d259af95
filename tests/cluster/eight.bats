#!/usr/bin/env bats
# shellcheck disable=SC2119  # policy takes its lines or none
# Eight hosts: several culprits, several jobs at once, leaf switches.

source "$BATS_TEST_DIRNAME/gate_common.bash"
POLICY_DEADLINE=25s

setup_file() {
  printf '%s\n' 'SwitchName=leaf1 Nodes=n[1-4]' 'SwitchName=leaf2 Nodes=n[5-8]' 'SwitchName=spine Switches=leaf[1-2]' \
    >"$BATS_FILE_TMPDIR/topology.conf"
  gate_cluster --hosts 8 --gate prolog --topology "$BATS_FILE_TMPDIR/topology.conf"
}

@test "eight healthy hosts pass" {
  run cluster_as alice srun -N8 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: pass n\[1-8\]: all_reduce' <<<"$output"
  for node in n1 n8; do echo "# prolog of $node: $(prolog_ms "$node") ms" >&3; done
}

@test "two slow nodes of eight: both are named and drained, the other six are not" {
  cluster_shape n3 200mbit
  cluster_shape n6 200mbit
  run cluster_as alice srun -N8 --nccl-check touch ran
  [ "$status" -ne 0 ]
  grep -q 'nccl-check: slow n3: send/recv .*: drained' <<<"$output"
  grep -q 'nccl-check: slow n6: send/recv .*: drained' <<<"$output"
  only_out n3 n6
  [ ! -e "$CLUSTER/home/alice/ran" ]
}

@test "the breaker: of two jobs that fail at the same moment one drain stays" {
  BREAKER=1 DEADLINE=25s policy | cluster_config all
  cluster_shape n2 200mbit
  cluster_shape n6 200mbit
  first=$(a_job -N4 -w 'n[1-4]' --nccl-check)
  second=$(a_job -N4 -w 'n[5-8]' --nccl-check)
  cluster_wait_until 60 prolog_is_back n2 "$first"
  cluster_wait_until 60 prolog_is_back n6 "$second"
  [ "$(cluster_exec ctl sinfo -h -N -o '%N %T' | sort -u | grep -c drain)" -eq 1 ]
  cat "$CLUSTER"/host/n[26]/log/prolog.log | grep -q 'not drained: the breaker allows 1'
  cluster_exec ctl scancel "$first" "$second"
}
