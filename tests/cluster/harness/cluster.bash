# shellcheck shell=bash
# A real Slurm of several hosts on one machine, for tests: see ../README.md. Source this file, or use ../cluster, whose
# subcommands are these functions without `cluster_`. Every function works on the cluster whose folder is in $CLUSTER.

harness=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
source "$harness/wait.bash"
source "$harness/traffic.bash"
source "$harness/slurm_conf.bash"
source "$harness/gpus.bash"

cluster_fail() {
  echo "cluster: $*" >&2
  return 1
}

# cluster_wait_until SECONDS COMMAND...: until COMMAND succeeds. Fails, naming it, at the deadline.
cluster_wait_until() {
  wait_until "$@"
}

# ---- start and end

# cluster_up [options]: starts a cluster and sets CLUSTER. It ends with cluster_down, or as soon as its owner does.
#   --hosts N            nodes n1..nN beside the host ctl (controller and submit host); 4
#   --rate RATE          line rate of every host, both ways: 1gbit, 200mbit, none; 1gbit
#   --nic NODE=NAME      name of that node's interface; hs0
#   --cpus N             CPUs a node has for Slurm; 4
#   --gpus N             a node's GPUs, and as many InfiniBand ports, of which no driver knows: files in a /dev and a
#                        /sys/class of its own. The stand-ins of tests/doubles are in /srv/gpu; the gate's worker finds
#                        in /etc/nccl-check/simulation.conf of its host what they simulate; 0
#   --congestion NAME    TCP congestion control; cubic
#   --conf KEY=VALUE     a slurm.conf setting, instead of ours or added; empty VALUE: none
#   --partition 'NAME OPTIONS'  instead of ours: `batch` (default, whole nodes) and `shared`
#   --topology FILE      topology.conf (sets TopologyPlugin=topology/tree)
#   --prolog FILE, --epilog FILE  scripts of the site
#   --plugstack LINE     one more line of plugstack.conf
#   --gate prolog|hook|plugin|none  how nccl-check gets in: plugin and Prolog script, plugin and hook plugin, the
#                        plugin alone, not at all; none
#   --build DIR          where nccl-check was built; $NCCL_CHECK_BUILD, else build/release
#   --program-build DIR  where the program is taken from, if not from there (one built with sanitizers);
#                        $NCCL_CHECK_PROGRAM_BUILD
#   --config FILE        nccl-check.toml of every host
#   --owner PID          the process whose end ends the cluster; this shell
cluster_up() {
  local hosts=4 rate=1gbit cpus=4 gpus=0 congestion=cubic topology="" prolog="" epilog="" gate=none config="" owner=$$
  local build program_build repo i host log
  local -a conf=() partitions=() plugstack=()
  local -A cluster_nic=() cluster_address=([ctl]=10.77.0.1)
  local -a cluster_hosts=(ctl)
  repo=$(cd "$harness/../../.." && pwd)
  build=${NCCL_CHECK_BUILD:-$repo/build/release} program_build=${NCCL_CHECK_PROGRAM_BUILD:-}
  while [ $# -gt 0 ]; do
    [ $# -ge 2 ] || { cluster_fail "$1: a value is missing"; return; }
    case $1 in
      --hosts) hosts=$2 ;;
      --rate) rate=$2 ;;
      --nic) cluster_nic[${2%%=*}]=${2#*=} ;;
      --cpus) cpus=$2 ;;
      --gpus) gpus=$2 ;;
      --congestion) congestion=$2 ;;
      --conf) conf+=("$2") ;;
      --partition) partitions+=("$2") ;;
      --topology) topology=$2 ;;
      --prolog) prolog=$2 ;;
      --epilog) epilog=$2 ;;
      --plugstack) plugstack+=("$2") ;;
      --gate) gate=$2 ;;
      --build) build=$2 ;;
      --program-build) program_build=$2 ;;
      --config) config=$2 ;;
      --owner) owner=$2 ;;
      *) cluster_fail "$1: no such option of up (they are listed in tests/cluster/README.md)"; return ;;
    esac
    shift 2
  done
  [[ $hosts =~ ^[1-9][0-9]*$ && $hosts -le 200 ]] || { cluster_fail "--hosts $hosts: expected 1 to 200"; return; }
  [[ $gpus =~ ^[0-9]$|^1[0-6]$ ]] || { cluster_fail "--gpus $gpus: expected 0 to 16"; return; }
  [ "$rate" = none ] || rate_mbit "$rate" >/dev/null || return
  [ -d "/proc/$owner" ] || { cluster_fail "--owner $owner: no such process"; return; }
  [ "$(id -u)" = 0 ] || { cluster_fail "must be root, to make network namespaces"; return; }
  [ ${#partitions[@]} -gt 0 ] || partitions=("batch Nodes=ALL Default=YES MaxTime=INFINITE OverSubscribe=EXCLUSIVE"
    "shared Nodes=ALL MaxTime=INFINITE OverSubscribe=NO")
  [ -z "$topology" ] || conf+=("TopologyPlugin=topology/tree")

  CLUSTER=$(mktemp -d "${TMPDIR:-/tmp}/nccl-check-cluster.XXXXXX") || return
  exec {log}<>"$CLUSTER/up.log"
  chmod 711 "$CLUSTER"
  mkdir "$CLUSTER/site"
  for ((i = 1; i <= hosts; i++)); do
    cluster_hosts+=("n$i")
    cluster_address[n$i]=$(node_address "$i")
  done
  local cluster_rate=$rate cluster_congestion=$congestion cluster_gpus=$gpus
  local -A cluster_folders=([harness]=$harness [libexec]=$repo/packaging/libexec)
  nccl_check_entrance || { rm -rf "$CLUSTER"; return 1; }
  declare -p cluster_folders cluster_hosts cluster_address cluster_nic cluster_congestion cluster_rate cluster_gpus \
    | sed 's/^declare -- /declare /' >"$CLUSTER/cluster.conf"

  write_etc "$CLUSTER/etc"
  mkdir "$CLUSTER/home"
  install -d -o 29901 -g 29901 "$CLUSTER/home/alice"
  install -d -o 29902 -g 29902 "$CLUSTER/home/bob"
  [ "$gpus" = 0 ] || copy_doubles "$build" "$CLUSTER/gpu" || { rm -rf "$CLUSTER"; return 1; }
  write_slurm_conf "$CLUSTER/site" "$hosts" "$cpus" "$gpus" "${prolog:+/srv/site/prolog}" "${epilog:+/srv/site/epilog}"
  printf '%s\n' ${plugstack[@]+"${plugstack[@]}"} >"$CLUSTER/site/plugstack.conf"
  [ -z "$topology" ] || cp "$topology" "$CLUSTER/site/topology.conf"
  for host in "${cluster_hosts[@]}"; do
    mkdir -p "$CLUSTER/host/$host"/{run,lib/nccl-check,log,slurm,nccl-check} "$CLUSTER/host/$host/run/nccl-check"
    cp "$CLUSTER/site/"*.conf "$CLUSTER/host/$host/slurm/"
    [ -z "$config" ] || cp "$config" "$CLUSTER/host/$host/nccl-check/nccl-check.toml"
    echo "$rate" >"$CLUSTER/host/$host/rate"
  done

  supervise_apart "$owner" "$log"
  if ! cluster_wait_until 30 hosts_are_up || ! cluster_wait_until 30 nodes_are_idle_or_ended "$hosts" || any_has_ended; then
    cat "/proc/self/fd/$log" "$CLUSTER"/host/*/ended >&2 2>/dev/null
    tail -n 20 "$CLUSTER"/host/*/log/*.log >&2
    cluster_down
    exec {log}>&-
    return 1
  fi
  exec {log}>&-
}

# The supervisor holds none of the caller's files (a test runner would wait for them) and no part of its session.
supervise_apart() {
  local owner=$1 log=$2
  (
    for fd in /proc/self/fd/*; do
      fd=${fd##*/}
      [ "$fd" -le 2 ] || [ "$fd" = "$log" ] || eval "exec $fd>&-"
    done 2>/dev/null
    exec setsid "$harness/supervise" "$CLUSTER" "$owner" </dev/null >&"$log" 2>&1
  ) &
  disown
}

