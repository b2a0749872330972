import { BadRequest } from '@platform/errors/api-error'

export const ROOT_DIRECTORY_BYTES_MAX = 1_024

/** Throws BadRequest if a directory contains `..`, even inside a name, as A §7 requires. */
export function refuseClimbing(rootDirectory: string | undefined): void {
  if (rootDirectory?.includes('..')) throw new BadRequest('rootDirectory must not contain ..')
}
