import { BadRequest } from '@platform/errors/api-error'

export const ROOT_DIRECTORY_BYTES_MAX = 1_024

/** Throws BadRequest for a directory that contains `..`, anywhere in it, as A §7 has it. */
export function refuseClimbing(rootDirectory: string | undefined): void {
  if (rootDirectory?.includes('..')) throw new BadRequest('rootDirectory must not contain ..')
}