hosts_are_up() {
  local host
  for host in "${cluster_hosts[@]}"; do
    [ -s "$CLUSTER/host/$host/pid" ] || any_has_ended || return
  done
}

nodes_are_idle_or_ended() {
  any_has_ended && return
  [ "$(cluster_exec --deadline 3 ctl scontrol -o show nodes 2>/dev/null | grep -c ' State=IDLE ')" -eq "$1" ]
}

# Whether a daemon that a host's first process started has ended, or the whole cluster.
any_has_ended() {
  compgen -G "$CLUSTER/host/*/ended" >/dev/null || [ ! -d "$CLUSTER" ]
}

# Puts nccl-check into a cluster that is being made, by $gate. Changes the caller's prolog, epilog, plugstack, conf and
# cluster_folders.
nccl_check_entrance() {
  local program=/srv/build/runner/nccl-check toml=/etc/nccl-check/nccl-check.toml kind file
  [ -z "$prolog" ] || install -m 755 "$prolog" "$CLUSTER/site/prolog" || return
  [ -z "$epilog" ] || install -m 755 "$epilog" "$CLUSTER/site/epilog" || return
  case $gate in
    none) return ;;
    prolog | hook | plugin) ;;
    *) cluster_fail "--gate $gate: expected prolog, hook, plugin or none"; return ;;
  esac
  cluster_folders[build]=$(realpath "$build")
  if [ -n "$program_build" ]; then
    cluster_folders[program-build]=$(realpath "$program_build")
    program=/srv/program-build/runner/nccl-check
  fi
  for file in "${program_build:-$build}"/{runner/nccl-check,slurm/nccl-check-slurm} \
    "$build"/{runner/prolog,spank/spank_nccl_check{,_gate}.so}; do
    [ -e "$file" ] || { cluster_fail "$file is not there: build it first (cmake --preset release, ninja)"; return; }
  done
  plugstack+=("optional /srv/build/spank/spank_nccl_check.so config=$toml program=$program")
  [ "$gate" != hook ] || plugstack+=("optional /srv/build/spank/spank_nccl_check_gate.so config=$toml program=$program")
  for kind in prolog epilog; do
    [ "$kind" = epilog ] || [ "$gate" = prolog ] || continue
    [ -z "${!kind}" ] || { cluster_fail "--$kind together with --gate $gate: choose one"; return; }
    write_gate_script "$kind" "$program" >"$CLUSTER/site/$kind"
    chmod 755 "$CLUSTER/site/$kind"
    printf -v "$kind" %s "$CLUSTER/site/$kind"
  done
}

