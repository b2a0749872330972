import { openAsBlob } from 'node:fs'

/** A file for `uploadObject`, read piece by piece while it is sent. Throws what the file system says if it cannot be read. */
export const file = (path: string): Promise<Blob> => openAsBlob(path)
