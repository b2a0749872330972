/**
 * node:http. An `import` of it reads all its exports, including WebSocket, which loads the client of fetch: some 25 ms of a
 * start.
 */
export const http = process.getBuiltinModule('node:http')
