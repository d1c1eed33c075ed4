# Read by tools/up, down and scale: where things are, and how to talk to the
# supervisor. Needs `set -euo pipefail`.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
bin=${GRAPNEL_BUILD:-$root/build/release}/bin

say() { printf '%s\n' "$@"; }
die() { printf '%s: %s\n' "tools/$(basename "$0")" "$*" >&2; exit 1; }

# setting KEY DEFAULT: a plain top-level value of grapnel.yaml.
setting() {
  local value
  value=$(sed -nE "s/^$1: *[\"']?([^\"'#]*[^\"'# ])[\"']? *(#.*)?$/\1/p" "$config" | head -n 1)
  case $value in *'${'*) die "$config: tools/ can't read $1 from the environment; write it out" ;; esac
  printf '%s' "${value:-$2}"
}

# A path of grapnel.yaml; relative ones are relative to the file.
folder() {
  local path
  path=$(setting "$1" "$2")
  case $path in /*) ;; *) path=$(dirname "$config")/$path ;; esac
  realpath -m -- "$path"
}

seconds() { # of a duration such as 20s, 5m, 500ms
  case $1 in
    *ms) echo $((${1%ms} / 1000 + 1)) ;;
    *s) echo "${1%s}" ;;
    *m) echo $((${1%m} * 60)) ;;
    *h) echo $((${1%h} * 3600)) ;;
    *) die "$config: shutdown_grace: $1 is not a duration; write 20s or 5m" ;;
  esac
}

# Sets config, state_dir, run_dir, grace_s from grapnel.yaml.
read_config() {
  config=$(realpath -m -- "${GRAPNEL_CONFIG:-$root/grapnel.yaml}")
  [ -e "$config" ] || return 1
  state_dir=$(folder state_dir state)
  run_dir=$(folder run_dir run)
  log_dir=$state_dir/log
  grace_s=$(seconds "$(setting shutdown_grace 20s)")
  export_supervisor
  demo_port=$(sed -nE 's|^.*url: *"?http://127\.0\.0\.1:([0-9]+)/demo"?.*$|\1|p' "$config" | head -n 1)
}

supervisor_config=$root/packaging/supervisord/grapnel.conf

# What supervisor_config takes from the environment. Its list of files is split at
# spaces, so they are "any character" in it.
export_supervisor() {
  export GRAPNEL_BIN=$bin GRAPNEL_CONFIG=$config GRAPNEL_RUN_DIR=$run_dir
  export GRAPNEL_LOG_DIR=$log_dir GRAPNEL_STOP_SECONDS=$((grace_s + 15))
  export GRAPNEL_MORE_PROGRAMS=${run_dir// /\?}/supervisor.d/*.conf
}

supervisorctl() { /usr/bin/supervisorctl -c "$supervisor_config" "$@"; }

# The supervisor's pid; fails when there is none that responds.
supervisor_pid() {
  local pid
  [ -S "$run_dir/supervisor.sock" ] || return 1
  pid=$(supervisorctl pid 2>/dev/null) && [[ $pid =~ ^[0-9]+$ ]] && echo "$pid"
}

# Whether a process has not ended yet. What has ended keeps its number until its parent
# asks for its exit code, and the first process of a container may never ask.
runs() { # PID
  [ -e "/proc/$1" ] && ! grep -Eqs '^State:[[:space:]]+[ZX]' "/proc/$1/status"
}

# deliverers: names of those that the supervisor is told to run, in order.
deliverers() {
  echo deliverer-1
  [ -d "$run_dir/supervisor.d" ] || return 0
  find "$run_dir/supervisor.d" -name 'deliverer-*.conf' -printf '%f\n' |
    sed 's/\.conf$//' | sort -t - -k 2 -n
}

# another FIRST NAME: the section of program FIRST, for NAME.
another() {
  sed -n "/^\[program:$1\]/,/^\$/p" "$supervisor_config" |
    sed "s/^\[program:.*/[program:$2]/" > "$run_dir/supervisor.d/$2.conf"
}

# ingresses COUNT: names of those that are to run. One that has a database always
# is: there may be events in it that were not handed on yet.
ingresses() {
  local i
  echo ingress
  for ((i = 2; i < 1000; i++)); do
    [ "$i" -gt "$1" ] && [ ! -e "$state_dir/ingress-$i.db" ] || echo "ingress-$i"
  done
}

# outboxes: `outbox` if the configuration has relays.
outboxes() {
  ! grep -q '^outbox:' "$config" || echo outbox
}

# reconcilers: `reconcile` if a source has it.
reconcilers() {
  ! grep -qE '^ +reconcile:' "$config" || echo reconcile
}

# One file per deliverer after the first, so that another number of them leaves the
# rest alone.
write_deliverers() { # COUNT
  local i name
  mkdir -p "$run_dir/supervisor.d"
  for ((i = 2; i <= $1; i++)); do another deliverer-1 "deliverer-$i"; done
  for name in $(deliverers); do
    [ "${name#deliverer-}" -le "$1" ] || rm "$run_dir/supervisor.d/$name.conf"
  done
}

is_count() { [[ $1 =~ ^[1-9][0-9]{0,2}$ ]]; }
