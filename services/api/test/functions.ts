import type { ZipEntry } from './zip.ts'

/** A Function of Build Output, as a zip has it: a module in ECMAScript, and what else its folder holds. */
export interface FunctionSource {
  code: string
  config?: object
  /** Further files of its folder, by path. */
  files?: Record<string, string>
}

const OUTPUT = '.vercel/output'

/** A `(req, res)` handler around a body. */
export const handler = (body: string): string => `export default async function (req, res) {\n${body}\n}\n`

/** A server that sends back what comes by WebSocket, in small frames. onRequest: the body of its `(req, res)` handler. */
export const webSocketEcho = (onRequest = "res.end('plain')"): string => `
  import { createHash } from 'node:crypto'
  import { createServer } from 'node:http'
  const server = createServer(async (req, res) => {
    ${onRequest}
  })
  server.on('upgrade', (req, socket) => {
    const accept = createHash('sha1').update(req.headers['sec-websocket-key'] + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').digest('base64')
    socket.write('HTTP/1.1 101 Switching Protocols\\r\\nUpgrade: websocket\\r\\nConnection: Upgrade\\r\\nSec-WebSocket-Accept: ' + accept + '\\r\\n\\r\\n')
    socket.on('data', (frame) => {
      if ((frame[0] & 15) === 8) return socket.end(Buffer.from([0x88, 0]))
      const length = frame[1] & 127
      const text = Buffer.from(frame.subarray(6, 6 + length).map((byte, n) => byte ^ frame[2 + (n % 4)]))
      socket.write(Buffer.concat([Buffer.from([0x81, length]), text]))
    })
    socket.on('error', () => {})
  })
  export default server`

/** Build Output with Functions by path, static files by path, and routes. */
export function buildOutput(
  functions: Record<string, string | FunctionSource>,
  { files = {}, ...config }: { files?: Record<string, string>; routes?: object[] } & Record<string, unknown> = {},
): ZipEntry[] {
  return [
    { name: `${OUTPUT}/config.json`, content: JSON.stringify({ version: 3, ...config }) },
    ...Object.entries(files).map(([path, content]) => ({ name: `${OUTPUT}/static/${path}`, content })),
    ...Object.entries(functions).flatMap(([path, text]) => {
      const source = typeof text === 'string' ? { code: text } : text
      const folder = `${OUTPUT}/functions/${path}.func`
      const vcConfig = { runtime: 'nodejs24.x', handler: 'index.mjs', launcherType: 'Nodejs', ...source.config }
      return [
        { name: `${folder}/.vc-config.json`, content: JSON.stringify(vcConfig) },
        { name: `${folder}/index.mjs`, content: source.code },
        ...Object.entries(source.files ?? {}).map(([name, content]) => ({ name: `${folder}/${name}`, content })),
      ]
    }),
  ]
}
