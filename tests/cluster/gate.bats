#!/usr/bin/env bats
# shellcheck disable=SC2119  # policy takes its lines or none
# The main job: the slow node is found before the job runs, it alone is drained, the job goes elsewhere.

source "$BATS_TEST_DIRNAME/gate_common.bash"

setup_file() {
  gate_cluster --hosts 5 --gate prolog
}

@test "healthy nodes: the job runs and its user reads what they can do" {
  run cluster_as alice srun -N4 --nccl-check hostname
  [ "$status" -eq 0 ]
  [[ "$output" =~ "nccl-check: pass n[1-4]: all_reduce "[0-9]+" MiB on 4 nodes over hs0 "[^:]*": 0.1"[0-9.]+" GB/s busbw, limit 0.0800" ]]
  [ "$(grep -c nccl-check: <<<"$output")" -eq 1 ]
  only_out
}

# bats test_tags=sanitize
@test "srun: our line comes first, the slow node alone is drained with both figures, no user code runs" {
  cluster_shape n3 200mbit
  run cluster_as alice srun -N4 --nccl-check touch ran
  [ "$status" -ne 0 ]
  first=$(grep -v 'srun: job [0-9]* ' <<<"$output" | head -n 1)
  [[ "$first" =~ "nccl-check: slow n3: send/recv 0.02"[0-9]+" GB/s with n"[124]", n"[124]" and n"[124]", limit 0.0900 (1 Gbit/s carries 0.117): drained" ]]
  grep -q 'nccl-check: the job is cancelled: n3 is out, start it again' <<<"$output"
  only_out n3
  [[ "$(cluster_node_reason n3)" =~ ^"nccl-check: slow send/recv 0.02"[0-9]+" < 0.0900 GB/s with n"[124]",n"[124]",n"[124]", job "[0-9]+$ ]]
  [ ! -e "$CLUSTER/home/alice/ran" ]
}

@test "salloc: the same" {
  cluster_shape n3 200mbit
  run cluster_as alice salloc -N4 --nccl-check touch ran
  [ "$status" -ne 0 ]
  grep -q 'nccl-check: slow n3: send/recv ' <<<"$output"
  only_out n3
  [ ! -e "$CLUSTER/home/alice/ran" ]
}

@test "sbatch with #SBATCH: requeued without the slow node, completes elsewhere within 60 s, keeps the story" {
  cluster_shape n3 200mbit
  job=$(cluster_submit alice <<'END'
#!/bin/bash
#SBATCH -N4 --nccl-check
#SBATCH -o out
echo "$SLURM_JOB_NODELIST" >>ran
END
)
  start=$SECONDS
  cluster_wait_job "$job" COMPLETED 60
  echo "# completed after $((SECONDS - start)) s" >&3
  [ "$(cat "$CLUSTER/home/alice/ran")" = "n[1-2,4-5]" ]
  only_out n3
  grep -q '^nccl-check: pass n\[1-2,4-5\]: ' "$CLUSTER/home/alice/out"
  comment=$(cluster_admin_comment "$job")
  [[ "$comment" == *"nccl-check: slow n3: "*"nccl-check: the job is requeued without n3"* ]]
}

@test "one task of an array fails: the others are untouched" {
  cluster_shape n3 200mbit
  array=$(cluster_submit alice --array=0-2 -N2 -p batch --nccl-check <<'END'
#!/bin/bash
echo "$SLURM_ARRAY_TASK_ID $SLURM_JOB_NODELIST" >>ran
END
)
  cluster_wait_until 90 array_is_over "$array"
  [ "$(cut -d' ' -f1 "$CLUSTER/home/alice/ran" | sort | tr '\n' ' ')" = "0 1 2 " ]
}

array_is_over() {
  [ -z "$(cluster_exec ctl squeue -h -j "$1" 2>/dev/null)" ]
}

@test "--no-requeue: the job is cancelled, the node drained" {
  cluster_shape n3 200mbit
  job=$(a_job -N4 --nccl-check --no-requeue)
  cluster_wait_job "$job" CANCELLED 40
  only_out n3
  [ ! -e "$CLUSTER/home/alice/ran" ]
}

@test "warn: the line is shown, the job runs, nothing is drained" {
  cluster_shape n3 200mbit
  run cluster_as alice srun -N4 --nccl-check=warn hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: slow n3: send/recv ' <<<"$output"
  grep -qx n3 <<<"$output"
  only_out
}

@test "observe: the line is shown, the job runs, nothing is drained; strict fails the job all the same" {
  MODE=observe policy | cluster_config all
  cluster_shape n3 200mbit
  run cluster_as alice srun -N4 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: slow n3: .*only observed' <<<"$output"
  run cluster_as alice srun -N4 --nccl-check=strict touch ran
  [ "$status" -ne 0 ]
  [ ! -e "$CLUSTER/home/alice/ran" ]
  only_out
}

