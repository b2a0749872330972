import type { NextConfig } from 'next'

const config: NextConfig = {
  cacheComponents: true,
  partialPrefetching: true,
  cacheLife: { brief: { stale: 30, revalidate: 2, expire: 3600 } },
}

export default config
