import { randomUUID } from 'node:crypto'
import { type FileHandle, mkdir, open, unlink } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

/** An uploaded file. Its name on disk is already unlinked, so nothing is left behind however the process ends. */
export interface UploadedAudio extends AsyncDisposable {
  /** The name from the request. */
  readonly name: string
  readonly type: string
  readonly bytes: number
  /** Appends. Chunks are written in order. */
  write(chunk: Uint8Array): Promise<void>
  /** Reads its content from the start. */
  read(): AsyncIterable<Uint8Array>
}

const READ_BYTES = 65_536

async function* contentOf(handle: FileHandle, bytes: number): AsyncGenerator<Uint8Array> {
  for (let position = 0; position < bytes;) {
    const buffer = Buffer.allocUnsafe(Math.min(READ_BYTES, bytes - position))
    const { bytesRead } = await handle.read(buffer, 0, buffer.length, position)
    if (bytesRead === 0) throw new Error('The file is shorter than what was written')
    position += bytesRead
    yield buffer.subarray(0, bytesRead)
  }
}

/** Creates an empty file; hold it by `await using`. */
export async function openUploadedAudio(name: string, type: string): Promise<UploadedAudio> {
  await mkdir(tmpdir(), { recursive: true })
  const path = join(tmpdir(), `platform-audio-${randomUUID()}`)
  const handle = await open(path, 'wx+', 0o600)
  await unlink(path)
  let bytes = 0
  return {
    name,
    type,
    get bytes() {
      return bytes
    },
    async write(chunk) {
      const position = bytes
      bytes += chunk.length
      for (let done = 0; done < chunk.length;)
        done += (await handle.write(chunk, done, chunk.length - done, position + done)).bytesWritten
    },
    read: () => contentOf(handle, bytes),
    [Symbol.asyncDispose]: () => handle.close(),
  }
}
