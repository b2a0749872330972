import { hash } from 'node:crypto'

/** 132 of the 256 bits: enough to tell texts apart. */
const LENGTH = 22

/** A strong entity tag of a text, with its quotes. */
export const etagOf = (body: string | Buffer): string => quotedEtag(hash('sha256', body, 'base64url').slice(0, LENGTH))

export const quotedEtag = (tag: string): string => `"${tag}"`

/** An entity tag without weakness and quotes; s3cmd and others send it bare. */
export const bareEtag = (text: string): string =>
  text
    .trim()
    .replace(/^W\//, '')
    .replace(/^"(.*)"$/, '$1')

/** True if If-Match or If-None-Match names the tag, which is given bare: the weak comparison of RFC 9110 §8.8.3.2. */
export const namesEtag = (list: string, bareTag: string): boolean =>
  list.trim() === '*' || list.split(',').some((one) => bareEtag(one) === bareTag)
