#!/usr/bin/env bats
# nccl-check-slurm against a real slurmctld: nodes are drained and given back, jobs are failed, and nothing else is hit.
# A Prolog that waits while /run/nccl-check/hold is there stands for a gate at work.

# shellcheck disable=SC2016,SC2030,SC2031  # single quotes are for a host's shell; each test is a process of its own
bats_require_minimum_version 1.5.0

setup_file() {
  source "$BATS_TEST_DIRNAME/harness/cluster.bash"
  cat >"$BATS_FILE_TMPDIR/prolog" <<'END'
#!/bin/bash
for ((i = 0; i < 250; i++)); do [ -e /run/nccl-check/hold ] || exit 0; sleep 0.1; done
END
  chmod +x "$BATS_FILE_TMPDIR/prolog"
  printf 'SwitchName=leaf1 Nodes=n[1-3]\nSwitchName=leaf2 Nodes=n[4-5]\nSwitchName=spine Switches=leaf[1-2]\n' \
    >"$BATS_FILE_TMPDIR/topology"
  cluster_up --hosts 5 --gate plugin --prolog "$BATS_FILE_TMPDIR/prolog" --topology "$BATS_FILE_TMPDIR/topology"
  export CLUSTER
}

teardown_file() {
  source "$BATS_TEST_DIRNAME/harness/cluster.bash"
  cluster_down
}

setup() {
  source "$BATS_TEST_DIRNAME/harness/cluster.bash"
  cluster_reset
  rm -f "$CLUSTER"/home/alice/*
}

slurm() {
  cluster_exec ctl "/srv/${NCCL_CHECK_PROGRAM_BUILD:+program-}build/slurm/nccl-check-slurm" "$@"
}

# fail_job JOB ARGUMENTS...: with a text for each thing that can become of it.
fail_job() {
  slurm fail-job "$@" --requeued $'nccl-check: slow n3\nnccl-check: the job is requeued' \
    --held 'nccl-check: the job is held' --cancelled $'nccl-check: slow n3\nnccl-check: the job is cancelled'
}

# has TEXT...: the object that a call printed has each of them.
has() {
  local text
  for text in "$@"; do
    [[ $output == *"$text"* ]] || { echo "no $text in $output"; return 1; }
  done
}

hold() {
  local i
  for i in 1 2 3 4 5; do touch "$CLUSTER/host/n$i/run/nccl-check/hold"; done
}

let_go() {
  rm -f "$CLUSTER"/host/n*/run/nccl-check/hold
}

# A batch job that marks each run of it, as `run-JOB-TASK`.
a_job() {
  cluster_submit alice "$@" <<'END'
#!/bin/bash
#SBATCH -o /dev/null
echo "$SLURM_JOB_NODELIST" >>"run-$SLURM_JOB_ID"
sleep 1
END
}

ran() {
  [ -e "$CLUSTER/home/alice/run-$1" ]
}

in_prolog() {  # in_prolog COUNT: so many jobs' prologs are waiting
  [ "$(cluster_exec ctl squeue -h -t R -o %A | wc -l)" -eq "$1" ]
}

@test "addresses come from slurm.conf, without slurmctld" {
  cluster_pause ctl
  run -0 slurm address 'n[1-2]' n3 nowhere
  cluster_resume ctl
  [ "$output" = '{"addresses":{"n1":"10.77.1.1","n2":"10.77.1.2","n3":"10.77.1.3"},"unknown":["nowhere"]}' ] ||
    { echo "$output"; false; }
}

@test "addresses that slurm.conf lacks are asked for with --rpc" {
  run -0 slurm address --rpc n1 nowhere
  has '"unknown":["nowhere"]'
}

@test "the leaf switch of each node" {
  run -0 slurm topology
  [ "$output" = '{"leaves":{"leaf1":["n1","n2","n3"],"leaf2":["n4","n5"]}}' ]
  run -0 slurm topology 'n[3-4]'
  [ "$output" = '{"leaves":{"leaf1":["n3"],"leaf2":["n4"]}}' ]
}

