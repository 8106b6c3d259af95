# shellcheck shell=bash
# wait_until SECONDS COMMAND...: until COMMAND succeeds. Fails, naming it, at the deadline.
wait_until() {
  local seconds=$1 end
  shift
  end=$((${EPOCHREALTIME/./} + seconds * 1000000))
  until "$@"; do
    if [ "${EPOCHREALTIME/./}" -ge "$end" ]; then
      echo "not so within $seconds s: $*" >&2
      return 1
    fi
    sleep 0.05
  done
}