# A site's own Prolog or Epilog, which calls the installed script and logs how long that took and how it ended.
write_gate_script() {
  local kind=$1 program=$2
  local script=/srv/libexec/$kind
  [ "$kind" = epilog ] || script=/srv/build/runner/prolog
  cat <<END
#!/bin/bash
export NCCL_CHECK_PROGRAM=$program
$([ "$gpus" = 0 ] || echo "export NCCL_CHECK_SIMULATION=/etc/nccl-check/simulation.conf")
start=\${EPOCHREALTIME/./}
$script </dev/null >>/var/log/$kind.log 2>&1
status=\$?
echo "$kind: job \$SLURM_JOB_ID took \$(((\${EPOCHREALTIME/./} - start) / 1000)) ms, status \$status" >>/var/log/$kind.log
exit \$status
END
}

# cluster_down: ends the cluster and waits until nothing of it is left. Fails if a sanitizer reported something in it.
cluster_down() {
  local pid status=0
  [ -n "${CLUSTER:-}" ] || { cluster_fail "CLUSTER is not set: no cluster to end"; return; }
  no_sanitizer_report || status=1
  if pid=$(cat "$CLUSTER/supervisor.pid" 2>/dev/null); then
    kill -TERM "$pid" 2>/dev/null
    cluster_wait_until 20 process_is_gone "$pid" || return
  fi
  rm -rf --one-file-system "$CLUSTER"
  unset CLUSTER
  return $status
}

no_sanitizer_report() {
  ! grep -hE -A30 '(ERROR|WARNING): [A-Za-z]*Sanitizer|runtime error:' "$CLUSTER"/host/*/log/*.log >&2
}

process_is_gone() {
  [ ! -d "/proc/$1" ]
}

# ---- inside a host

# cluster_exec [--user NAME] [--deadline SECONDS] HOST COMMAND...: runs COMMAND in HOST with a bare environment, as root
# or as NAME (alice, bob), in that user's home, killed with its process group after 120 s or SECONDS.
cluster_exec() {
  local user=root deadline=120 home=/root pid
  while [[ $1 == --* ]]; do
    case $1 in
      --user) user=$2 ;;
      --deadline) deadline=$2 ;;
      *) cluster_fail "$1: no such option of exec"; return ;;
    esac
    shift 2
  done
  pid=$(cat "$CLUSTER/host/$1/pid" 2>/dev/null) || { cluster_fail "$1: no such host, or it has ended"; return; }
  shift
  [ "$user" = root ] || home=/srv/home/$user
  local -a as=()
  [ "$user" = root ] || as=(--reuid "$user" --regid "$user" --init-groups)
  nsenter --target "$pid" --mount --uts --ipc --net --pid --root --wdns="$home" \
    env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 \
    HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash \
    setpriv --pdeathsig KILL timeout --foreground --kill-after=2 "$deadline" setpriv --pdeathsig KILL "${as[@]}" "$@"
}

# cluster_as USER COMMAND...: on the submit host, as srun, sbatch and salloc are used.
cluster_as() {
  local user=$1
  shift
  cluster_exec --user "$user" ctl "$@"
}

# cluster_submit USER SBATCH_ARGUMENTS...: prints the job's id. The script may come on stdin.
cluster_submit() {
  local user=$1
  shift
  cluster_as "$user" sbatch --parsable "$@"
}

# ---- what Slurm says

# cluster_node_state NODE: idle, allocated, drained, draining, down, ... as sinfo puts it.
cluster_node_state() {
  cluster_exec ctl sinfo -h -N -n "$1" -o %T | head -n 1
}

# cluster_node_reason NODE: why it is drained or down; empty if it isn't.
cluster_node_reason() {
  cluster_exec ctl scontrol -o show node "$1" | sed -n 's/.* Reason=\(.*\) \[[^][]*@[^][]*\].*/\1/p'
}