# bats test_tags=sanitize
@test "a node is drained with our reason, which a newer one of ours replaces, and given back" {
  run -0 slurm drain n3 'nccl-check: slow send/recv 0.02 < 0.09 GB/s, job 7'
  has '"done":true' '"replaced":false'
  run -0 slurm node n3
  has '"state":["idle","drain"]' '"reason":"nccl-check: slow send/recv 0.02 < 0.09 GB/s, job 7"' '"partitions":["batch","shared"]'
  run -0 slurm drain n3 'nccl-check: corrupt, job 8'
  has '"replaced":true'
  [ "$(cluster_node_reason n3)" = 'nccl-check: corrupt, job 8' ]
  run -0 slurm reasons nccl-check:
  has '"nodes":[{"node":"n3","partitions":["batch","shared"],"reason":"nccl-check: corrupt, job 8",' '"partitions":{"batch":5,"shared":5}'
  run -0 slurm undrain n3
  has '"done":true'
  cluster_wait_node n3 idle
  [ -z "$(cluster_node_reason n3)" ]
}

@test "another's reason and another's drain are never touched" {
  cluster_exec ctl scontrol update NodeName=n4 State=DRAIN Reason="bad disk"
  run -0 slurm drain n4 'nccl-check: slow'
  has '"done":false' '"out":true'
  has "'bad disk'"
  run -0 slurm undrain n4
  has '"done":false'
  [ "$(cluster_node_reason n4)" = "bad disk" ]
  [ "$(cluster_node_state n4)" = drained ]
  run -0 slurm undrain n1
  has "n1 is not drained"
  run -0 slurm reasons nccl-check:
  has '"nodes":[]'
}

@test "a node that is down as well stays down" {
  slurm drain n2 'nccl-check: slow'
  cluster_exec ctl scontrol update NodeName=n2 State=DOWN Reason='nccl-check: slow'
  run -0 slurm undrain n2
  has '"done":true'
  run -0 slurm node n2
  has '"state":["down"'
  [[ $output != *'"drain"'* ]]
  cluster_exec ctl scontrol update NodeName=n2 State=RESUME
  cluster_wait_node n2 idle
}

@test "which jobs are on a node" {
  first=$(cluster_submit alice -p shared -n1 -w n1 -o /dev/null --wrap 'sleep 60')
  second=$(cluster_submit bob -p shared -n1 -w n1 -o /dev/null --wrap 'sleep 60')
  cluster_wait_job "$first" RUNNING
  cluster_wait_job "$second" RUNNING
  run -0 slurm jobs-on n1
  [ "$output" = "{\"jobs\":[$first,$second]}" ]
  run -0 slurm jobs-on n2
  [ "$output" = '{"jobs":[]}' ]
}

# bats test_tags=sanitize
@test "srun and salloc read our lines first and end; the comment stays" {
  for kind in srun salloc; do
    hold
    cluster_as alice "$kind" -N2 touch "ran-$kind" >"$BATS_TEST_TMPDIR/$kind" 2>&1 3>&- &
    cluster_wait_until 20 in_prolog 1
    job=$(cluster_exec ctl squeue -h -o %A)
    run -0 fail_job "$job" --avoid n1
    has '"outcome":"cancelled"' '"told":true'
    wait %% && { echo "$kind ended well"; false; }
    let_go
    # srun's own words about queueing aside.
    grep -v 'Granted\|Waiting\|queued\|allocated resources' "$BATS_TEST_TMPDIR/$kind" >"$BATS_TEST_TMPDIR/lines"
    [ "$(head -n 2 "$BATS_TEST_TMPDIR/lines")" = "$kind: nccl-check: slow n3"$'\nnccl-check: the job is cancelled' ] ||
      { cat "$BATS_TEST_TMPDIR/$kind"; false; }
    [ "$(cluster_admin_comment "$job")" = 'nccl-check: slow n3 | nccl-check: the job is cancelled' ]
    [ ! -e "$CLUSTER/home/alice/ran-$kind" ]
    cluster_wait_until 20 in_prolog 0
  done
}

