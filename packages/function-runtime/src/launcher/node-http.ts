/**
 * node:http. An `import` of it reads all that it exports, WebSocket included, which loads the client of fetch: some 25 ms of a start.
 */
export const http = process.getBuiltinModule('node:http')
