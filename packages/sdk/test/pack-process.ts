import { readFileSync } from 'node:fs'
import { folder } from '../src/node/folder.ts'
import { planPack, zip } from '../src/pack/index.ts'

// A program that packs a folder, throws the zip away, and prints its size and how far its memory has grown: node pack-process.ts <folder>.

/** What the process holds; VmHWM would count what the kernel maps of Node's own file. */
const held = (): number => Number(/RssAnon:\s+(\d+) kB/.exec(readFileSync('/proc/self/status', 'utf8'))?.[1]) * 1_024
const atFirst = held()
let peak = atFirst
let bytes = 0
for await (const chunk of zip(await planPack(folder(process.argv[2] ?? '')))) {
  bytes += chunk.length
  peak = Math.max(peak, held())
}
process.stdout.write(JSON.stringify({ bytes, growth: peak - atFirst }))
