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
    *) die "$config: shutdown_grace: $1 is no duration" ;;
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
  demo_port=$(sed -nE 's|^.*url: *"?http://127\.0\.0\.1:([0-9]+)/demo"?.*$|\1|p' "$config" | head -n 1)
}

supervisorctl() { /usr/bin/supervisorctl -c "$run_dir/supervisord.conf" "$@"; }

# The supervisor's pid; fails when there is none that answers.
supervisor_pid() {
  local pid
  [ -S "$run_dir/supervisor.sock" ] || return 1
  pid=$(supervisorctl pid 2>/dev/null) && [[ $pid =~ ^[0-9]+$ ]] && echo "$pid"
}

# deliverers: names of those that the supervisor is told to run, in order.
deliverers() {
  [ -d "$run_dir/supervisor.d" ] || return 0
  find "$run_dir/supervisor.d" -name 'deliverer-*.conf' -printf '%f\n' |
    sed 's/\.conf$//' | sort -t - -k 2 -n
}

# program NAME PRIORITY COMMAND: a [program] of the supervisor.
#
# The backoff between quick exits grows by a second each time and ends when a
# process has stayed for startsecs; startretries only says when to give up
# (FATAL), which is never. stopwaitsecs must outlast the process's own grace:
# a kill -9 in the middle of a hand-back costs a lease.
program() {
  cat <<END
[program:$1]
command=$3
priority=$2
autorestart=true
startsecs=1
startretries=999999999
stopwaitsecs=$((grace_s + 15))
redirect_stderr=true
stdout_logfile=$log_dir/$1.log
stdout_logfile_maxbytes=20MB
stdout_logfile_backups=5
END
}

# A SIGHUP ends a process whose program is still being loaded, unless it was
# blocked before: then it is a reload after the start.
daemon() { # NAME PRIORITY
  program "$1" "$2" "/usr/bin/env --block-signal=HUP \"$bin/grapnel-${1%%-*}\" -c \"$config\" -n $1"
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

# One file per deliverer, so that another number of them leaves the rest alone.
write_deliverers() { # COUNT
  local i name
  mkdir -p "$run_dir/supervisor.d"
  for ((i = 1; i <= $1; i++)); do
    daemon "deliverer-$i" 300 > "$run_dir/supervisor.d/deliverer-$i.conf"
  done
  for name in $(deliverers); do
    [ "${name#deliverer-}" -le "$1" ] || rm "$run_dir/supervisor.d/$name.conf"
  done
}

is_count() { [[ $1 =~ ^[1-9][0-9]{0,2}$ ]]; }
