import type { Deps } from '../../deps.ts'

/** The URL that the bytes of an upload are sent to. Its token is the authority to do so (D12). */
export const uploadUrlOf = ({ publicUrl }: Pick<Deps, 'publicUrl'>, id: string, token: string): string =>
  `${publicUrl}/files/${id}.${token}`

/** The id and the token in the URL of an upload, or in its path; undefined for any other. */
export function readUploadUrl(url: string): { id: string; token: string } | undefined {
  const [, id, token] = /\/files\/([0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})\.([\w-]{32})$/.exec(url) ?? []
  return id === undefined || token === undefined ? undefined : { id, token }
}
