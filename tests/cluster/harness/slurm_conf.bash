# shellcheck shell=bash disable=SC2154  # conf and partitions are the caller's arrays
# Writes a cluster's configuration files below its folder, from the options of cluster_up.

# slurm.conf's settings that a caller may replace one by one (--conf KEY=VALUE, an empty VALUE takes the line out).
slurm_settings() {
  cat <<'END'
ClusterName=nccl-check
SlurmctldHost=ctl(10.77.0.1)
SlurmUser=slurm
AuthType=auth/munge
AuthInfo=cred_expire=5
CredType=cred/munge
StateSaveLocation=/var/lib/slurm/slurmctld
SlurmdSpoolDir=/var/lib/slurm/slurmd
SlurmctldPidFile=/run/slurmctld.own.pid
SlurmdPidFile=/run/slurmd.own.pid
SlurmctldDebug=verbose
SlurmdDebug=verbose
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=nohold_on_prolog_fail,sched_interval=1,bf_interval=1,batch_sched_delay=0
PrologFlags=Alloc,DeferBatch
PrologEpilogTimeout=30
MessageTimeout=10
SlurmdTimeout=300
SlurmctldTimeout=300
BatchStartTimeout=10
TCPTimeout=2
KillWait=2
UnkillableStepTimeout=60
InactiveLimit=0
CompleteWait=0
ReturnToService=1
SlurmdParameters=config_overrides
PropagateResourceLimits=NONE
END
}

# write_slurm_conf FOLDER NODES CPUS GPUS PROLOG EPILOG: PROLOG and EPILOG may be empty. Reads the caller's arrays
# conf (KEY=VALUE) and partitions ("NAME OPTIONS...").
write_slurm_conf() {
  local folder=$1 nodes=$2 cpus=$3 gpus=$4 prolog=$5 epilog=$6 gres="" line key i
  if [ "$gpus" -gt 0 ]; then
    gres=" Gres=gpu:$gpus"
    conf+=(GresTypes=gpu)
    echo "Name=gpu File=/dev/nvidia[0-$((gpus - 1))]" >"$folder/gres.conf"
  fi
  local -A value=()
  local -a keys=()
  while IFS= read -r line; do
    key=${line%%=*}
    [ -n "${value[$key]+x}" ] || keys+=("$key")
    value[$key]=${line#*=}
  done < <(slurm_settings; printf '%s\n' "Prolog=$prolog" "Epilog=$epilog" ${conf[@]+"${conf[@]}"})
  {
    for key in "${keys[@]}"; do
      [ -z "${value[$key]}" ] || echo "$key=${value[$key]}"
    done
    for ((i = 1; i <= nodes; i++)); do
      echo "NodeName=n$i NodeAddr=$(node_address "$i") NodeHostname=n$i CPUs=$cpus RealMemory=1000$gres State=UNKNOWN"
    done
    printf 'PartitionName=%s\n' "${partitions[@]}"
  } >"$folder/slurm.conf"
}

# write_etc FOLDER: a private /etc from the machine's own, with a munge key and users that are nobody's outside: alice and bob
# to run jobs, nccl-check for the measuring worker. No resolver knows the nodes' names, as on many a cluster: only Slurm does.
write_etc() {
  local etc=$1 user uid
  cp -a /etc "$etc"
  {
    echo "127.0.0.1 localhost"
    echo "10.77.0.1 ctl"
  } >"$etc/hosts"
  printf '%s\n' "passwd: files" "group: files" "shadow: files" "hosts: files" >"$etc/nsswitch.conf"
  for user in alice:29901 bob:29902 nccl-check:29903; do
    uid=${user#*:} user=${user%:*}
    sed -i "/^$user:/d" "$etc/passwd" "$etc/group"
    echo "$user:x:$uid:$uid::/srv/home/$user:/bin/bash" >>"$etc/passwd"
    echo "$user:x:$uid:" >>"$etc/group"
  done
  rm -rf "$etc/slurm" "$etc/nccl-check" "$etc/munge"
  install -d "$etc/slurm" "$etc/nccl-check"
  install -d -o munge -g munge -m 700 "$etc/munge"
  install -o munge -g munge -m 400 <(head -c 128 /dev/urandom) "$etc/munge/munge.key"
}

node_address() {
  echo "10.77.1.$1"
}
