import type { Platform } from '@platform/sdk'
import { type PackPlan, planPack, zip } from '@platform/sdk/pack'
import { packLimits } from '@platform/sdk/uploads'
import type { Given } from './dropped.ts'

/** What would be sent. */
export interface Plan {
  name: string
  /** undefined for an archive, which is sent as it is. */
  pack?: PackPlan | undefined
  /** Of all files before they are packed, or of the archive. */
  bytes: number
  /** Why it cannot be sent, each a sentence. */
  refusals: readonly string[]
  /** Its zip, read once. */
  open(): ReadableStream<Uint8Array>
}

/** Looks through what somebody gave. Throws what reading it throws, and PlatformError. */
export async function planOf(
  platform: Platform,
  organizationId: string,
  given: Given,
  signal: AbortSignal,
): Promise<Plan> {
  const limits = await packLimits(platform, { organizationId }, { signal })
  if (given.kind === 'folder') {
    const pack = await planPack(given.source, { limits, signal })
    const { bytes, refusals } = pack
    return { name: given.name, pack, bytes, refusals, open: () => zip(pack) }
  }
  const { name, file } = given
  const most = limits.archiveBytes ?? Infinity
  const refusals = file.size > most ? [`The archive has ${file.size} bytes; ${most} are allowed`] : []
  return { name, bytes: file.size, refusals, open: () => file.stream() }
}
