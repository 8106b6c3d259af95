# shellcheck shell=bash
# What the tests of the gate share: a cluster with a policy of real consequences at the first strike, and looking at what
# came of it. Source it in a file's own scope: it brings teardown_file and setup.
source "$BATS_TEST_DIRNAME/harness/cluster.bash"

# gate_cluster OPTIONS...: for setup_file; the options are cluster_up's.
gate_cluster() {
  # shellcheck disable=SC2119
  policy >"$BATS_FILE_TMPDIR/policy.toml"
  cluster_up --config "$BATS_FILE_TMPDIR/policy.toml" "$@"
  export CLUSTER
}

teardown_file() {
  cluster_down
}

# A file that wants another deadline sets POLICY_DEADLINE.
setup() {
  cluster_reset
  DEADLINE=${POLICY_DEADLINE:-15s} policy | cluster_config all
  rm -f "$CLUSTER"/home/alice/*
}

# policy [TOML LINES...]: nccl-check.toml of a site that enforces; top-level keys may be given.
# shellcheck disable=SC2120  # most callers give none
policy() {
  cat <<END
mode = "${MODE:-enforce}"
reuse = "${REUSE:-0}"
deadline = "${DEADLINE:-15s}"
$(printf '%s\n' "$@")

[strikes]
count = ${STRIKES:-1}

[breaker]
nodes = ${BREAKER:-8}
percent = 0

[[limit]]
operation = "send_recv"
busbw = 0.09
note = "1 Gbit/s carries 0.117"

[[limit]]
operation = "all_reduce"
busbw = 0.08
note = "1 Gbit/s carries 0.117"
END
  # A program built with sanitizers maps terabytes that it never touches.
  [ -z "${NCCL_CHECK_PROGRAM_BUILD:-}" ] || printf '\n[worker]\nmemory = "0"\n'
}

# only_out NODE...: these nodes are drained by nccl-check and all others are idle.
only_out() {
  local node
  for node in $(cluster_exec ctl sinfo -h -N -o %N | sort -u); do
    if [[ " $* " == *" $node "* ]]; then
      cluster_wait_node "$node" "drained draining drained*" || return
      [[ "$(cluster_node_reason "$node")" == "nccl-check: "* ]] || return
    else
      cluster_wait_node "$node" idle || return
    fi
  done
}

# a_job ARGUMENTS...: a batch job of alice's that says on which nodes it ran, and marks that it ran.
a_job() {
  cluster_submit alice "$@" <<'END'
#!/bin/bash
echo "$SLURM_JOB_ID $SLURM_JOB_NODELIST" >>ran
END
}

record() {  # record NODE JOB: the verdict that was left there
  cat "$CLUSTER/host/$1/run/nccl-check/jobs/$2.json"
}

# stop_worker_at NODE STAGE [SIGNAL]: as soon as a worker of that node is in STAGE (open, connect, all_reduce, send/recv).
stop_worker_at() {
  cluster_exec --deadline 30 "$1" bash -c '
    while :; do
      for file in /proc/[0-9]*/comm; do
        { read -r name <"$file"; } 2>/dev/null || continue
        if [ "$name" = "nccl:$0" ]; then kill -"$1" "$(basename "${file%/comm}")" && exit 0; fi
      done
    done' "$2" "${3:-STOP}"
}

# prolog_ms NODE: how long the last prolog there took.
prolog_ms() {
  sed -n 's/.* took \([0-9]*\) ms, status.*/\1/p' "$CLUSTER/host/$1/log/prolog.log" | tail -n 1
}

prolog_is_back() {  # prolog_is_back NODE JOB
  grep -q "job $2 took" "$CLUSTER/host/$1/log/prolog.log" 2>/dev/null
}

nothing_left() {  # nothing_left NODE...: no process of ours
  local node
  for node in "$@"; do
    cluster_wait_until 3 no_processes "$node" || { cluster_processes "$node"; return 1; }
  done
}

no_processes() {
  [ -z "$(cluster_processes "$1")" ]
}
