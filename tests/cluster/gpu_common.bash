# shellcheck shell=bash
# What the tests of the gate on simulated GPUs share: what the hosts' GPUs are, checks, and looking at what came of them.
# Source it in a file's own scope: it brings teardown_file and setup.
source "$BATS_TEST_DIRNAME/gate_common.bash"

# shellcheck disable=SC2034  # the files' own
whole=(-N4 --gpus-per-node=8)

# A file may set GPU_DEADLINE, a test calls gpu_policy: seconds.
setup() {
  cluster_reset
  gpu_policy "${GPU_DEADLINE:-10}"
  simulate </dev/null
  rm -f "$CLUSTER"/home/alice/*
}

# gpu_policy SECONDS: a site that enforces. Messages are too small for a limit of a node's collective to follow from its
# hardware, so there is a rule for whole nodes; everything else follows from the hardware.
gpu_policy() {
  deadline=$1
  cluster_config all <<END
mode = "enforce"
reuse = "0"
deadline = "$1s"

[measure]
size = "1M"

[nccl]
library = "/srv/gpu/libnccl.so.2"
cuda_library = "/srv/gpu/libcuda.so.1"
nvml_library = "/srv/gpu/libnvidia-ml.so.1"

[strikes]
count = 1

[breaker]
nodes = 0
percent = 0

[[limit]]
operation = "all_reduce"
partition = "batch"
busbw = 290
from_size = "1M"
note = "18 links of 20.6"
END
}

# simulate: what the hosts' GPUs are, from stdin, as tests/doubles/description/description.hpp says.
simulate() {
  local host text
  text=$(cat)
  for host in "$CLUSTER"/host/n?; do printf 'gpus = 8\n%s\n' "$text" >"$host/nccl-check/simulation.conf"; done
}

# fault HOST KIND KEY=VALUE...: one, for simulate.
fault() {
  printf '[fault %s]\nhost = %s\n' "$2" "$1"
  printf '%s\n' "${@:3}"
}

# check [-o OPTION'S WORDS] SRUN ARGUMENTS...: a checked job of alice's that marks that it ran, as bats' run. Whatever came of
# it, it came in time and left nothing.
check() {
  local words=""
  if [ "$1" = -o ]; then words="=$2"; shift 2; fi
  run cluster_as alice srun "$@" --nccl-check"$words" touch ran
  in_time && none_of_ours && no_shared_memory
}

# check_apart: four jobs at once, one on each whole node; $output has all their lines.
check_apart() {
  local node
  run apart
  in_time && none_of_ours && no_shared_memory
}

apart() {
  local node
  for node in n1 n2 n3 n4; do
    cluster_as alice srun -N1 -w "$node" --gpus-per-node=8 --nccl-check touch "ran.$node" &
  done
  wait
}

# The gates were back within 2 s of the deadline, and the verdicts were there within half a second.
in_time() {
  local node seconds
  for node in n1 n2 n3 n4; do
    [ -e "$CLUSTER/host/$node/log/prolog.log" ] || continue
    [ "$(prolog_ms "$node")" -le $((deadline * 1000 + 2000)) ] || { echo "prolog of $node: $(prolog_ms "$node") ms"; return 1; }
    seconds=$(sed -n '$s/.*"seconds":\([0-9.]*\).*/\1/p' "$CLUSTER/host/$node/lib/nccl-check/results.jsonl")
    awk -v s="$seconds" -v d="$deadline" 'BEGIN { exit !(s > 0 && s <= d + 0.5) }' ||
      { echo "verdict of $node: after '$seconds' s"; return 1; }
  done
}

none_of_ours() {
  local node
  for node in n1 n2 n3 n4; do
    cluster_wait_until 3 no_process_of_ours "$node" || { cluster_processes "$node"; return 1; }
  done
}

no_process_of_ours() {
  ! cluster_processes "$1" | grep nccl
}

no_shared_memory() {
  local node
  for node in n1 n2 n3 n4; do
    [ -z "$(cluster_exec "$node" ls -A /dev/shm)" ] || { cluster_exec "$node" ls -lA /dev/shm; return 1; }
  done
}

# says TEXT: a line of $output begins so after our prefix; TEXT is an extended regular expression.
says() {
  # shellcheck disable=SC2154  # bats'
  grep -qE "^(srun: )?nccl-check: $1" <<<"$output" || { echo "no line says: $1"; return 1; }
}

# accused CLASS NODE TEXT: it is the only node to blame, it is drained, and no user code ran.
accused() {
  says "$1 $2: $3.*: drained$" && [ ! -e "$CLUSTER/home/alice/ran" ] && only_out "$2" &&
    [[ "$(cluster_node_reason "$2")" == "nccl-check: $1 "* ]]
}

# accused_apart CLASS NODE TEXT: of check_apart's nodes, this one for this.
accused_apart() {
  says "$1 $2: $3.*: drained$" && [ ! -e "$CLUSTER/home/alice/ran.$2" ] && cluster_wait_node "$2" "drained draining" &&
    [[ "$(cluster_node_reason "$2")" == "nccl-check: $1 "* ]]
}

# allowed_apart CLASS NODE TEXT: of check_apart's nodes, this one for this, which is nobody's fault.
allowed_apart() {
  says "$1 $2: $3" && [ -e "$CLUSTER/home/alice/ran.$2" ] && cluster_wait_node "$2" idle && [ -z "$(cluster_node_reason "$2")" ]
}

# allowed TEXT...: the user reads each, the job ran, and no node is drained.
allowed() {
  local text
  for text in "$@"; do says "$text" || return; done
  [ -e "$CLUSTER/home/alice/ran" ] && only_out
}