@test "a batch job is requeued, the node to avoid joins those that it excludes, and it runs elsewhere" {
  hold
  job=$(a_job -N2 -x n2)
  cluster_wait_until 20 in_prolog 1
  run -0 fail_job "$job" --avoid n1
  has '"outcome":"requeued"' '"avoided":true'
  # Once more, as a peer's gate might: it has been done.
  run -0 fail_job "$job"
  has '"outcome":"gone"'
  # And a second culprit, later: its node is avoided as well.
  run -0 fail_job "$job" --avoid n4
  has '"outcome":"gone"' '"avoided":true'
  let_go
  [ "$(cluster_job "$job" ExcNodeList)" = 'n[1-2,4]' ]
  [ "$(cluster_admin_comment "$job")" = 'nccl-check: slow n3 | nccl-check: the job is requeued' ]
  cluster_wait_job "$job" COMPLETED 60
  [ "$(cat "$CLUSTER/home/alice/run-$job")" = 'n[3,5]' ]
}

@test "a run that came after the one that failed is left alone" {
  hold
  job=$(a_job -N1)
  cluster_wait_until 20 in_prolog 1
  fail_job "$job"
  let_go
  cluster_wait_job "$job" RUNNING 60
  run -0 fail_job "$job" --restart 0
  has '"outcome":"gone"'
  has "run 0 is meant, the job is at run 1 and running"
  cluster_wait_job "$job" COMPLETED 30
}

@test "a job that must not be requeued is cancelled" {
  hold
  job=$(a_job -N2 --no-requeue)
  cluster_wait_until 20 in_prolog 1
  run -0 fail_job "$job" --avoid n1
  has '"outcome":"cancelled"'
  let_go
  cluster_wait_job "$job" CANCELLED
  run ! ran "$job"
}

@test "a job that asks for the very node, or that would fail again, is held" {
  hold
  job=$(a_job -w n1)
  cluster_wait_until 20 in_prolog 1
  run -0 fail_job "$job" --avoid n1
  has '"outcome":"held"'
  let_go
  cluster_wait_until 20 in_prolog 0
  hold
  other=$(a_job -N1)
  cluster_wait_until 20 in_prolog 1
  run -0 fail_job "$other" --hold
  has '"outcome":"held"'
  let_go
  for id in "$job" "$other"; do
    cluster_wait_job "$id" PENDING
    [ "$(cluster_job "$id" Priority)" = 0 ]
    [ "$(cluster_admin_comment "$id")" = 'nccl-check: the job is held' ]
    run ! ran "$id"
  done
}

# tasks OPTIONS...: three tasks of an array in their prologs; sets `array` and `tasks`, the last of which has the array's id.
tasks() {
  hold
  array=$(a_job --array=1-3 -N1 "$@")
  cluster_wait_until 20 in_prolog 3
  mapfile -t tasks < <(cluster_exec ctl squeue -h -t R -o '%K %A' | sort | cut -d' ' -f2)
}

@test "one task of an array is requeued, the others run; also the one that has the array's own id" {
  for which in 0 2; do
    tasks
    run -0 fail_job "${tasks[$which]}"
    has '"outcome":"requeued"'
    let_go
    for i in 0 1 2; do
      [ "$i" -eq "$which" ] || cluster_wait_job "${tasks[$i]}" COMPLETED
    done
    [ "$(cluster_job "${tasks[$which]}" Restarts)" = 1 ]
    run ! ran "${tasks[$which]}"
    cluster_reset
  done
}

