import type { Addressing, RawTarget } from '@platform/s3-protocol/wire/raw-target'
import { uriEncode } from '@platform/s3-protocol/wire/uri-encode'
import type { StorageDeps } from '../deps.ts'
import type { RawExchange } from '../../../http/raw-listener.ts'
import { askedOrigin } from './addressing.ts'

/** The path of a bucket on the client's origin, without a trailing slash. bucket: as S3 clients name it (D34). */
export function bucketPath(addressing: Addressing, bucket: string): string {
  if (addressing.kind === 'host') return ''
  return `${addressing.kind === 'prefix' ? addressing.prefix : ''}/${uriEncode(bucket)}`
}

/** The URL of an object, at the origin and in the addressing style that its client uses. */
export const objectLocation = (
  exchange: RawExchange<StorageDeps>,
  { addressing }: RawTarget,
  { bucket, key }: { bucket: string; key: string },
): string =>
  `${askedOrigin(exchange, addressing)}${bucketPath(addressing, bucket)}/${key.split('/').map(uriEncode).join('/')}`
