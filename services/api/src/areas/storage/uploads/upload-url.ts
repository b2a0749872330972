import type { StorageDeps } from '../deps.ts'

/** The URL to send an upload's bytes to. Its token is the credential (D12). */
export const uploadUrlOf = ({ publicUrl }: Pick<StorageDeps, 'publicUrl'>, id: string, token: string): string =>
  `${publicUrl}/files/${id}.${token}`

/** Reads the id and token from an upload's URL or path; undefined if it is neither. */
export function readUploadUrl(url: string): { id: string; token: string } | undefined {
  const [, id, token] = /\/files\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([\w-]{32})$/.exec(url) ?? []
  return id === undefined || token === undefined ? undefined : { id, token }
}
