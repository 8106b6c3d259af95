# shellcheck shell=bash
# Hosts with GPUs that are not there. Sourced by the library and by a host.

# copy_doubles BUILD FOLDER: the stand-ins of CUDA, NCCL and NVML, as a root-started gate may open them: root's, and
# writable by nobody else, whoever owns the build.
copy_doubles() {
  local name
  install -d "$2" || return
  for name in libcuda.so.1 libnccl.so.2 libnvidia-ml.so.1; do
    install -m 755 "$1/tests/doubles/$name" "$2/$name" || return
  done
}

# own_dev FOLDER GPUS: inside a host: a /dev of its own with GPUS files, of which no driver knows.
own_dev() {
  local folder=$1 gpus=$2 i
  mkdir "$folder"
  mount -t tmpfs -o mode=755 tmpfs "$folder"
  cp -a /dev/{null,zero,full,random,urandom,tty,fd,stdin,stdout,stderr} "$folder"
  mkdir "$folder"/{pts,shm}
  mount --bind /dev/pts "$folder/pts"
  ln -s pts/ptmx "$folder/ptmx"
  for ((i = 0; i < gpus; i++)); do mknod -m 666 "$folder/nvidia$i" c 195 "$i"; done
  mount --move "$folder" /dev
}

# own_ports FOLDER GPUS: inside a host: its /sys/class with an active InfiniBand port for every GPU.
own_ports() {
  local folder=$1 gpus=$2 i port
  mkdir "$folder"
  mount -t tmpfs -o mode=755 tmpfs "$folder"
  mkdir "$folder/net"
  mount --bind /sys/class/net "$folder/net"
  for ((i = 0; i < gpus; i++)); do
    port=$folder/infiniband/mlx5_$i/ports/1
    mkdir -p "$port"
    echo "4: ACTIVE" >"$port/state"
    echo "400 Gb/sec (4X NDR)" >"$port/rate"
  done
  mount --move "$folder" /sys/class
}
