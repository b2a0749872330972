/** The servers of one test run, as the global setup hands them to the test files. */
type TestServers = {
  /** The maintenance database; its role may create databases. */
  databaseUrl: string
  /** Every database of the run carries it in front, so runs that share a server never meet. */
  databasePrefix: string
  /** How this server copies a template quickest. */
  copyStrategy: 'file_copy' | 'wal_log'
  redisUrl: string | undefined
  /** An S3 server, as OBJECTS_URL names one; each test takes a bucket of its own. */
  s3Url: string | undefined
}

declare module 'vitest' {
  interface ProvidedContext {
    testServers: TestServers
  }
}
