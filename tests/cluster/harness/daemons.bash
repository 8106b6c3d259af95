# shellcheck shell=bash
# The daemons of one host. Sourced inside the host: by its first process, and by the library for a restart.
# Needs wait.bash. Each daemon's process id, as the host numbers it, is in
# /run/NAME.pid.

start_daemon() {
  local name=$1
  shift
  setsid "$@" </dev/null >>"/var/log/$name.log" 2>&1 &
  echo $! >"/run/$name.pid"
}

start_munged() {
  install -d -o munge -g munge /run/munge /var/lib/munge /var/log/munge
  start_daemon munged setpriv --reuid munge --regid munge --clear-groups \
    munged --foreground --num-threads=2 --log-file=/var/log/munge/munged.log
  wait_until 10 test -S /run/munge/munge.socket.2
}

# start_slurm slurmd|slurmctld
start_slurm() {
  install -d -o slurm -g slurm /var/lib/slurm
  case $1 in
    slurmctld) start_daemon slurmctld slurmctld -D ;;
    slurmd) start_daemon slurmd slurmd -D -N "$(hostname)" ;;
    *) echo "start_slurm: '$1': expected slurmd or slurmctld" >&2; return 1 ;;
  esac
}

# stop_daemon NAME: ends it and waits until it has gone, by force after 5 s.
stop_daemon() {
  local pid
  pid=$(cat "/run/$1.pid" 2>/dev/null) || return 0
  kill -CONT "$pid" 2>/dev/null && kill -TERM "$pid" 2>/dev/null
  if ! wait_until 5 not_running "$pid" 2>/dev/null; then
    kill -KILL "$pid"
    wait_until 5 not_running "$pid"
  fi
  rm -f "/run/$1.pid"
}

not_running() {
  ! kill -0 "$1" 2>/dev/null
}