@test "one task of an array is cancelled, the others run; also the one that has the array's own id" {
  for which in 0 2; do
    tasks --no-requeue
    run -0 fail_job "${tasks[$which]}"
    has '"outcome":"cancelled"'
    let_go
    for i in 0 1 2; do
      if [ "$i" -eq "$which" ]; then
        cluster_wait_job "${tasks[$i]}" CANCELLED
        run ! ran "${tasks[$i]}"
      else
        cluster_wait_job "${tasks[$i]}" COMPLETED
      fi
    done
    cluster_reset
  done
}

@test "tasks of an array that wait their turn are not touched" {
  hold
  array=$(a_job --array=1-2%1 -N1 --no-requeue)
  cluster_wait_until 20 in_prolog 1
  first=$(cluster_exec ctl squeue -h -t R -o %A)
  run -0 fail_job "$first"
  has '"outcome":"cancelled"'
  let_go
  cluster_wait_job "$array" COMPLETED
  run ! ran "$first"
  ran "$array"
}

@test "a het job goes as a whole, by whichever component fails: requeued, or cancelled" {
  for which in 0 1; do
    for requeue in --requeue --no-requeue; do
      hold
      leader=$(a_job $requeue -N1 : $requeue -N2)
      cluster_wait_until 20 in_prolog 2
      job=$((leader + which))
      run -0 fail_job "$job" --avoid n5
      let_go
      if [ $requeue = --requeue ]; then
        has '"outcome":"requeued"' '"avoided":true'
        for id in "$leader" $((leader + 1)); do
          cluster_wait_job "$id" PENDING
          [ "$(cluster_job "$id" ExcNodeList)" = n5 ]
        done
      else
        has '"outcome":"cancelled"'
        for id in "$leader" $((leader + 1)); do cluster_wait_job "$id" CANCELLED; done
      fi
      [[ "$(cluster_admin_comment "$job")" == "nccl-check: slow n3 | "* ]]
      run ! ran "$leader"
      cluster_reset
    done
  done
}

@test "an srun of a het job is told once and ends as a whole" {
  hold
  cluster_as alice srun -N1 touch ran-a : -N1 touch ran-b >"$BATS_TEST_TMPDIR/said" 2>&1 3>&- &
  cluster_wait_until 20 in_prolog 2
  second=$(cluster_exec ctl squeue -h -o %A | sort -n | tail -n 1)
  run -0 fail_job "$second"
  has '"outcome":"cancelled"'
  wait %% && { echo "srun ended well"; false; }
  let_go
  [ "$(grep -c 'nccl-check: slow n3' "$BATS_TEST_TMPDIR/said")" -eq 1 ]
  [ ! -e "$CLUSTER/home/alice/ran-a" ] && [ ! -e "$CLUSTER/home/alice/ran-b" ]
}

@test "a job that has ended, or never was, is gone" {
  job=$(a_job -N1)
  cluster_wait_job "$job" COMPLETED
  run -0 fail_job "$job"
  has '"outcome":"gone"'
  [ "$(cluster_job "$job" JobState)" = COMPLETED ]
  run -0 fail_job 4000000
  has '"outcome":"gone"'
}

@test "a user is refused, and a slurmctld that is not there is no answer" {
  run -0 cluster_as alice /srv/build/slurm/nccl-check-slurm drain n1 'nccl-check: x'
  has '"done":false' '"answered":true'
  [ "$(cluster_node_state n1)" = idle ]
  cluster_stop ctl
  run -3 --separate-stderr slurm drain n1 'nccl-check: x'
  cluster_start ctl
  has '"done":false' '"answered":false'
  cluster_wait_until 20 cluster_exec ctl sinfo
}

@test "arguments are strict" {
  while IFS='|' read -r -a words; do
    run -2 slurm "${words[@]}"
  done <<'END'
sideways
drain|n1
drain|n1|a reason that is not ours
drain|n[1-2]|nccl-check: x
drain|-n|nccl-check: x
node|n1;id
topology|n[1-
fail-job|12_3
fail-job|0
fail-job|7|--restart|-1
fail-job|7|--avoid|n[
fail-job|7|--message|x
END
  [ "$(cluster_node_state n1)" = idle ]
}
