import S3rver from 's3rver'
import { readSettings } from './settings.ts'

// s3rver as its documentation shows it. It checks the signature, and nothing of the body but Content-MD5; nothing is synced.

const { port, folder, bucket } = readSettings('folder', 'bucket')

await new S3rver({
  port,
  address: '127.0.0.1',
  directory: folder,
  silent: true,
  vhostBuckets: false,
  configureBuckets: [{ name: bucket, configs: [] }],
}).run()
