#!/usr/bin/env bats
# The test cluster itself: what it promises to the tests that stand on it.

# shellcheck disable=SC2016,SC2030,SC2031  # single quotes are for a host's shell; each test is a process of its own
bats_require_minimum_version 1.5.0

setup_file() {
  source "$BATS_TEST_DIRNAME/harness/cluster.bash"
  cluster_up --hosts 5 --nic n2=eth7
  export CLUSTER
}

teardown_file() {
  source "$BATS_TEST_DIRNAME/harness/cluster.bash"
  cluster_down
}

setup() {
  source "$BATS_TEST_DIRNAME/harness/cluster.bash"
}

# Processes in any namespace that has this cluster's mounts, and the cluster's folder.
remains_of() {
  grep -l "$1" /proc/[0-9]*/mountinfo 2>/dev/null
  ls -d "$1" 2>/dev/null
  return 0
}

nothing_remains_of() {
  [ -z "$(remains_of "$1")" ]
}

between() {
  if [ "${1%.*}" -lt "$2" ] || [ "${1%.*}" -gt "$3" ]; then
    echo "$1 is not between $2 and $3"
    return 1
  fi
}

@test "every node is a host of its own: name, interface, folders, processes" {
  for i in 1 2 3 4 5; do
    [ "$(cluster_exec "n$i" hostname)" = "n$i" ]
    cluster_exec "n$i" sh -c 'echo "$(hostname)" >/run/nccl-check/mine; hostname >/etc/nccl-check/mine; hostname >/var/lib/nccl-check/mine'
  done
  for i in 1 5; do
    [ "$(cluster_exec "n$i" cat /run/nccl-check/mine /etc/nccl-check/mine /var/lib/nccl-check/mine)" = "$(printf 'n%s\n' $i $i $i)" ]
  done
  [ "$(cluster_exec n1 ls /sys/class/net | tr '\n' ' ')" = "hs0 lo " ]
  [ "$(cluster_exec n2 ls /sys/class/net | tr '\n' ' ')" = "eth7 lo " ]
  [ -z "$(cluster_processes n1)" ]
  [ ! -e /etc/nccl-check/mine ] && [ ! -e /run/nccl-check/mine ] && [ ! -e /var/lib/nccl-check/mine ]
}

@test "srun, sbatch, salloc, het jobs and arrays run as a user" {
  [ "$(cluster_as alice srun -N5 sh -c 'echo $(hostname) $(id -un)' | sort)" = "$(printf 'n%s alice\n' 1 2 3 4 5)" ]
  [ "$(cluster_as bob salloc -Q -N2 srun hostname | sort)" = "$(printf 'n%s\n' 1 2)" ]
  [ "$(cluster_as alice srun -Q -N1 hostname : -N2 hostname | sort)" = "$(printf 'n%s\n' 1 2 3)" ]
  job=$(cluster_submit alice -N3 -o out <<<$'#!/bin/bash\nsrun hostname')
  cluster_wait_job "$job" COMPLETED
  [ "$(sort "$CLUSTER/home/alice/out")" = "$(printf 'n%s\n' 1 2 3)" ]
  array=$(cluster_submit alice --array=1-3 -o 'task%a' --wrap 'echo task $SLURM_ARRAY_TASK_ID')
  for task in 1 2 3; do
    cluster_wait_job "${array}_$task" COMPLETED
    [ "$(cat "$CLUSTER/home/alice/task$task")" = "task $task" ]
  done
}

@test "lines are shaped: 1 Gbit/s, a slow node both ways, its peers not" {
  between "$(cluster_iperf n1 n2)" 500 1000
  cluster_shape n3 200mbit
  between "$(cluster_iperf n1 n3)" 150 200
  between "$(cluster_iperf n3 n1)" 150 200
  between "$(cluster_iperf n2 n1)" 500 1000
  cluster_shape n3 1gbit
  between "$(cluster_iperf n3 n1)" 500 1000
}

@test "a path between two nodes is slowed, and nothing else" {
  cluster_shape_path n1 n2 200mbit
  between "$(cluster_iperf n1 n2)" 150 200
  between "$(cluster_iperf n2 n1)" 150 200
  between "$(cluster_iperf n1 n3)" 500 1000
  cluster_shape n1 1gbit
  cluster_shape n2 1gbit
  between "$(cluster_iperf n1 n2)" 500 1000
}

@test "node states and reasons are read, and a reset takes everything back" {
  cluster_exec ctl scontrol update NodeName=n4 State=DRAIN Reason="nccl-check: slow send/recv 0.02 < 0.09 GB/s with n1,n2, job 7"
  cluster_wait_node n4 drained
  [ "$(cluster_node_reason n4)" = "nccl-check: slow send/recv 0.02 < 0.09 GB/s with n1,n2, job 7" ]
  [ -z "$(cluster_node_reason n1)" ]
  job=$(cluster_submit bob -N2 -o /dev/null --wrap 'sleep 300')
  cluster_wait_job "$job" RUNNING
  cluster_pause n5
  cluster_shape n5 200mbit
  cluster_exec n1 touch /run/nccl-check/file
  cluster_reset
  [ "$(cluster_node_state n4)" = idle ]
  [ "$(cluster_job "$job" JobState)" = CANCELLED ]
  [ -z "$(ls "$CLUSTER/host/n1/run/nccl-check")" ]
  between "$(cluster_iperf n5 n1)" 500 1000
}

@test "a paused slurmctld does not answer, and does again" {
  cluster_pause ctl
  run cluster_exec --deadline 2 ctl scontrol ping
  [ "$status" -eq 124 ]
  cluster_resume ctl
  cluster_wait_until 20 cluster_exec ctl sinfo
}

