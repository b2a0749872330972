import { hash } from 'node:crypto'

/** 132 of the 256 bits: enough to tell texts apart. */
const LENGTH = 22

/** Returns a strong entity tag for a text, with its quotes. */
export const etagOf = (body: string | Buffer): string => quotedEtag(hash('sha256', body, 'base64url').slice(0, LENGTH))

export const quotedEtag = (tag: string): string => `"${tag}"`

/** Strips weakness and quotes from an entity tag; s3cmd and others send it without quotes. */
export const bareEtag = (text: string): string =>
  text
    .trim()
    .replace(/^W\//, '')
    .replace(/^"(.*)"$/, '$1')

/** True if If-Match or If-None-Match names the bare tag, by the weak comparison of RFC 9110 §8.8.3.2. */
export const namesEtag = (list: string, bareTag: string): boolean =>
  list.trim() === '*' || list.split(',').some((one) => bareEtag(one) === bareTag)
