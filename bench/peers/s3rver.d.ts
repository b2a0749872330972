/** It comes without types; this is what is used of it. */
declare module 's3rver' {
  interface Options {
    port: number
    address: string
    directory: string
    silent: boolean
    vhostBuckets: boolean
    configureBuckets: { name: string; configs: string[] }[]
  }
  export default class S3rver {
    constructor(options: Options)
    run(): Promise<unknown>
  }
}
