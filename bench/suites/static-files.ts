import { mkdir, writeFile } from 'node:fs/promises'
import { strictEqual } from 'node:assert/strict'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { deployFiles } from '../deploy-files.ts'
import { textOf } from '../storage.ts'
import type { Suite } from '../suite.ts'

const nginx = fileURLToPath(import.meta.resolve('../peers/nginx.ts'))
const FILE = 'app.0a1b2c3d4e5f.bin'
const suiteOf = (name: string, bytes: number, connections: number, cpuRatioMax: number): Suite => ({
  name,
  work: `GET of a file of ${bytes} bytes at the hostname of a deployment, logged`,
  async prepare(lab) {
    const text = textOf(bytes)
    const file = { path: FILE, content: Buffer.from(text), contentType: 'application/octet-stream' }
    const host = await deployFiles(lab, [file])
    const folder = await lab.makeFolder()
    await mkdir(join(folder, 'site'))
    await writeFile(join(folder, 'site', FILE), text)
    const platform = await lab.platform()
    const peer = await lab.startPeer('nginx', nginx, { folder })
    return {
      load: { method: 'GET', path: `/${FILE}`, headers: async () => ({ host }), addressBlock: 60, connections },
      ours: { name: 'ours', origin: platform.edgeOrigin, pid: platform.apiPid },
      // Requests a second and core: nginx sends files from the kernel, and its log is a line of a file.
      peers: [{ name: 'nginx', ...peer, aim: { cpuRatioMax } }],
      async check(server, answer) {
        strictEqual(await answer.text(), text, server)
        strictEqual(answer.headers.get('cache-control'), 'public, max-age=31536000, immutable', server)
      },
    }
  },
})

export const staticSmall: Suite = suiteOf('static-4k', 4_096, 64, 3.3)
export const staticLarge: Suite = suiteOf('static-1m', 1_048_576, 16, 2)
