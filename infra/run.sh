#!/bin/sh
# Runs a command of the workspace with the pinned Node, installing the dependencies first where they are missing or
# out of date. Needs any Node from 18 with npm; everything else is fetched once. stdout belongs to the command alone.
set -eu

fail() {
  echo "$1" >&2
  exit 1
}

cd "$(dirname "$0")/.."

# What an installation depends on. cksum is in every POSIX system, and nothing here guards against ill will.
fingerprint() {
  {
    uname -sm
    cat pnpm-lock.yaml pnpm-workspace.yaml package.json ./*/package.json packages/*/package.json services/*/package.json
  } 2>/dev/null | cksum
}

stamp=node_modules/.installed-for

is_installed() {
  [ -x node_modules/.bin/node ] && [ "$(cat $stamp 2>/dev/null)" = "$(fingerprint)" ]
}

install() {
  pnpm=$(sed -n 's/.*"packageManager": *"\(pnpm@[^"+]*\).*/\1/p' package.json)
  command -v npx >/dev/null || fail "npx is missing: install Node 18 or newer with npm, then start again."
  log=$lock/log
  echo "Installing dependencies with $pnpm (once, about a minute; $log tells how far it is)…" >&2
  # `npm --silent` would hide the reason of a failure, a prompt would wait for nobody, and pnpm 12 with a frozen lockfile
  # refuses the packageManager field unless told that its version is our business. CI has judged the ages of all packages when
  # the lockfile changed.
  unset npm_config_loglevel
  npx --yes "$pnpm" install --frozen-lockfile --trust-lockfile --prefer-offline --pm-on-fail=ignore \
    --config.confirmModulesPurge=false </dev/null >"$log" 2>&1 || {
    cat "$log" >&2
    fail "The dependencies could not be installed (the reason is above): check the network, the npm registry settings and, for an error of its cache, npm_config_cache, then start again."
  }
  node_modules/.bin/node --version >/dev/null ||
    fail "The pinned Node does not run on this machine: it needs Linux (glibc) or macOS, on x64 or arm64."
  fill_compile_cache
  fingerprint >$stamp
}

# Node keeps compiled modules, types already stripped: measured, a process then starts in 113 ms instead of 179 and does
# without the 16 MB of the stripper. Each program below is compiled and then ends at once, for want of its configuration.
fill_compile_cache() {
  for program in services/idp/src/main.ts services/api/src/main.ts 'infra/launcher/main.ts --none' \
    infra/launcher/deploy-hello-site.ts; do
    # shellcheck disable=SC2086 # the option is a word of its own
    env -i PATH="$PATH" HOME="${HOME:-/}" NODE_COMPILE_CACHE="$NODE_COMPILE_CACHE" node_modules/.bin/node $program \
      </dev/null >/dev/null 2>&1 &
  done
  wait
}

TURBO_TELEMETRY_DISABLED=1
DO_NOT_TRACK=1
NODE_COMPILE_CACHE="$(pwd)/node_modules/.cache/node"
export TURBO_TELEMETRY_DISABLED DO_NOT_TRACK NODE_COMPILE_CACHE

if ! is_installed; then
  # Two starts in one fresh checkout must not install over each other. The folder is taken by exactly one of them.
  mkdir -p node_modules 2>/dev/null || fail "$(pwd)/node_modules cannot be written: start as the owner of this folder."
  lock=node_modules/.installing
  until mkdir $lock 2>/dev/null; do
    [ -w node_modules ] || fail "$(pwd)/node_modules cannot be written: start as the owner of this folder."
    sleep 1
    # A holder that was killed left the folder behind, perhaps before it wrote its number.
    holder=$(cat $lock/pid 2>/dev/null) && kill -0 "$holder" 2>/dev/null || rm -rf $lock
  done
  trap 'rm -rf "$lock"' EXIT
  trap 'exit 130' INT TERM
  echo $$ >$lock/pid
  is_installed || install
  rm -rf "$lock"
  trap - EXIT INT TERM
fi

PATH="$(pwd)/node_modules/.bin:$PATH"
export PATH
exec "$@"
