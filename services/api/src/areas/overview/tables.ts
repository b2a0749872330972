// oxlint-disable-next-line unicorn/require-module-specifiers -- none yet, and the list of areas names this file
export {}