@test "a daemon restarts with its own host's changed configuration" {
  echo "required /nowhere/plugin.so" >"$CLUSTER/host/n2/slurm/plugstack.conf"
  cluster_restart n2
  cluster_wait_until 10 grep -q "/nowhere/plugin.so" "$CLUSTER/host/n2/log/slurmd.log"
  : >"$CLUSTER/host/n2/slurm/plugstack.conf"
  cluster_restart n2
  cluster_wait_node n2 idle
  cluster_restart ctl
  cluster_wait_until 20 cluster_exec ctl sinfo
  [ "$(cluster_as alice srun -w n2 hostname)" = n2 ]
}

@test "processes left on a host are listed" {
  cluster_exec n1 bash -c 'setsid sleep 77 </dev/null >/dev/null 2>&1 &'
  run cluster_processes n1
  [[ "$output" =~ ^[0-9]+\ 0\ S\ sleep\ 77\ $ ]]
  cluster_exec n1 kill "${output%% *}"
  cluster_wait_until 5 no_process_on n1
}

no_process_on() {
  [ -z "$(cluster_processes "$1")" ]
}

@test "two clusters side by side do not see each other; ending one leaves the other" {
  first=$CLUSTER
  cluster_up --hosts 2
  second=$CLUSTER
  [ "$first" != "$second" ]
  [ "$(cluster_as alice srun -N2 hostname | sort)" = "$(printf 'n%s\n' 1 2)" ]
  run ! cluster_exec n5 true
  key=$(cluster_exec ctl cksum /etc/munge/munge.key)
  cluster_down
  nothing_remains_of "$second"
  CLUSTER=$first
  [ "$(cluster_exec ctl cksum /etc/munge/munge.key)" != "$key" ]
  [ "$(cluster_as alice srun -N5 hostname | wc -l)" -eq 5 ]
}

@test "a cluster goes when its owner is killed, with all of its processes" {
  sleep 600 3>&- &
  owner=$!
  first=$CLUSTER
  cluster_up --hosts 2 --owner $owner
  second=$CLUSTER
  job=$(cluster_submit alice -N2 -o /dev/null --wrap 'setsid sleep 500 & sleep 500')
  cluster_wait_job "$job" RUNNING
  cluster_exec n1 bash -c 'setsid sleep 500 </dev/null >/dev/null 2>&1 &'
  [ "$(remains_of "$second" | wc -l)" -gt 10 ]
  kill -KILL $owner
  cluster_wait_until 10 nothing_remains_of "$second"
  CLUSTER=$first
}

@test "a cluster goes when what starts it is killed half-way" {
  TMPDIR=$BATS_TEST_TMPDIR "$BATS_TEST_DIRNAME/cluster" up --hosts 2 >/dev/null 2>&1 3>&- &
  cluster_wait_until 10 supervised_below "$BATS_TEST_TMPDIR"
  kill -KILL $!
  # Its owner, this test, is still there: the supervisor alone holds the cluster.
  for file in "$BATS_TEST_TMPDIR"/*/supervisor.pid; do kill -KILL "$(cat "$file")"; done
  cluster_wait_until 10 no_process_in "$BATS_TEST_TMPDIR/nccl-check-cluster"
}

supervised_below() {
  compgen -G "$1/*/supervisor.pid"
}

no_process_in() {
  ! grep -q "$1" /proc/[0-9]*/mountinfo 2>/dev/null
}

@test "the site's Prolog, partitions, topology and settings are taken" {
  first=$CLUSTER
  printf '#!/bin/sh\n[ "$SLURMD_NODENAME" != n2 ]\n' >"$BATS_TEST_TMPDIR/prolog"
  chmod +x "$BATS_TEST_TMPDIR/prolog"
  printf 'SwitchName=leaf1 Nodes=n[1-2]\nSwitchName=leaf2 Nodes=n3\nSwitchName=spine Switches=leaf[1-2]\n' >"$BATS_TEST_TMPDIR/topology"
  cluster_up --hosts 3 --prolog "$BATS_TEST_TMPDIR/prolog" --topology "$BATS_TEST_TMPDIR/topology" \
    --partition "one Nodes=n[1-2] Default=YES" --partition "two Nodes=n3" --conf MessageTimeout=7
  [[ "$(cluster_exec ctl scontrol show config)" =~ MessageTimeout\ +=\ 7\ sec ]]
  [[ "$(cluster_exec ctl scontrol show topology)" == *"SwitchName=leaf2 Level=0"*"Nodes=n3"* ]]
  [ "$(cluster_as alice srun -p two hostname)" = n3 ]
  run ! cluster_as alice srun -N2 hostname
  cluster_wait_node n2 "drained"
  [ "$(cluster_node_reason n2)" = "Prolog error" ]
  [ "$(cluster_node_state n1)" = idle ]
  cluster_down
  CLUSTER=$first
}

@test "a cluster that cannot start says why and leaves nothing" {
  run ! env TMPDIR="$BATS_TEST_TMPDIR" "$BATS_TEST_DIRNAME/cluster" up --hosts 1 --conf SelectType=select/nowhere
  [[ "$output" == *"select/nowhere"* ]]
  nothing_remains_of "$BATS_TEST_TMPDIR/nccl-check-cluster"
  [ -z "$(ls "$BATS_TEST_TMPDIR")" ]
}

@test "bad options and commands are refused by name" {
  while IFS=: read -r words named; do
    # shellcheck disable=SC2086  # words are words
    run ! "$BATS_TEST_DIRNAME/cluster" $words
    [[ "$output" == *"$named"* ]]
  done <<END
up --nodes 3:--nodes
up --hosts zero:zero
up --rate 5:'5'
up --gate sideways:sideways
up --hosts 3 --conf:--conf
sideways:sideways
END
}
