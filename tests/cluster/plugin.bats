#!/usr/bin/env bats
# The plugin on a real Slurm: how the option travels, who shows a verdict, when a step checks by itself and how it ends.
# The gate and `nccl-check step` are stand-ins that give the verdict a test asks for, so that nothing is measured here.

setup_file() {
  source "$BATS_TEST_DIRNAME/harness/cluster.bash"
  cat >"$BATS_FILE_TMPDIR/prolog" <<'END'
#!/bin/bash
# A job's verdict, if its option was given and no test says otherwise; how the option arrived is kept for the tests.
spec=${SPANK__SLURM_SPANK_OPTION_nccl_check_nccl_check-none}
echo "$SLURM_JOB_ID $spec" >>/var/log/option.log
[ "$spec" != none ] && [ ! -e /srv/site/no-verdict ] || exit 0
[ "$spec" != "(null)" ] || spec=""
mkdir -p /run/nccl-check/jobs
file=/run/nccl-check/jobs/$SLURM_JOB_ID.json
cat >"$file.new" <<JSON
{"schema": "nccl-check.verdict", "version": 1, "job": $SLURM_JOB_ID, "step": null, "restart": $SLURM_JOB_RESTART_COUNT,
 "uid": $SLURM_JOB_UID, "node": "$SLURMD_NODENAME", "nodes": "${SLURM_JOB_NODELIST:-$SLURM_NODELIST}", "spec": "$spec",
 "verdict": "pass", "job_fails": false, "busbw": 0.117, "lines": ["nccl-check: pass: the job's verdict"]}
JSON
chmod 640 "$file.new"
mv "$file.new" "$file"
END
  cluster_up --hosts 3 --cpus 2 --gate plugin --prolog "$BATS_FILE_TMPDIR/prolog"
  export CLUSTER
  cat >"$CLUSTER/site/step" <<'END'
#!/bin/bash
# step --config PATH --spec SPEC --job ID --step ID --node NAME --nodelist LIST --node-rank N
while [ $# -gt 1 ]; do
  case $1 in --*) declare "${1//-/_}=$2"; shift ;; esac
  shift
done
[ ! -e /srv/site/slow-check ] || sleep 20
verdict=pass fails=false
[ ! -e /srv/site/failing-check ] || verdict=slow fails=true
cat <<JSON
{"schema": "nccl-check.verdict", "version": 1, "job": $__job, "step": $__step, "restart": 0, "uid": $(id -u),
 "node": "$__node", "nodes": "$__nodelist", "spec": "$__spec", "verdict": "$verdict", "job_fails": $fails, "busbw": 0.111,
 "lines": ["nccl-check: $verdict $__nodelist: the step's own check"]}
JSON
END
  chmod 755 "$CLUSTER/site/step"
  sed -i 's#program=[^ ]*#program=/srv/site/step#' "$CLUSTER"/host/*/slurm/plugstack.conf
}

teardown_file() {
  source "$BATS_TEST_DIRNAME/harness/cluster.bash"
  cluster_down
}

setup() {
  source "$BATS_TEST_DIRNAME/harness/cluster.bash"
  rm -f "$CLUSTER"/site/{no-verdict,slow-check,failing-check} "$CLUSTER"/host/*/log/option.log "$CLUSTER"/home/alice/*
  cluster_reset
}

shows='echo "$SLURM_STEP_ID $NCCL_CHECK_VERDICT $NCCL_CHECK_BUSBW $NCCL_CHECK_FILE"'

# alice_allocates ARGUMENTS... <SCRIPT: a script of alice's inside an allocation by salloc.
alice_allocates() {
  cat >"$CLUSTER/home/alice/script"
  run cluster_as alice salloc "$@" /bin/bash ./script
}

lines_of() {  # lines_of PATTERN: in how many lines of the output
  grep -c -- "$1" <<<"$output"
}

@test "a bad word is refused before anything is submitted, with the word shown" {
  for program in "srun" "salloc" "sbatch --wrap"; do
    # shellcheck disable=SC2086  # two words
    run cluster_as alice ${program% *} --nccl-check=node,strct ${program#"${program% *}"} true
    [ "$status" -ne 0 ]
    grep -q "'strct' is not a word of --nccl-check" <<<"$output"
    grep -q '^ *\^\^\^\^\^$' <<<"$output"
    grep -q 'allowed, with commas between: node, job, strict, warn' <<<"$output"
  done
  run cluster_as alice srun --nccl-check=help true
  [ "$status" -ne 0 ]
  grep -q '^  busbw=N  ' <<<"$output"
  [ -z "$(cluster_exec ctl squeue -h)" ]
  [ ! -e "$CLUSTER/host/n1/log/option.log" ]
}

@test "srun: the verdict is shown once, and every task has it" {
  run cluster_as alice srun -N3 --nccl-check bash -c "$shows"
  [ "$status" -eq 0 ]
  [ "$(lines_of "nccl-check: pass: the job's verdict")" -eq 1 ]
  [ "$(lines_of '^0 pass 0.117 /run/nccl-check/jobs/[0-9]*.json$')" -eq 3 ]
}

@test "without the option nothing is shown and nothing is set" {
  run cluster_as alice env NCCL_CHECK_VERDICT=stale srun -N3 bash -c "$shows"
  [ "$status" -eq 0 ]
  [ "$(lines_of '^0   $')" -eq 3 ]
  [ "$(lines_of nccl-check)" -eq 0 ]
}

@test "sbatch: the output has the verdict once; inner sruns inherit it, also under --export=NONE" {
  job=$(cluster_submit alice -W -o out <<END
#!/bin/bash
#SBATCH -N2 --nccl-check=warn
$shows
srun bash -c '$shows'
srun --export=NONE /bin/bash -c '$shows'
END
)
  cluster_wait_job "$job" COMPLETED 60
  output=$(cat "$CLUSTER/home/alice/out")
  [ "$(lines_of 'nccl-check:')" -eq 1 ]
  [ "$(head -n 1 <<<"$output")" = "nccl-check: pass: the job's verdict" ]
  [ "$(lines_of "^ pass 0.117 /run/nccl-check/jobs/$job.json$")" -eq 1 ]
  [ "$(lines_of "^0 pass 0.117 /run/nccl-check/jobs/$job.json$")" -eq 2 ]
  [ "$(lines_of "^1 pass 0.117 /run/nccl-check/jobs/$job.json$")" -eq 2 ]
  grep -qx "$job warn" "$CLUSTER/host/n1/log/option.log"
}

@test "sbatch --export=NONE: the same" {
  job=$(cluster_submit alice -W -o out --export=NONE -N2 --nccl-check <<END
#!/bin/bash
srun /bin/bash -c '$shows'
END
)
  cluster_wait_job "$job" COMPLETED 60
  output=$(cat "$CLUSTER/home/alice/out")
  [ "$(lines_of 'nccl-check:')" -eq 1 ]
  [ "$(lines_of "^0 pass 0.117 /run/nccl-check/jobs/$job.json$")" -eq 2 ]
}

@test "an srun inside an allocation checks only what is asked of it and what the job's verdict does not say" {
  alice_allocates -N2 --nccl-check=force <<END
srun bash -c '$shows'
srun --nccl-check bash -c '$shows'
srun --nccl-check=force bash -c '$shows'
srun --nccl-check=size=1G --export=NONE /bin/bash -c '$shows'
srun --nccl-check=off bash -c '$shows'
END
  [ "$status" -eq 0 ]
  [ "$(lines_of "the job's verdict")" -eq 1 ]
  [ "$(lines_of "nccl-check: pass n\[1-2\]: the step's own check")" -eq 2 ]
  [ "$(lines_of '^[014] pass 0.117 ')" -eq 6 ]
  [ "$(lines_of '^[23] pass 0.111 ')" -eq 4 ]
}

@test "a failed check of a step ends its tasks with no user code, drains nothing and leaves the job; warn only shows it" {
  touch "$CLUSTER/site/failing-check"
  alice_allocates -N2 <<END
srun -O -n4 --nccl-check touch ran; echo "ended with \$?"
srun -O -n4 --nccl-check=strict touch ran; echo "ended with \$?"
srun --nccl-check=warn bash -c '$shows'
srun bash -c '$shows'
END
  [ "$status" -eq 0 ]
  [ "$(lines_of '^ended with 1$')" -eq 2 ]
  [ ! -e "$CLUSTER/home/alice/ran" ]
  [ "$(lines_of "nccl-check: slow n\[1-2\]: the step's own check")" -eq 3 ]
  [ "$(lines_of '^2 slow 0.111 $')" -eq 2 ]
  [ "$(lines_of '^3   $')" -eq 2 ]
  [ "$(cluster_exec ctl sinfo -h -o %T | sort -u | grep -c drain)" -eq 0 ]
}

@test "a step cancelled during its check runs no user code and leaves nothing" {
  touch "$CLUSTER/site/slow-check"
  alice_allocates -N2 <<END
srun -O -n4 --nccl-check touch ran & sleep 2; scancel "\$SLURM_JOB_ID.0"; wait \$!; echo "ended with \$?"
END
  grep -q '^ended with [1-9]' <<<"$output"
  [ ! -e "$CLUSTER/home/alice/ran" ]
  cluster_wait_until 20 no_processes
}

no_processes() {
  [ -z "$(cluster_processes n1)$(cluster_processes n2)" ]
}

@test "a check past the time that the user gave it is killed, said, and the step runs" {
  touch "$CLUSTER/site/slow-check"
  alice_allocates -N2 <<END
srun --nccl-check=time=1s bash -c '$shows'
END
  [ "$status" -eq 0 ]
  [ "$(lines_of 'nccl-check: untested n1: the check gave no verdict within 3.0 s')" -eq 1 ]
  [ "$(lines_of '^0 untested  $')" -eq 2 ]
  cluster_wait_until 20 no_processes
}

@test "nobody answered: that is said" {
  touch "$CLUSTER/site/no-verdict"
  run cluster_as alice srun -N2 --nccl-check bash -c "$shows"
  [ "$status" -eq 0 ]
  [ "$(lines_of 'nccl-check: untested: no check was made')" -eq 1 ]
  [ "$(lines_of '^0   $')" -eq 2 ]
}

@test "het jobs: each component has its verdict; a step over both checks them as one" {
  run cluster_as alice srun --nccl-check -N1 bash -c "$shows" : -N2 bash -c "$shows"
  [ "$status" -eq 0 ]
  [ "$(lines_of "the job's verdict")" -eq 2 ]
  [ "$(lines_of '^0 pass 0.117 ')" -eq 3 ]
  [ "$(grep -o '[0-9]*\.json' <<<"$output" | sort -u | wc -l)" -eq 2 ]
  cat >"$CLUSTER/home/alice/script" <<END
srun --het-group=0,1 --nccl-check=size=1G bash -c '$shows'
END
  run cluster_as alice salloc --nccl-check -N1 : -N2 /bin/bash ./script
  [ "$status" -eq 0 ]
  [ "$(lines_of "nccl-check: pass n\[1-3\]: the step's own check")" -eq 1 ]
  [ "$(lines_of '^0 pass 0.111 ')" -eq 3 ]
}

@test "a verdict that root does not own is refused" {
  job=$(cluster_submit alice -o out -w n1 --nccl-check <<END
#!/bin/bash
while [ ! -e go ]; do sleep 0.1; done
srun bash -c '$shows'
END
)
  file=$CLUSTER/host/n1/run/nccl-check/jobs/$job.json
  cluster_wait_until 60 test -e "$file"
  chown 29901 "$file"
  touch "$CLUSTER/home/alice/go"
  cluster_wait_job "$job" COMPLETED 60
  [ "$(tail -n 1 "$CLUSTER/home/alice/out")" = "0   " ]
}

@test "a wrong plugstack.conf on a node stops neither slurmd nor the step, and is said to who asked" {
  cp "$CLUSTER/host/n1/slurm/plugstack.conf" "$BATS_TEST_TMPDIR/plugstack.conf"
  sed -i 's#program=#prgram=#; s#^optional#required#' "$CLUSTER/host/n1/slurm/plugstack.conf"
  cluster_restart n1
  cluster_wait_node n1 idle 60
  run cluster_as alice srun -w n1 --nccl-check echo ran
  cp "$BATS_TEST_TMPDIR/plugstack.conf" "$CLUSTER/host/n1/slurm/plugstack.conf"
  cluster_restart n1
  [ "$status" -eq 0 ]
  grep -q "nccl-check: untested: the plugin's line in this node's plugstack.conf is wrong" <<<"$output"
  grep -qx ran <<<"$output"
  cluster_log n1 slurmd | grep -q "unknown argument 'prgram=/srv/site/step' (allowed: config=PATH, program=PATH)"
}

@test "a wrong plugstack.conf at the user's end stops srun, by name" {
  cp "$CLUSTER/host/ctl/slurm/plugstack.conf" "$BATS_TEST_TMPDIR/plugstack.conf"
  sed -i 's#program=#prgram=#; s#^optional#required#' "$CLUSTER/host/ctl/slurm/plugstack.conf"
  run cluster_as alice srun -w n1 echo ran
  cp "$BATS_TEST_TMPDIR/plugstack.conf" "$CLUSTER/host/ctl/slurm/plugstack.conf"
  [ "$status" -ne 0 ]
  grep -q "unknown argument 'prgram=/srv/site/step' (allowed: config=PATH, program=PATH)" <<<"$output"
}
