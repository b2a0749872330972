/** The servers of one test run, which the global setup passes to the test files. */
type TestServers = {
  /** The maintenance database; its role may create databases. */
  databaseUrl: string
  /** The name prefix of every database of the run, so that runs sharing a server never collide. */
  databasePrefix: string
  /** The fastest way for this server to copy a template. */
  copyStrategy: 'file_copy' | 'wal_log'
  redisUrl: string | undefined
  /** An S3 server, in the format of OBJECTS_URL; each test uses its own bucket. */
  s3Url: string | undefined
}

declare module 'vitest' {
  interface ProvidedContext {
    testServers: TestServers
  }
}
