#!/bin/sh
# What a plugin brings into Slurm's processes: check_exports.sh PLUGIN.so HOOK...
# It loads libc and the loader only, exports SPANK's names and the hooks given, and leaves to Slurm only Slurm's names.
set -eu
plugin=$1
shift
fail() { echo "$plugin: $1" >&2; exit 1; }

for library in $(readelf -d "$plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'); do
  case $library in
    libc.so.6 | ld-linux*) ;;
    *) fail "loads $library" ;;
  esac
done

expected=$(printf '%s\n' plugin_name plugin_type plugin_version spank_plugin_version "$@" | sort)
exported=$(nm -D --defined-only "$plugin" | awk '{ print $NF }' | sort)
[ "$exported" = "$expected" ] || fail "exports: $(echo "$exported" | tr '\n' ' ')"

for name in $(nm -D --undefined-only "$plugin" | awk '$1 == "U" && $2 !~ /@/ { print $2 }'); do
  case $name in
    spank_* | slurm_*) ;;
    *) fail "needs $name from the process it is loaded into" ;;
  esac
done
echo "$plugin: libc and the loader only; $(echo "$exported" | wc -l) names"
