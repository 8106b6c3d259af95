# shellcheck shell=bash
# How fast a line is, set by tc. Sourced by a host (its own start) and by the library (later changes).

# rate_mbit RATE: 200mbit or 1gbit as a number of Mbit/s.
rate_mbit() {
  case $1 in
    *[0-9]mbit) echo "${1%mbit}" ;;
    *[0-9]gbit) echo $((${1%gbit} * 1000)) ;;
    *) echo "rate '$1': expected a whole number of mbit or gbit, as in 200mbit, or none" >&2; return 1 ;;
  esac
}

# shape_line DEV RATE|none [COMMAND PREFIX...]: what leaves DEV. A queue of 50 ms keeps the line full on a machine whose
# few cores wake senders late.
shape_line() {
  local dev=$1 rate=$2
  if [ "$rate" = none ]; then
    "${@:3}" tc qdisc delete dev "$dev" root 2>/dev/null || :  # it may have none
    return
  fi
  rate_mbit "$rate" >/dev/null || return
  "${@:3}" tc qdisc replace dev "$dev" root tbf rate "$rate" burst 128kb latency 50ms
}

# shape_towards DEV LINE_RATE ADDRESS ID RATE [COMMAND PREFIX...]: what leaves DEV for ADDRESS alone. ID (2..) tells this
# destination from others of the same DEV.
shape_towards() {
  local dev=$1 line=$2 address=$3 id=$4 rate=$5 mbit
  shift 5
  [ "$line" != none ] || line=100gbit
  if [[ $("$@" tc qdisc show dev "$dev" root) != *"qdisc htb"* ]]; then
    "$@" tc qdisc replace dev "$dev" root handle 1: htb default 1
    mbit=$(rate_mbit "$line") || return
    "$@" tc class replace dev "$dev" parent 1: classid 1:1 htb rate "$line" burst 128kb cburst 128kb quantum 60000
    "$@" tc qdisc replace dev "$dev" parent 1:1 bfifo limit $((mbit * 125 * 50))
  fi
  mbit=$(rate_mbit "$rate") || return
  "$@" tc class replace dev "$dev" parent 1: classid "1:$id" htb rate "$rate" burst 128kb cburst 128kb quantum 60000
  "$@" tc qdisc replace dev "$dev" parent "1:$id" bfifo limit $((mbit * 125 * 50))
  "$@" tc filter replace dev "$dev" parent 1: protocol ip prio "$id" u32 match ip dst "$address/32" flowid "1:$id"
}