# cluster_job JOB FIELD: one field without blanks of `scontrol show job` (JobState, Reason, NodeList, Restarts, ...).
cluster_job() {
  cluster_exec ctl scontrol -o show job "$1" | head -n 1 | sed -n "s/.*\\b$2=\\([^ ]*\\).*/\\1/p"
}

# cluster_admin_comment JOB
cluster_admin_comment() {
  cluster_exec ctl squeue --noheader --states=all --jobs="$1" --Format=admin_comment:16384 | sed 's/ *$//'
}

job_is() {
  [[ " $2 " == *" $(cluster_job "$1" JobState 2>/dev/null) "* ]]
}

# cluster_wait_job JOB STATES [SECONDS]: until its state is one of STATES ("COMPLETED FAILED"); 60 s.
cluster_wait_job() {
  cluster_wait_until "${3:-60}" job_is "$1" "$2" || cluster_fail "job $1 is $(cluster_job "$1" JobState)"
}

node_is() {
  [[ " $2 " == *" $(cluster_node_state "$1" 2>/dev/null) "* ]]
}

# cluster_wait_node NODE STATES [SECONDS]: until its state is one of STATES ("drained draining"); 30 s.
cluster_wait_node() {
  cluster_wait_until "${3:-30}" node_is "$1" "$2" || cluster_fail "node $1 is $(cluster_node_state "$1")"
}

# ---- lines

nic_of() {
  local -A cluster_nic=()
  eval "$(grep '^declare -A cluster_nic' "$CLUSTER/cluster.conf")"
  echo "${cluster_nic[$1]:-hs0}"
}

in_net_of() {
  local pid
  pid=$(cat "$CLUSTER/$1") || return
  shift
  nsenter --target "$pid" --net "$@"
}

# cluster_shape HOST RATE|none: sets its line both ways, and ends cluster_shape_path's settings.
cluster_shape() {
  shape_line "$(nic_of "$1")" "$2" in_net_of "host/$1/pid" &&
    shape_line "$1" "$2" in_net_of switch.pid &&
    echo "$2" >"$CLUSTER/host/$1/rate"
}

