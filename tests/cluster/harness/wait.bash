# shellcheck shell=bash
# wait_until SECONDS COMMAND...: until COMMAND succeeds. Fails, naming it, at the deadline; at once if there is no such
# command.
wait_until() {
  local seconds=$1 end status
  shift
  end=$((${EPOCHREALTIME/./} + seconds * 1000000))
  while :; do
    status=0
    "$@" || status=$?
    [ "$status" -ne 0 ] || return 0
    if [ "$status" -eq 127 ] || [ "${EPOCHREALTIME/./}" -ge "$end" ]; then
      echo "not so within $seconds s: $*" >&2
      return 1
    fi
    sleep 0.05
  done
}