@test "two strikes: the first job fails, the second drains the node" {
  STRIKES=2 policy | cluster_config all
  cluster_shape n3 200mbit
  run cluster_as alice srun -N4 --nccl-check touch ran
  [ "$status" -ne 0 ]
  grep -q 'nccl-check: slow n3: .*strike 1 of 2 in 24 h' <<<"$output"
  only_out
  run cluster_as alice srun -w n2,n3,n4,n5 --nccl-check touch ran
  [ "$status" -ne 0 ]
  grep -q 'nccl-check: slow n3: .*strike 2 of 2 in 24 h: drained' <<<"$output"
  only_out n3
  [ ! -e "$CLUSTER/home/alice/ran" ]
}

@test "a slow path between two good nodes is called a path and drains nobody" {
  cluster_shape_path n1 n2 200mbit
  run cluster_as alice srun -N4 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: slow n\[1-4\]: .*the path n1-n2: ' <<<"$output"
  only_out
}

@test "two nodes that are slow together: nobody is drained" {
  cluster_shape n2 200mbit
  run cluster_as alice srun -N2 --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: slow n\[1-2\]: ' <<<"$output"
  only_out
}

@test "busbw= that is not reached fails the job and drains nothing" {
  run cluster_as alice srun -N2 --nccl-check=busbw=10 touch ran
  [ "$status" -ne 0 ]
  grep -q 'the job wanted 10' <<<"$output"
  only_out
  [ ! -e "$CLUSTER/home/alice/ran" ]
}

@test "a drain of somebody else's keeps its reason" {
  cluster_exec ctl scontrol update NodeName=n5 State=DRAIN Reason="broken fan"
  cluster_shape n3 200mbit
  run cluster_as alice srun -N4 --nccl-check touch ran
  [ "$status" -ne 0 ]
  [ "$(cluster_node_reason n5)" = "broken fan" ]
  [[ "$(cluster_node_reason n3)" == "nccl-check: slow "* ]]
}

@test "release takes back our drain and only ours" {
  cluster_exec ctl scontrol update NodeName=n5 State=DRAIN Reason="broken fan"
  cluster_shape n3 200mbit
  run cluster_as alice srun -N4 --nccl-check touch ran
  cluster_wait_node n3 "drained draining"
  cluster_shape n3 1gbit
  run cluster_exec n3 /srv/build/runner/nccl-check release n3
  [ "$status" -ne 0 ]
  run cluster_exec n3 /srv/build/runner/nccl-check release n3 --force
  [ "$status" -eq 0 ]
  cluster_wait_node n3 idle
  run cluster_exec n5 /srv/build/runner/nccl-check release n5 --force
  [ "$status" -ne 0 ]
  [ "$(cluster_node_reason n5)" = "broken fan" ]
}

@test "inner sruns reuse the job's verdict and get its variables" {
  job=$(cluster_submit alice -N2 --nccl-check -o out <<'END'
#!/bin/bash
echo "batch $NCCL_CHECK_VERDICT"
srun -N2 sh -c 'echo "step $NCCL_CHECK_VERDICT $NCCL_CHECK_FILE"'
srun --export=NONE -N1 /bin/sh -c 'echo "bare $NCCL_CHECK_VERDICT"'
END
)
  cluster_wait_job "$job" COMPLETED 60
  out=$(cat "$CLUSTER/home/alice/out")
  [ "$(grep -c '^nccl-check: pass' <<<"$out")" -eq 1 ]
  grep -qx 'batch pass' <<<"$out"
  [ "$(grep -c "^step pass /run/nccl-check/jobs/$job.json" <<<"$out")" -eq 2 ]
  grep -qx 'bare pass' <<<"$out"
}

@test "a step's own check inside an allocation ends the step and drains nobody" {
  cluster_shape n3 200mbit
  run cluster_as alice salloc -N4 srun --nccl-check=strict touch ran
  [ "$status" -ne 0 ]
  grep -q 'nccl-check: slow n3: ' <<<"$output"
  [ ! -e "$CLUSTER/home/alice/ran" ]
  only_out
  cluster_shape n3 1gbit
  run cluster_as alice salloc -N4 srun --nccl-check hostname
  [ "$status" -eq 0 ]
  grep -q '^nccl-check: pass n\[1-4\]: ' <<<"$output"
}

@test "job files are readable by their owner and root alone, and go with the job" {
  job=$(cluster_submit alice -N2 --nccl-check --wrap 'sleep 20')
  cluster_wait_until 30 test -e "$CLUSTER/host/n1/run/nccl-check/jobs/$job.json"
  cluster_exec --user alice n1 cat "/run/nccl-check/jobs/$job.json" | grep -q '"verdict":"pass"'
  run cluster_exec --user bob n1 cat "/run/nccl-check/jobs/$job.json"
  [ "$status" -ne 0 ]
  cluster_exec ctl scancel "$job"
  cluster_wait_until 20 test ! -e "$CLUSTER/host/n1/run/nccl-check/jobs/$job.json"
}