# cluster_shape_path NODE NODE RATE: what the two send each other, and nothing else; until cluster_shape of either.
cluster_shape_path() {
  local from to line
  for from in "$1" "$2"; do
    to=$2
    [ "$from" = "$1" ] || to=$1
    read -r line _ <"$CLUSTER/host/$from/rate"
    shape_towards "$(nic_of "$from")" "$line" "$(node_address "${to#n}")" \
      $((${to#n} + 1)) "$3" in_net_of "host/$from/pid" || return
    echo "$line, but $3 to $to" >"$CLUSTER/host/$from/rate"
  done
}

# cluster_iperf FROM TO [SECONDS]: Mbit/s that iperf3 moves by one TCP stream, as the receiver counts.
cluster_iperf() {
  local seconds=${3:-2} server status=0
  cluster_exec --deadline $((seconds + 10)) "$2" iperf3 --server --one-off >/dev/null &
  server=$!
  cluster_wait_until 5 iperf_listens "$2" &&
    cluster_exec --deadline $((seconds + 10)) "$1" iperf3 --client "$2" --time "$seconds" --format m |
    sed -n 's/.* \([0-9.]*\) Mbits\/sec.*receiver/\1/p' | grep . || status=1
  wait "$server" || status=1
  return $status
}

iperf_listens() {
  [ -n "$(in_net_of "host/$1/pid" ss -Hltn 'sport = :5201')" ]
}

# ---- daemons and processes

# cluster_daemon HOST: the Slurm daemon that runs there.
cluster_daemon() {
  if [ "$1" = ctl ]; then echo slurmctld; else echo slurmd; fi
}

# cluster_pause HOST, cluster_resume HOST: SIGSTOP and SIGCONT to its Slurm daemon.
cluster_pause() {
  cluster_exec "$1" sh -c 'kill -STOP "$(cat "/run/$0.pid")"' "$(cluster_daemon "$1")" &&
    touch "$CLUSTER/host/$1/paused"
}

cluster_resume() {
  cluster_exec "$1" sh -c 'kill -CONT "$(cat "/run/$0.pid")"' "$(cluster_daemon "$1")" &&
    rm -f "$CLUSTER/host/$1/paused"
}

# cluster_stop HOST, cluster_start HOST, cluster_restart HOST: its Slurm daemon. Change $CLUSTER/host/HOST/slurm/*.conf
# before, and what the daemon reads is that host's own.
cluster_stop() {
  in_daemons "$1" stop_daemon "$(cluster_daemon "$1")"
}

cluster_start() {
  in_daemons "$1" start_slurm "$(cluster_daemon "$1")"
}

cluster_restart() {
  cluster_stop "$1" && cluster_start "$1"
}

in_daemons() {
  local host=$1
  shift
  cluster_exec "$host" bash -c 'source /srv/harness/wait.bash; source /srv/harness/daemons.bash; "$@"' - "$@"
}

# cluster_processes HOST: what runs there beside its own daemons, a line each (pid, uid, state, command); none: nothing.
cluster_processes() {
  cluster_exec "$1" /srv/harness/processes
}

# cluster_log HOST NAME: its /var/log/NAME.log (slurmd, slurmctld, munged, prolog, epilog); empty if there is none.
cluster_log() {
  [ ! -e "$CLUSTER/host/$1/log/$2.log" ] || cat "$CLUSTER/host/$1/log/$2.log"
}

# cluster_config HOST|all: gives hosts the nccl-check.toml that comes on stdin.
cluster_config() {
  local host text
  text=$(cat)
  for host in "$CLUSTER"/host/*; do
    [ "$1" = all ] || [ "$1" = "${host##*/}" ] || continue
    printf '%s\n' "$text" >"$host/nccl-check/nccl-check.toml"
  done
}

# cluster_reset: between two tests: no job, every node idle at the first rate, every daemon running, nccl-check's own
# files and logs gone. Configuration stays.
cluster_reset() {
  local -a cluster_hosts=()
  local -A cluster_address=() cluster_nic=() cluster_folders=()
  local cluster_rate cluster_congestion host
  # shellcheck source=/dev/null
  source "$CLUSTER/cluster.conf"
  for host in "${cluster_hosts[@]}"; do
    [ ! -e "$CLUSTER/host/$host/paused" ] || cluster_resume "$host" || return
    [ -e "$CLUSTER/host/$host/run/$(cluster_daemon "$host").pid" ] || cluster_start "$host" || return
    [ "$(cat "$CLUSTER/host/$host/rate")" = "$cluster_rate" ] || cluster_shape "$host" "$cluster_rate" || return
  done
  no_sanitizer_report || return
  cluster_wait_until 30 no_job_left || return
  cluster_wait_until 30 every_node_resumed || return
  for host in "${cluster_hosts[@]}"; do
    find "$CLUSTER/host/$host"/{run,lib}/nccl-check -mindepth 1 -delete
    rm -f "$CLUSTER/host/$host/log/"{prolog,epilog}.log
  done
}

# Each ends or resumes what it finds, and succeeds once there is nothing more to do.
no_job_left() {
  local jobs
  jobs=$(cluster_exec ctl squeue --noheader --format=%A) || return
  [ -n "$jobs" ] || return 0
  # shellcheck disable=SC2086  # one word a job
  cluster_exec ctl scancel --quiet $jobs
  return 1
}

every_node_resumed() {
  local nodes
  nodes=$(cluster_exec ctl sinfo --noheader --Node --format='%N %T' | sed -n '/ idle$/d; s/ .*//p' | sort -u)
  [ -n "$nodes" ] || return 0
  cluster_exec ctl scontrol update "NodeName=${nodes//$'\n'/,}" State=RESUME 2>/dev/null
  return 1
}
