import { readFileSync } from 'node:fs'
import { apiKey, Platform } from '../src/index.ts'
import { file } from '../src/node/file.ts'
import { uploadObject } from '../src/uploads/index.ts'

// A program that uploads a file and prints how far its memory has grown, in bytes: node upload-process.ts <JSON>.
interface Given {
  baseUrl: string
  key: { id: string; secret: string }
  place: { applicationId: string; environment: string; bucket: string }
  path: string
}
const { baseUrl, key, place, path } = JSON.parse(process.argv[2] ?? '') as Given

/** What the process holds; VmHWM would count what the kernel maps of Node's own file. */
const held = (): number => Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) * 1_024
const atFirst = held()
let peak = atFirst
setInterval(() => (peak = Math.max(peak, held())), 5).unref()

const platform = new Platform({ baseUrl, credential: apiKey(key) })
const { contentLength, checksumSha256 } = await uploadObject(platform, {
  ...place,
  key: 'file',
  data: await file(path),
})
process.stdout.write(JSON.stringify({ contentLength, checksumSha256, growth: peak - atFirst }))
