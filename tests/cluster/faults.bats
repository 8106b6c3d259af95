#!/usr/bin/env bats
# shellcheck disable=SC2119  # policy takes its lines or none
# What can go wrong with the check itself: it ends in a verdict by its deadline, accuses nobody wrongly, leaves nothing.

source "$BATS_TEST_DIRNAME/gate_common.bash"
POLICY_DEADLINE=10s

setup_file() {
  gate_cluster --hosts 4 --gate prolog
}

back_in_time() {  # back_in_time MS NODE...: the last prolog there took no longer
  local most=$1 node
  shift
  for node in "$@"; do
    echo "# prolog of $node: $(prolog_ms "$node") ms" >&3
    [ "$(prolog_ms "$node")" -le "$most" ] || return
  done
}

stopped_worker() {  # stopped_worker STAGE
  stop_worker_at n3 "$1" &
  run cluster_as alice srun -N4 --nccl-check touch ran
  wait
  [ "$status" -ne 0 ]
  grep -q 'nccl-check: hung n3: in ' <<<"$output"
  only_out n3
  [[ "$(cluster_node_reason n3)" == "nccl-check: hung in "* ]]
  [ ! -e "$CLUSTER/home/alice/ran" ]
  back_in_time 12000 n1 n2 n3 n4
  nothing_left n1 n2 n3 n4
}

@test "a worker that stops while it opens its devices" { stopped_worker open; }
@test "a worker that stops while it connects" { stopped_worker connect; }
@test "a worker that stops while all nodes measure" { stopped_worker all_reduce; }
@test "a worker that stops while pairs are measured" {
  cluster_shape n2 200mbit
  stop_worker_at n3 send/recv &
  run cluster_as alice srun -N4 --nccl-check touch ran
  wait
  [ "$status" -ne 0 ]
  grep -q 'nccl-check: hung n3: in ' <<<"$output"
  nothing_left n1 n2 n3 n4
  back_in_time 12000 n1 n2 n3 n4
}

@test "a worker that is killed: untested, the job runs, nobody is drained" {
  stop_worker_at n3 all_reduce KILL &
  run cluster_as alice srun -N4 --nccl-check hostname
  wait
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: untested n3: the worker ended in stage all_reduce: killed by signal 9' <<<"$output"
  only_out
  nothing_left n1 n2 n3 n4
}

@test "a node whose prolog never starts is untested, named, and drains nobody" {
  cluster_pause n3
  job=$(a_job -N4 --nccl-check)
  cluster_wait_until 20 test -e "$CLUSTER/host/n1/run/nccl-check/jobs/$job.json"
  cluster_wait_until 20 prolog_is_back n1 "$job"
  record n1 "$job" | grep -q '"verdict":"untested"'
  record n1 "$job" | grep -q 'untested n3: did not join within 5.0 s'
  back_in_time 12000 n1 n2 n4
  cluster_resume n3
  cluster_exec ctl scancel "$job"
  only_out
}

@test "the first node's prolog never starts: the others say so by the deadline" {
  cluster_pause n1
  job=$(a_job -N4 --nccl-check)
  cluster_wait_until 25 prolog_is_back n2 "$job"
  record n2 "$job" | grep -q '"verdict":"untested"'
  back_in_time 12000 n2 n3 n4
  cluster_resume n1
  cluster_exec ctl scancel "$job"
  only_out
}

@test "slurmctld stops answering while a node is slow: the verdict is there by the deadline, the gates are back" {
  cluster_shape n3 200mbit
  job=$(a_job -N4 --nccl-check)
  cluster_wait_until 10 worker_runs n3
  cluster_pause ctl
  cluster_wait_until 25 prolog_is_back n3 "$job"
  for node in n1 n2 n4; do cluster_wait_until 5 prolog_is_back "$node" "$job"; done
  record n3 "$job" | grep -q '"verdict":"slow"'
  back_in_time 12000 n1 n2 n3 n4
  nothing_left n1 n2 n3 n4
  cluster_resume ctl
  cluster_exec ctl scancel "$job"
}

