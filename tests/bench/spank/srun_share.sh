#!/bin/bash
# srun_share.sh BUILD [RUNS]: the plugin's share of the instructions of `srun true`, by valgrind, on the Slurm that
# SLURM_CONF (or /etc/slurm/slurm.conf) names; srun's own plugstack.conf is replaced for the measurement. BUILD: a build
# folder with spank_nccl_check and spank_hooks_bench in it.
set -euo pipefail
build=$(realpath "${1:?srun_share.sh: give a build folder}")
runs=${2:-3}
plugin=$build/spank/spank_nccl_check.so
bench=$build/tests/bench/spank/spank_hooks_bench
conf=${SLURM_CONF:-/etc/slurm/slurm.conf}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
chmod 755 "$folder"

# config NAME PLUGSTACK_LINE: a copy of the configuration with that plugstack.conf.
config() {
  printf '%s\n' "$2" >"$folder/$1.plugstack"
  grep -vi '^ *PlugStackConfig' "$conf" >"$folder/$1.conf"
  echo "PlugStackConfig=$folder/$1.plugstack" >>"$folder/$1.conf"
}

# profile COMMAND...: runs it under callgrind; leaves its own process's profile in $folder/out, prints its instructions.
profile() {
  rm -f "$folder"/out.*
  valgrind --tool=callgrind --callgrind-out-file="$folder/out.%p" "$@" >"$folder/log" 2>&1 || { cat "$folder/log" >&2; exit 1; }
  local pid
  pid=$(sed -n '1s/^==\([0-9]*\)==.*/\1/p' "$folder/log")
  mv "$folder/out.$pid" "$folder/out"
  sed -n "s/^==$pid== Collected : \([0-9]*\).*/\1/p" "$folder/log"
}

# srun_with NAME OPTIONS...: the median of its instructions over so many runs.
srun_with() {
  local name=$1 i
  shift
  for ((i = 0; i < runs; i++)); do
    SLURM_CONF=$folder/$name.conf profile srun -n1 "$@" true
  done | sort -n | sed -n "$(((runs + 1) / 2))p"
}

# What the hooks of the last profile ran, with all that they called.
in_hooks() {
  callgrind_annotate --inclusive=yes --threshold=100 "$folder/out" 2>/dev/null |
    awk '/:slurm_spank_(init|init_post_opt) |check_option\(int/ && !seen[$0]++ { gsub(",", "", $1); sum += $1 } END { print sum + 0 }'
}

config none ""
config plugin "required $plugin"
once=$(profile "$bench" --load 1)
loading=$((($(profile "$bench" --load 11) - once) / 10))
without=$(srun_with none)
with=$(srun_with plugin)
hooks=$(in_hooks)
asked=$(srun_with plugin --nccl-check=warn)
hooks_asked=$(in_hooks)
echo "instructions, medians of $runs runs:"
echo "  srun true, without the plugin    $without"
echo "  srun true, with it               $with"
echo "  srun --nccl-check=warn true      $asked"
echo "  of these: loading the plugin $loading, its hooks $hooks, its hooks with the option $hooks_asked"
awk -v all="$with" -v load="$loading" -v hooks="$hooks" 'BEGIN {
  printf "share of srun true: %.3f %% (hooks alone %.4f %%)\n", (load + hooks) * 100 / all, hooks * 100 / all }'