worker_runs() {
  cluster_processes "$1" | grep -q 'nccl-check worker'
}

@test "the measuring worker has no rights" {
  cluster_shape n3 200mbit
  a_job -N4 --nccl-check >/dev/null
  cluster_wait_until 10 worker_runs n3
  pid=$(cluster_processes n3 | awk '/nccl-check worker/ {print $1; exit}')
  run cluster_exec n3 sh -c "grep -E 'Uid|Gid|Groups|NoNewPrivs|CapEff' /proc/$pid/status; tr '\0' '\n' </proc/$pid/environ"
  [ "$(sed -n 's/^Uid:[[:space:]]*//p' <<<"$output" | tr '\t' '\n' | sort -u | wc -l)" -eq 1 ]
  grep -qE '^Uid:\s*[1-9]' <<<"$output"
  grep -qE 'NoNewPrivs:\s*1' <<<"$output"
  grep -qE 'CapEff:\s*0000000000000000' <<<"$output"
  [ "$(grep -c SPANK <<<"$output")" -eq 0 ]
}

@test "a configuration that is broken, missing or writable by others: untested, with the reason, and the job runs" {
  echo 'mod = "enforce"' | cluster_config all
  run cluster_as alice srun -N2 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q "^nccl-check: untested n\[1-2\]: the site's configuration can't be used: .*nccl-check.toml:1.*mod" <<<"$output"
  rm "$CLUSTER"/host/n?/nccl-check/nccl-check.toml
  run cluster_as alice srun -N2 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q "^nccl-check: untested n\[1-2\]: the site's configuration can't be used: .*nccl-check.toml" <<<"$output"
  policy | cluster_config all
  chmod 666 "$CLUSTER"/host/n?/nccl-check/nccl-check.toml
  run cluster_as alice srun -N2 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q "^nccl-check: untested n\[1-2\]: .*others can write it" <<<"$output"
  chmod 644 "$CLUSTER"/host/n?/nccl-check/nccl-check.toml
  only_out
}

@test "the kill switch: nothing is measured, the job runs and its user reads why" {
  touch "$CLUSTER"/host/n{1,2,3,4}/nccl-check/disabled
  run cluster_as alice srun -N4 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: untested n\[1-4\]: switched off by /etc/nccl-check/disabled' <<<"$output"
  rm "$CLUSTER"/host/n?/nccl-check/disabled
}

@test "one node is switched off: the others do not wait for it" {
  touch "$CLUSTER/host/n1/nccl-check/disabled"
  run cluster_as alice srun -N4 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: untested n1: switched off' <<<"$output"
  rm "$CLUSTER/host/n1/nccl-check/disabled"
  back_in_time 8000 n1 n2 n3 n4
}

@test "nodes whose settings differ: named before anything is measured; the job fails, nobody is drained" {
  DEADLINE=10s policy '[measure]' 'size = "32M"' | cluster_config n2
  run cluster_as alice srun -N4 --nccl-check touch ran
  [ "$status" -ne 0 ]
  grep -q 'the nodes differ in size: ' <<<"$output"
  [ ! -e "$CLUSTER/home/alice/ran" ]
  only_out
}

@test "recent verdicts are reused; force measures again" {
  REUSE=6h policy | cluster_config all
  run cluster_as alice srun -N4 --nccl-check hostname
  [ "$status" -eq 0 ]
  run cluster_as alice srun -N4 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: pass n\[1-4\]: a recent verdict on 4 of 4 nodes stands' <<<"$output"
  run cluster_as alice srun -N4 --nccl-check=force hostname
  grep -q '^nccl-check: pass n\[1-4\]: all_reduce' <<<"$output"
}

@test "a job without the option is not touched" {
  run cluster_as alice srun -N4 hostname
  [ "$status" -eq 0 ]
  [ "$(grep -c nccl-check: <<<"$output")" -eq 0 ]
  [ -z "$(ls "$CLUSTER/host/n1/run/nccl-check/jobs" 2>/dev/null)" ]
}
